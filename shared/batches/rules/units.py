"""A unit of work and its place in the batch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self

from shared.batches.rules import counter_tree
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.chains import Chain, chain_of
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.problems import NotFound


@dataclass(frozen=True, slots=True)
class PlacedUnit:
    """A unit and its place. Its task carries it, so completing the unit needs no read.

    `index` counts from 0 through the batch. `offset` is the place in page `page`, which has `page_units` units.
    `attempt` is 0 for the first execution and grows with each requested retry. `chain` says which unit follows it, in a
    batch whose units do not all run at once.
    """

    batch: str
    incarnation: str
    index: int
    attempt: int
    page: int
    offset: int
    page_units: int
    chain: Chain | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read the unit from its record or from the ``unit`` of a task's envelope; other fields are ignored."""
        place = {one.name: record[one.name] for one in fields(cls) if one.name != "chain"}
        return cls(**place, chain=chain_of(record.get("chain")))

    def place(self) -> dict[str, Any]:
        """Return the unit for the record of its outcome."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "chain"}

    def to_record(self) -> dict[str, Any]:
        """Return the unit for the ``unit`` of a task's envelope, and for the header of its sub-batch."""
        return self.place() | ({"chain": self.chain.to_record()} if self.chain else {})

    @property
    def run(self) -> BatchRun:
        return BatchRun(self.batch, self.incarnation)

    def sub_batch_id(self, number: int = 0) -> str:
        """Return the id of a sub-batch of this unit: the same in every delivery of an attempt.

        Number 0 is its first; each number above is used if the sub-batch below was replaced.
        """
        return self.run.task_name("child", self.index, self.attempt, *([number] if number else []))

    @property
    def counter(self) -> int:
        return counter_tree.counter_of(self.offset, self.page_units)

    @property
    def path(self) -> str:
        return self.run.unit_path(self.index)

    @property
    def counter_path(self) -> str:
        return self.run.counter_path(self.page, self.counter)

    @property
    def page_path(self) -> str:
        return self.run.page_path(self.page)

    def next_attempt(self, chain: Chain | None = None) -> Self:
        """Return the unit as its next retry executes it."""
        return replace(self, attempt=self.attempt + 1, chain=chain)

    def effect(self, call: Call, payload: Mapping[str, Any], now: datetime) -> Effect:
        """Return the task that executes this unit: the batch's call, the unit's payload merged over the call's."""
        merged = replace(call, payload={**call.payload, **payload})
        return merged.effect(self.run.task_name("unit", self.index, self.attempt), now, unit=self.to_record())


def parse_index(text: str) -> int:
    """Parse a unit's name in a URL. Raises `NotFound` if no unit can have it."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise NotFound("A unit's name is its index.", field="index")
    return int(text)
