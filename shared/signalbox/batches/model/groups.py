"""Groups of units: with `per_task`, one task runs the units of one counter, one after another.

    page of 7 units, per_task 3      group 0: 0 3 6      group 1: 1 4      group 2: 2 5

So a counter has one writer. If all units of a group end in one commit, that commit also marks the page's node, and the
counter is not written. Only parts of a group are counted in it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from signalbox.batches.model.tree import BatchRun, Counter, Node, offsets
from signalbox.batches.model.units import GroupRuns, PlacedUnit
from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Group:
    """The units of the counter `number` of page `page`, as a task runs them. The page's first unit has index `first`.

    `ordinal` counts the groups through the batch, from 0. At most `concurrency` groups run at once (None: all). With
    `rest`, the task runs only the units with these offsets. A `careful` task first reads which units have an outcome,
    even in its first delivery.
    """

    batch: str
    incarnation: str
    page: int
    number: int
    first: int
    page_units: int
    per_task: int
    ordinal: int
    concurrency: int | None = None
    rest: tuple[int, ...] | None = None
    careful: bool = False

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Parse the group in the ``group`` of a task's envelope."""
        place = {name: record[name] for name in _PLACE}
        rest = record.get("rest")
        return cls(
            **place,
            concurrency=record.get("concurrency"),
            rest=None if rest is None else tuple(rest),
            careful=record.get("careful", False),
        )

    def to_record(self) -> dict[str, Any]:
        """Return the group for the ``group`` of a task's envelope."""
        options = given(concurrency=self.concurrency or None, careful=self.careful or None)
        rest = given(rest=None if self.rest is None else list(self.rest))
        return {name: getattr(self, name) for name in _PLACE} | options | rest

    @property
    def run(self) -> BatchRun:
        return BatchRun(self.batch, self.incarnation)

    @property
    def task_name(self) -> str:
        """The name of the group's task. The same units give the same name."""
        rest = () if self.rest is None else ("rest", *self.rest)
        return self.run.task_name("group", self.page, self.number, *rest)

    @property
    def operation(self) -> str:
        """The name of the task that runs all units of the group: the same for each part of the group."""
        return replace(self, rest=None).task_name

    @property
    def page_path(self) -> str:
        return self.run.page_path(self.page)

    @property
    def node(self) -> Node:
        """The node of the group's page."""
        return Node(1, self.page)

    @property
    def counter(self) -> Counter:
        """The group's counter, at zero."""
        return Counter(self.page, self.number, self.first, self.page_units, self.per_task)

    @property
    def size(self) -> int:
        """The number of all units of the group."""
        return len(self.offsets)

    @property
    def offsets(self) -> range:
        """The offsets of all units of the group in the page."""
        return offsets(self.number, self.page_units, self.per_task)

    @property
    def chain(self) -> GroupRuns | None:
        """The group's place in a chain of groups, if the batch limits its `concurrency`."""
        return None if self.concurrency is None else GroupRuns(self.concurrency, self.ordinal)

    def units(self) -> list[PlacedUnit]:
        """Return the units that the group's task runs."""
        run, chain = (self.batch, self.incarnation), (self.chain, self.per_task)
        return [
            PlacedUnit(*run, self.first + offset, 0, self.page, offset, self.page_units, *chain)
            for offset in (self.offsets if self.rest is None else self.rest)
        ]

    @classmethod
    def of_unit(cls, unit: PlacedUnit, chain: GroupRuns) -> Self:
        """Return the group of a unit. The group is in the chain `chain`."""
        assert unit.per_task is not None, "only grouped units are in chains of groups"
        counter = unit.counter
        place = unit.page, counter.number, counter.first, unit.page_units, unit.per_task
        return cls(unit.batch, unit.incarnation, *place, chain.number, chain.concurrency)

    def with_rest(self, units: Sequence[PlacedUnit], *, careful: bool) -> Self:
        """Return the group whose task runs only these units."""
        return replace(self, rest=tuple(sorted(unit.offset for unit in units)), careful=careful)

    def context(self, payloads: Sequence[Any] | None, more: dict[str, Any]) -> dict[str, Any]:
        """Return the context of the group's task, with its part of the page's `payloads` (None: it reads the page).

        `more` are other members of the group there.
        """
        carried = {} if payloads is None else {"payloads": [payloads[unit.offset] for unit in self.units()]}
        return {"group": self.to_record() | carried | more}


_PLACE = ("batch", "incarnation", "page", "number", "first", "page_units", "per_task", "ordinal")
"""The fields of a group that the context of each task has."""
