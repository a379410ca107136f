"""The tree of counters that finds out when all units of a batch have an outcome, without a record that many write.

A page's units are spread over *counters* of at most 20 units. A full counter is propagated to its page's *node* (level
1), a full node to its parent, and so on up to the root. A node remembers its children, so propagating twice is a no-op.

    units    ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪
    counters   ▫    ▫      ▫    ▫      ▫   ▫       counter = offset modulo the page's number of counters
    level 1       page 0      page 1     page 2    as many children as the page has counters
    level 2            0                 1         pages; only the last node of a level may have fewer children, which
    level 3                    0                   follows from the number of pages: known from the seal on
    header                  completed

Until the seal any page may follow, so only nodes with all possible children are full; from the seal on the right edge
is known. The root is the lowest level, from 2 on, with a single node. A page that begins a node creates it, and page 0
creates the whole left edge: a node to propagate to exists, or the batch has been removed.
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
    """Return the number of pages below a full node of a level."""
    return math.prod([LIMITS.node_children_max] * (level - 1))


def pages_max() -> int:
    """Return the number of pages that a tree can hold."""
    return span(LIMITS.tree_levels)


def counters(page_units: int) -> int:
    """Return the number of counters of a page."""
    return -(-page_units // LIMITS.counter_units_max)


def counter_of(offset: int, page_units: int) -> int:
    """Return the number of a unit's counter: neighbours, which run at the same time, have different ones."""
    return offset % counters(page_units)


def counter_units(counter: int, page_units: int) -> int:
    """Return the number of units of a counter."""
    return len(offsets(counter, page_units))


def offsets(counter: int, page_units: int) -> range:
    """Return the offsets of a counter's units in the page."""
    return range(counter, page_units, counters(page_units))


def parent(node: Node) -> Node:
    """Return the parent of a node."""
    return Node(node.level + 1, node.index // LIMITS.node_children_max)


def width(level: int, pages: int) -> int:
    """Return the number of nodes of a level above so many pages."""
    return -(-pages // span(level))


def nodes_created_by(page: int) -> list[Node]:
    """Return the nodes above the pages' level whose first page this is: the page creates them."""
    return [Node(level, page // span(level)) for level in range(2, LIMITS.tree_levels + 1) if page % span(level) == 0]


def children(node: Node, pages: int | None) -> range:
    """Return the children of a node; `pages` is None before the seal, when the number of pages is not known."""
    first = node.index * LIMITS.node_children_max
    if pages is None:
        return range(first, first + LIMITS.node_children_max)
    return range(first, min(first + LIMITS.node_children_max, width(node.level - 1, pages)))


def root(pages: int) -> Node:
    """Return the lowest node with all pages below it."""
    return Node(next(level for level in range(2, LIMITS.tree_levels + 1) if width(level, pages) <= 1), 0)


def last_of_level_2(pages: int) -> Node:
    """Return the lowest node that the seal may have completed."""
    return Node(2, (pages - 1) // LIMITS.node_children_max)


def is_top(node: Node) -> bool:
    """Return whether a node is on the highest level."""
    return node.level == LIMITS.tree_levels
