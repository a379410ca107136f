"""The state of a critical section, and its record: the run that was granted, and the one that is due next."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from shared.core.rules.calls import Call

COLLECTION = "critical_sections"
IDLE_SINCE = "idle_since"


def path_of(key: str) -> str:
    """Return the path of a critical section's record."""
    return f"{COLLECTION}/{key}"


@dataclass(frozen=True, slots=True)
class NextRun:
    """The run that is due next: the last call, or what all calls collected, and when it may begin."""

    call: Call
    collect: str
    lease_seconds: float
    first_at: datetime
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """The run that was granted under the token `grant`; `token` is the one valid now, of the delivery `holder`.

    `ends_at` is the end of the holder's lease, None before the first claim.
    """

    call: Call
    collect: str
    lease_seconds: float
    grant: int
    token: int
    granted_at: datetime
    holder: str = ""
    ends_at: datetime | None = None

    def is_held(self, now: datetime) -> bool:
        """Return whether a delivery may be running it."""
        return self.ends_at is not None and now < self.ends_at


@dataclass(frozen=True, slots=True)
class Section:
    """All of a key's state. `token` is the latest; `alarm_at` is when the wake task is due that exists, if any does.

    `ids` are those of the last calls.
    """

    token: int = 0
    run: Run | None = None
    next: NextRun | None = None
    alarm_at: datetime | None = None
    ids: tuple[str, ...] = ()

    def to_record(self, now: datetime) -> dict[str, Any]:
        """Return the fields of its record. It expires only while nothing runs and nothing is due."""
        idle = {IDLE_SINCE: now} if self.run is None and self.next is None else {}
        parts = {"run": run_record(self.run), "next": run_record(self.next)}
        return {"token": self.token, "alarm_at": self.alarm_at, "ids": list(self.ids)} | parts | idle

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self:
        """Read a record; None is a key that nobody has called."""
        if record is None:
            return cls()
        run, next_ = record["run"], record["next"]
        return cls(
            record["token"],
            None if run is None else Run(**_with_call(run)),
            None if next_ is None else NextRun(**_with_call(next_)),
            record["alarm_at"],
            tuple(record["ids"]),
        )

    def to_json(self, key: str) -> dict[str, Any]:
        """Return the section as `GET` shows it."""
        shown: dict[str, Any] = {"key": key}
        if self.run:
            times = {"granted_at": self.run.granted_at, "ends_at": self.run.ends_at}
            shown["running"] = self.run.call.shown() | {"token": self.run.token} | _given(times)
        if self.next:
            shown["next"] = self.next.call.shown() | {"called_at": self.next.first_at, "due_at": self.next.due_at}
        return shown


def run_record(run: Run | NextRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {name: getattr(run, name) for name in run.__slots__} | {"call": run.call.to_record()}


def _with_call(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, "call": Call.from_record(record["call"])}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
