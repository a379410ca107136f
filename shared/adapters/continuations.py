"""Calls that a request names: read, and held to the catalogue, before anything is stored.

A task for a function or a queue that there is not would be asked for again and again, long after its caller has gone.
So whoever names one hears of it at once.
"""

from typing import Any

from shared.adapters.settings import settings
from shared.rules.calls import Call
from shared.rules.problems import BadCall


def continuation(value: Any, field: str = "continuation") -> Call:
    """Read a call out of a request, where it stood under `field`. Raises `BadCall` or `TooLarge` naming the place."""
    return deployed(Call.parse(value, field), field)


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
