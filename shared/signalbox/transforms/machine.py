"""bOTL, revision 1: a small language that turns one JSON value into another.

A transform is JSON. Numbers, booleans and null stand for themselves. Objects and lists keep their form; their values
are transformed, and the names of an object's fields are literal. Strings have a syntax:

    "lit=…"    the rest, literally
    "#…"       a selector: steps from the source, separated by spaces: ``#.first .second >third @0``
    "…{{…}}…"  text, in which each pair of braces is replaced by the first result of the selector inside it

A step is ``.k`` (a member), ``>k`` (members at any depth), ``!v`` (a variable), ``@i`` or ``@a:b:c`` (items of a list,
characters of a string). A step that does not apply has no results. The results of each step are deduplicated by
Python's equality: true, 1 and 1.0 are equal. An object with a ``ref`` is evaluated for each result of that selector:
the value is that of its ``transform``, in which ``id`` names a variable with the result. Without a ``transform`` it is
the result itself. In a list, the object is replaced by all results; elsewhere by the first result, or null.

Substituted text is never scanned again, so data cannot become a selector. Results do not depend on the order of a
source's fields, which Firestore does not keep: where that order would matter, the names are sorted. A run is bounded in
steps and bytes. Its depth is that of the transform and the source, which have their own limits.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from signalbox.core import json_values
from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import LINK_REFRESH, LINKS_QUEUE
from signalbox.core.records import record_values
from signalbox.transforms.limits import LIMITS
from signalbox.transforms.problems import TransformFailed

# --- steps of a selector ---

Scope = Mapping[str, Any]
"""Values of the variables."""


_INDEX = re.compile(r"-?\d+", re.ASCII)

_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(-?\d+)?)?", re.ASCII)

_DIGITS_MAX = 18
"""The digits of an index: no list is longer, and Python refuses to parse thousands of digits."""


_INDEX_LETTERS_MAX = 3 * _DIGITS_MAX + 2
"""The characters of an index or a slice. A longer one applies to nothing, and is not parsed for each list."""


PASSED = object()
"""A mark for a value that a step visits and that is not a result. The mark lets the visit be counted."""


def no_results(_value: Any, _name: str, _scope: Scope) -> Iterator[Any]:
    """Iterate over the results of an unknown step: there are none."""
    return iter(())


def _member(value: Any, name: str, _: Scope) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _members_within(value: Any, name: str, _: Scope) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    inner = [value[member] for member in sorted(value)] if isinstance(value, dict) else value
    for item in inner if isinstance(inner, list) else ():
        yield PASSED
        yield from _members_within(item, name, _)


def _variable(_: Any, name: str, scope: Scope) -> Iterator[Any]:
    if name in scope:
        yield scope[name]


def _items(value: Any, index: str, _: Scope) -> Iterator[Any]:
    if not isinstance(value, list | str) or len(index) > _INDEX_LETTERS_MAX:
        return
    if max(map(len, index.split(":"))) > _DIGITS_MAX:
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


# --- runs ---

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)

_UNCLOSED = re.compile(r"\{\{(?!((?!\{\{).)*?\}\})", re.DOTALL)


def apply(transform: Any, source: Any, output_bytes_max: int) -> Any:
    """Return the first result of a transform, or None. Raises `TransformFailed` beyond the limits of a run."""
    return _first_result(_Run(source, output_bytes_max).results(transform, {}))


def may_produce_an_object(transform: Any) -> bool:
    """Return whether there is a source from which this transform produces an object."""
    if isinstance(transform, str):
        return transform.startswith("#") and all(step[0] in STEPS for step in transform[1:].split())
    if not isinstance(transform, dict) or "ref" not in transform:
        return isinstance(transform, dict)
    return may_produce_an_object(transform.get("transform", "#"))


def unclosed_braces(transform: Any, at: record_values.Path = ()) -> Iterator[record_values.Path]:
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


def _first_result(results: Iterable[Any]) -> Any:
    return next(iter(results), None)


class _Run:
    """One run: its source, and its remaining steps and bytes."""

    __slots__ = ("_bytes", "_bytes_max", "_source", "_steps")

    def __init__(self, source: Any, output_bytes_max: int) -> None:
        self._source = source
        self._steps = LIMITS.transform_steps_max
        self._bytes = self._bytes_max = output_bytes_max

    def results(self, transform: Any, scope: Scope) -> list[Any]:
        """Return all results of a transform. There is exactly one, except for selectors and references."""
        self._step()
        if isinstance(transform, str):
            return self._text(transform, scope)
        if isinstance(transform, list):
            return [[result for item in transform for result in self.results(item, scope)]]
        if not isinstance(transform, dict):
            return [self._counted_output(transform)]
        return self._reference(transform, scope) if "ref" in transform else [self._object(transform, scope)]

    def _object(self, transform: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
        return {
            self._counted_output(name): _first_result(self.results(item, scope)) for name, item in transform.items()
        }

    def _reference(self, transform: Mapping[str, Any], scope: Scope) -> list[Any]:
        selected = self._selected(transform["ref"], scope) if isinstance(transform["ref"], str) else []
        if "transform" not in transform:
            return [self._counted_output(value) for value in selected]
        name = transform.get("id")
        scopes: list[Scope] = [{**scope, name: value} if isinstance(name, str) else scope for value in selected]
        return [result for inner in scopes for result in self.results(transform["transform"], inner)]

    def _text(self, text: str, scope: Scope) -> list[Any]:
        if text.startswith("lit="):
            return [self._counted_output(text.removeprefix("lit="))]
        self._scan(text)
        if text.startswith("#"):
            return [self._counted_output(value) for value in self._selected(text[1:], scope)]
        return [self._counted_output(_BRACES.sub(lambda braces: self._filling(braces[1], scope), text))]

    def _filling(self, selector: str, scope: Scope) -> str:
        """Return the first result of a selector as Python prints it, or an empty text if there are no results."""
        selected = self._selected(selector, scope)
        return self._counted_output(_printed(selected[0])) if selected else ""

    def _selected(self, selector: str, scope: Scope) -> list[Any]:
        selected = [self._source]
        self._scan(selector)
        for step in selector.split():
            if not selected:
                break
            take, name = STEPS.get(step[0], no_results), step[1:]  # once: a long name is not copied for each value
            taken = (one for value in selected for one in self._counted(take(value, name, scope)))
            selected = self._distinct(taken)
        return selected

    def _distinct(self, results: Iterator[Any]) -> list[Any]:
        """Return the results without those that equal an earlier result. A single result is not compared."""
        first = list(islice(results, 2))
        if len(first) < 2:
            return first
        distinct: dict[Any, Any] = {}
        for value in (*first, *results):
            distinct.setdefault(self._comparable(value), value)
        return list(distinct.values())

    def _comparable(self, value: Any) -> Any:
        """Return a hashable value. Two of them are equal if and only if their values are equal."""
        self._step()
        if isinstance(value, dict):
            return frozenset((name, self._comparable(item)) for name, item in value.items())
        return tuple(map(self._comparable, value)) if isinstance(value, list) else value

    def _counted(self, visited: Iterator[Any]) -> Iterator[Any]:
        """Iterate over the results of a step, and count all visited values.

        `PASSED` stands for a visited value that is not a result.
        """
        self._step()
        for value in visited:
            self._step()
            if value is not PASSED:
                yield value

    def _scan(self, text: str) -> None:
        """Count the scan of a text, which a reference repeats for each of its results. An empty one also counts."""
        self._step(1 + len(text) // LIMITS.transform_letters_per_step)

    def _step(self, count: int = 1) -> None:
        self._steps -= count
        if self._steps < 0:
            raise TransformFailed(f"A transform runs at most {LIMITS.transform_steps_max:,} steps.")

    def _counted_output(self, value: Any) -> Any:
        """Count the bytes of a part of the output, and return the part."""
        self._bytes -= json_values.size_bytes(value)
        if self._bytes < 0:
            raise TransformFailed(f"A transform produces at most {self._bytes_max:,} bytes.")
        return value


def _printed(value: Any) -> str:
    return repr(_ordered(value)) if isinstance(value, dict | list) else str(value)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


# --- tasks ---


def walk_task(name: str, change_id: str) -> Effect:
    """Return the task that starts the walk over the documents with links in this field, named after the change."""
    payload = {"event": change_id, "work": {"transform": name, "cursor": ""}}
    return Effect(name_of("links", change_id, "transform", name), LINKS_QUEUE, LINK_REFRESH, "walk", payload)
