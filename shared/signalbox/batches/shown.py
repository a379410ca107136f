"""The answers about batches and their units."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.headers import BatchStatus, Header, ShownState, then_id
from signalbox.batches.model.large_values import stored_result
from signalbox.batches.model.units import UnitRecord
from signalbox.core.error_notes import without_last_error
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described, Range
from signalbox.core.surface.shown import RetriedTaskShown, TaskShown
from signalbox.payloads.model import shown

Count = Annotated[int, Range(0)]
Reason = Annotated[
    str,
    Described(
        {"description": "Why it was cancelled: `cancelled`, `deadline`, `failures`; a sub-batch: `parent`, `replaced`."}
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShown:
    """The state and counts of the batch."""

    id: str

    state: ShownState

    task: TaskShown | None = None
    """The task that executes each unit; absent if units are completed from outside."""

    size: Count

    succeeded: Count

    failed: Count

    remaining: Count
    """Units without an outcome."""

    pages: Annotated[int | None, Range(0)]

    reason: Reason = ""

    missing: tuple[Count, ...] = ()
    """Units without an outcome at the deadline."""

    then: str = ""
    """The id of the batch that follows, which exists once this one has succeeded."""

    last_error: RetriedTaskShown | None = None
    """The last error of a unit that is being retried, while the batch runs. In the answer to a GET only."""

    @classmethod
    def of(cls, status: BatchStatus, last_error: RetriedTaskShown | None = None) -> Self:
        assert status.state != "removed", "a batch that is being removed is not found"
        return cls(
            id=status.id,
            state=status.state,
            task=TaskShown.of(status.task) if status.task else None,
            size=status.counts.size,
            succeeded=status.counts.succeeded,
            failed=status.counts.failed,
            remaining=status.counts.remaining,
            pages=status.pages,
            reason=status.reason,
            missing=status.missing,
            then=status.then,
            last_error=last_error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBatchShown:
    """A batch in a list. It has the counts once the batch has ended, and `size` once it is sealed."""

    id: str

    state: ShownState

    size: Annotated[int | None, Range(0)] = None

    succeeded: Annotated[int | None, Range(0)] = None

    failed: Annotated[int | None, Range(0)] = None

    reason: Reason = ""

    missing: tuple[Count, ...] = ()
    """Units without an outcome at the deadline."""

    remaining: Annotated[int | None, Range(0)] = None
    """Units without an outcome."""

    pages: Annotated[int | None, Range(0)]

    deadline_at: datetime

    task: TaskShown | None = None

    then: str = ""
    """The id of the batch that follows, which exists once this one has succeeded."""

    @classmethod
    def of(cls, batch: str, header: Header) -> Self:
        """Return a batch from its header, which has the counts of units once the batch has ended."""
        assert header.state != "removed", "a batch that is being removed is not found"
        counts = header.counts if header.ended else None
        task = header.settings.task
        return cls(
            id=batch,
            state=header.state,
            size=counts.size if counts else header.size,
            succeeded=counts.succeeded if counts else None,
            failed=counts.failed if counts else None,
            reason=header.reason,
            missing=header.missing,
            remaining=counts.remaining if counts else None,
            pages=header.pages,
            deadline_at=header.deadline_at,
            task=TaskShown.of(task) if task else None,
            then=then_id(batch, header),
        )


@dataclass(frozen=True, slots=True)
class BatchesShown:
    """One page, the last if it has no `next_page_token`; it may hold fewer than `limit`."""

    batches: Annotated[tuple[ListedBatchShown, ...], Described({"maxItems": LIMITS.batches_listed_max})]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class LoadedUnitsShown:
    """The page is loaded, or the pages of the lines."""

    id: str

    page: Count
    """The number of the page. Of lines, the number that follows their pages."""

    units: Count
    """The number of units of the call."""


@dataclass(frozen=True, slots=True)
class SucceededUnitShown:
    """A unit that succeeded, with its result."""

    index: Count
    attempt: Count
    state: Literal["succeeded"]

    result: Any
    """Any JSON. A large one is `{"$payload": {"bytes", "sha256"}}`."""


@dataclass(frozen=True, slots=True)
class FailedUnitShown:
    """A unit that failed, with its error."""

    index: Count
    attempt: Count
    state: Literal["failed"]
    error: str


UnitShown = SucceededUnitShown | FailedUnitShown


def unit_shown(record: UnitRecord, *, is_open: bool = False) -> UnitShown:
    """Return a unit with its outcome. An open function shows no text of an exception."""
    unit, outcome = record.unit, record.outcome
    if outcome.state == "failed":
        error = without_last_error(outcome.text) if is_open else outcome.text
        return FailedUnitShown(unit.index, unit.attempt, outcome.state, error)
    return SucceededUnitShown(unit.index, unit.attempt, outcome.state, shown(stored_result(outcome)))


@dataclass(frozen=True, slots=True)
class UnitsShown:
    """One page; without `next_page_token` it is the last."""

    units: Annotated[tuple[UnitShown, ...], Described({"maxItems": LIMITS.units_listed_max})]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class RetriedUnitsShown:
    """The retries are enqueued."""

    id: str


@dataclass(frozen=True, slots=True)
class CompletedUnitShown:
    """The outcome is recorded."""

    id: str
    index: Count


@dataclass(frozen=True, slots=True)
class BatchEventShown:
    """An event of the stream. Only its last id is sent in quiet times."""

    event: Literal["unit", "progress", "complete"] | None = None
    id: str = ""
    data: str = ""
    """JSON."""
