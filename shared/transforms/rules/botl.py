"""bOTL, revision 1: a small language that makes one JSON value of another.

A transform is JSON. Numbers, booleans and null stand for themselves; objects and lists are made as they are written,
their values transformed, names of fields never. Strings are where the language is:

    "lit=…"    the rest, to the letter
    "#…"       a selector: steps from the source, with spaces between: ``#.first .second >third @0``
    "…{{…}}…"  text, in which each pair of braces gives way to the first result of the selector in it

A step is ``.k`` (a member), ``>k`` (members at any depth), ``!v`` (a variable), ``@i`` or ``@a:b:c`` (items of a
list, characters of a string).
What does not fit finds nothing. Each step's results are told apart by Python's equality: true, 1 and 1.0 are one. An
object with a ``ref`` is made for each result of that selector, by its ``transform``, with the variable that ``id``
names; without a ``transform`` it is the result itself. In a list all results are placed, elsewhere the first, or null.

What has been put into a text is never looked at again, so no data can become a selector. Results do not depend on the
order of a source's fields, which no store keeps: where they would, the fields' names are sorted. A run is bounded in
steps and bytes; its depth is that of transform and source, which their own bounds hold down.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TransformFailed

Scope = Mapping[str, Any]

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_UNCLOSED = re.compile(r"\{\{(?!((?!\{\{).)*?\}\})", re.DOTALL)
_INDEX = re.compile(r"-?\d+", re.ASCII)
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(-?\d+)?)?", re.ASCII)
_DIGITS_MAX = 18
"""No list is longer, and Python refuses to read some thousands of digits."""


def apply(transform: Any, source: Any) -> Any:
    """Transform `source`; give the first result, or None. Raises `TransformFailed` beyond the bounds of a run."""
    return _first(_Run(source).results(transform, {}))


def may_give_an_object(transform: Any) -> bool:
    """Tell whether there is a source of which this transform makes an object."""
    if isinstance(transform, str):
        return transform.startswith("#") and all(step[0] in _STEPS for step in transform[1:].split())
    if not isinstance(transform, dict) or "ref" not in transform:
        return isinstance(transform, dict)
    return may_give_an_object(transform.get("transform", "#"))


def unclosed_braces(transform: Any, at: values.Path = ()) -> Iterator[values.Path]:
    """Iterate over the places of texts in which a ``{{`` is not closed before the next one, or at all."""
    if isinstance(transform, str):
        if _UNCLOSED.search(transform) and not transform.startswith(("lit=", "#")):
            yield at
    elif isinstance(transform, list):
        for index, item in enumerate(transform):
            yield from unclosed_braces(item, (*at, index))
    elif isinstance(transform, dict):
        names = {"transform"} & transform.keys() if "ref" in transform else transform
        for name in names:
            yield from unclosed_braces(transform[name], (*at, name))


def _first(results: Iterable[Any]) -> Any:
    return next(iter(results), None)


class _Run:
    """One transformation: its source, and what is left to it."""

    __slots__ = ("_bytes", "_source", "_steps")

    def __init__(self, source: Any) -> None:
        self._source = source
        self._steps = LIMITS.transform_steps_max
        self._bytes = LIMITS.transform_output_bytes_max

    def results(self, transform: Any, scope: Scope) -> list[Any]:
        """Give all results of a transform: one, but for selectors and references."""
        self._step()
        if isinstance(transform, str):
            return self._text(transform, scope)
        if isinstance(transform, list):
            return [[result for item in transform for result in self.results(item, scope)]]
        if not isinstance(transform, dict):
            return [self._given(transform)]
        return self._reference(transform, scope) if "ref" in transform else [self._object(transform, scope)]

    def _object(self, transform: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
        return {self._given(name): _first(self.results(item, scope)) for name, item in transform.items()}

    def _reference(self, transform: Mapping[str, Any], scope: Scope) -> list[Any]:
        found = self._selected(transform["ref"], scope) if isinstance(transform["ref"], str) else []
        if "transform" not in transform:
            return [self._given(one) for one in found]
        name = transform.get("id")
        scopes: list[Scope] = [{**scope, name: one} if isinstance(name, str) else scope for one in found]
        return [result for inner in scopes for result in self.results(transform["transform"], inner)]

    def _text(self, text: str, scope: Scope) -> list[Any]:
        if text.startswith("lit="):
            return [self._given(text.removeprefix("lit="))]
        if text.startswith("#"):
            return [self._given(one) for one in self._selected(text[1:], scope)]
        return [self._given(_BRACES.sub(lambda braces: self._filling(braces[1], scope), text))]

    def _filling(self, selector: str, scope: Scope) -> str:
        """Write the first result of a selector as Python does; nothing found leaves nothing."""
        found = self._selected(selector, scope)
        return self._given(_written(found[0])) if found else ""

    def _selected(self, selector: str, scope: Scope) -> list[Any]:
        found = [self._source]
        for step in selector.split():
            take = _STEPS.get(step[0], _nothing)
            found = self._distinct(one for value in found for one in self._counted(take(value, step[1:], scope)))
        return found

    def _distinct(self, found: Iterator[Any]) -> list[Any]:
        """Keep the first of those that are equal; a result that stands alone is not looked at."""
        some = list(islice(found, 2))
        if len(some) < 2:
            return some
        distinct: dict[Any, Any] = {}
        for value in (*some, *found):
            distinct.setdefault(self._comparable(value), value)
        return list(distinct.values())

    def _comparable(self, value: Any) -> Any:
        """Give what is equal, and hashed the same, if and only if values are equal."""
        self._step()
        if isinstance(value, dict):
            return frozenset((name, self._comparable(item)) for name, item in value.items())
        return tuple(map(self._comparable, value)) if isinstance(value, list) else value

    def _counted(self, found: Iterator[Any]) -> Iterator[Any]:
        """Count what a step looks at; what it only passes by comes as `_PASSED`."""
        self._step()
        for value in found:
            self._step()
            if value is not _PASSED:
                yield value

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise TransformFailed(f"A transform takes at most {LIMITS.transform_steps_max:,} steps.")

    def _given(self, value: Any) -> Any:
        """Count what the output grows by."""
        self._bytes -= values.size_bytes(value)
        if self._bytes < 0:
            raise TransformFailed(f"A transform makes at most {LIMITS.transform_output_bytes_max:,} bytes.")
        return value


_PASSED = object()


def _nothing(_value: Any, _name: str, _scope: Scope) -> Iterator[Any]:
    return iter(())


def _member(value: Any, name: str, _: Scope) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _members_within(value: Any, name: str, _: Scope) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    inner = [value[each] for each in sorted(value)] if isinstance(value, dict) else value
    for item in inner if isinstance(inner, list) else ():
        yield _PASSED
        yield from _members_within(item, name, _)


def _variable(_: Any, name: str, scope: Scope) -> Iterator[Any]:
    if name in scope:
        yield scope[name]


def _items(value: Any, index: str, _: Scope) -> Iterator[Any]:
    if not isinstance(value, list | str) or max(map(len, index.split(":"))) > _DIGITS_MAX:
        return
    if _INDEX.fullmatch(index) and -len(value) <= int(index) < len(value):
        yield value[int(index)]
    elif (bounds := _SLICE.fullmatch(index)) and int(bounds[3] or 1) != 0:
        yield from value[slice(*(int(bound) if bound else None for bound in bounds.groups()))]


_STEPS: Mapping[str, Callable[[Any, str, Scope], Iterator[Any]]] = {
    ".": _member,
    ">": _members_within,
    "!": _variable,
    "@": _items,
}


def _written(value: Any) -> str:
    return repr(_ordered(value)) if isinstance(value, dict | list) else str(value)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
