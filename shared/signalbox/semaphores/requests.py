"""The requests that HTTP and Python callers both build, checked when they are made.

A request that is not allowed raises `BadSemaphore` with the field that is wrong and its allowed values.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, fields
from typing import Annotated, Any, Self, get_args

from signalbox.core.calls import Call
from signalbox.core.keys import IdSpace, valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.surface.field_rules import (
    KIT_ONLY,
    MAY_BE_ABSENT,
    Checked,
    Name,
    Range,
    RequestBody,
    Seconds,
    key_schema,
    parsed,
    unchecked,
)
from signalbox.core.surface.paging import Listing
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.leases import LEASE_ID
from signalbox.semaphores.model.priorities import PRIORITY, Priority
from signalbox.semaphores.problems import BadSemaphore

_SURROGATE = re.compile("[\ud800-\udfff]")


def _check_holder(holder: Any) -> str:
    if not isinstance(holder, str):
        raise BadSemaphore("`holder` must be a string.", field="holder")
    if len(holder.encode("utf-8", "surrogatepass")) > LIMITS.wait_id_bytes_max or _SURROGATE.search(holder):
        raise BadSemaphore(f"`holder` has at most {LIMITS.wait_id_bytes_max} bytes of UTF-8.", field="holder")
    return holder


def check_lane_key(key: Any) -> str:
    """Return the key that a wait names for its lane, or raise `BadSemaphore`."""
    if not valid_key(key) or len(key.encode()) > LIMITS.wait_id_bytes_max:
        size = f"1 to {LIMITS.wait_id_bytes_max} bytes of UTF-8"
        raise BadSemaphore(
            f"`key` must have {size}, without '/' and control characters, and not be '.', '..' or '__…__'.", field="key"
        )
    return str(key)


def check_priority(priority: Any) -> Any:
    """Return a priority or None, or raise `BadSemaphore`."""
    if priority is not None and priority not in get_args(Priority):
        raise BadSemaphore("`priority` must be `high`, `normal` or `low`.", field="priority")
    return priority


WAIT_IDS = IdSpace("wait")


def check_wait_id(id_: Any) -> str:
    """Return a wait's id, or raise `BadSemaphore`."""
    if not isinstance(id_, str) or not valid_key(id_) or len(id_.encode()) > LIMITS.wait_id_bytes_max:
        raise BadSemaphore(f"`id` must be a key of 1 to {LIMITS.wait_id_bytes_max} bytes, without '/'.", field="id")
    return id_


def _priority_or_normal(priority: Any) -> Any:
    return check_priority(priority) or "normal"


SEMAPHORE_NAME = Name("semaphore", LIMITS.semaphore_name_bytes_max)
SemaphoreName = Annotated[str, SEMAPHORE_NAME]

check_name = SEMAPHORE_NAME.check

WAIT_KEY = key_schema(LIMITS.wait_id_bytes_max)

WaitId = Annotated[str, Checked(check_wait_id, WAIT_KEY)]


@dataclass(frozen=True, slots=True)
class WaitRequest(RequestBody):
    """A wait for permits. Without a continuation it is answered at once, with a lease or without."""

    problem = BadSemaphore

    id: Annotated[WaitId, MAY_BE_ABSENT]
    """Identifies a repeated wait. Without one, it is the `Idempotency-Key`, or a new one."""

    continuation: Call | None = None
    """The task that runs when the permits are granted."""

    lease_seconds: Annotated[float | None, Seconds(lambda: CORE_LIMITS.lease_seconds_max)] = None
    """The length of the lease; by default that of the semaphore."""

    permits: Annotated[int, Range(1, lambda: LIMITS.permits_max)] = 1

    deadline_seconds: Annotated[float | None, Seconds(lambda: LIMITS.deadline_seconds_max)] = None
    """The time after which the wait ends if it has not been granted."""

    on_timeout: Call | None = None
    """The task that runs if the wait ends without a grant."""

    release_on_return: bool = False
    """Whether the lease ends when the task has returned."""

    release_on_failure: bool = False
    """Whether a task that is retried releases its permits until its next attempt, which waits for them again."""

    resumes: Annotated[str, KIT_ONLY] = ""
    """The operation of a task that waits again after a lost lease or between its attempts."""

    resumed: Annotated[int, KIT_ONLY] = 0
    """The number of that task's earlier grants."""

    unit: Annotated[str, KIT_ONLY] = ""
    """The JSON of the batch's unit that the task runs for."""

    holder: Annotated[str, Checked(_check_holder, {"maxLength": LIMITS.wait_id_bytes_max // 4})] = ""
    """The name of the caller. Waits of several semaphores under one holder show deadlocks. At most 128 bytes."""

    key: Annotated[str, Checked(check_lane_key, WAIT_KEY)] = ""
    """Whose wait it is (a tenant, a user); at most 128 bytes. While others wait, keys share the permits by weight."""

    priority: Annotated[Priority, Checked(_priority_or_normal, PRIORITY.schema())] = "normal"
    """A share of the permits: high, normal and low have the weights 16, 4 and 1. As `key`, it needs a continuation."""

    named: Annotated[bool, KIT_ONLY] = field(default=False, compare=False)
    """Whether a caller chose the id, and has not derived it from the call: another call under it is refused.

    False for a call that passes values of the running task's leases, since these differ in the next delivery.
    """

    def __post_init__(self) -> None:
        RequestBody.__post_init__(self)
        if self.continuation is None:
            self._check_plain()

    @property
    def has_lane(self) -> bool:
        """Whether it names a key or another priority than the normal one."""
        return bool(self.key) or self.priority != "normal"

    def _check_plain(self) -> None:
        for name in ("deadline_seconds", "on_timeout", "release_on_return", "release_on_failure", "holder"):
            if getattr(self, name):
                raise BadSemaphore(f"`continuation` is required with `{name}`.", field="continuation")
        if self.has_lane:
            raise _needs_continuation("key" if self.key else "priority")

    @classmethod
    def from_request(cls, body: Mapping[str, Any], **absent: Any) -> Self:
        """Parse a body, as the base class does; a caller has chosen the id.

        A priority, also a normal one, needs a continuation.
        """
        request = parsed(cls, body, cls.problem, absent | {"named": True})
        WAIT_IDS.check_chosen(request.id)
        if request.continuation is None and body.get("priority") is not None:
            raise _needs_continuation("priority")
        return request

    def resuming(self, operation: str, resumed: int) -> Self:
        """Return the wait of a task whose operation had a number of earlier grants."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return unchecked(type(self), values | {"resumes": operation, "resumed": resumed})

    @classmethod
    def checked_before(cls, **values: Any) -> Self:
        """Return a wait of a record, which was checked before it was stored. `deadline_seconds` is not known."""
        defaults = {each.name: each.default for each in fields(cls)}
        return unchecked(cls, defaults | values)


def _needs_continuation(name: str) -> BadSemaphore:
    return BadSemaphore(
        f"`{name}` requires a `continuation`. A call without one never waits: it takes permits at once or "
        "not at all, so it has no share among the waiters.",
        field=name,
    )


def wait_seconds(given: str | None, wanted: WaitRequest) -> float:
    """Return the query parameter of a wait without a continuation, 0 if it is not given. Raises `BadSemaphore`."""
    if given is None:
        return 0
    if wanted.continuation is not None:
        raise BadSemaphore("Leave out `wait_seconds`: the task of a `continuation` waits.", field="wait_seconds")
    with suppress(ValueError):
        seconds = float(given)
        if 0 <= seconds <= LIMITS.acquire_wait_seconds_max:
            return seconds
    limit = LIMITS.acquire_wait_seconds_max
    raise BadSemaphore(f"`wait_seconds` must be a number from 0 to {limit}.", field="wait_seconds")


@dataclass(frozen=True, slots=True)
class SignalRequest(RequestBody):
    """The lease to end. A repeat with the same `operation` gets the same answer."""

    problem = BadSemaphore

    lease: Annotated[str, LEASE_ID]
    operation: Annotated[str, KIT_ONLY] = ""


@dataclass(frozen=True, slots=True)
class RenewRequest(RequestBody):
    """The lease to renew, and its new length."""

    problem = BadSemaphore

    lease: Annotated[str, LEASE_ID]

    lease_seconds: Annotated[float | None, Seconds(lambda: CORE_LIMITS.lease_seconds_max)] = None
    """Counted from now; by default the length for which the lease was granted."""


@dataclass(frozen=True, slots=True)
class SemaphoresQuery:
    """A page of the semaphores by name, all or only those that have waiters; or the deadlocks among these."""

    waiting: bool
    listing: Listing
    deadlocks: bool = False

    @classmethod
    def from_request(cls, query: Mapping[str, str]) -> Self:
        """Parse ``waiting=``, ``deadlocks=``, ``limit=`` and ``page_token=``. Raises `BadSemaphore` or `BadQuery`."""
        waiting = query.get("waiting", "")
        if waiting not in ("", "true"):
            raise BadSemaphore("`waiting` must be `true`, or left out to list all semaphores.", field="waiting")
        deadlocks = query.get("deadlocks", "")
        if deadlocks not in ("", "true") or (deadlocks and waiting):
            raise BadSemaphore("`deadlocks` must be `true`, without `waiting`.", field="deadlocks")
        return cls(
            bool(waiting),
            Listing.from_request(query, f"semaphores {waiting}", LIMITS.semaphores_listed_max),
            bool(deadlocks),
        )
