"""Commands that the code awaits together: all of them, the first, the first that succeeds, or each with its outcome."""

from collections.abc import Iterable, Mapping, Sequence
from types import CoroutineType, GeneratorType
from typing import Any, Generic

from signalbox.core.calls import Awaited
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.flows.machine.commands import T


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AllOf(Awaited[T]):
    """All of several commands and coroutines. The first error is raised once the others have been cancelled."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AnyOf(Awaited[T]):
    """The first of several commands. The others are abandoned. `keys` are what the result calls them."""

    items: tuple[Any, ...]
    keys: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FirstSuccessOf(AnyOf[T]):
    """The first of several commands that succeeds. The others are abandoned."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class SettledOf(Awaited[T]):
    """All of several commands, each as a `Settled`. No error is raised."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Shield(Awaited[T]):
    """A command or a coroutine that no cancel interrupts."""

    item: Any


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """The outcome of one of several commands: its result or its error."""

    result: T | None = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """Whether the command has succeeded."""
        return self.error is None


class First(tuple[int | str, Any]):
    """The result of a `first`: the name or the position of the command, and its result. The code unpacks it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            raise TypeError("The result of flow.first() has two values: write `which, result = await flow.first(…)`.")
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def first_of(
    items: Sequence[Any], named: Mapping[str, Any], kind: type[AnyOf[Any]] = AnyOf, name: str = "flow.first()"
) -> AnyOf[Any]:
    """Return the first of commands, by position or by name. Raises `TypeError` for both at once, and for a branch."""
    if bool(items) == bool(named):
        raise TypeError(f"{name} needs at least one command: all of them by position, or all by name.")
    known = (*items, *named.values())
    check_commands(known, name)
    return kind(known, tuple(named) or tuple(range(len(known))))


def check_commands(items: Iterable[Any], name: str) -> None:
    """Raise `TypeError` if there are coroutines in what is given to the function of this name."""
    if any(map(branches_in, items)):
        raise TypeError(f"{name} takes commands, not coroutines: a coroutine could be abandoned half done.")


def branches_in(item: Any) -> list[Any]:
    """Return the coroutines and generators in what the code waits for."""
    match item:
        case GeneratorType() | CoroutineType():
            return [item]
        case AllOf() | AnyOf() | SettledOf():
            inner = item.items
        case Shield():
            inner = (item.item,)
        case list() | tuple():
            inner = tuple(item)
        case _:
            inner = ()
    return [branch for each in inner for branch in branches_in(each)]
