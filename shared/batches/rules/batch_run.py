"""A batch run: one use of a batch's id, from its creation to its removal.

The same id can be used again after a removal. The *incarnation* tells the runs apart: it is part of every record's id,
of every task's name and payload. So a late task or record of an earlier run never affects a later one.
"""

from dataclasses import asdict, dataclass
from typing import Any

from shared.batches.rules.counter_tree import Node
from shared.core.rules.effects import Effect, name_of

COLLECTION = "batches"
QUEUE = "batches"
FUNCTION = "batch_expand"


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
        """Return a short text that no other run has: by it a batch's sub-batches are found."""
        return self.task_name("run")

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

    def counter_path(self, page: int, counter: int) -> str:
        return f"{self.counters_path}/{self.incarnation}-c-{spread(page)}-{counter}"

    def node_path(self, node: Node) -> str:
        return f"{self.counters_path}/{self.incarnation}-{node.level}-{node.index}"

    def unit_path(self, index: int) -> str:
        return f"{self.units_path}/{self.unit_id(index)}"

    def unit_id(self, index: int) -> str:
        """Return the id of a unit's record."""
        return f"{self.incarnation}-{spread(index)}"

    def task_name(self, *parts: object) -> str:
        """Return the name of a task of this run: the same parts, the same name."""
        return name_of(self.header_path, self.incarnation, *parts)

    def effect_for(self, task: str, *parts: object, **payload: Any) -> Effect:
        """Return the effect of a task of `batch_expand` on this run, named after the task and `parts`."""
        return Effect(self.task_name(task, *parts), QUEUE, FUNCTION, task, asdict(self) | payload)


def spread(number: int) -> str:
    """Return the hexadecimal digits of a number, the last one first: numbers that follow each other lie far apart.

    Units of a batch end about in the order of their indexes, hundreds a second. Firestore takes some 500 writes a
    second where ids, or the entries of an index, follow each other, since it splits the load by ranges of them.
    """
    return f"{number:08x}"[::-1]


def header_path(batch: str) -> str:
    """Return the path of a batch's header."""
    return f"{COLLECTION}/{batch}"
