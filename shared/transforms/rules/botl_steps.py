"""Steps of a bOTL selector: each iterates over the results that a step has in one value."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Scope = Mapping[str, Any]
"""Values of the variables."""

_INDEX = re.compile(r"-?\d+", re.ASCII)
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(-?\d+)?)?", re.ASCII)
_DIGITS_MAX = 18
"""Of an index: no list is longer, and Python refuses to parse thousands of digits."""


PASSED = object()
"""Marks a value that a step visits and that is no result, so that it is counted."""


def no_results(_value: Any, _name: str, _scope: Scope) -> Iterator[Any]:
    """Iterate over nothing: an unknown step."""
    return iter(())


def _member(value: Any, name: str, _: Scope) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _members_within(value: Any, name: str, _: Scope) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    inner = [value[each] for each in sorted(value)] if isinstance(value, dict) else value
    for item in inner if isinstance(inner, list) else ():
        yield PASSED
        yield from _members_within(item, name, _)


def _variable(_: Any, name: str, scope: Scope) -> Iterator[Any]:
    if name in scope:
        yield scope[name]


def _items(value: Any, index: str, _: Scope) -> Iterator[Any]:
    if not isinstance(value, list | str) or max(map(len, index.split(":"))) > _DIGITS_MAX:
        return
    if _INDEX.fullmatch(index) and -len(value) <= int(index) < len(value):
        yield value[int(index)]
    elif (parts := _SLICE.fullmatch(index)) and int(parts[3] or 1) != 0:
        yield from value[slice(*(int(part) if part else None for part in parts.groups()))]


STEPS: Mapping[str, Callable[[Any, str, Scope], Iterator[Any]]] = {
    ".": _member,
    ">": _members_within,
    "!": _variable,
    "@": _items,
}
