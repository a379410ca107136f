"""Check the calls in a request against the catalogue, before anything is stored.

A call of an unknown function, task or queue would be retried long after its caller has gone, and one with an unknown
argument would fail then. So the caller gets a 400 immediately.
"""

from collections.abc import Callable, Collection

from signalbox.adapters.catalogue_object import catalogue_settings
from signalbox.adapters.settings import Settings, settings
from signalbox.core.calls import Call, check_arguments, parsed_parameters
from signalbox.core.problems import BadArgument, BadCall, Problem


def check_deployed(**calls: Call | None) -> None:
    """Check the calls of a request, each by the name of its field. Raises as `deployed` does."""
    for field, call in calls.items():
        if call is not None:
            deployed(call, field)


def is_declared(function: str, task: str, arguments: Collection[str]) -> bool:
    """Return whether the catalogue has a task that is known to take these arguments. Raises `Unavailable`.

    The deployment writes the catalogue before its functions, so a function may not have the task yet.
    """

    def has(known: Settings) -> bool:
        parameters = parsed_parameters(known.task_parameters).get(function, {}).get(task)
        named = {name.removesuffix("?") for name in parameters or ()}
        return task in (known.task_functions or {}).get(function, ()) and set(arguments) <= named

    return has(catalogue_settings(settings(), has))


def check_deployed_units(**calls: Call | None) -> None:
    """Check the calls of units, which have only a part of their arguments. Raises `BadCall` or `Unavailable`."""
    for field, call in calls.items():
        if call is not None:
            _check(call, field, _refusal)


def read_parameters() -> None:
    """Read the arguments of tasks, which all functions share, if this process has not. Raises `Unavailable`."""
    catalogue_settings(settings(), lambda _: True)


def deployed(call: Call, field: str = "continuation") -> Call:
    """Return the call if this deployment can deliver it, and its task takes the arguments, as far as they are known.

    Raises `BadCall`, which lists the names in the catalogue, `BadArgument`, or `Unavailable` if the catalogue cannot be
    read. `field` is the call's place, empty for the whole body.
    """
    return _check(call, field, lambda known, call, at: _refusal(known, call, at) or _wrong_arguments(known, call, at))


def _check(call: Call, field: str, refusal: Callable[[Settings, Call, str], Problem | None]) -> Call:
    at = f"{field}." if field else ""
    chosen = catalogue_settings(settings(), lambda known: refusal(known, call, at) is None)
    if problem := refusal(chosen, call, at):
        raise problem
    return call


def _wrong_arguments(chosen: Settings, call: Call, at: str) -> BadArgument | None:
    try:
        check_arguments(parsed_parameters(chosen.task_parameters), call, f"{at}payload")
    except BadArgument as wrong:
        return wrong
    return None


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
