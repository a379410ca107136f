"""The records of the counter tree, and what a process that reads one does next.

A node remembers its children in `passed`: each child's number and the failures below it. So a child that is propagated
twice is counted once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from shared.batches.rules import counter_tree
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.counter_tree import Node
from shared.batches.rules.header import Header
from shared.batches.rules.units import PlacedUnit

PASSED = "passed"


@dataclass(frozen=True, slots=True)
class CounterRecord:
    """The record of a counter: `finished` units have an outcome, `failures` of them failed."""

    finished: int = 0
    failures: int = 0

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` returned."""
        return cls(record["units"], record["failures"])

    def to_record(self) -> dict[str, Any]:
        """Return the record's data."""
        return {"units": self.finished, "failures": self.failures}


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter and its place in the batch."""

    page: int
    number: int
    first: int
    page_units: int
    counted: CounterRecord

    @property
    def full(self) -> bool:
        return counter_is_full(self.number, self.page_units, self.counted.finished)

    def indexes(self) -> list[int]:
        """Return the indexes of its units."""
        return [self.first + offset for offset in counter_tree.offsets(self.number, self.page_units)]


def counter_is_full(number: int, page_units: int, finished: int) -> bool:
    """Return whether all units of a page's counter have an outcome."""
    return finished == counter_tree.counter_units(number, page_units)


@dataclass(frozen=True, slots=True)
class PageNode:
    """The node of a page, on level 1 of the tree."""

    page: int
    first: int
    units: int
    failures_max: int | None
    passed: Mapping[str, int]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` returned."""
        return cls(record["page"], record["first"], record["units"], record["failures_max"], record[PASSED])

    def to_record(self) -> dict[str, Any]:
        """Return the record's data."""
        return {
            PASSED: dict(self.passed),
            "page": self.page,
            "first": self.first,
            "units": self.units,
            "failures_max": self.failures_max,
        }

    @property
    def failures(self) -> int:
        return sum(self.passed.values())

    @property
    def end(self) -> int:
        """The index after its last unit."""
        return self.first + self.units

    def missing_counters(self) -> list[int]:
        """Return the numbers of the counters that were not propagated to it."""
        return [number for number in range(counter_tree.counters(self.units)) if str(number) not in self.passed]

    def unit(self, run: BatchRun, index: int) -> PlacedUnit | None:
        """Return the unit with this index, or None if it is not on this page."""
        if not self.first <= index < self.end:
            return None
        return PlacedUnit(run.batch, run.incarnation, index, 0, self.page, index - self.first, self.units)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The record of a node above the pages' level."""

    passed: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` returned."""
        return cls(record[PASSED])

    def to_record(self) -> dict[str, Any]:
        """Return the record's data."""
        return {PASSED: dict(self.passed)}

    @property
    def failures(self) -> int:
        return sum(self.passed.values())

    def missing(self, node: Node, pages: int | None) -> list[int]:
        """Return the children that were not propagated to it; `node` is its place."""
        return [child for child in counter_tree.children(node, pages) if str(child) not in self.passed]


class NextStep(Enum):
    """What follows from a node."""

    WAIT = "children are missing, or the root is not known before the seal"
    PROPAGATE = "the node is full: pass it to its parent"
    COMPLETE = "the root is full: all units have an outcome"


def next_step(node: Node, record: NodeRecord, header: Header) -> NextStep:
    """Return what follows from a node above the pages' level, read together with the header or before it."""
    if record.missing(node, header.pages):
        return NextStep.WAIT
    if header.pages is not None and node == counter_tree.root(header.pages):
        return NextStep.COMPLETE
    return NextStep.WAIT if counter_tree.is_top(node) else NextStep.PROPAGATE
