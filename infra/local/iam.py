"""Enforce around a function what IAM and ingress do in the cloud: who calls it, and to which queues it hands tasks.

Both follow from its entry in the catalogue. Who calls is told by the headers that only queues, schedules and events
bring; whether they tell the truth is the function's own business, as in the cloud. All functions share one process, so
the one at work is kept in a context variable, which follows a call and not the threads that it may start.
"""

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from infra.catalogue import Function
from shared.adapters.cloud_tasks import QueueRefused
from shared.adapters.http.responses import problem_response
from shared.adapters.meter import MeteredQueue
from shared.core.operations.ports import Log, TaskQueue
from shared.core.rules.effects import Effect
from shared.core.rules.problems import NotAllowed, NotFound, Problem

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

CALLERS = {"HTTP_X_CLOUDTASKS_QUEUENAME": "queue", "HTTP_X_CLOUDSCHEDULER": "schedule", "HTTP_CE_ID": "event"}

_at_work: ContextVar[Function | None] = ContextVar("at_work", default=None)


def guarded(function: Function, app: "WSGIApplication") -> "WSGIApplication":
    """Let in only what may invoke the function, and remember whose call it is while it lasts."""

    def guard(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        refusal = _refusal(function, environ)
        if refusal is not None:
            return problem_response(refusal)(environ, start_response)
        token = _at_work.set(function)
        try:
            return app(environ, start_response)
        finally:
            _at_work.reset(token)

    return guard


def _refusal(function: Function, environ: "WSGIEnvironment") -> Problem | None:
    caller = next((caller for header, caller in CALLERS.items() if header in environ), "people")
    if caller in function.invoked_by:
        return None
    if caller == "people":
        return NotFound(f"{function.name} is closed to the outside: invoked_by in the catalogue does not say people")
    return NotAllowed(f"{function.name} may not be called so: invoked_by in the catalogue does not say {caller}")


class AuthorizedQueue(MeteredQueue):
    """A queue that takes from each function only what its `enqueues` allow. The one inside counts already."""

    def __init__(self, metered: TaskQueue, log: Log) -> None:
        super().__init__(metered)
        self._log = log

    def create(self, effects: Sequence[Effect]) -> None:
        """Hand over all that may be. Raises `QueueRefused` when one may not, and whatever the queue inside does."""
        refused = [effect for effect in effects if not _may_hand_over(effect)]
        self._queue.create([effect for effect in effects if effect not in refused])
        if refused:
            self._log.error("task refused", reason=f"the function may not hand tasks to the queue {refused[0].queue}")
            raise QueueRefused(f"Add {refused[0].queue} to the function's enqueues in the catalogue")


def _may_hand_over(effect: Effect) -> bool:
    function = _at_work.get()
    return function is None or effect.queue in function.enqueues
