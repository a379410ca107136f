"""bOTL, revision 1: a small language that turns one JSON value into another.

A transform is JSON. Numbers, booleans and null stand for themselves; objects and lists keep their form, with their
values transformed and their names of fields literal. Strings are where the language is:

    "lit=…"    the rest, literally
    "#…"       a selector: steps from the source, separated by spaces: ``#.first .second >third @0``
    "…{{…}}…"  text, in which each pair of braces is replaced by the first result of the selector in it

A step is ``.k`` (a member), ``>k`` (members at any depth), ``!v`` (a variable), ``@i`` or ``@a:b:c`` (items of a list,
characters of a string). A step that does not apply has no results. Each step's results are deduplicated by Python's
equality: true, 1 and 1.0 are one. An object with a ``ref`` is evaluated for each result of that selector: its
``transform``, with the variable that ``id`` names; without a ``transform`` it is the result itself. In a list all
results are placed, elsewhere the first, or null.

Substituted text is never scanned again, so no data can become a selector. Results do not depend on the order of a
source's fields, which no store keeps: where they would, the names are sorted. A run is bounded in steps and bytes; its
depth is that of transform and source, which have their own limits.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TransformFailed
from shared.transforms.rules.botl_steps import PASSED, STEPS, Scope, no_results

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_UNCLOSED = re.compile(r"\{\{(?!((?!\{\{).)*?\}\})", re.DOTALL)


def apply(transform: Any, source: Any) -> Any:
    """Return the first result of a transform, or None. Raises `TransformFailed` beyond the limits of a run."""
    return _first(_Run(source).results(transform, {}))


def may_produce_an_object(transform: Any) -> bool:
    """Return whether this transform produces an object from some source."""
    if isinstance(transform, str):
        return transform.startswith("#") and all(step[0] in STEPS for step in transform[1:].split())
    if not isinstance(transform, dict) or "ref" not in transform:
        return isinstance(transform, dict)
    return may_produce_an_object(transform.get("transform", "#"))


def unclosed_braces(transform: Any, at: values.Path = ()) -> Iterator[values.Path]:
    """Iterate over the places of strings with a ``{{`` that is not closed before the next one."""
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
    """One run: its source, and the steps and bytes it has left."""

    __slots__ = ("_bytes", "_source", "_steps")

    def __init__(self, source: Any) -> None:
        self._source = source
        self._steps = LIMITS.transform_steps_max
        self._bytes = LIMITS.transform_output_bytes_max

    def results(self, transform: Any, scope: Scope) -> list[Any]:
        """Return all results of a transform: one, except for selectors and references."""
        self._step()
        if isinstance(transform, str):
            return self._text(transform, scope)
        if isinstance(transform, list):
            return [[result for item in transform for result in self.results(item, scope)]]
        if not isinstance(transform, dict):
            return [self._counted_output(transform)]
        return self._reference(transform, scope) if "ref" in transform else [self._object(transform, scope)]

    def _object(self, transform: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
        return {self._counted_output(name): _first(self.results(item, scope)) for name, item in transform.items()}

    def _reference(self, transform: Mapping[str, Any], scope: Scope) -> list[Any]:
        found = self._selected(transform["ref"], scope) if isinstance(transform["ref"], str) else []
        if "transform" not in transform:
            return [self._counted_output(one) for one in found]
        name = transform.get("id")
        scopes: list[Scope] = [{**scope, name: one} if isinstance(name, str) else scope for one in found]
        return [result for inner in scopes for result in self.results(transform["transform"], inner)]

    def _text(self, text: str, scope: Scope) -> list[Any]:
        if text.startswith("lit="):
            return [self._counted_output(text.removeprefix("lit="))]
        if text.startswith("#"):
            return [self._counted_output(one) for one in self._selected(text[1:], scope)]
        return [self._counted_output(_BRACES.sub(lambda braces: self._filling(braces[1], scope), text))]

    def _filling(self, selector: str, scope: Scope) -> str:
        """Return the first result of a selector as Python prints it; without results, nothing."""
        found = self._selected(selector, scope)
        return self._counted_output(_printed(found[0])) if found else ""

    def _selected(self, selector: str, scope: Scope) -> list[Any]:
        found = [self._source]
        for step in selector.split():
            take = STEPS.get(step[0], no_results)
            found = self._distinct(one for value in found for one in self._counted(take(value, step[1:], scope)))
        return found

    def _distinct(self, found: Iterator[Any]) -> list[Any]:
        """Return the first of those that are equal; a single result is not compared."""
        some = list(islice(found, 2))
        if len(some) < 2:
            return some
        distinct: dict[Any, Any] = {}
        for value in (*some, *found):
            distinct.setdefault(self._comparable(value), value)
        return list(distinct.values())

    def _comparable(self, value: Any) -> Any:
        """Return a hashable value that is equal if and only if values are equal."""
        self._step()
        if isinstance(value, dict):
            return frozenset((name, self._comparable(item)) for name, item in value.items())
        return tuple(map(self._comparable, value)) if isinstance(value, list) else value

    def _counted(self, found: Iterator[Any]) -> Iterator[Any]:
        """Iterate over the results of a step, after counting all it visits; `PASSED` marks one that is none."""
        self._step()
        for value in found:
            self._step()
            if value is not PASSED:
                yield value

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise TransformFailed(f"A transform runs at most {LIMITS.transform_steps_max:,} steps.")

    def _counted_output(self, value: Any) -> Any:
        """Return a part of the output, after counting its bytes."""
        self._bytes -= values.size_bytes(value)
        if self._bytes < 0:
            raise TransformFailed(f"A transform produces at most {LIMITS.transform_output_bytes_max:,} bytes.")
        return value


def _printed(value: Any) -> str:
    return repr(_ordered(value)) if isinstance(value, dict | list) else str(value)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
