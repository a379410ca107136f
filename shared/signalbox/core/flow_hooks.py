"""Functions that flows install in the kit's calls, and checks that other code is plain.

Inside the code of a flow, the call of a task or of an object's method is a command that the code awaits. Flows install
the functions that create it when the first flow is registered. Until then no module of flows is loaded.

A plain function runs when it is called. An ``async def`` and a function with ``yield`` only return an object, silently,
so both are refused where the kit does not run that object (`check_plain`, `check_ran`).
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from signalbox.core.codec.json_forms import Codec
from signalbox.core.effects import Json

Result_co = TypeVar("Result_co", covariant=True)


class Awaited(Generic[Result_co]):
    """A command that a flow's code awaits. The driver receives it; `await` returns its result or raises its error."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Result_co]:
        result: Result_co = yield self
        return result


ObjectCommand = Callable[[Any, str, Mapping[str, Json], Codec], Any]
"""Return the command that calls a method of the object at an address, or None if no flow runs."""


def _no_command(_: Any, __: str, ___: Mapping[str, Json], ____: Codec) -> Any:
    return None


def _no_note(_: object, __: str, ___: object = None) -> None:
    return None


class NoteCreated(Protocol):
    """Record that a command was created, if a flow runs. A command that is neither awaited nor sent is an error."""

    def __call__(self, command: object, name: str, instead_of: object = None, /) -> None:
        """`instead_of` is the command that this one replaces, which no longer needs to be awaited."""
        ...


def _not_replayed() -> bool:
    return False


def _no_refusal() -> None:
    return None


object_command: ObjectCommand = _no_command


is_replayed: Callable[[], bool] = _not_replayed
"""Return whether the code of a flow is replaying: an earlier turn has passed this place, and has checked the calls
here."""


is_in_flow: Callable[[], bool] = _not_replayed
"""Return whether the code of a flow runs."""


note_created: NoteCreated = _no_note


note_refused: Callable[[], None] = _no_refusal
"""Record that a call in the code of a flow was refused: a replay must refuse it again."""


def install_flow_hooks(
    command: ObjectCommand,
    note: NoteCreated,
    replayed: Callable[[], bool],
    refused: Callable[[], None],
    in_flow: Callable[[], bool],
) -> None:
    """Install the functions that a flow's code needs in calls of tasks and objects."""
    global object_command, note_created, is_replayed, note_refused, is_in_flow
    object_command, note_created, is_replayed, note_refused, is_in_flow = command, note, replayed, refused, in_flow


def check_plain(
    code: Callable[..., Any], what: str, *, may_yield: bool = False, has_name: bool = False, may_await: bool = False
) -> None:
    """Raise `TypeError` for an ``async def`` unless `may_await`, and for a function with ``yield`` unless `may_yield`.

    `what` is the kind of code: "task". If its name identifies it (`has_name`), also raise for code without a name,
    such as a `functools.partial`.
    """
    if has_name and not hasattr(code, "__name__"):
        kind = type(code).__name__
        raise TypeError(f"A {what} needs a name, and this {kind} has none. Write a `def` that calls {code!r}.")
    name, is_async_generator = getattr(code, "__name__", "") or repr(code), inspect.isasyncgenfunction(code)
    if is_async_generator and may_await:
        raise TypeError(f"The {what} {name} is `async def` with `yield`, so a call would not run it. Return a list.")
    if is_async_generator or (not may_await and inspect.iscoroutinefunction(code)):
        raise TypeError(
            f"The {what} {name} is `async def`, so a call would not run it. Write `def`, and `asyncio.run(…)` inside."
        )
    if inspect.isgeneratorfunction(code) and not may_yield:
        raise TypeError(f"The {what} {name} contains `yield`, so a call would not run it. Return a list.")


def check_ran(returned: Any, what: str, name: str) -> Any:
    """Return the code's result. Raises `TypeError` for a coroutine or a generator, since the code has not run.

    Decorated code can return a coroutine or a generator although its definition does not show that.
    """
    if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        kind = type(returned).__name__
        if inspect.iscoroutine(returned):
            returned.close()
        raise TypeError(f"The {what} {name} returned a {kind}, so its code has not run. Write `def`, without `yield`.")
    return returned
