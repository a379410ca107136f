"""What callers may ask of a semaphore, checked: each refusal names the field and what to send instead."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules.calls import Call
from shared.core.rules.keys import valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, BadQuery, BadSemaphore
from shared.semaphores.rules.leases import parse_lease

_WAIT_FIELDS = (
    "id",
    "continuation",
    "lease_seconds",
    "permits",
    "deadline_seconds",
    "on_timeout",
    "release_on_return",
)
_LIMITS = ("permits", "lease_seconds", "delete_after_seconds")


@dataclass(frozen=True, slots=True)
class Limits:
    """What is set of a semaphore. `PATCH` gives some of the fields, `PUT` must give the first two."""

    permits: int
    lease_seconds: float
    delete_after_seconds: float | None = None

    @classmethod
    def parse(cls, body: Mapping[str, Any], before: Self | None = None) -> Self:
        """Read limits; what the body does not name stays as `before`. Raises `BadSemaphore`."""
        only_known(body, _LIMITS)
        given = {name: getattr(before, name) for name in _LIMITS} if before else {}
        given |= body
        for name in ("permits", "lease_seconds"):
            if name not in given:
                raise BadSemaphore(f"Say {name}.", field=name)
        return cls(
            permits=whole("permits", given["permits"], LIMITS.permits_max),
            lease_seconds=seconds("lease_seconds", given["lease_seconds"], LIMITS.lease_seconds_max),
            delete_after_seconds=optional_seconds(given, "delete_after_seconds", LIMITS.delete_after_seconds_max),
        )


@dataclass(frozen=True, slots=True)
class Wish:
    """A wait as it is asked for. Without a continuation it is answered at once: a lease or none."""

    id: str
    continuation: Call | None = None
    lease_seconds: float | None = None
    permits: int = 1
    deadline_seconds: float | None = None
    on_timeout: Call | None = None
    release_on_return: bool = False

    @classmethod
    def parse(cls, body: Mapping[str, Any], id_: str) -> Self:
        """Read a wait; `id_` is its id where the body names none. Raises `BadSemaphore`, `BadCall` or `TooLarge`."""
        only_known(body, _WAIT_FIELDS)
        wish = cls(
            id=check_wait_id(body.get("id", id_)),
            continuation=_call(body, "continuation"),
            lease_seconds=optional_seconds(body, "lease_seconds", LIMITS.lease_seconds_max),
            permits=whole("permits", body.get("permits", 1), LIMITS.permits_max),
            deadline_seconds=optional_seconds(body, "deadline_seconds", LIMITS.deadline_seconds_max),
            on_timeout=_call(body, "on_timeout"),
            release_on_return=_flag(body, "release_on_return"),
        )
        if wish.continuation is None and (
            wish.deadline_seconds is not None or wish.on_timeout or wish.release_on_return
        ):
            raise BadSemaphore("Only a wait with a continuation has this.", field="continuation")
        return wish


def parse_signal(body: Mapping[str, Any]) -> str:
    """Read which lease to signal. Raises `BadSemaphore`."""
    only_known(body, ("lease",))
    parse_lease(body.get("lease"))
    return str(body["lease"])


def parse_renewal(body: Mapping[str, Any]) -> tuple[str, float | None]:
    """Read which lease to renew, and for how long. Raises `BadSemaphore`."""
    only_known(body, ("lease", "lease_seconds"))
    lease = parse_signal({"lease": body.get("lease")})
    return lease, optional_seconds(body, "lease_seconds", LIMITS.lease_seconds_max)


def parse_listing(query: Mapping[str, str]) -> None:
    """Check what a list of semaphores is asked with. Raises `BadQuery`."""
    if dict(query) != {"waiting": "true"}:
        raise BadQuery("Ask for the semaphores that somebody waits for: waiting=true.", field="waiting")


def check_name(name: str) -> str:
    """Give a semaphore's name back, or raise `BadKey`."""
    if not valid_key(name) or len(name.encode()) > LIMITS.semaphore_name_bytes_max:
        raise BadKey(f"No semaphore has this name; take up to {LIMITS.semaphore_name_bytes_max:,} bytes.", field="name")
    return name


def check_wait_id(id_: Any) -> str:
    """Give a wait's id back, or raise `BadSemaphore`."""
    if not isinstance(id_, str) or not valid_key(id_) or len(id_.encode()) > LIMITS.wait_id_bytes_max:
        raise BadSemaphore(f"An id is a text of 1 to {LIMITS.wait_id_bytes_max} bytes, without '/'.", field="id")
    return id_


def only_known(body: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise `BadSemaphore` if the body has other fields."""
    unknown = sorted(body.keys() - set(known))
    if unknown:
        raise BadSemaphore(f"Unknown: {', '.join(unknown)}. Known: {', '.join(known)}.", field=unknown[0])


def whole(field: str, value: Any, most: int) -> int:
    """Read a whole number from 1 on. Raises `BadSemaphore`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadSemaphore(f"Give a whole number from 1 to {most:,}.", field=field)
    return value


def seconds(field: str, value: Any, most: float) -> float:
    """Read a length of time. Raises `BadSemaphore`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 < value <= most:
        raise BadSemaphore(f"Give seconds: more than 0, at most {most:,}.", field=field)
    return value if isinstance(value, float) else float(value)


def optional_seconds(body: Mapping[str, Any], field: str, most: float) -> float | None:
    """Read a length of time that may be left out, or be null."""
    return None if body.get(field) is None else seconds(field, body[field], most)


def _call(body: Mapping[str, Any], field: str) -> Call | None:
    return None if body.get(field) is None else Call.from_request(body[field], field)


def _flag(body: Mapping[str, Any], field: str) -> bool:
    value = body.get(field, False)
    if not isinstance(value, bool):
        raise BadSemaphore("Say true or false.", field=field)
    return value
