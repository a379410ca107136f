"""The state of a critical section, its record, and the context of a run's task.

One record per key holds all state. `run` is the granted run: its arguments are fixed, so its task may be delivered
twice. `next` is the run that calls are merged into.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.times import forms
from signalbox.critical_sections.limits import LIMITS

COLLECTION = "critical_sections"
IDLE_SINCE = "idle_since"
"""The field that the store's expiry policy reads. Only an idle section has it."""


LOST = timedelta(seconds=LIMITS.section_lost_seconds)


def path_of(key: str) -> str:
    return f"{COLLECTION}/{key}"


@dataclass(frozen=True, slots=True)
class SectionRun:
    """A run of the critical section `key`, as its task receives it. No other run starts before it has ended.

    `token` grows from run to run and from delivery to delivery, so whatever the section protects can refuse a smaller
    token. Until `ends_at`, by the server's clock, no second delivery of this task runs at the same time.
    """

    key: str
    token: int
    ends_at: datetime


def stable_names(run: SectionRun) -> dict[Any, str]:
    """Return the token and the end of the run's lease, each mapped to a name that is the same in every delivery."""
    return dict.fromkeys((run.token, *forms(run.ends_at)), f"run of {run.key}")


class Phase(Enum):
    """The progress of a granted run at a given time."""

    GRANTED = "no delivery has claimed the run yet"
    CLAIMED = "a delivery holds the run's lease and may be running its code"
    EXPIRED = "the lease has ended: the code failed and will be retried, or the process died"
    LOST = "no delivery has appeared for so long that the task no longer exists"


@dataclass(frozen=True, slots=True)
class NextRun:
    """The run that is not granted yet. `first_at` is the time of its first call, `due_at` its earliest start.

    No call postpones it beyond `latest_at`, which is None if all calls are debounced without a limit.

    `call` is the last call; if `collect` names an argument, that list has the items of all calls.
    """

    call: Call
    collect: str
    lease_seconds: float
    first_at: datetime
    due_at: datetime
    latest_at: datetime | None = None

    def to_record(self) -> dict[str, Any]:
        return _to_record(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(**_with_call(record))


@dataclass(frozen=True, slots=True)
class Run:
    """The granted run. `grant` is the token it was granted under, `token` the latest token issued for it.

    `holder` is the delivery that claimed it last, and `ends_at` the end of that delivery's lease; both are empty until
    the first claim. `resumes` is the operation of its first task, if that task was lost.
    """

    call: Call
    collect: str
    lease_seconds: float
    grant: int
    token: int
    granted_at: datetime
    holder: str = ""
    ends_at: datetime | None = None
    resumes: str = ""

    @property
    def lost_at(self) -> datetime:
        """The time at which its task counts as lost, if no other delivery appears until then."""
        return (self.ends_at or self.granted_at + timedelta(seconds=self.call.delay_seconds)) + LOST

    def lease(self, key: str) -> SectionRun | None:
        """Return the lease of the delivery that claimed this run last, or None before the first claim."""
        return None if self.ends_at is None else SectionRun(key, self.token, self.ends_at)

    def to_record(self) -> dict[str, Any]:
        record = _to_record(self)
        return record if self.resumes else {name: record[name] for name in record if name != "resumes"}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(**_with_call(record))


@dataclass(frozen=True, slots=True)
class Section:
    """The whole state of one key. A key without a record has the default state.

    `token` is the latest fencing token, `alarm_at` the time of the latest wake task, `ids` the hashes of the latest
    calls' ids, each followed by that of its call, oldest first.
    """

    token: int = 0
    run: Run | None = None
    next: NextRun | None = None
    alarm_at: datetime | None = None
    ids: tuple[str, ...] = ()

    @property
    def sweep_at(self) -> datetime | None:
        """The time at which the task of the run, or the wake task of the next run, counts as lost; None if idle."""
        if self.run is not None:
            return self.run.lost_at
        return None if self.next is None else self.next.due_at + LOST

    def to_record(self, now: datetime) -> dict[str, Any]:
        """Return the record's fields. Only the record of an idle section can expire."""
        idle = {IDLE_SINCE: now} if self.run is None and self.next is None else {}
        return {
            "token": self.token,
            "alarm_at": self.alarm_at,
            "ids": list(self.ids),
            "run": None if self.run is None else self.run.to_record(),
            "next": None if self.next is None else self.next.to_record(),
            **given(sweep_at=self.sweep_at),
            **idle,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self:
        if record is None:
            return cls()
        run, next_ = record["run"], record["next"]
        return cls(
            token=record["token"],
            run=None if run is None else Run.from_record(run),
            next=None if next_ is None else NextRun.from_record(next_),
            alarm_at=record["alarm_at"],
            ids=tuple(record["ids"]),
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """The context of a run's task: the run that it performs, and the values that a retry of the failed task needs.

    `resumes` is the operation that the task continues, if an earlier task of the run was lost.
    """

    key: str
    token: int
    ends_at: datetime
    collect: str
    lease_seconds: float
    resumes: str = ""

    def to_context(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return values if self.resumes else {name: values[name] for name in values if name != "resumes"}

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Self:
        """Parse the context of a task's envelope, in which times are RFC 3339 texts."""
        values = {name: context[name] for name in cls.__slots__ if name in context}
        return cls(**(values | {"ends_at": datetime.fromisoformat(context["ends_at"])}))


def _to_record(run: Run | NextRun) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__slots__} | {"call": run.call.to_record()}


def _with_call(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, "call": Call.from_record(record["call"])}
