"""The tree of counters that tells when all units of a batch are done, with no record that many write.

A page's units are spread over *counters* of at most 20. A counter that is full is passed to its page's *node* (level
1), a full node to the node above, and so up; a node remembers whom it got, so that passing twice is passing once.

    units    ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪
    counters   ▫    ▫      ▫    ▫      ▫   ▫       counter = offset modulo the page's number of counters
    level 1       page 0      page 1     page 2    as many children as the page has counters
    level 2            0                 1         pages; only the last node of a level may be short, which the
    level 3                    0                   number of pages tells: known from the seal on
    header                  completed

Until the seal any page may follow, so only what is full to the brim is passed; from the seal on the right edge is too.
The root is the lowest level, from 2 on, that has one node. A page that begins a node creates it, the first one creates
all on the left edge: whatever is passed on finds its node there, or the batch is gone.
"""

import math
from dataclasses import dataclass

from shared.core.rules.limits import LIMITS


@dataclass(frozen=True, slots=True)
class Node:
    """A place in the tree. `level` 1 is a page's node, whose `index` is the page's number."""

    level: int
    index: int


def span(level: int) -> int:
    """Say how many pages a full node of a level has under it."""
    return math.prod([LIMITS.node_children_max] * (level - 1))


def pages_max() -> int:
    """Say how many pages the tree holds."""
    return span(LIMITS.tree_top)


def counters(page_units: int) -> int:
    """Say over how many counters a page's units are spread."""
    return -(-page_units // LIMITS.counter_units_max)


def counter_of(offset: int, page_units: int) -> int:
    """Say which counter of its page a unit has: neighbours, which run together, have different ones."""
    return offset % counters(page_units)


def counter_units(counter: int, page_units: int) -> int:
    """Say how many units a counter of a page counts."""
    return len(range(counter, page_units, counters(page_units)))


def offsets(counter: int, page_units: int) -> range:
    """List the units of a counter, by their offset in the page."""
    return range(counter, page_units, counters(page_units))


def parent(node: Node) -> Node:
    """Give the node to which this one is passed."""
    return Node(node.level + 1, node.index // LIMITS.node_children_max)


def width(level: int, pages: int) -> int:
    """Say how many nodes a level has over so many pages."""
    return -(-pages // span(level))


def begun_by(page: int) -> list[Node]:
    """List the nodes above the pages' level that have this page as their first: it creates them."""
    return [Node(level, page // span(level)) for level in range(2, LIMITS.tree_top + 1) if page % span(level) == 0]


def children(node: Node, pages: int | None) -> range:
    """List the children a node waits for; `pages` is None until the seal says how many there are."""
    first = node.index * LIMITS.node_children_max
    if pages is None:
        return range(first, first + LIMITS.node_children_max)
    return range(first, min(first + LIMITS.node_children_max, width(node.level - 1, pages)))


def root(pages: int) -> Node:
    """Give the node that has all pages under it and no other node beside it."""
    return Node(next(level for level in range(2, LIMITS.tree_top + 1) if width(level, pages) <= 1), 0)


def last_of_level_2(pages: int) -> Node:
    """Give the lowest node that the seal may have completed."""
    return Node(2, (pages - 1) // LIMITS.node_children_max)


def is_top(node: Node) -> bool:
    """Tell whether nothing but the header is above a node."""
    return node.level == LIMITS.tree_top
