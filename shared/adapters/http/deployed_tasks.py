"""Calls that a request names are held to the catalogue before anything is stored.

A task for a function or a queue that there is not would be asked for again and again, long after its caller has gone.
So whoever names one hears of it at once.
"""

from shared.adapters.settings import settings
from shared.core.rules.calls import Call
from shared.core.rules.problems import BadCall


def check_deployed(**calls: Call | None) -> None:
    """Refuse calls that this deployment cannot carry out; each goes by the name of its field. Raises `BadCall`."""
    for field, call in calls.items():
        if call is not None:
            deployed(call, field)


def deployed(call: Call, field: str = "continuation") -> Call:
    """Give the call back if this deployment can carry it out. Raises `BadCall` with what there is instead."""
    chosen = settings()
    _listed("function that takes tasks", call.function, chosen.task_functions, f"{field}.function")
    _listed("queue for tasks", call.queue, chosen.task_queues, f"{field}.queue")
    return call


def _listed(what: str, name: str, listed: frozenset[str] | None, field: str) -> None:
    if listed is not None and name not in listed:
        known = ", ".join(sorted(listed)) or "none"
        raise BadCall(f"The catalogue has no {what} of the name {name!r}; there is: {known}.", field=field)
