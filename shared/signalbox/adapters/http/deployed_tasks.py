"""Check the calls in a request against the catalogue, before anything is stored.

A call of an unknown function, task or queue would be retried long after its caller has gone. So the caller gets a 400
immediately.
"""

from collections.abc import Collection

from signalbox.adapters.catalogue_object import catalogue_settings
from signalbox.adapters.settings import Settings, settings
from signalbox.core.calls import Call
from signalbox.core.problems import BadCall


def check_deployed(**calls: Call | None) -> None:
    """Check the calls of a request, each by the name of its field. Raises `BadCall` if one cannot be delivered."""
    for field, call in calls.items():
        if call is not None:
            deployed(call, field)


def deployed(call: Call, field: str = "continuation") -> Call:
    """Return the call if this deployment can deliver it.

    Raises `BadCall`, which lists the names in the catalogue, or `Unavailable` if the catalogue cannot be read.
    `field` is the call's place, empty for the whole body.
    """
    at = f"{field}." if field else ""
    chosen = catalogue_settings(settings(), lambda known: _refusal(known, call, at) is None)
    if refusal := _refusal(chosen, call, at):
        raise refusal
    return call


def _refusal(chosen: Settings, call: Call, at: str) -> BadCall | None:
    functions = chosen.task_functions
    tasks = functions.get(call.function) if functions is not None else None
    queues = chosen.calling_queues.get(call.function, chosen.task_queues)
    return (
        _unless_listed("function that takes tasks", call.function, functions, f"{at}function")
        or _unless_listed(f"task of {call.function}", call.task, tasks or None, f"{at}task")
        or _unless_listed(f"queue for tasks of {call.function}", call.queue, queues, f"{at}queue")
    )


def _unless_listed(what: str, name: str, listed: Collection[str] | None, field: str) -> BadCall | None:
    if listed is None or name in listed:
        return None
    known = ", ".join(sorted(listed)) or "none"
    return BadCall(f"The catalogue has no {what} named {name!r}. Known: {known}.", field=field)
