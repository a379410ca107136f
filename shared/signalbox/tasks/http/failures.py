"""`{base}failures`: tasks that were given up, to look at, run again or delete; and tasks that are being retried."""

from signalbox.adapters import runtime
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.keys import check_key
from signalbox.core.problems import BadQuery
from signalbox.tasks.service import failures

routes = Routes("failures")

LISTS = {"": failures.list_failed, "failed": failures.list_failed, "retrying": failures.list_retrying}


@routes.on("GET", "/", query=("state", "page_token"))
def list_failures(request: Request) -> Response:
    state = request.query.get("state", "")
    if state not in LISTS:
        raise BadQuery("`state` must be failed or retrying.", field="state")
    page = LISTS[state](runtime.ports(), request.query.get("page_token", ""))
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"failures": page.failures, **more})


@routes.on("GET", "/{id}")
def get(_: Request, id: str) -> Response:
    return Response(200, failures.get(runtime.ports(), check_key(id)))


@routes.on("POST", "/{id}/retry")
def retry(_: Request, id: str) -> Response:
    failures.retry(runtime.ports(), check_key(id))
    return Response(202, {"id": id, "state": "retried"})


@routes.on("DELETE", "/{id}")
def delete(_: Request, id: str) -> Response:
    failures.delete(runtime.ports(), check_key(id))
    return Response(204)
