"""A rate's record, and the records of its waits.

    rates/{name}                    settings, the time at which the bucket is full, the alarm, receipts of acquires
    rates/{name}/rate_waits/{id}    a wait with its continuation; when it has ended, the receipt for repeats

The bucket is stored as one time, `full_at`, in microseconds since 1970: the time when all permits are free again.
Reading it rounds nothing, so the part of a permit that has come back is never lost.
"""

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.surface.field_rules import Checked, Range, RequestBody, Text, unchecked
from signalbox.rates.limits import LIMITS
from signalbox.rates.problems import BadRate

COLLECTION = "rates"
WAITS = "rate_waits"

State = Literal["waiting", "granted", "cancelled"]


def path_of(name: str) -> str:
    return f"{COLLECTION}/{name}"


def waits_of(name: str) -> str:
    return f"{path_of(name)}/{WAITS}"


def wait_path(name: str, id_: str) -> str:
    return f"{waits_of(name)}/{id_}"


def check_per_minute(value: Any) -> float:
    """Return the permits that come back in a minute, as a float, or raise `BadRate`."""
    is_number = type(value) in (int, float) and math.isfinite(value)
    if not is_number or not LIMITS.per_minute_min <= value <= LIMITS.per_minute_max:
        least, most = "1/1440 (a permit a day)", f"{LIMITS.per_minute_max:,}"
        raise BadRate(f"`per_minute` must be a number from {least} to {most}.", field="per_minute")
    return float(value)


PER_MINUTE = Checked(check_per_minute, {"minimum": LIMITS.per_minute_min, "maximum": LIMITS.per_minute_max})


@dataclass(frozen=True, slots=True)
class RateSettings(RequestBody):
    """The settings of a rate."""

    problem = BadRate

    per_minute: Annotated[float, PER_MINUTE]
    """The permits that come back in a minute."""

    burst: Annotated[int, Range(1, lambda: CORE_LIMITS.burst_max)] = 1
    """The most permits that can be granted at once."""

    description: Annotated[str, Text(lambda: LIMITS.rate_description_characters_max)] = ""
    """The purpose of the rate, for the people who operate it."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the settings in a rate's record, which were checked before they were stored."""
        limits = {name: record[name] for name in ("per_minute", "burst")}
        return unchecked(cls, limits | {"description": record.get("description", "")})

    def to_record(self) -> dict[str, Any]:
        """Return the fields for the rate's record, without a description that is empty."""
        limits = {"per_minute": self.per_minute, "burst": self.burst}
        return limits | given(description=self.description or None)


@dataclass(frozen=True, slots=True)
class Receipt:
    """An acquire of `weight` permits that was granted `at` a time: a repeat of its `id` takes nothing."""

    id: str
    at: datetime
    weight: int = 1

    def to_record(self) -> dict[str, Any]:
        return {"id": self.id, "at": self.at} | ({} if self.weight == 1 else {"weight": self.weight})


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate: its limits, and the permits in use.

    `full_at` is in microseconds since 1970. `alarm_at` is the time of the next admit run, if waits are left. `recent`
    are the receipts of the last acquires. While the rate is paused, since `paused_at`, it grants nothing. `sweep_at` is
    the time of the sweeper's next visit: a little after the alarm, and at the latest after an hour.
    """

    settings: RateSettings
    full_at: int = 0
    alarm_at: datetime | None = None
    recent: tuple[Receipt, ...] = ()
    paused_at: datetime | None = None
    sweep_at: datetime | None = None

    def __post_init__(self) -> None:
        assert self.paused_at is None or self.alarm_at is None, "a paused rate has no admit run to wait for"
        assert self.settings.per_minute > 0, "permits come back"
        assert self.settings.burst >= 1, "a permit can be granted"

    def to_record(self) -> dict[str, Any]:
        own = {"full_at": self.full_at, "recent": [each.to_record() for each in self.recent]}
        times = given(alarm_at=self.alarm_at, sweep_at=self.sweep_at, paused_at=self.paused_at)
        return {**self.settings.to_record(), **own, **times}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        recent = tuple(Receipt(**each) for each in record["recent"])
        times = record.get("alarm_at"), recent, record.get("paused_at"), record.get("sweep_at")
        return cls(RateSettings.from_record(record), record["full_at"], *times)


@dataclass(frozen=True, slots=True)
class RateWait:
    """A wait for `weight` permits, whose continuation is enqueued when they are granted.

    - `incarnation`: the create time, in microseconds, of the rate it waits for. A later rate of the same name never
      grants it.
    - `created_at`, `version`: the create and update time of its record.
    - `since`: its place in a query.
    - `unit`: the JSON of the unit of a batch that waits, if one does; of a group of units, with the member `group`.
    - `batch`: the key of the run of that unit's batch.
    """

    id: str
    incarnation: int
    continuation: Call
    weight: int = 1
    state: State = "waiting"
    granted_at: datetime | None = None
    since: datetime | None = None
    created_at: datetime | None = None
    version: datetime | None = None
    unit: str = ""
    batch: str = ""

    @property
    def is_of_group(self) -> bool:
        """Whether a group of units waits."""
        return self.unit.startswith('{"group": ')

    def to_record(self) -> dict[str, Any]:
        """Return the fields that a wait begins with."""
        of_unit = {"unit": self.unit, "batch": self.batch} if self.unit else {}
        return of_unit | {
            "incarnation": self.incarnation,
            "continuation": self.continuation.to_record(),
            "weight": self.weight,
            "state": self.state,
        }

    @classmethod
    def from_record(
        cls, id_: str, record: Mapping[str, Any], created_at: datetime | None, version: datetime | None
    ) -> Self:
        call = Call.from_record(record["continuation"])
        times = record.get("granted_at"), record.get("since"), created_at, version
        unit = record.get("unit", ""), record.get("batch", "")
        return cls(id_, record["incarnation"], call, record["weight"], record["state"], *times, *unit)


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """The answer to a wait. `due`: the wait was granted, and the time of the grant has come.

    `lost` has the tasks of a unit whose wait was granted before: these tasks may have been lost. `repeated`: the wait
    existed before this call.
    """

    id: str
    state: State
    due: bool = False
    lost: tuple[Effect, ...] = ()
    repeated: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Acquired:
    """The answer to an acquire; true if the permits were granted.

    If not, the permits may be free in `retry_after_seconds`. While the rate is `paused`, that is only the time to
    retry.
    """

    granted: bool
    retry_after_seconds: float = 0.0
    paused: bool = False

    def __bool__(self) -> bool:
        return self.granted


@dataclass(frozen=True, slots=True)
class RateView:
    """A rate at a time, and the number of its waits, if the waits were counted."""

    name: str
    rate: Rate
    now: datetime
    waiting: int | None = None


def seconds_between(begin: datetime, end: datetime) -> float:
    """Return the seconds from one time to another."""
    return (end - begin) / timedelta(seconds=1)
