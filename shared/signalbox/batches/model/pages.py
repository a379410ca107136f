"""The pages of a batch: their units' payloads, and the end mark of the seal.

Pages are loaded in the order of their numbers, so each page's first index follows from the previous page. The seal is
an end mark under the next number, so a page and the seal compete for one record.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import BatchRun, counters, grouped_record, rated_record
from signalbox.batches.model.units import PlacedUnit, first_runs
from signalbox.core import json_values
from signalbox.core.calls import Call
from signalbox.core.given import given
from signalbox.core.idempotency_keys import without_leases
from signalbox.core.json_values import json_text
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.payloads.model import NAMED, escaped


class PageStart(NamedTuple):
    """Where a page begins: the index of its first unit, and with grouped units the number of its first group."""

    first: int = 0
    first_group: int = 0

    def after(self, size: int, per_task: int | None) -> "PageStart":
        """Return the start of the next page, if this one has `size` units."""
        return PageStart(self.first + size, self.first_group + (counters(size, per_task) if per_task else 0))


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `first` is the index of its first unit, `text` its payloads as JSON.

    `task`, `concurrency`, `semaphore`, `per_task`, `rate` and `weight` are copied from the header, so that an
    expansion need not read the header. In a batch with grouped units, `first_group` is the number of its first group,
    counted through the batch. `has_payloads` is whether a unit has an argument that is the name of a payload.
    """

    first: int
    size: int
    text: str
    digest: str
    task: Call | None
    concurrency: int | None = None
    semaphore: str = ""
    per_task: int | None = None
    first_group: int = 0
    rate: str = ""
    weight: int | str = 1
    has_payloads: bool = False

    @classmethod
    def holding(
        cls, units: Sequence[Any], start: "PageStart", header: Header, stored: Sequence[Any] | None = None
    ) -> Self:
        """Return the page of these payloads, which begins at `start`.

        If units are large, `stored` are all as the record contains them.
        """
        text = json_text(list(units if stored is None else stored))
        settings = header.settings
        of_header = settings.task, settings.concurrency, settings.semaphore, settings.per_task
        return cls(
            start.first,
            len(units),
            text,
            digest(list(units)),
            *of_header,
            start.first_group,
            settings.rate,
            settings.weight,
            stored is not None,
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        task = record["task"] and Call.from_record(record["task"])
        own = record["first"], record["size"], record["units"], record["digest"]
        dispatch = record["concurrency"], record.get("semaphore", "")
        grouped = record.get("per_task"), record.get("first_group", 0)
        return cls(*own, task, *dispatch, *grouped, record.get("rate", ""), record.get("weight", 1), NAMED in record)

    def to_record(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "size": self.size,
            "units": self.text,
            "digest": self.digest,
            "task": self.task and self.task.to_record(),
            "concurrency": self.concurrency,
            **given(semaphore=self.semaphore or None),
            **grouped_record(self.per_task, first_group=self.first_group),
            **rated_record(self.rate, self.weight),
            **self.named,
        }

    @property
    def named(self) -> dict[str, bool]:
        """The members of the page, and of its units and groups in tasks, if arguments are as records contain them."""
        return {NAMED: True} if self.has_payloads else {}

    def arguments_of(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that are not of the page's units as its tasks contain them."""
        return {name: escaped(value) for name, value in payload.items()} if self.has_payloads else dict(payload)

    def with_names(self) -> Self:
        """Return the page as records with payloads contain it, even if it has none. The batch has a task."""
        if self.has_payloads:
            return self
        units = [{name: escaped(value) for name, value in unit.items()} for unit in self.payloads()]
        return replace(self, text=json_text(units), has_payloads=True)

    def weight_of(self, payload: Mapping[str, Any]) -> Any:
        """Return the number of permits that the unit with this payload takes. The number is not checked."""
        return payload.get(self.weight) if isinstance(self.weight, str) else self.weight

    def weight_of_group(self, payloads: Sequence[Mapping[str, Any]]) -> Any:
        """Return the number of permits that a task of units with these payloads takes: their sum.

        If a unit's number is not an integer, it is returned, and refused as that of a single unit is.
        """
        weights = [self.weight_of(payload) for payload in payloads]
        wrong = [weight for weight in weights if type(weight) is not int]
        return wrong[0] if wrong else min(sum(weights), CORE_LIMITS.burst_max)

    @property
    def end(self) -> "PageStart":
        """Where the next page begins."""
        return PageStart(self.first, self.first_group).after(self.size, self.per_task)

    def payload_of_last(self) -> Any:
        """Return the payload of the last unit."""
        return json.loads(self.text)[-1]

    def holds(self, index: int) -> bool:
        """Return whether the unit with this index is on this page."""
        return self.first <= index < self.first + self.size

    @property
    def call(self) -> Call | None:
        """The call that executes a unit or a group, with its arguments as tasks contain them."""
        if self.task is None or not self.has_payloads:
            return self.task
        return replace(self.task, payload=self.arguments_of(self.task.payload))

    def payloads(self) -> list[Any]:
        payloads: list[Any] = json.loads(self.text)
        return payloads

    def units(self, run: BatchRun, number: int) -> list[PlacedUnit]:
        """Return the page's units with their places, in the order of their indexes."""
        chain = None if self.per_task else first_runs(self.concurrency)
        place = run.batch, run.incarnation
        return [
            PlacedUnit(*place, self.first + offset, 0, number, offset, self.size, chain, self.per_task)
            for offset in range(self.size)
        ]

    def groups(self, run: BatchRun, number: int) -> list[Group]:
        """Return the page's groups. If its units are not grouped, there are none."""
        if self.per_task is None:
            return []
        place = self.first, self.size, self.per_task
        return [
            Group(run.batch, run.incarnation, number, at, *place, self.first_group + at, self.concurrency)
            for at in range(counters(self.size, self.per_task))
        ]


@dataclass(frozen=True, slots=True)
class EndMark:
    """The record that seals a batch. Its number is one more than the number of the last page."""

    def to_record(self) -> dict[str, Any]:
        return {"end": True}


Loaded = Page | EndMark | None
"""The record that is stored under a page's number."""


def loaded(record: Mapping[str, Any] | None) -> Loaded:
    """Parse the record under a page's number."""
    if record is None:
        return None
    return EndMark() if record.get("end") else Page.from_record(record)


def bytes_beside_unit(task: Call | None) -> int:
    """Return the bytes by which the arguments of the batch's task make those of a unit longer, as one object."""
    return len(json_text(task.payload)) - 1 if task and task.payload else 0


def digest(*parts: Any) -> str:
    """Return a hash of a request by which a repeat is recognised: the same in every delivery of the task that calls."""
    return hashlib.sha256(json_values.canonical(without_leases(parts)).encode("utf-8", "surrogatepass")).hexdigest()[
        :32
    ]
