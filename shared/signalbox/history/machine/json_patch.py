"""The JSON Patch (RFC 6902) between two values, and a value after a patch.

A patch uses three operations: add, remove, replace. The path ``""`` is the whole value: it is added if there was no
value before, and removed if there is none after. In a list, the common beginning and end are kept, and the items
between them are compared one by one.
"""

import copy
from collections.abc import Iterator
from typing import Any

from signalbox.core.json_values import same
from signalbox.history.model import Operation, Patch

WHOLE_VALUE = ""
"""The pointer to the whole value."""


def diff(before: Any, after: Any) -> Patch:
    """Return the patch from `before` to `after`, empty if they are the same. 1 and 1.0 differ."""
    return list(_diff(before, after, WHOLE_VALUE))


def patch_from_nothing(value: Any) -> Patch:
    """Return the patch that sets the whole value."""
    return [{"op": "add", "path": WHOLE_VALUE, "value": value}]


def patch_to_nothing() -> Patch:
    """Return the patch that removes the whole value."""
    return [{"op": "remove", "path": WHOLE_VALUE}]


def patched(value: Any, patch: Patch) -> Any:
    """Return a value after a patch; None means that the value does not exist.

    Raises `LookupError` if a path of the patch does not exist.
    """
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
