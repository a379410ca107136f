"""A call of a user's task: what runs when a permit is granted, for each unit of a batch, or when a batch is complete.

As JSON it is ``{"function", "task", "payload", "queue"?, "delay_seconds"?}``. It names a function of the catalogue and
never an address, so nobody can make the kit call anything else. The task is then POSTed to ``/tasks/{task}`` of that
function, with the lease, the unit or the batch that it runs for *beside* its payload.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadCall, TooLarge
from shared.core.rules.times import rfc3339

QUEUE_DEFAULT = "tasks"

_FUNCTION = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TASK = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_QUEUE = re.compile(r"[a-z][a-z0-9-]{0,62}")
_FIELDS = frozenset({"function", "task", "payload", "queue", "delay_seconds"})


@dataclass(frozen=True, slots=True)
class Call:
    """`function` of the catalogue runs its `task` with `payload`, through `queue`, `delay_seconds` after it is due."""

    function: str
    task: str
    payload: Mapping[str, Any]
    queue: str = QUEUE_DEFAULT
    delay_seconds: float = 0

    @classmethod
    def parse(cls, value: Any, field: str) -> Self:
        """Read a call out of a request; `field` is where it stood. Raises `BadCall` or `TooLarge` naming the place."""
        fields = _object(value, field)
        unknown = sorted(fields.keys() - _FIELDS)
        if unknown:
            raise BadCall(f"Unknown: {', '.join(unknown)}. Known: {', '.join(sorted(_FIELDS))}.", field=field)
        return cls(
            function=_name(fields, "function", _FUNCTION, field),
            task=_name(fields, "task", _TASK, field),
            payload=_payload(fields.get("payload", {}), f"{field}.payload"),
            queue=_name({"queue": QUEUE_DEFAULT} | fields, "queue", _QUEUE, field),
            delay_seconds=_delay(fields.get("delay_seconds", 0), f"{field}.delay_seconds"),
        )

    def after(self, delay_seconds: float) -> Self:
        """Give the same call for so many seconds after it is due."""
        return replace(self, delay_seconds=_delay(delay_seconds, "delay_seconds"))

    def record(self) -> dict[str, Any]:
        """Give the call as a record holds it: its payload as text, so that any JSON fits."""
        return {
            "function": self.function,
            "task": self.task,
            "payload": json.dumps(self.payload),
            "queue": self.queue,
            "delay_seconds": self.delay_seconds,
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `record` gave."""
        return cls(**{**record, "payload": json.loads(record["payload"])})

    def effect(self, name: str, now: datetime, **context: Any) -> Effect:
        """Ask for this call as the task `name`; `beside` is its ``lease``, ``unit`` or ``batch``, times and all."""
        return Effect(
            name=name,
            queue=self.queue,
            function=self.function,
            task=self.task,
            payload=self.payload,
            path=f"/tasks/{self.task}",
            not_before=now + timedelta(seconds=self.delay_seconds) if self.delay_seconds else None,
            context=_as_json(context),
        )


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    return value


def _object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadCall('A call is {"function", "task", "payload", "queue"?, "delay_seconds"?}.', field=field)
    return value


def _name(fields: Mapping[str, Any], part: str, pattern: re.Pattern[str], field: str) -> str:
    name = fields.get(part)
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise BadCall(f"Give the name of a {part}, spelled {pattern.pattern}.", field=f"{field}.{part}")
    return name


def _payload(value: Any, field: str) -> dict[str, Any]:
    payload = _object(value, field)
    size_bytes = len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    if size_bytes > LIMITS.task_bytes_max:
        raise TooLarge(f"A payload may have {LIMITS.task_bytes_max:,} bytes; this has {size_bytes:,}.", field=field)
    return payload


def _delay(value: Any, field: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value <= LIMITS.delay_seconds_max:
        raise BadCall(f"Give seconds from 0 to {LIMITS.delay_seconds_max:,}.", field=field)
    return float(value)
