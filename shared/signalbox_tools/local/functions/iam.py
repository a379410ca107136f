"""Enforce the rules of IAM and ingress: a function's callers, its queues, and the functions that it may call.

Both follow from its entry in the catalogue. The headers that queues, schedules and events send identify the caller; the
function verifies them itself, as in the cloud. All functions share one process, so the current one is in a context
variable, which a call has, but not the threads that it may start.
"""

from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from signalbox.adapters.cost_meter import MeteredQueue
from signalbox.adapters.http.invocations import InvocationFailed
from signalbox.adapters.http.responses import problem_response
from signalbox.catalogue.parts import absent
from signalbox.catalogue.reading import Function
from signalbox.core.effects import Effect
from signalbox.core.ports import Log, TaskQueue
from signalbox.core.problems import DeploymentCannotEnqueue, NotFound, PermissionDenied, Problem

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

CALLERS = {"HTTP_X_CLOUDTASKS_QUEUENAME": "queue", "HTTP_X_CLOUDSCHEDULER": "schedule", "HTTP_CE_ID": "event"}

_current: ContextVar[Function | None] = ContextVar("signalbox.local_function", default=None)


def invokers_enforced(function: Function, app: "WSGIApplication") -> "WSGIApplication":
    """Admit only the invokers of a function, and set it as the current one during the call."""

    def guard(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        refusal = _refusal(function, environ)
        if refusal is not None:
            return problem_response(refusal)(environ, start_response)
        token = _current.set(function)
        try:
            return app(environ, start_response)
        finally:
            _current.reset(token)

    return guard


def _refusal(function: Function, environ: "WSGIEnvironment") -> Problem | None:
    caller = next((caller for header, caller in CALLERS.items() if header in environ), "people")
    if caller in function.invoked_by:
        return None
    if caller == "people":
        closed = f"{function.name} is closed to the outside: invoked_by in the catalogue does not contain people"
        return NotFound(absent(function.name) or closed)
    return PermissionDenied(f"{function.name} may not be called so: invoked_by in the catalogue does not say {caller}")


def check_may_invoke(called: str) -> None:
    """Raise `InvocationFailed` unless the current function may call another one."""
    function = _current.get()
    if function is not None and called not in function.invokes:
        raise InvocationFailed(f"Add {called} to the function's invokes in the catalogue")


class AuthorizedQueue(MeteredQueue):
    """A queue that accepts from each function only the tasks that its `enqueues` allow.

    The queue inside is already metered.
    """

    def __init__(self, metered: TaskQueue, log: Log) -> None:
        super().__init__(metered)
        self._log = log

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Enqueue all permitted tasks. Return the names that have already been used.

        Raises `DeploymentCannotEnqueue` if a task is not permitted, and the errors of the queue.
        """
        refused = [effect for effect in effects if not _may_enqueue(effect)]
        permitted = [effect for effect in effects if effect not in refused]
        taken = self._queue.create(permitted)
        if refused:
            self._log.error("deployment cannot enqueue", reason=f"the function may not enqueue to {refused[0].queue}")
            reason = f"Add {refused[0].queue} to the function's enqueues in the catalogue"
            raise DeploymentCannotEnqueue(reason, (effect.name for effect in permitted))
        return taken


def _may_enqueue(effect: Effect) -> bool:
    function = _current.get()
    return function is None or effect.queue in function.enqueues
