"""The records of a batch's run and their paths: the tree of counters, which shows that all units have an outcome.

The tree has many records, so that no record has many writers.

A page's units are spread over *counters* of at most 20 units. With grouped units, a counter has the units of one group.
A full counter is propagated to its page's *node* (level 1), a full node to its parent, and so on up to the root. A node
records which children were propagated to it, and the failures below each, so propagating a child twice has no effect.

    units    ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪▪   ▪▪▪▪ ▪▪▪
    counters   ▫    ▫      ▫    ▫      ▫   ▫       counter = offset modulo the page's number of counters
    level 1       page 0      page 1     page 2    as many children as the page has counters
    level 2            0                 1         pages; only the last node of a level may have fewer children, which
    level 3                    0                   follows from the number of pages, known once the batch is sealed
    header                  completed

Before the seal more pages may follow, so only a node with all possible children is full. The root is the only node of
its level, on the lowest such level from 2 on. A page that begins a node also creates it, and page 0 creates the whole
left edge. So a node that a child is propagated to exists, unless the batch has been removed.

A *run* of a batch is one use of its id, from its creation to its removal:

    batches/{id}                             header, written a few times in a run
    batches/{id}/pages/{incarnation}-{n}     payloads of up to 100 units; after the last page the end mark of the seal
    batches/{id}/counters/{incarnation}-…    counters and nodes of the tree
    batches/{id}/units/{incarnation}-{i}     the outcome of a unit; `i` is written by `spread`

The same id can be used again after a removal. The *incarnation* distinguishes the runs. It is part of every record's
id, and of every task's name and payload, so a late task or record of an earlier run never affects a later one.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import datetime
from typing import Any, Self

from signalbox.batches.limits import LIMITS
from signalbox.core.effects import Effect, name_of
from signalbox.core.keys import IdSpace
from signalbox.core.kit_names import BATCH_EXPAND, BATCHES_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace

PASSED = "passed"
"""The field of a node that maps the number of each propagated child to the number of failures below that child."""


UNITS = ("units",)
"""The field of a counter with the number of its units that have an outcome."""

FAILURES = ("failures",)
"""The field of a counter with the number of its units that failed."""


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


def counters(page_units: int, per_task: int | None = None) -> int:
    """Return the number of counters of a page. With grouped units, each group has its own counter."""
    return -(-page_units // (per_task or LIMITS.counter_units_max))


def counter_of(offset: int, page_units: int, per_task: int | None = None) -> int:
    """Return the number of a unit's counter. Neighbours, which run at the same time, have different counters."""
    return offset % counters(page_units, per_task)


def offsets(counter: int, page_units: int, per_task: int | None = None) -> range:
    """Return the offsets of a counter's units in the page."""
    return range(counter, page_units, counters(page_units, per_task))


def parent(node: Node) -> Node:
    return Node(node.level + 1, node.index // LIMITS.node_children_max)


def width(level: int, pages: int) -> int:
    """Return the number of nodes that a level has above this number of pages."""
    return -(-pages // span(level))


def nodes_created_by(page: int) -> list[Node]:
    """Return the nodes above the pages' level whose first page is `page`. The page's commit creates these nodes."""
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


def grouped_record(per_task: int | None, **more: Any) -> dict[str, Any]:
    """Return the fields of grouped units for a record. Without grouped units, there are none."""
    return {} if per_task is None else {"per_task": per_task, **more}


def rated_record(rate: str, weight: int | str) -> dict[str, Any]:
    """Return the fields of a record that name a batch's rate and weight. Without a rate, there are none."""
    return {"rate": rate, "weight": weight} if rate else {}


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of a page: `finished` of its units have an outcome, and `failures` of those failed.

    `number` is its place in the page, whose first unit has the index `first`. `changed_at` is the time of its last
    change, if it was read.
    """

    page: int
    number: int
    first: int
    page_units: int
    per_task: int | None = None
    finished: int = 0
    failures: int = 0
    changed_at: datetime | None = field(default=None, compare=False)

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
        """Whether all units of the counter have an outcome."""
        return self.finished == len(self.offsets)

    @property
    def offsets(self) -> range:
        """The offsets of the counter's units in the page."""
        return offsets(self.number, self.page_units, self.per_task)

    def indexes(self) -> list[int]:
        """Return the indexes of the counter's units."""
        return [self.first + offset for offset in self.offsets]


@dataclass(frozen=True, slots=True)
class PageNode:
    """The node of a page, on level 1 of the tree. `first` is the index of the page's first unit.

    In a batch with grouped units, `first_group` is the number of its first group, counted through the batch.
    """

    page: int
    first: int
    units: int
    failures_max: int | None
    passed: Mapping[str, int] = field(default_factory=dict)
    per_task: int | None = None
    first_group: int = 0

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        own = record["page"], record["first"], record["units"], record["failures_max"], record[PASSED]
        return cls(*own, record.get("per_task"), record.get("first_group", 0))

    def to_record(self) -> dict[str, Any]:
        return {
            PASSED: dict(self.passed),
            "page": self.page,
            "first": self.first,
            "units": self.units,
            "failures_max": self.failures_max,
            **grouped_record(self.per_task, first_group=self.first_group),
        }

    @property
    def failures(self) -> int:
        """The number of failures that were propagated to this node."""
        return sum(self.passed.values())

    @property
    def end(self) -> int:
        """The index after the page's last unit."""
        return self.first + self.units

    @property
    def groups(self) -> range:
        """The numbers of the page's groups, counted through the batch. If its units are not grouped, there are none."""
        count = counters(self.units, self.per_task) if self.per_task else 0
        return range(self.first_group, self.first_group + count)

    def counters(self) -> list[Counter]:
        """Return the page's counters, all at zero."""
        numbers = range(counters(self.units, self.per_task))
        return [Counter(self.page, number, self.first, self.units, self.per_task) for number in numbers]

    def missing_counters(self) -> list[Counter]:
        """Return the page's counters that were not propagated to this node, all at zero."""
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
        """The number of failures that were propagated to this node."""
        return sum(self.passed.values())

    def missing(self, node: Node, pages: int | None) -> list[int]:
        """Return the numbers of the children that were not propagated to this node, whose place is `node`."""
        return [child for child in children(node, pages) if str(child) not in self.passed]


# --- runs ---


COLLECTION = "batches"

BATCH_IDS = IdSpace("batch")

COMPLETIONS = "completions"
"""The collection of the tasks of batches' ends that are not known to have run, each under its name."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """The paths of a run's records and the names of its tasks."""

    batch: str
    incarnation: str

    @property
    def header_path(self) -> str:
        return header_path(self.batch)

    @property
    def key(self) -> str:
        """A short text unique to this run, by which its sub-batches are queried."""
        return self.task_name("run")

    @property
    def then_id(self) -> str:
        """The id of the batch that follows."""
        return BATCH_IDS.derived(self.task_name("then"))

    @property
    def pages_path(self) -> str:
        return f"{self.header_path}/pages"

    @property
    def counters_path(self) -> str:
        return f"{self.header_path}/counters"

    @property
    def units_path(self) -> str:
        return f"{self.header_path}/units"

    def page_path(self, number: int) -> str:
        return f"{self.pages_path}/{self.incarnation}-{number}"

    def counter_path(self, counter: Counter) -> str:
        return f"{self.counters_path}/{self.incarnation}-c-{spread(counter.page)}-{counter.number}"

    def node_path(self, node: Node) -> str:
        return f"{self.counters_path}/{self.incarnation}-{node.level}-{node.index}"

    def unit_path(self, index: int) -> str:
        return f"{self.units_path}/{self.unit_id(index)}"

    def unit_id(self, index: int) -> str:
        """Return the id of a unit's record."""
        return f"{self.incarnation}-{spread(index)}"

    def task_name(self, *parts: object) -> str:
        """Return the name of a task of this run. The same parts give the same name."""
        return name_of(self.header_path, self.incarnation, *parts)

    def effect_for(self, task: str, *parts: object, **payload: Any) -> Effect:
        """Return a task of `batch_expand` on this run, named after the task and `parts`."""
        return Effect(self.task_name(task, *parts), BATCHES_QUEUE, BATCH_EXPAND, task, asdict(self) | payload)


def spread(number: int) -> str:
    """Return the hexadecimal digits of a number, last digit first, so that consecutive numbers sort far apart.

    Units of a batch end roughly in the order of their indexes, hundreds per second. Firestore splits its load by ranges
    of ids and index entries, and sustains about 500 writes a second if they are consecutive.
    """
    return f"{number:08x}"[::-1]


def header_path(batch: str) -> str:
    return f"{COLLECTION}/{batch}"
