"""A call to enqueue: now or later, and once for an id.

A queue accepts a name once, but only until a few hours after its task has run. So a call that is enqueued under an id,
or by a task that may be delivered again, leaves a receipt for as long as the call may be repeated.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from signalbox.core.calls import Call
from signalbox.core.effects import Effect, name_of
from signalbox.core.idempotency_keys import call_without_leases
from signalbox.core.keys import check_key
from signalbox.core.kit_names import BACKFILL, SCHEDULED
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import value_bytes_max
from signalbox.core.problems import BadCall, OtherBody
from signalbox.core.surface.field_rules import KEY, accepted_fields
from signalbox.core.surface.request_fields import RequestFields
from signalbox.core.times import rfc3339
from signalbox.payloads.model import is_large

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

_CALL = accepted_fields(Call)


@dataclass(frozen=True, slots=True)
class EnqueuedCall(Call):
    """A task of a user's function to enqueue: the body of a `POST`."""

    at: datetime | None = None
    """When to run it, at most 29 days ahead; in place of `delay_seconds`."""

    id: Annotated[str | None, KEY] = None
    """Identifies a repeated call. Without one, it is the `Idempotency-Key`, if there is one."""

    scheduled_at: datetime | None = None
    """The planned time that the task reads as `TaskContext.scheduled_at`."""

    schedule: Annotated[str | None, KEY] = None
    """The schedule that has missed `scheduled_at`, a time that is over. The same call is enqueued once for this time,
    whichever of its schedule and its callers is first, in 32 days. The schedule may have had another name."""


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """A call to enqueue: at the time `at`, if given, and once for an `id`, if given. Raises `BadCall` or `BadKey`.

    - `by_schedule`: the id is the name and time of a schedule. No id of a caller can take its place.
    - `scheduled_at`: the planned time of a task that a schedule enqueues.
    - `is_backfill`: the id is the name and a time of a schedule, and a caller enqueues the task in place of the
      schedule.
    - `by_event`: the id is derived from an event of a document. No id of a caller can take its place.
    """

    call: Call
    id: str = ""
    at: datetime | None = None
    by_schedule: bool = False
    scheduled_at: datetime | None = None
    is_backfill: bool = False
    by_event: bool = False

    def __post_init__(self) -> None:
        if self.id:
            check_key(self.id)
        if self.at is not None and self.call.delay_seconds:
            raise BadCall("Give `at` or `delay_seconds`, not both.", field="at")
        if self.at is not None and self.at.tzinfo is None:
            raise BadCall("`at` must have a time zone: 2026-01-31T12:00:00Z.", field="at")

    @classmethod
    def from_request(cls, body: Mapping[str, Any], id_: str = "", schedule: str = "") -> Self:
        """Parse the body of a `POST`; `id_` is used if the body has no id. If a schedule calls, the id is `schedule`.

        Raises `BadCall`, `BadKey` or `TooLarge`.
        """
        fields = RequestFields(body, BadCall).only(*accepted_fields(EnqueuedCall))
        given = {name: value for name, value in body.items() if name in _CALL}
        own_id, at = fields.text("id", None), _time(fields.text("at", None), "at")
        planned, of = _time(fields.text("scheduled_at", None), "scheduled_at"), fields.text("schedule", None)
        chosen, call = id_ if own_id is None else check_key(own_id), _call_of(given)
        if schedule:
            return cls(call, schedule, at, by_schedule=True, scheduled_at=_planned(schedule))
        if of is None:
            return cls(call, chosen, at, scheduled_at=planned)
        if planned is None or own_id is not None:
            raise BadCall("Give `schedule` together with `scheduled_at`, and without an `id`.", field="schedule")
        return cls(call, scheduled(check_key(of), planned), at, scheduled_at=planned, is_backfill=True)

    @property
    def name(self) -> str:
        """The name of the task that is enqueued under the id: its operation.

        For a planned time it follows from the call and the time, so that a renamed schedule has the same one.
        """
        if self.is_planned and self.scheduled_at:
            return name_of("schedule", self.digest, rfc3339(self.scheduled_at))
        return name_of("schedule" if self.by_schedule else "event" if self.by_event else "enqueue", self.id)

    @property
    def is_planned(self) -> bool:
        """Whether the call is that of a planned time, by the schedule or in its place."""
        return self.by_schedule or self.is_backfill

    def check_is_over(self, now: datetime) -> None:
        """Raise `BadCall` if a caller takes a time of a schedule that is not over: the schedule would be left out."""
        if self.is_backfill and self.scheduled_at and self.scheduled_at > now:
            raise BadCall("`scheduled_at` must be a time that is over, with `schedule`.", field="scheduled_at")

    @property
    def is_later(self) -> bool:
        """Whether the task's time must be computed."""
        return self.at is not None or bool(self.call.delay_seconds)

    @property
    def is_large(self) -> bool:
        """Whether the call has arguments that do not fit into a task, so that payloads are stored for it."""
        return is_large(self.call.payload)

    @property
    def digest(self) -> str:
        """The hash of the call by which a repeat is recognised: the same in every delivery of the task that calls."""
        return call_without_leases(self.call).digest

    def check_repeated(self, receipt: Mapping[str, Any]) -> None:
        """Raise `OtherBody` if the receipt under the id is of another call."""
        if receipt["digest"] != self.digest:
            raise OtherBody(f"Another task was enqueued under the id {self.id!r}: choose another id.", field="id")

    def effect(self, name: str, now: datetime) -> Effect:
        """Return the task. `now` is used only for a later time. Raises `BadCall` for a time too far ahead."""
        planned: dict[str, Any] = {SCHEDULED: self.scheduled_at} if self.scheduled_at else {}
        planned |= {BACKFILL: True} if self.is_backfill else {}
        if self.at is None:
            return self.call.effect(name, now, **planned)
        seconds = (self.at - now).total_seconds()
        if seconds > CORE_LIMITS.delay_seconds_max:
            raise BadCall(f"`at` must be at most {CORE_LIMITS.delay_seconds_max:,} seconds ahead.", field="at")
        return replace(self.call.effect(name, now, **planned), not_before=self.at if seconds > 0 else None)


def scheduled(schedule: str, at: datetime) -> str:
    """Return the id of a time of a schedule."""
    return f"{schedule} {rfc3339(at)}"


def _call_of(given: Mapping[str, Any]) -> Call:
    return Call.from_request(given, bytes_max=value_bytes_max(CORE_LIMITS.task_bytes_max))


def _planned(schedule: str) -> datetime | None:
    """Return the time in the id of a time of a schedule, if it has one."""
    try:
        return datetime.fromisoformat(schedule.rpartition(" ")[2])
    except ValueError:
        return None


def _time(text: str | None, field: str) -> datetime | None:
    if text is None:
        return None
    problem = BadCall(f"`{field}` must be a time of RFC 3339, with its zone: 2026-01-31T12:00:00Z.", field=field)
    if not _RFC_3339.fullmatch(text):
        raise problem
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise problem from error
