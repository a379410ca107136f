"""`{base}failures`: tasks that were given up, to look at, run again or delete; and tasks that are being retried."""

from typing import Annotated, Literal

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import FLAG, PAGE_TOKEN, Answer, Parameter
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.keys import check_key
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery, NotFound
from signalbox.core.surface.field_rules import KEY, Described
from signalbox.core.surface.paging import wants_count
from signalbox.core.surface.shown import RetriedTaskShown
from signalbox.semaphores.problems import NoSemaphore
from signalbox.tasks.problems import Gone, NotRepeatable, StillRetried
from signalbox.tasks.service import failures
from signalbox.tasks.shown.failures import FailureCountShown, FailureShown, FailuresShown, RetriedFailureShown

routes = Routes("failures")

LISTS = {"": failures.FAILED, "failed": failures.FAILED, "retrying": failures.RETRYING}

FailureId = Annotated[
    str,
    KEY,
    Described({"description": "The operation of the task, which its function's log lines have as `task`."}),
]
QUERY = (
    Parameter("state", Literal["failed", "retrying"]),
    Parameter("count", FLAG, "Return the number of the tasks instead."),
    PAGE_TOKEN,
)


@routes.on(
    "GET",
    "/",
    query=QUERY,
    answers={200: Answer(FailuresShown | FailureCountShown, "A page, or the number of the tasks.")},
)
def list_failures(ports: Ports, request: Request) -> Response:
    """List the tasks that were given up, newest first, or those that are being retried; or count them.

    A page has fifty.
    """
    state, token = request.query.get("state", ""), request.query.get("page_token", "")
    if state not in LISTS:
        raise BadQuery("`state` must be failed or retrying.", field="state")
    if wants_count(request.query.get("count", "")):
        if token:
            raise BadQuery("A count has no pages: leave out `page_token`.", field="page_token")
        return Response(200, FailureCountShown(failures.count(ports, LISTS[state])))
    return Response(200, failures.page_of(ports, LISTS[state], token))


@routes.on(
    "GET",
    "/{id}",
    answers={200: Answer(FailureShown | RetriedTaskShown, "What it was, and why it failed.")},
    refuses=(NotFound, Gone),
)
def get_failure(ports: Ports, _: Request, id: FailureId) -> Response:
    """Return a task that was given up, or the last error of one that is being retried."""
    return Response(200, failures.get(ports, check_key(id)))


@routes.on(
    "POST",
    "/{id}/retry",
    answers={202: RetriedFailureShown},
    refuses=(NotFound, NoSemaphore, Gone, StillRetried, NotRepeatable),
)
def retry_failure(ports: Ports, _: Request, id: FailureId) -> Response:
    """Run a task that was given up again, once. If it ran for a lease, it waits for another one first."""
    failures.retry(ports, check_key(id))
    return Response(202, RetriedFailureShown(id, "retried"))


@routes.on("DELETE", "/{id}", answers={204: Answer(None, "It is deleted.")}, refuses=(NotFound, Gone, StillRetried))
def delete_failure(ports: Ports, _: Request, id: FailureId) -> Response:
    """Delete the record of a task that was given up."""
    failures.delete(ports, check_key(id))
    return Response(204)
