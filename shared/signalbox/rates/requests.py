"""The requests that HTTP and Python callers both build, checked when they are made.

A request that is not allowed raises `BadRate` with the field that is wrong and its allowed values.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadKey
from signalbox.core.request_fields import RequestFields
from signalbox.rates.limits import LIMITS
from signalbox.rates.problems import BadRate


@dataclass(frozen=True, slots=True)
class RateSettings:
    """The permits that come back in a minute, and the most that can be granted at once."""

    per_minute: float
    burst: int = 1

    def __post_init__(self) -> None:
        value = self.per_minute
        is_number = type(value) in (int, float) and math.isfinite(value)
        if not is_number or not LIMITS.per_minute_min <= value <= LIMITS.per_minute_max:
            least, most = "1/1440 (a permit a day)", f"{LIMITS.per_minute_max:,}"
            raise BadRate(f"`per_minute` must be a number from {least} to {most}.", field="per_minute")
        burst = RequestFields({"burst": self.burst}, BadRate).integer("burst", 1, CORE_LIMITS.burst_max, default=1)
        object.__setattr__(self, "burst", burst)
        object.__setattr__(self, "per_minute", float(value))

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a `PUT`."""
        fields = RequestFields(body, BadRate).only(*cls.__slots__)
        return cls(fields.value("per_minute"), body.get("burst"))  # type: ignore[arg-type]  # checked when it is made


@dataclass(frozen=True, slots=True)
class SettingsPatch:
    """Settings to change; the others stay."""

    changes: Mapping[str, Any]

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> Self:
        """Parse the body of a `PATCH`."""
        RequestFields(body, BadRate).only(*RateSettings.__slots__)
        return cls(body)

    def applied_to(self, settings: RateSettings) -> RateSettings:
        """Return the settings with these changes."""
        return replace(settings, **self.changes)


@dataclass(frozen=True, slots=True)
class AcquireRequest:
    """Permits to take now or not at all."""

    weight: int = 1
    id: str = ""

    def __post_init__(self) -> None:
        _check_weight(self.weight)
        if self.id:
            check_wait_id(self.id)

    @classmethod
    def from_request(cls, body: Mapping[str, Any], id_: str = "") -> Self:
        """Parse the body of a `POST`; `id_` is used if the body has no id."""
        fields = RequestFields(body, BadRate).only(*cls.__slots__)
        return cls(fields.value("weight", 1), fields.value("id", id_))


OF_THE_KIT = ("unit", "batch")


@dataclass(frozen=True, slots=True)
class RateWaitRequest:
    """A task to run when permits are granted.

    `unit` is the JSON of the batch's unit that the task runs, and `batch` the key of the run of that batch. No caller's
    wait has these two.
    """

    id: str
    continuation: Call
    weight: int = 1
    unit: str = ""
    batch: str = ""

    def __post_init__(self) -> None:
        _check_weight(self.weight)
        check_wait_id(self.id)

    @classmethod
    def from_request(cls, body: Mapping[str, Any], id_: str) -> Self:
        """Parse the body of a `POST`; `id_` is used if the body has no id. Also raises `BadCall` and `TooLarge`."""
        fields = RequestFields(body, BadRate).only(*(name for name in cls.__slots__ if name not in OF_THE_KIT))
        call = Call.from_request(fields.value("continuation"), "continuation")
        return cls(fields.value("id", id_), call, fields.value("weight", 1))


def check_name(name: str) -> str:
    """Return a rate's name, or raise `BadKey`."""
    if not valid_key(name) or len(name.encode()) > LIMITS.rate_name_bytes_max:
        most = f"{LIMITS.rate_name_bytes_max:,}"
        raise BadKey(f"A rate's name is a key of 1 to {most} bytes of UTF-8, without '/'.", field="name")
    return name


def check_wait_id(id_: Any) -> str:
    """Return a wait's id, or raise `BadRate`."""
    if not isinstance(id_, str) or not valid_key(id_) or len(id_.encode()) > LIMITS.rate_wait_id_bytes_max:
        raise BadRate(f"`id` must be a key of 1 to {LIMITS.rate_wait_id_bytes_max} bytes, without '/'.", field="id")
    return id_


def _check_weight(weight: Any) -> None:
    RequestFields({"weight": weight}, BadRate).integer("weight", 1, CORE_LIMITS.burst_max)
