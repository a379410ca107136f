"""A batch as a whole: its header, its pages, and its status as callers see it.

Pages are loaded in the order of their numbers, so each page's first index follows from the previous page. The seal is
an end mark under the next number, so a page and the seal compete for one record.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.groups import Group
from signalbox.batches.model.tree import (
    RATED_FORMAT,
    BatchRun,
    counters,
    format_of,
    grouped_record,
    rated_record,
)
from signalbox.batches.model.units import PlacedUnit, first_runs
from signalbox.core import values
from signalbox.core.calls import Call
from signalbox.core.formats import FORMAT
from signalbox.core.lazy_dataclasses import dataclass

REPLACED = "replaced"
"""The reason for the end of a sub-batch that was not sealed before its unit's task returned another one."""

State = Literal["open", "sealed", "completed", "cancelled", "removed"]
"""See the table in `machine/lifecycle.py`."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The units of a batch: `size` is all of them; `succeeded` and `failed` are disjoint."""

    size: int
    succeeded: int
    failed: int

    @property
    def remaining(self) -> int:
        """The number of units without an outcome."""
        return self.size - self.succeeded - self.failed


# --- the header ---


def _is_rated(then: str) -> bool:
    """Return whether a batch that follows has a rate."""
    definition = json.loads(then) if '"rate":' in then else None
    while definition is not None:
        if "rate" in definition:
            return True
        definition = definition.get("then")
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header. `pages` and `size` are None until the seal. `succeeded` and `failed` are counted at the end.

    `first_pages` is the number of pages of the creating call, which no other call may load. `due_at` is when the
    sweeper handles the batch next. `parent` is the unit whose work this batch is. At most `concurrency` units run at
    once (None: all), through each of `queues` in turn (none: through the queue of `task`). `then` is the JSON of the
    batch that follows if this one succeeds; otherwise `on_failure` is called. `missing` names units without an outcome
    at the deadline. With `semaphore`, each unit runs under a permit of the semaphore of this name. With `rate`, each
    takes `weight` permits of the rate of this name when it starts, a number or the name of the argument that has it.
    With `per_task`, one task runs that many units; `concurrency` then limits these tasks.
    """

    incarnation: str
    digest: str
    deadline_at: datetime
    due_at: datetime
    first_pages: int
    state: State = "open"
    task: Call | None = None
    on_complete: Call | None = None
    failures_max: int | None = None
    pages: int | None = None
    size: int | None = None
    succeeded: int = 0
    failed: int = 0
    reason: str = ""
    missing: tuple[int, ...] = ()
    parent: PlacedUnit | None = None
    concurrency: int | None = None
    queues: tuple[str, ...] = ()
    then: str = ""
    on_failure: Call | None = None
    semaphore: str = ""
    per_task: int | None = None
    rate: str = ""
    weight: int | str = 1

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        stored = {name: value for name, value in record.items() if name not in ("parent_run", FORMAT)}
        return cls(
            **stored
            | {
                "task": _call(record["task"]),
                "on_complete": _call(record["on_complete"]),
                "on_failure": _call(record.get("on_failure")),
                "missing": tuple(record["missing"]),
                "queues": tuple(record.get("queues", ())),
                "parent": record["parent"] and PlacedUnit.from_record(record["parent"]),
            }
        )

    def to_record(self) -> dict[str, Any]:
        options = ("semaphore", "per_task", "rate", "weight")
        known_before = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in options}
        return known_before | {
            "task": self.task and self.task.to_record(),
            "on_complete": self.on_complete and self.on_complete.to_record(),
            "on_failure": self.on_failure and self.on_failure.to_record(),
            "missing": list(self.missing),
            "queues": list(self.queues),
            "parent": self.parent and self.parent.to_record(),
            "parent_run": self.parent and self.parent.run.key,
            **({"semaphore": self.semaphore} if self.semaphore else {}),
            **grouped_record(self.per_task),
            **format_of(self._grouped_elsewhere),
            **({FORMAT: RATED_FORMAT} if _is_rated(self.then) else {}),
            **rated_record(self.rate, self.weight),
        }

    @property
    def _grouped_elsewhere(self) -> int | None:
        """A number if the batch that follows, or that of the parent's unit, has grouped units."""
        if '"per_task":' in self.then:
            return 1
        return self.parent.per_task if self.parent else None

    @property
    def ended(self) -> bool:
        return self.state not in {"open", "sealed"}

    @property
    def counts(self) -> Counts:
        """The counts of an ended batch."""
        return Counts(self.size or 0, self.succeeded, self.failed)

    def summary(self) -> dict[str, Any]:
        """Return the state and counts of an ended batch, as its completion task and its callers receive them."""
        reason = {"reason": self.reason} if self.reason else {}
        missing = {"missing": list(self.missing)} if self.missing else {}
        return {"state": self.state, **asdict(self.counts), **reason, **missing}


def _call(record: Mapping[str, Any] | None) -> Call | None:
    return None if record is None else Call.from_record(record)


def header_of(record: Mapping[str, Any] | None) -> Header | None:
    """Return the header of a batch that exists: None without a record, and while the batch is being removed."""
    header = None if record is None else Header.from_record(record)
    return header if header and header.state != "removed" else None


def header_of_run(record: Mapping[str, Any] | None, run: BatchRun) -> Header | None:
    """Return the header if it belongs to this run, and None for another incarnation."""
    header = header_of(record)
    return header if header and header.incarnation == run.incarnation else None


# --- the status ---


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """State and counts. `pages` is the number of pages as far as known. `reason` and `missing` describe the end.

    `then` is the id of the batch that follows. Without a `task`, units are completed from outside.
    """

    id: str
    state: State
    counts: Counts
    pages: int | None
    reason: str = ""
    missing: tuple[int, ...] = ()
    then: str = ""
    task: Call | None = None

    @classmethod
    def of_ended(cls, batch: str, header: Header) -> Self:
        """Return the status of a batch that has ended."""
        follows = then_id(batch, header)
        return cls(
            batch, header.state, header.counts, header.pages, header.reason, header.missing, follows, header.task
        )

    @property
    def runs(self) -> bool:
        """Whether units may run or be retried."""
        return self.state in ("open", "sealed")

    def to_json(self) -> dict[str, Any]:
        """Return the status as answers show it."""
        counts = {**asdict(self.counts), "remaining": self.counts.remaining}
        reason = {"reason": self.reason} if self.reason else {}
        missing = {"missing": list(self.missing)} if self.missing else {}
        then = {"then": self.then} if self.then else {}
        task = {"task": self.task.shown()} if self.task else {}
        return {"id": self.id, "state": self.state, **task, **counts, "pages": self.pages, **reason, **missing, **then}


def then_id(batch: str, header: Header) -> str:
    """Return the id of the batch that follows, which exists once this one has succeeded; empty if none follows."""
    return BatchRun(batch, header.incarnation).then_id if header.then else ""


# --- pages ---


class PageStart(NamedTuple):
    """Where a page begins: the index of its first unit, and with grouped units the number of its first group."""

    first: int = 0
    first_group: int = 0

    def after(self, size: int, per_task: int | None) -> "PageStart":
        """Return where the page after one of `size` units begins."""
        return PageStart(self.first + size, self.first_group + (counters(size, per_task) if per_task else 0))


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `first` is the index of its first unit, `text` its payloads as JSON.

    `task`, `concurrency`, `queues`, `semaphore`, `per_task`, `rate` and `weight` are the header's, so that an expansion
    need not read the header. In a batch with grouped units, `first_group` is the number of its first group, counted
    through the batch.
    """

    first: int
    size: int
    text: str
    digest: str
    task: Call | None
    concurrency: int | None = None
    queues: tuple[str, ...] = ()
    semaphore: str = ""
    per_task: int | None = None
    first_group: int = 0
    rate: str = ""
    weight: int | str = 1

    @classmethod
    def holding(cls, units: Sequence[Any], start: "PageStart", header: Header) -> Self:
        """Return the page of these payloads, which begins at `start`."""
        text = json_text(list(units))
        of_header = header.task, header.concurrency, header.queues, header.semaphore, header.per_task
        return cls(
            start.first,
            len(units),
            text,
            digest(list(units)),
            *of_header,
            start.first_group,
            header.rate,
            header.weight,
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        task = record["task"] and Call.from_record(record["task"])
        own = record["first"], record["size"], record["units"], record["digest"]
        dispatch = record.get("concurrency"), tuple(record.get("queues", ())), record.get("semaphore", "")
        grouped = record.get("per_task"), record.get("first_group", 0)
        return cls(*own, task, *dispatch, *grouped, record.get("rate", ""), record.get("weight", 1))

    def to_record(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "size": self.size,
            "units": self.text,
            "digest": self.digest,
            "task": self.task and self.task.to_record(),
            "concurrency": self.concurrency,
            "queues": list(self.queues),
            **({"semaphore": self.semaphore} if self.semaphore else {}),
            **grouped_record(self.per_task, first_group=self.first_group),
            **rated_record(self.rate, self.weight),
        }

    def weight_of(self, payload: Mapping[str, Any]) -> Any:
        """Return the permits that the unit with this payload takes, which may be an invalid number."""
        return payload.get(self.weight) if isinstance(self.weight, str) else self.weight

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

    def call_of(self, index: int) -> Call | None:
        """Return the call that executes the unit with this index, or the group with this number.

        Calls use each of the page's queues in turn, if it has some.
        """
        if self.task is None or not self.queues:
            return self.task
        return replace(self.task, queue=self.queues[index % len(self.queues)])

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
        """Return the page's groups; none if its units are not grouped."""
        if self.per_task is None:
            return []
        place = self.first, self.size, self.per_task
        return [
            Group(run.batch, run.incarnation, number, at, *place, self.first_group + at, self.concurrency)
            for at in range(counters(self.size, self.per_task))
        ]


@dataclass(frozen=True, slots=True)
class EndMark:
    """The seal's record, under the number after the last page."""

    def to_record(self) -> dict[str, Any]:
        return {"end": True}


Loaded = Page | EndMark | None
"""What is stored under a page's number."""


def loaded(record: Mapping[str, Any] | None) -> Loaded:
    """Parse the record under a page's number."""
    if record is None:
        return None
    return EndMark() if record.get("end") else Page.from_record(record)


def digest(*parts: Any) -> str:
    """Return a hash of a request, by which a repeat is recognized."""
    return hashlib.sha256(values.canonical(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def json_text(value: Any) -> str:
    """Return a value as a page's record stores it: in ASCII, so its length is its size in bytes."""
    return json.dumps(value, separators=(",", ":"))


def cut(units: Iterable[Any]) -> list[Sequence[Any]]:
    """Cut payloads into pages of at most 100 units and 900,000 bytes. The same payloads give the same pages."""
    return list(cut_stream(units))


def cut_stream(units: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Cut payloads that are too many to hold into pages, as they arrive."""
    page: list[Any] = []
    page_bytes = 0
    for unit in units:
        unit_bytes = len(json_text(unit)) + 1
        if page and (len(page) == LIMITS.page_units_max or page_bytes + unit_bytes > LIMITS.page_bytes_max):
            yield page
            page, page_bytes = [], 0
        page.append(unit)
        page_bytes += unit_bytes
    if page:
        yield page
