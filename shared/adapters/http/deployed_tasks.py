"""Checks of the calls in a request against the catalogue, before anything is stored.

A task for a function or a queue that does not exist would be retried long after its caller has gone. So the request
that names it is refused.
"""

from shared.adapters.settings import settings
from shared.core.rules.calls import Call
from shared.core.rules.problems import BadCall


def check_deployed(**calls: Call | None) -> None:
    """Check calls, each passed under the name of its field. Raises `BadCall` for one that cannot run here."""
    for field, call in calls.items():
        if call is not None:
            deployed(call, field)


def deployed(call: Call, field: str = "continuation") -> Call:
    """Return the call. Raises `BadCall` if its function or queue is not deployed, with those that are."""
    chosen = settings()
    _listed("function that takes tasks", call.function, chosen.task_functions, f"{field}.function")
    _listed("queue for tasks", call.queue, chosen.task_queues, f"{field}.queue")
    return call


def _listed(what: str, name: str, listed: frozenset[str] | None, field: str) -> None:
    if listed is not None and name not in listed:
        known = ", ".join(sorted(listed)) or "none"
        raise BadCall(f"The catalogue has no {what} {name!r}; it has: {known}.", field=field)
