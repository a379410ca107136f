"""A unit of work: its place in the batch, its outcome, and the chain that it is part of.

In a batch that runs at most `concurrency` units at once, units are dealt to that many chains, in turn:

    concurrency 3     chain 0: 0 ─► 3 ─► 6      chain 1: 1 ─► 4 ─► 7      chain 2: 2 ─► 5 ─► 8

The first unit of each chain is enqueued with its page. When a unit has an outcome, the next unit of its chain is
enqueued. So at most one unit of a chain runs at a time. No shared record tracks it, so there is no hot record.

In a batch with grouped units, groups are dealt to the chains instead, each as one unit of the picture above. A unit of
such a batch identifies its group, so that the unit whose outcome completes the group enqueues the next group.

Retries also run in chains. A chain of named units contains their indexes. A chain of all failed units is a range of the
ids of units' records, which `spread` scatters over all batches' indexes; its next unit is the next failed one there.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, Self

from signalbox.batches.model.tree import BATCH_IDS, BatchRun, Counter, PageNode, counter_of, grouped_record
from signalbox.batches.problems import BadBatch
from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import larger_values, value_bytes_max
from signalbox.core.problems import NotFound, TooLarge
from signalbox.payloads.model import NAMED

# --- chains ---


@dataclass(frozen=True, slots=True)
class FirstRuns:
    """A chain of first attempts. Each unit is followed by the unit whose index is larger by `concurrency`.

    `is_reached` is False for a unit that is completed from outside before the chain reaches it.
    """

    concurrency: int
    is_reached: bool = True

    def to_record(self) -> dict[str, Any]:
        """Return the chain for a task's envelope. A chain has reached each unit that has a task."""
        return {"concurrency": self.concurrency}


@dataclass(frozen=True, slots=True)
class Retries:
    """The retries of one call; a chain has the units `rest`, or the units with a record id in ``(after, until]``.

    Retries of a batch that does not limit its `concurrency` are in no chain: they have none of these fields.

    Only units that had failed by `called_at`, in microseconds, are retried, and each once. A unit's record names the
    calls that have retried it. So a call never retries a unit twice, even if its retry fails. If the retry of another
    call fails, it does retry the unit.
    """

    call: str
    called_at: int
    payload: Mapping[str, Any]
    rest: tuple[int, ...] | None = None
    after: str = ""
    until: str = ""

    is_named: bool = False
    """Whether the arguments are as records contain them: large ones are names of payloads."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        rest = None if record["rest"] is None else tuple(record["rest"])
        return cls(**{**record, "rest": rest, "payload": json.loads(record["payload"])})

    def to_record(self) -> dict[str, Any]:
        """Return the chain for a task's envelope and a sub-batch's header. The payload is text: any JSON fits."""
        rest = None if self.rest is None else list(self.rest)
        record = asdict(self) | {"rest": rest, "payload": json.dumps(self.payload)}
        return record if self.is_named else {name: value for name, value in record.items() if name != "is_named"}

    @property
    def is_chain(self) -> bool:
        """Whether other retries may follow."""
        return self.rest is not None or bool(self.until)

    def shortened(self) -> Self:
        """Return the chain of named units without its first unit."""
        return replace(self, rest=(self.rest or ())[1:])

    def behind(self, unit_id: str) -> Self:
        """Return the part of the chain after a unit that was found in its range."""
        return replace(self, after=unit_id)


@dataclass(frozen=True, slots=True)
class GroupRuns:
    """A chain of groups. Group `number` of the batch is followed by group `number + concurrency`."""

    concurrency: int
    number: int

    def to_record(self) -> dict[str, Any]:
        """Return the chain for a task's envelope and a sub-batch's header."""
        return {"concurrency": self.concurrency, "group": self.number}


Chain = FirstRuns | Retries | GroupRuns


def chain_of(record: Mapping[str, Any] | None) -> Chain | None:
    """Parse the chain of a unit's task. Return None for a unit of a batch without `concurrency`."""
    if record is None:
        return None
    if "group" in record:
        return GroupRuns(record["concurrency"], record["group"])
    return FirstRuns(record["concurrency"]) if "concurrency" in record else Retries.from_record(record)


def first_runs(concurrency: int | None) -> FirstRuns | None:
    """Return the chain of the first attempts of a batch's units, if the batch limits its `concurrency`."""
    return None if concurrency is None else FirstRuns(concurrency)


# --- places ---


@dataclass(frozen=True, slots=True)
class PlacedUnit:
    """A unit and its place. The unit's task contains both, so completing the unit needs no read.

    - `index`: its number in the batch, from 0.
    - `attempt`: 0 for the first execution. It grows with each requested retry.
    - `page`, `page_units`: the number of its page, and the number of units there.
    - `offset`: its place in the page.
    - `chain`: determines the next unit, in a batch that limits its `concurrency`.
    - `per_task`: the option of its batch, if its units are grouped.
    """

    batch: str
    incarnation: str
    index: int
    attempt: int
    page: int
    offset: int
    page_units: int
    chain: Chain | None = None
    per_task: int | None = None

    @classmethod
    def on_page(cls, run: BatchRun, page: PageNode, index: int, chain: Chain | None) -> Self:
        """Return the unit with this index, which is on the page."""
        place = page.page, index - page.first, page.units
        return cls(run.batch, run.incarnation, index, 0, *place, chain, page.per_task)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Parse the unit from its record or from the ``unit`` of a task's envelope. Other fields are ignored."""
        place = {name: record[name] for name in _PLACE}
        return cls(**place, chain=chain_of(record.get("chain")), per_task=record.get("per_task"))

    def place(self) -> dict[str, Any]:
        """Return the fields of the unit for the record of the unit's outcome."""
        return {name: getattr(self, name) for name in _PLACE} | grouped_record(self.per_task)

    def to_record(self) -> dict[str, Any]:
        """Return the unit for the ``unit`` of a task's envelope, and for the header of the unit's sub-batch."""
        return self.place() | given(chain=self.chain and self.chain.to_record())

    @property
    def run(self) -> BatchRun:
        return BatchRun(self.batch, self.incarnation)

    def sub_batch_id(self, number: int = 0) -> str:
        """Return the id of a sub-batch of this unit: the same in every delivery of an attempt.

        Number 0 is the unit's first sub-batch. A higher number is used if the sub-batch with the number before was
        replaced.
        """
        name = self.run.task_name("child", self.index, self.attempt, *([number] if number else []))
        return BATCH_IDS.derived(name)

    @property
    def counter(self) -> Counter:
        """The counter of the unit, at zero."""
        number = counter_of(self.offset, self.page_units, self.per_task)
        return Counter(self.page, number, self.index - self.offset, self.page_units, self.per_task)

    @property
    def path(self) -> str:
        return self.run.unit_path(self.index)

    @property
    def counter_path(self) -> str:
        return self.run.counter_path(self.counter)

    @property
    def page_path(self) -> str:
        return self.run.page_path(self.page)

    @property
    def operation(self) -> str:
        """The operation of this attempt: the name of the unit's task, unless a group's task runs the unit."""
        return self.run.task_name("unit", self.index, self.attempt)

    def next_attempt(self, chain: Chain | None = None) -> Self:
        """Return the unit as its next retry executes it."""
        return replace(self, attempt=self.attempt + 1, chain=chain)


_PLACE = ("batch", "incarnation", "index", "attempt", "page", "offset", "page_units")
"""The fields of a unit that every record of it has."""


def parse_index(text: str) -> int:
    """Parse a unit's name in a URL. Raises `NotFound` if no unit can have it."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise NotFound("The name of a unit is its index, a number.", field="index")
    return int(text)


# --- outcomes ---

UnitState = Literal["succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The result of a unit that is completed from outside."""

    result: Any
    """Any JSON, of at most 100 KiB, or 32 MiB with `payloads: true`."""


@dataclass(frozen=True, slots=True)
class UnitError:
    """The error of a unit that is completed from outside."""

    error: str
    """Without lone surrogates; the first 2,000 characters are kept."""


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """A unit's result as JSON text, or the error it failed with. If `is_named`, the text is the name of a payload."""

    state: UnitState
    text: str
    is_named: bool = False

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> "UnitOutcome":
        """Parse a `UnitResult` or a `UnitError`. Raises `BadBatch` or `TooLarge`."""
        match body:
            case {"result": result, **rest} if not rest:
                outcome = succeeded(result)
                if outcome.state == "failed":
                    raise TooLarge(outcome.text, field="result")
                return outcome
            case {"error": str(error), **rest} if not rest:
                if _encodable(error) != error:
                    raise BadBatch("This text has a lone surrogate, which UTF-8 cannot encode.", field="error")
                return failed(error)
        raise BadBatch('Complete a unit with {"result": …} or {"error": "…"}.')


def succeeded(result: Any) -> UnitOutcome:
    """Return the outcome of a unit that returned `result`: failed if that is not JSON, or too large to store."""
    try:
        text = json.dumps(result, allow_nan=False, separators=(",", ":"))  # as `json_text`
    except (TypeError, ValueError, RecursionError) as error:
        return failed(f"The result is not JSON: {error}")
    if len(text) > (bytes_max := value_bytes_max(CORE_LIMITS.result_bytes_max)):
        return failed(f"The result has {len(text):,} bytes; the limit is {bytes_max:,}.{larger_values()}")
    return UnitOutcome("succeeded", text)


def failed(error: str) -> UnitOutcome:
    """Return the outcome of a unit that failed. A long error is cut, and lone surrogates become `?`."""
    return UnitOutcome("failed", _encodable(error)[: CORE_LIMITS.error_letters_max])


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """The record of a unit's outcome. It includes the unit's place, so that a retry need not search for it.

    `retried_by` are the last calls that have retried the unit.
    """

    unit: PlacedUnit
    outcome: UnitOutcome
    retried_by: tuple[str, ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        outcome = UnitOutcome(record["state"], record["text"], NAMED in record)
        return cls(PlacedUnit.from_record(record), outcome, tuple(record.get("retried_by", ())))

    def to_record(self) -> dict[str, Any]:
        more = given(named=self.outcome.is_named or None, retried_by=list(self.retried_by) or None)
        return {**self.unit.place(), "state": self.outcome.state, "text": self.outcome.text, **more}


# --- for users' tasks ---


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit `index`, counted from 0, of a batch; `attempt` counts retries. Two runs of a unit may overlap."""

    batch: str
    index: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A batch that has ended, as its `on_complete` task receives it; `state` is completed or cancelled.

    `size` counts all units; `succeeded` and `failed` are disjoint.
    """

    id: str
    state: str
    size: int
    succeeded: int
    failed: int
