"""Sets that every process iterates in the same order.

A process hashes texts with its own seed, so a plain set of the same texts has another order in another process. Code
that a flow replays must not depend on that order. The codec returns these sets; so do their operations.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final


class _Sorted:
    """The operations of a set whose results would be plain sets."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(_sorted(super().__iter__()))  # type: ignore[misc]  # the other base class is a set

    def __repr__(self) -> str:
        shown = f"{{{', '.join(map(repr, self))}}}" if self else ""
        return f"frozenset({shown})" if isinstance(self, frozenset) else shown or "set()"


def _operation(name: str) -> Any:
    def operation(self: Any, *others: Any) -> Any:
        made = getattr(super(_Sorted, self), name)(*others)
        return made if made is NotImplemented else type(self)(made)

    operation.__name__ = name
    return operation


for _name in ("or", "and", "sub", "xor"):
    for _operator in (f"__{_name}__", f"__r{_name}__"):
        setattr(_Sorted, _operator, _operation(_operator))
for _name in ("union", "intersection", "difference", "symmetric_difference", "copy"):
    setattr(_Sorted, _name, _operation(_name))


class SortedSet(_Sorted, set[Any]):
    """A set."""

    __slots__ = ()

    def pop(self) -> Any:
        """Remove and return the first member. Raises `KeyError` if there is none."""
        first = next(iter(self), None) if self else set[Any]().pop()
        self.remove(first)
        return first


class SortedFrozenset(_Sorted, frozenset[Any]):
    """A frozen set."""

    __slots__ = ()


SORTED: Final[dict[type, type]] = {set: SortedSet, frozenset: SortedFrozenset}
"""The class of the sets that the codec returns, by the annotated type."""

SETS: Final = (*SORTED, *SORTED.values())
"""The types of sets that the codec writes."""


def _sorted(members: Iterable[Any]) -> list[Any]:
    found = list(members)
    try:
        return sorted(found, key=_place)
    except TypeError:  # members that the code has added, of a type without an order
        return sorted(found, key=repr)


def _place(member: Any) -> tuple[str, Any]:
    """Return a key by which a member is sorted. Python compares sets by inclusion, which does not order all of them."""
    if isinstance(member, frozenset):
        return "frozenset", sorted(map(_place, member))
    if isinstance(member, tuple):
        return "tuple", [*map(_place, member)]
    return type(member).__name__, member.value if isinstance(member, Enum) else member
