"""The requests that HTTP and Python callers both build, checked when they are made.

A request that is not allowed raises `BadSemaphore` with the field that is wrong and its allowed values.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Self, get_args

from signalbox.core.calls import Call
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.paging import Listing
from signalbox.core.problems import BadKey
from signalbox.core.request_fields import REQUIRED, RequestFields
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.lanes import Priority
from signalbox.semaphores.model.leases import parse_lease_id
from signalbox.semaphores.problems import BadSemaphore

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SemaphoreSettings:
    """The number of permits, the default length of leases, and the time after which an unused semaphore is deleted.

    `weights` are the shares of keys, if a key's is not 1.
    """

    permits: int
    lease_seconds: float
    delete_after_seconds: float | None = None
    weights: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fields = _fields_of(self)
        fields.integer("permits", 1, LIMITS.permits_max)
        _keep_seconds(self, "lease_seconds", CORE_LIMITS.lease_seconds_max)
        _keep_seconds(self, "delete_after_seconds", LIMITS.delete_after_seconds_max, default=None)
        object.__setattr__(self, "weights", check_weights({} if self.weights is None else self.weights))

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a `PUT`."""
        RequestFields(body, BadSemaphore).only(*cls.__slots__)
        return cls(*map(body.get, cls.__slots__))  # type: ignore[arg-type]  # checked when it is made


@dataclass(frozen=True, slots=True)
class SettingsPatch:
    """Settings to change; the others stay."""

    changes: Mapping[str, Any]

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a `PATCH`."""
        RequestFields(body, BadSemaphore).only(*SemaphoreSettings.__slots__)
        return cls(body)

    def applied_to(self, settings: SemaphoreSettings) -> SemaphoreSettings:
        """Return the settings with these changes."""
        return replace(settings, **self.changes)


OF_THE_KIT = ("resumes", "resumed", "unit")
"""The fields of a wait that only the kit sets."""


@dataclass(frozen=True, slots=True)
class WaitRequest:
    """A wait for permits. Without a continuation it is answered at once, with a lease or without.

    `holder` names the caller, so that deadlocks between several waits can be found. A task waits again after a lost
    lease, and with `release_on_failure` between its attempts: `resumes` is then its operation, and `resumed` the number
    of its earlier grants. `unit` is the JSON of the batch's unit that the task runs for. No caller's wait has these
    three. `key` and `priority` say whose share of the permits the wait is for; None is the normal priority.
    """

    id: str
    continuation: Call | None = None
    lease_seconds: float | None = None
    permits: int = 1
    deadline_seconds: float | None = None
    on_timeout: Call | None = None
    release_on_return: bool = False
    release_on_failure: bool = False
    resumes: str = ""
    resumed: int = 0
    unit: str = ""
    holder: str = ""
    key: str = ""
    priority: str | None = None

    def __post_init__(self) -> None:
        fields = _fields_of(self)
        check_wait_id(self.id)
        fields.integer("permits", 1, LIMITS.permits_max)
        _keep_seconds(self, "lease_seconds", CORE_LIMITS.lease_seconds_max, default=None)
        _keep_seconds(self, "deadline_seconds", LIMITS.deadline_seconds_max, default=None)
        fields.flag("release_on_return")
        fields.flag("release_on_failure")
        _check_holder(fields.text("holder", ""))
        if self.key != "":
            check_lane_key(self.key)
        check_priority(self.priority)
        if self.continuation is None:
            self._check_plain()

    @property
    def priority_stored(self) -> str:
        """The priority as records have it: empty for the normal one."""
        return self.priority if self.priority and self.priority != "normal" else ""

    def _check_plain(self) -> None:
        for name in ("deadline_seconds", "on_timeout", "release_on_return", "release_on_failure", "holder"):
            if getattr(self, name):
                raise BadSemaphore(f"`continuation` is required with `{name}`.", field="continuation")
        for name in ("key", "priority"):
            if getattr(self, name):
                raise BadSemaphore(
                    f"`{name}` requires a `continuation`. A call without one never waits: it takes permits at once or "
                    "not at all, so it has no share among the waiters.",
                    field=name,
                )

    @classmethod
    def from_request(cls, body: Mapping[str, Any], id_: str) -> Self:
        """Parse the body of a `POST`; `id_` is used if the body has no id. Also raises `BadCall` and `TooLarge`."""
        fields = RequestFields(body, BadSemaphore).only(*(name for name in cls.__slots__ if name not in OF_THE_KIT))
        calls = {name: _call(body, name) for name in ("continuation", "on_timeout")}
        given = {name: value for name, value in fields.body.items() if value is not None}
        return cls(**({"id": id_} | given | calls))


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
class SignalRequest:
    """The lease to end, by its lease id. A repeat with the same `operation` gets the same answer."""

    lease: str
    operation: str = ""

    def __post_init__(self) -> None:
        parse_lease_id(self.lease)

    @classmethod
    def from_request(cls, body: Mapping[str, Any], operation: str = "") -> Self:
        """Parse the body of a `POST`."""
        fields = RequestFields(body, BadSemaphore).only("lease")
        return cls(fields.value("lease"), operation)


@dataclass(frozen=True, slots=True)
class RenewRequest:
    """The lease to renew, by its lease id, and its new length; None is the length it was granted for."""

    lease: str
    lease_seconds: float | None = None

    def __post_init__(self) -> None:
        parse_lease_id(self.lease)
        _keep_seconds(self, "lease_seconds", CORE_LIMITS.lease_seconds_max, default=None)

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a `POST`."""
        fields = RequestFields(body, BadSemaphore).only("lease", "lease_seconds")
        return cls(fields.value("lease"), body.get("lease_seconds"))


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


def _check_holder(holder: str) -> None:
    if len(holder.encode("utf-8", "surrogatepass")) > LIMITS.wait_id_bytes_max or _SURROGATE.search(holder):
        raise BadSemaphore(f"`holder` has at most {LIMITS.wait_id_bytes_max} bytes of UTF-8.", field="holder")


def check_lane_key(key: Any) -> str:
    """Return the key of a wait's share, or raise `BadSemaphore`."""
    if not valid_key(key) or len(key.encode()) > LIMITS.wait_id_bytes_max:
        size = f"1 to {LIMITS.wait_id_bytes_max} bytes of UTF-8"
        raise BadSemaphore(
            f"`key` must have {size}, without '/' and control characters, and not be '.', '..' or '__…__'.", field="key"
        )
    return str(key)


def check_priority(priority: Any) -> None:
    """Raise `BadSemaphore` for a text that is not a priority."""
    if priority is not None and priority not in get_args(Priority):
        raise BadSemaphore("`priority` must be `high`, `normal` or `low`.", field="priority")


def check_weights(weights: Any) -> dict[str, int]:
    """Return the weights of keys without those that are 1, or raise `BadSemaphore`."""
    if not isinstance(weights, Mapping) or len(weights) > LIMITS.weights_max:
        raise BadSemaphore(f"`weights` must be an object of at most {LIMITS.weights_max} keys.", field="weights")
    for key, weight in weights.items():
        if not valid_key(key) or len(key.encode()) > LIMITS.wait_id_bytes_max:
            size = f"1 to {LIMITS.wait_id_bytes_max} bytes of UTF-8"
            raise BadSemaphore(f"In `weights`, a key has {size}, without '/'.", field="weights")
        if type(weight) is not int or not 1 <= weight <= LIMITS.key_weight_max:
            bounds = f"from 1 to {LIMITS.key_weight_max:,}"
            raise BadSemaphore(f"The weight of {key!r} must be an integer {bounds}.", field="weights")
    return {key: weight for key, weight in weights.items() if weight != 1}


def check_name(name: str) -> str:
    """Return a semaphore's name, or raise `BadKey`."""
    if not valid_key(name) or len(name.encode()) > LIMITS.semaphore_name_bytes_max:
        most = f"{LIMITS.semaphore_name_bytes_max:,}"
        raise BadKey(f"A semaphore's name is a key of 1 to {most} bytes of UTF-8, without '/'.", field="name")
    return name


def check_wait_id(id_: Any) -> str:
    """Return a wait's id, or raise `BadSemaphore`."""
    if not isinstance(id_, str) or not valid_key(id_) or len(id_.encode()) > LIMITS.wait_id_bytes_max:
        raise BadSemaphore(f"`id` must be a key of 1 to {LIMITS.wait_id_bytes_max} bytes, without '/'.", field="id")
    return id_


def _fields_of(request: Any) -> RequestFields:
    return RequestFields({name: getattr(request, name) for name in request.__slots__}, BadSemaphore)


def _keep_seconds(request: Any, name: str, most: float, default: Any = REQUIRED) -> None:
    """Check a number of seconds and keep it as a float; with a default it may be absent."""
    object.__setattr__(request, name, _fields_of(request).seconds(name, most, default))


def _call(body: Mapping[str, Any], field: str) -> Call | None:
    return None if body.get(field) is None else Call.from_request(body[field], field)
