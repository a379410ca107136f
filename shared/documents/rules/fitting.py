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
from shared.documents.rules.sizes import Size, size_max, size_of

MARK = "link_too_large"

MARK_SIZE = Size(len(MARK) + 2, 2)
"""Of a mark beside the key, in place of a copy without fields."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A copy nested to some number of links, and the size it counts with."""

    copy: Content
    counted: Size


def fits_with_any_marks(content: Content, size: Size) -> bool:
    """Return whether a content of this size fits, and would if any of its copies were marks."""
    longer = {MARK: content}
    links = _links_in(content)
    marked = size + Size(links * MARK_SIZE.bytes, links * MARK_SIZE.index_entries)
    return marked.fits_into(size_max()) and values.fits(longer)


def _links_in(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value
    return sum(
        (isinstance(item, dict) and "key" in item) + _links_in(item) for item in items if isinstance(item, dict | list)
    )


def fitted(copies: Mapping[Path, Content], above: str, room: Size) -> dict[Path, Content]:
    """Return the copies, each as deep as there is room, beyond a mark at each link."""
    steps = {at: _steps(at, copy, above) for at, copy in copies.items()}
    levels = fitting_levels({at: _sizes(each) for at, each in steps.items()}, room)
    return {at: each[levels[at]].copy for at, each in steps.items()}


def fitting_levels(sizes: Mapping[Path, Sequence[Size]], room: Size) -> dict[Path, int]:
    """Return how deep each copy is shown, 0 for a mark, given the size that it counts with at each depth."""
    depth = 0
    while depth < LIMITS.link_levels_max and _all_growth(sizes, depth + 1).fits_into(room):
        depth += 1
    room -= _all_growth(sizes, depth)
    chosen: dict[Path, int] = {}
    for at, each in sizes.items():
        more = max(deeper for deeper in range(depth, depth + len(each)) if _more(each, depth, deeper).fits_into(room))
        room -= _more(each, depth, more)
        chosen[at] = min(more, len(each) - 1)
    return chosen


def sizes_by_depth(at: Path, copy: Content, above: str) -> tuple[Size, ...]:
    """Return the sizes that a copy counts with, nested deeper and deeper, from its mark on."""
    return _sizes(_steps(at, copy, above))


def nested_to(depth: int, at: Path, copy: Content, above: str) -> Content:
    """Return a copy nested to a depth that `fitting_levels` has chosen."""
    return _steps(at, copy, above)[depth].copy


def _sizes(steps: Iterable[_Step]) -> tuple[Size, ...]:
    return tuple(step.counted for step in steps)


def _steps(at: Path, copy: Content, above: str) -> list[_Step]:
    """Return a copy nested deeper and deeper, from its mark on, as far as it can stand at its place."""
    mark = {"key": copy["key"], MARK: True}
    steps = [_Step(mark, size_of(mark))]
    for levels in range(1, LIMITS.link_levels_max + 1):
        whole = levels == LIMITS.link_levels_max or not is_nested_link(copy)
        nested = copy if whole else cut(copy, above, levels, MARK)
        if not values.fits(nested, at):
            break
        steps.append(_Step(nested, size_of(nested).at_least(steps[-1].counted)))
        if same(nested, copy):
            break
    return steps


def _all_growth(sizes: Mapping[Path, Sequence[Size]], depth: int) -> Size:
    return sum((_growth(each, depth) for each in sizes.values()), Size())


def _growth(sizes: Sequence[Size], depth: int) -> Size:
    """Return the size that a copy takes beyond its mark."""
    return sizes[min(depth, len(sizes) - 1)] - sizes[0]


def _more(sizes: Sequence[Size], depth: int, deeper: int) -> Size:
    return _growth(sizes, deeper) - _growth(sizes, depth)
