"""The tree of counters of a batch, which shows that all units have an outcome although no record has many writers.

A page's units are spread over *counters* of at most 20 units. A full counter is propagated to its page's *node* (level
1), a full node to its parent, and so on up to the root. A node records which children were propagated to it, and the
failures below each, so propagating a child twice has no effect.

    units    ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪
    counters   ▫    ▫      ▫    ▫      ▫   ▫       counter = offset modulo the page's number of counters
    level 1       page 0      page 1     page 2    as many children as the page has counters
    level 2            0                 1         pages; only the last node of a level may have fewer children, which
    level 3                    0                   follows from the number of pages, known once the batch is sealed
    header                  completed

Before the seal more pages may follow, so only a node with all possible children is full. The root is the only node of
its level, on the lowest such level from 2 on. A page that begins a node also creates it, and page 0 creates the whole
left edge. So a node that a child is propagated to exists, unless the batch has been removed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from signalbox.batches.limits import LIMITS

PASSED = "passed"
"""The field of a node with its propagated children: each child's number, and the number of failures below it."""


# --- places ---


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
    """Return the number of a unit's counter. Neighbours, which run at the same time, have different counters."""
    return offset % counters(page_units)


def offsets(counter: int, page_units: int) -> range:
    """Return the offsets of a counter's units in the page."""
    return range(counter, page_units, counters(page_units))


def parent(node: Node) -> Node:
    return Node(node.level + 1, node.index // LIMITS.node_children_max)


def width(level: int, pages: int) -> int:
    """Return the number of nodes that a level has above this number of pages."""
    return -(-pages // span(level))


def nodes_created_by(page: int) -> list[Node]:
    """Return the nodes above the pages' level whose first page this is. The page's commit creates them."""
    return [Node(level, page // span(level)) for level in range(2, LIMITS.tree_levels + 1) if page % span(level) == 0]


def children(node: Node, pages: int | None) -> range:
    """Return the numbers of a node's children; `pages` is None before the seal, when more pages may follow."""
    first = node.index * LIMITS.node_children_max
    if pages is None:
        return range(first, first + LIMITS.node_children_max)
    return range(first, min(first + LIMITS.node_children_max, width(node.level - 1, pages)))


def root(pages: int) -> Node:
    """Return the lowest node with all pages below it."""
    return Node(next(level for level in range(2, LIMITS.tree_levels + 1) if width(level, pages) <= 1), 0)


def last_of_level_2(pages: int) -> Node:
    """Return the lowest node that the seal may have made full."""
    return Node(2, (pages - 1) // LIMITS.node_children_max)


def is_top(node: Node) -> bool:
    """Return whether a node is on the highest level."""
    return node.level == LIMITS.tree_levels


# --- records ---


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of a page: `finished` of its units have an outcome, and `failures` of those failed.

    `number` is its place in the page, whose first unit has the index `first`.
    """

    page: int
    number: int
    first: int
    page_units: int
    finished: int = 0
    failures: int = 0

    def counted(self, finished: int, failures: int) -> Self:
        """Return this counter with these counts."""
        return replace(self, finished=finished, failures=failures)

    def with_record(self, record: Mapping[str, Any]) -> Self:
        """Return this counter with the counts of its record."""
        return self.counted(record["units"], record["failures"])

    def to_record(self) -> dict[str, Any]:
        return {"units": self.finished, "failures": self.failures}

    @property
    def is_full(self) -> bool:
        """Whether all of its units have an outcome."""
        return self.finished == len(offsets(self.number, self.page_units))

    def indexes(self) -> list[int]:
        """Return the indexes of its units."""
        return [self.first + offset for offset in offsets(self.number, self.page_units)]


@dataclass(frozen=True, slots=True)
class PageNode:
    """The node of a page, on level 1 of the tree. `first` is the index of the page's first unit."""

    page: int
    first: int
    units: int
    failures_max: int | None
    passed: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["page"], record["first"], record["units"], record["failures_max"], record[PASSED])

    def to_record(self) -> dict[str, Any]:
        return {
            PASSED: dict(self.passed),
            "page": self.page,
            "first": self.first,
            "units": self.units,
            "failures_max": self.failures_max,
        }

    @property
    def failures(self) -> int:
        """The number of failures below it that were propagated."""
        return sum(self.passed.values())

    @property
    def end(self) -> int:
        """The index after its last unit."""
        return self.first + self.units

    def counters(self) -> list[Counter]:
        """Return the page's counters, with no counts."""
        return [Counter(self.page, number, self.first, self.units) for number in range(counters(self.units))]

    def missing_counters(self) -> list[Counter]:
        """Return the counters that were not propagated to it, with no counts."""
        return [counter for counter in self.counters() if str(counter.number) not in self.passed]


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The record of a node above the pages' level."""

    passed: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record[PASSED])

    def to_record(self) -> dict[str, Any]:
        return {PASSED: dict(self.passed)}

    @property
    def failures(self) -> int:
        """The number of failures below it that were propagated."""
        return sum(self.passed.values())

    def missing(self, node: Node, pages: int | None) -> list[int]:
        """Return the numbers of the children that were not propagated to it; `node` is its place."""
        return [child for child in children(node, pages) if str(child) not in self.passed]
