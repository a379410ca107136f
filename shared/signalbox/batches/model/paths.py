"""A run of a batch: one use of its id, from its creation to its removal, with its records' paths and its tasks' names.

    batches/{id}                             header, written a few times in a run
    batches/{id}/pages/{incarnation}-{n}     payloads of up to 100 units; after the last page the end mark of the seal
    batches/{id}/counters/{incarnation}-…    counters and nodes of the tree (`tree.py`)
    batches/{id}/units/{incarnation}-{i}     the outcome of a unit; `i` is written by `spread`

The same id can be used again after a removal. The *incarnation* distinguishes the runs. It is part of every record's
id, and of every task's name and payload, so a late task or record of an earlier run never affects a later one.
"""

from dataclasses import asdict, dataclass
from typing import Any

from signalbox.batches.model.tree import Counter, Node
from signalbox.core.effects import Effect, name_of
from signalbox.core.names import BATCH_EXPAND, BATCHES_QUEUE

COLLECTION = "batches"


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
        return self.task_name("then")

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
