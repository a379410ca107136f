"""Copies that do not all fit into their document: how deep each is shown, with ``link_too_large`` below that.

All links are shown equally deep, as deep as there is room; what room is left goes to the first links, in the order of
their fields, each as deep as fits. So down to the equal depth, which is all that copies of this document show of its
copies, the choice depends on nothing deeper. Hence documents that embed each other in a cycle and outgrow each other
have one stable state, whatever the order of their changes: each level follows from the level above it.

For that a deeper copy must never count as smaller. It may be: a mark can be longer than what it stands for. Therefore a
copy counts with the size of the largest of the less deep ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.core.rules.values import Path, same
from shared.documents.rules.copies import cut, is_nested_link
from shared.documents.rules.documents import Content

MARK = "link_too_large"

MARK_BYTES = len(MARK) + 2
"""Of a mark beside the key, in place of a copy without fields."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A copy nested to some number of links, and the bytes it counts with."""

    copy: Content
    counted_bytes: int


def fits_with_any_marks(content: Content, size_bytes: int) -> bool:
    """Return whether a content of so many bytes fits, and would if any of its copies were marks."""
    longer = {MARK: content}
    return size_bytes + MARK_BYTES * _links_in(content) <= LIMITS.document_bytes_max and values.fits(longer)


def _links_in(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value
    return sum(
        (isinstance(item, dict) and "key" in item) + _links_in(item) for item in items if isinstance(item, dict | list)
    )


def fitted(copies: Mapping[Path, Content], above: str, room: int) -> dict[Path, Content]:
    """Return the copies, each as deep as there is room: `room` is in bytes, beyond a mark at each link."""
    steps = {at: _steps(at, copy, above) for at, copy in copies.items()}
    levels = fitting_levels({at: _sizes(each) for at, each in steps.items()}, room)
    return {at: each[levels[at]].copy for at, each in steps.items()}


def fitting_levels(sizes: Mapping[Path, Sequence[int]], room: int) -> dict[Path, int]:
    """Return how deep each copy is shown, 0 for a mark, given the bytes that it counts with at each depth."""
    depth = 0
    while depth < LIMITS.link_levels_max and sum(_growth(each, depth + 1) for each in sizes.values()) <= room:
        depth += 1
    room -= sum(_growth(each, depth) for each in sizes.values())
    chosen: dict[Path, int] = {}
    for at, each in sizes.items():
        more = max(deeper for deeper in range(depth, depth + len(each)) if _more(each, depth, deeper) <= room)
        room -= _more(each, depth, more)
        chosen[at] = min(more, len(each) - 1)
    return chosen


def sizes_by_depth(at: Path, copy: Content, above: str) -> tuple[int, ...]:
    """Return the bytes that a copy counts with, nested deeper and deeper, from its mark on."""
    return _sizes(_steps(at, copy, above))


def nested_to(depth: int, at: Path, copy: Content, above: str) -> Content:
    """Return a copy nested to a depth that `fitting_levels` has chosen."""
    return _steps(at, copy, above)[depth].copy


def _sizes(steps: Iterable[_Step]) -> tuple[int, ...]:
    return tuple(step.counted_bytes for step in steps)


def _steps(at: Path, copy: Content, above: str) -> list[_Step]:
    """Return a copy nested deeper and deeper, from its mark on, as far as it can stand at its place."""
    mark = {"key": copy["key"], MARK: True}
    steps = [_Step(mark, values.size_bytes(mark))]
    for levels in range(1, LIMITS.link_levels_max + 1):
        whole = levels == LIMITS.link_levels_max or not is_nested_link(copy)
        nested = copy if whole else cut(copy, above, levels, MARK)
        if not values.fits(nested, at):
            break
        steps.append(_Step(nested, max(values.size_bytes(nested), steps[-1].counted_bytes)))
        if same(nested, copy):
            break
    return steps


def _growth(sizes: Sequence[int], depth: int) -> int:
    """Return the bytes that a copy takes beyond its mark."""
    return sizes[min(depth, len(sizes) - 1)] - sizes[0]


def _more(sizes: Sequence[int], depth: int, deeper: int) -> int:
    return _growth(sizes, deeper) - _growth(sizes, depth)
