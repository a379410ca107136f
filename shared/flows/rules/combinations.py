"""Several commands as one: the first of them, or all with their errors; and what a flow returns to begin anew."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import GeneratorType
from typing import Any


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AnyOf:
    """The first of several; the others are abandoned."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class SettledOf:
    """All of several, each as a `Settled`; none is raised."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """How one of several ended: with a result, or with an error."""

    result: Any = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """Return whether there is a result."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Again:
    """What a flow returns to begin anew, with an empty log and other arguments."""

    arguments: Mapping[str, Any]


def check_any(items: Iterable[Any]) -> tuple[Any, ...]:
    """Return the items of an `any`. Raises `TypeError` for a generator: what it did could not be abandoned."""
    known = tuple(items)
    if not known:
        raise TypeError("flow.any() needs at least one command.")
    for each in known:
        if isinstance(each, GeneratorType):
            raise TypeError("flow.any() takes commands, no generators: those could be half done.")
        if isinstance(each, list | tuple):
            check_any(each or ("",))
    return known
