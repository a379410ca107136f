"""The header of a batch: what it is, its state and its counts.

    batches/{id}                             header: written a few times in a run
    batches/{id}/pages/{incarnation}-{n}     the payloads of up to 100 units, or the seal's end mark after the last page
    batches/{id}/counters/{incarnation}-…    counters and nodes of the tree (`counter_tree.py`)
    batches/{id}/units/{incarnation}-{i}     a unit's outcome; see `batch_run.spread`

States: open ─seal→ sealed ─all units finished→ completed; open and sealed also → cancelled (by a caller, at the
deadline, by too many failures: `reason` says which). An ended batch is removed some days later.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.units import PlacedUnit
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS

REPLACED = "replaced"
"""The reason for which a sub-batch ends that was not sealed before its unit's task returned another."""

OF_PARENT = "parent"
"""The reason for which a sub-batch ends whose parent batch was cancelled."""

State = Literal["open", "sealed", "completed", "cancelled", "removed"]


@dataclass(frozen=True, slots=True)
class Counts:
    """The units of a batch: `size` is all of them; `succeeded` and `failed` are disjoint."""

    size: int
    succeeded: int
    failed: int

    @property
    def remaining(self) -> int:
        """The units without an outcome."""
        return self.size - self.succeeded - self.failed


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """How a batch ends, and its counts then. `missing` names units without an outcome at the deadline."""

    state: Literal["completed", "cancelled"]
    counts: Counts
    reason: str = ""
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header. `pages` and `size` are None until the seal; `succeeded` and `failed` are counted at the end.

    `first_pages` is the number of pages of the creating call, which no other call may load. `due_at` is when the
    sweeper handles the batch next. `parent` is the unit whose work this batch is. At most `concurrency` units run at
    once, through `queues` in turn; None, or none: all, through the queue of `task`.
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

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` returned."""
        stored = {name: value for name, value in record.items() if name != "parent_run"}
        return cls(
            **stored
            | {
                "task": _call(record["task"]),
                "on_complete": _call(record["on_complete"]),
                "missing": tuple(record["missing"]),
                "queues": tuple(record.get("queues", ())),
                "parent": record["parent"] and PlacedUnit.from_record(record["parent"]),
            }
        )

    def to_record(self) -> dict[str, Any]:
        """Return the record's data."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {
            "task": self.task and self.task.to_record(),
            "on_complete": self.on_complete and self.on_complete.to_record(),
            "missing": list(self.missing),
            "queues": list(self.queues),
            "parent": self.parent and self.parent.to_record(),
            "parent_run": self.parent and self.parent.run.key,
        }

    @property
    def ended(self) -> bool:
        return self.state not in {"open", "sealed"}

    @property
    def counts(self) -> Counts:
        """The counts of an ended batch."""
        return Counts(self.size or 0, self.succeeded, self.failed)

    def summary(self) -> dict[str, Any]:
        """Return the state and counts of an ended batch, as its completion task and its callers see them."""
        why = {"reason": self.reason} if self.reason else {}
        missing = {"missing": list(self.missing)} if self.missing else {}
        return {"state": self.state, **asdict(self.counts), **why, **missing}

    # --- transitions ---

    def sealed_at(self, pages: int, size: int, now: datetime) -> Self:
        """Return the header of a batch to which no page can be added."""
        return replace(self, state="sealed", pages=pages, size=size).idle_since(now)

    def idle_since(self, now: datetime) -> Self:
        """Return the header with the time at which the sweeper handles the batch again, if it does not end before."""
        return replace(self, due_at=min(self.deadline_at, now + timedelta(seconds=LIMITS.batch_idle_seconds)))

    def visited_at(self, now: datetime) -> Self:
        """Return the header with the time of the sweeper's next visit, if this one does not end the batch."""
        return replace(self, due_at=now + timedelta(seconds=LIMITS.batch_idle_seconds))

    def ended_with(self, end: BatchEnd, now: datetime) -> Self:
        """Return the header of the batch as it ends."""
        ended = replace(self, state=end.state, reason=end.reason, missing=end.missing, **asdict(end.counts))
        return ended.kept_since(now)

    def kept_since(self, now: datetime) -> Self:
        """Return the header of an ended batch with the time at which it may be removed."""
        return replace(self, due_at=now + timedelta(seconds=LIMITS.batch_keep_seconds))

    def removed_since(self, now: datetime) -> Self:
        """Return the header of a batch that is being removed; a later sweep continues if this one does not finish."""
        return replace(self, state="removed").visited_at(now)

    def deadline_effects(self, run: BatchRun, deadline_seconds: float) -> tuple[Effect, ...]:
        """Return the task of a deadline that is nearer than the default; the sweeper is enough for the others."""
        if deadline_seconds >= LIMITS.batch_deadline_seconds:
            return ()
        return (replace(run.effect_for("deadline"), not_before=self.deadline_at),)

    def end_effects(self, run: BatchRun, now: datetime) -> tuple[Effect, ...]:
        """Return the tasks that follow the end of a batch: its `on_complete`, and completing its parent's unit.

        If it was cancelled, its sub-batches are: that alone follows the end of a sub-batch that another replaces.
        """
        effects = [run.effect_for("cancel", "", after="")] if self.state == "cancelled" else []
        if self.reason == REPLACED:
            return tuple(effects)
        if self.on_complete is not None:
            completion = {"id": run.batch, **self.summary()}
            effects.append(self.on_complete.effect(run.task_name("complete"), now, batch=completion))
        if self.parent is not None:
            effects.append(run.effect_for("child", unit=self.parent.to_record()))
        return tuple(effects)


def _call(record: Mapping[str, Any] | None) -> Call | None:
    return None if record is None else Call.from_record(record)


def header_of(record: Mapping[str, Any] | None) -> Header | None:
    """Return the header of a batch that exists: None without a record, and while the batch is being removed."""
    header = None if record is None else Header.from_record(record)
    return header if header and header.state != "removed" else None


def header_of_run(record: Mapping[str, Any] | None, run: BatchRun) -> Header | None:
    """Return the header if it belongs to this run: None for another incarnation too."""
    header = header_of(record)
    return header if header and header.incarnation == run.incarnation else None
