"""Check the calls in a request against the catalogue, before anything is stored.

A call of an unknown function, task or queue would be retried long after its caller has gone. So the caller gets a 400
immediately.
"""

from collections.abc import Collection

from signalbox.adapters.settings import settings
from signalbox.core.calls import Call
from signalbox.core.problems import BadCall


def check_deployed(**calls: Call | None) -> None:
    """Check the calls of a request, each by the name of its field. Raises `BadCall` if one cannot be delivered."""
    for field, call in calls.items():
        if call is not None:
            deployed(call, field)


def deployed(call: Call, field: str = "continuation") -> Call:
    """Return the call if this deployment can deliver it. Raises `BadCall`, which lists the names in the catalogue.

    `field` is the call's place, empty for the whole body.
    """
    chosen = settings()
    functions, at = chosen.task_functions, f"{field}." if field else ""
    _check_listed("function that takes tasks", call.function, functions, f"{at}function")
    tasks = functions.get(call.function) if functions is not None else None
    _check_listed(f"task of {call.function}", call.task, tasks or None, f"{at}task")
    queues = chosen.calling_queues.get(call.function, chosen.task_queues)
    _check_listed(f"queue for tasks of {call.function}", call.queue, queues, f"{at}queue")
    return call


def _check_listed(what: str, name: str, listed: Collection[str] | None, field: str) -> None:
    if listed is not None and name not in listed:
        known = ", ".join(sorted(listed)) or "none"
        raise BadCall(f"The catalogue has no {what} named {name!r}. Known: {known}.", field=field)
