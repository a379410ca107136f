"""A call to enqueue: now or later, and once for an id.

A queue takes a name once, but only until some hours after its task ran. So what was enqueued under an id, or by a task
that may be delivered again, leaves a receipt, for as long as such a call may be repeated.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.keys import check_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadCall, OtherBody
from shared.core.rules.request_fields import RequestFields

COLLECTION = "receipts"

_CALL = ("function", "task", "payload", "queue", "delay_seconds")


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """A call, at a time if that is given, and once for an `id` if that is. Raises `BadCall` or `BadKey`."""

    call: Call
    id: str = ""
    at: datetime | None = None

    def __post_init__(self) -> None:
        if self.id:
            check_key(self.id)
        if self.at is not None and self.call.delay_seconds:
            raise BadCall("Give `at` or `delay_seconds`, not both.", field="at")
        if self.at is not None and self.at.tzinfo is None:
            raise BadCall("`at` must have a time zone: 2026-01-31T12:00:00Z.", field="at")

    @classmethod
    def from_request(cls, body: Mapping[str, Any], id_: str = "") -> Self:
        """Parse the body of a `POST`; `id_` is its id if it has none. Raises `BadCall`, `BadKey` or `TooLarge`."""
        fields = RequestFields(body, BadCall).only(*_CALL, "at", "id")
        given = {name: value for name, value in body.items() if name in _CALL and value is not None}
        return cls(Call.from_request(given), fields.text("id", id_), _time(fields.text("at", None)))

    @property
    def name(self) -> str:
        """Return the name of the task that is enqueued under the id: its operation."""
        return name_of("enqueue", self.id)

    @property
    def is_later(self) -> bool:
        """Return whether the task's time must be computed."""
        return self.at is not None or bool(self.call.delay_seconds)

    @property
    def digest(self) -> str:
        """Return a hash of the call: what a repeat under the same id must have in common."""
        content = [self.call.function, self.call.task, self.call.payload, self.call.queue]
        return name_of(json.dumps(content, sort_keys=True))

    def check_repeated(self, receipt: Mapping[str, Any]) -> None:
        """Raise `OtherBody` if the receipt of the id is that of another call."""
        if receipt["digest"] != self.digest:
            raise OtherBody(f"Another task was enqueued under the id {self.id!r}: choose another id.", field="id")

    def effect(self, name: str, now: datetime) -> Effect:
        """Return the task. `now` matters only if it is later. Raises `BadCall` for a time too far ahead."""
        if self.at is None:
            return self.call.effect(name, now)
        seconds = (self.at - now).total_seconds()
        if seconds > LIMITS.delay_seconds_max:
            raise BadCall(f"`at` must be at most {LIMITS.delay_seconds_max:,} seconds ahead.", field="at")
        return replace(self.call.effect(name, now), not_before=self.at if seconds > 0 else None)


def receipt_path(name: str) -> str:
    """Return the path of the receipt of a task."""
    return f"{COLLECTION}/{name}"


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadCall("`at` must be a time of RFC 3339: 2026-01-31T12:00:00Z.", field="at") from error
