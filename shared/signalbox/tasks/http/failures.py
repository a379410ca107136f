"""`{base}failures`: tasks that were given up, to look at, run again or delete; and tasks that are being retried."""

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.keys import check_key
from signalbox.core.paging import wants_count
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery
from signalbox.tasks.service import failures

routes = Routes("failures")

LISTS = {"": failures.FAILED, "failed": failures.FAILED, "retrying": failures.RETRYING}


@routes.on("GET", "/", query=("state", "count", "page_token"))
def list_failures(ports: Ports, request: Request) -> Response:
    state, token = request.query.get("state", ""), request.query.get("page_token", "")
    if state not in LISTS:
        raise BadQuery("`state` must be failed or retrying.", field="state")
    if wants_count(request.query.get("count", "")):
        if token:
            raise BadQuery("A count has no pages: leave out `page_token`.", field="page_token")
        return Response(200, {"count": failures.count(ports, LISTS[state])})
    page = failures.page_of(ports, LISTS[state], token)
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"failures": page.failures, **more})


@routes.on("GET", "/{id}")
def get(ports: Ports, _: Request, id: str) -> Response:
    return Response(200, failures.get(ports, check_key(id)))


@routes.on("POST", "/{id}/retry")
def retry(ports: Ports, _: Request, id: str) -> Response:
    failures.retry(ports, check_key(id))
    return Response(202, {"id": id, "state": "retried"})


@routes.on("DELETE", "/{id}")
def delete(ports: Ports, _: Request, id: str) -> Response:
    failures.delete(ports, check_key(id))
    return Response(204)
