"""Failures for people: tasks that were given up, to look at, run again or delete; and tasks that are being retried."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.core.rules.keys import check_key
from shared.core.rules.problems import BadQuery
from shared.tasks.operations import failures as operations

routes = Routes("failures")

LISTS = {"": operations.list_failed, "failed": operations.list_failed, "retrying": operations.list_retrying}


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
    return Response(200, operations.get(runtime.ports(), check_key(id)))


@routes.on("POST", "/{id}/retry")
def retry(_: Request, id: str) -> Response:
    operations.retry(runtime.ports(), check_key(id))
    return Response(202, {"id": id, "state": "retried"})


@routes.on("DELETE", "/{id}")
def delete(_: Request, id: str) -> Response:
    operations.delete(runtime.ports(), check_key(id))
    return Response(204)


failures = routes.entry_point()
