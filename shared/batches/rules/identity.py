"""Which batch and which unit: identities that give the paths of records and the names of tasks.

A batch's *incarnation* tells its life from an earlier one under the same id: it is part of every record's id, of every
task's name and payload. So what is left of an earlier life meets nothing of this one.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Self

from shared.batches.rules import tree
from shared.batches.rules.tree import Node
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect, name_of

COLLECTION = "batches"
QUEUE = "batches"
FUNCTION = "batch_expand"


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a batch's id; gives the paths of its records and the names of its tasks."""

    batch: str
    incarnation: str

    @property
    def header(self) -> str:
        return path_of(self.batch)

    @property
    def pages(self) -> str:
        return f"{self.header}/pages"

    @property
    def counters(self) -> str:
        return f"{self.header}/counters"

    @property
    def units(self) -> str:
        return f"{self.header}/units"

    def page(self, number: int) -> str:
        return f"{self.pages}/{self.incarnation}-{number}"

    def counter(self, page: int, counter: int) -> str:
        return f"{self.counters}/{self.incarnation}-c-{page}-{counter}"

    def node(self, node: Node) -> str:
        return f"{self.counters}/{self.incarnation}-{node.level}-{node.index}"

    def unit(self, index: int) -> str:
        return f"{self.units}/{self.unit_id(index)}"

    def unit_id(self, index: int) -> str:
        """Name a unit's record so that the order of ids is that of indexes."""
        return f"{self.incarnation}-{index:08d}"

    def task_name(self, *what: object) -> str:
        return name_of(self.header, self.incarnation, *what)

    def record(self) -> dict[str, str]:
        return {"batch": self.batch, "incarnation": self.incarnation}

    def ask(self, task: str, *what: object, **more: Any) -> Effect:
        """Ask for one of the kit's own tasks on this batch, named after the task and `what`."""
        return Effect(self.task_name(task, *what), QUEUE, FUNCTION, task, self.record() | more)


def path_of(batch: str) -> str:
    """Give the path of a batch's header."""
    return f"{COLLECTION}/{batch}"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of work and its place: its task carries it, so that completing it needs no read.

    `index` counts from 0 through the batch; `offset` is the place in page `page`, which has `page_units` units;
    `attempt` is 0 until somebody asks for a retry of what failed.
    """

    batch: str
    incarnation: str
    index: int
    attempt: int
    page: int
    offset: int
    page_units: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read what `record` gave; what else the record holds is not the unit's."""
        return cls(**{one.name: record[one.name] for one in fields(cls)})

    def record(self) -> dict[str, Any]:
        """Give the unit as the ``unit`` of a task's envelope."""
        return asdict(self)

    @property
    def life(self) -> Life:
        return Life(self.batch, self.incarnation)

    @property
    def child(self) -> str:
        """Name the sub-batch that may be this unit's work: the same in every delivery, another for every attempt."""
        return self.life.task_name("child", self.index, self.attempt)

    @property
    def counter(self) -> int:
        return tree.counter_of(self.offset, self.page_units)

    @property
    def path(self) -> str:
        return self.life.unit(self.index)

    @property
    def counter_path(self) -> str:
        return self.life.counter(self.page, self.counter)

    def effect(self, call: Call, payload: Mapping[str, Any], now: datetime) -> Effect:
        """Ask for the task that does this unit: the batch's call with the unit's own payload over it."""
        whole = replace(call, payload={**call.payload, **payload})
        return whole.effect(self.life.task_name("unit", self.index, self.attempt), now, unit=self.record())
