"""JSON Patch (RFC 6902): the difference of two JSON values, and a value after one.

Of its operations a difference needs three: add, remove, replace. The path ``""`` stands for the whole value; where
there is none before, it is added, and where there is none after, removed. A list's common beginning and end stay; what
lies between is compared item by item.
"""

import copy
from collections.abc import Iterator
from typing import Any

from shared.core.rules.values import same

Operation = dict[str, Any]
Patch = list[Operation]

WHOLE = ""
"""The pointer to the whole value."""


def diff(before: Any, after: Any) -> Patch:
    """Return the patch that makes `after` of `before`; empty if they are the same. Numbers keep their types."""
    return list(_diff(before, after, WHOLE))


def from_nothing(value: Any) -> Patch:
    """Return the patch that makes a value of whatever there is, or of nothing."""
    return [{"op": "add", "path": WHOLE, "value": value}]


def to_nothing() -> Patch:
    """Return the patch after which there is no value."""
    return [{"op": "remove", "path": WHOLE}]


def applied(value: Any, patch: Patch) -> Any:
    """Return a value after a patch of this module; None stands for no value. Raises `LookupError` if it fits none."""
    value = copy.deepcopy(value)
    for operation in patch:
        value = _applied(value, operation)
    return value


def _diff(before: Any, after: Any, at: str) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _diff_members(before, after, at)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _diff_items(before, after, at)
    elif not same(before, after):
        yield {"op": "replace", "path": at, "value": after}


def _diff_members(before: dict[str, Any], after: dict[str, Any], at: str) -> Iterator[Operation]:
    for name, value in before.items():
        if name in after:
            yield from _diff(value, after[name], _pointer(at, name))
        else:
            yield {"op": "remove", "path": _pointer(at, name)}
    for name, value in after.items():
        if name not in before:
            yield {"op": "add", "path": _pointer(at, name), "value": value}


def _diff_items(before: list[Any], after: list[Any], at: str) -> Iterator[Operation]:
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    both = min(len(old), len(new))
    for index in range(both):
        yield from _diff(old[index], new[index], _pointer(at, first + index))
    for index in reversed(range(both, len(old))):
        yield {"op": "remove", "path": _pointer(at, first + index)}
    for index in range(both, len(new)):
        yield {"op": "add", "path": _pointer(at, first + index), "value": new[index]}


def _common(before: list[Any], after: list[Any]) -> int:
    """Return how many items two lists have in common at their beginning."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (one, other) in pairs if not same(one, other)), min(len(before), len(after)))


def _pointer(at: str, step: str | int) -> str:
    return f"{at}/{str(step).replace('~', '~0').replace('/', '~1')}"


def _applied(value: Any, operation: Operation) -> Any:
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")]
    if not steps:
        return operation.get("value")
    holder = value
    for step in steps[1:]:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    place: Any = int(last) if isinstance(holder, list) else last
    if operation["op"] == "remove":
        del holder[place]
    elif operation["op"] == "add" and isinstance(holder, list):
        holder.insert(place, copy.deepcopy(operation["value"]))
    else:
        holder[place] = copy.deepcopy(operation["value"])
    return value
