"""The requests that HTTP and Python callers both build, checked when they are made.

A request that is not allowed raises `BadRate` with the field that is wrong and its allowed values.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Self

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
    key_schema,
    parsed,
)
from signalbox.rates.limits import LIMITS
from signalbox.rates.problems import BadRate

WAIT_IDS = IdSpace("wait")


def check_wait_id(id_: Any) -> str:
    """Return a wait's id, or raise `BadRate`."""
    if not isinstance(id_, str) or not valid_key(id_) or len(id_.encode()) > LIMITS.rate_wait_id_bytes_max:
        raise BadRate(f"`id` must be a key of 1 to {LIMITS.rate_wait_id_bytes_max} bytes, without '/'.", field="id")
    return id_


RATE_NAME = Name("rate", LIMITS.rate_name_bytes_max)
RateName = Annotated[str, RATE_NAME]

check_name = RATE_NAME.check

WAIT_ID = key_schema(LIMITS.rate_wait_id_bytes_max)
WaitId = Annotated[str, Checked(check_wait_id, WAIT_ID)]

Weight = Annotated[int, Range(1, lambda: CORE_LIMITS.burst_max)]


def _check_optional_id(id_: Any) -> str:
    return check_wait_id(id_) if id_ else ""


@dataclass(frozen=True, slots=True)
class AcquireRequest(RequestBody):
    """Permits to take now or not at all."""

    problem = BadRate

    weight: Weight = 1
    """The number of permits, at most the burst."""

    id: Annotated[str, Checked(_check_optional_id, WAIT_ID)] = ""
    """Identifies a repeat among the last 100 that were granted; it takes nothing."""


@dataclass(frozen=True, slots=True)
class RateWaitRequest(RequestBody):
    """A task to run when permits are granted."""

    problem = BadRate

    id: Annotated[WaitId, MAY_BE_ABSENT]
    """Identifies a repeat, which is answered with the state of the wait."""

    continuation: Call
    """The task."""

    weight: Weight = 1
    """The number of permits, at most the burst."""

    unit: Annotated[str, KIT_ONLY] = ""
    """The JSON of the batch's unit that the task runs, or of a group of units as the member `group`."""

    batch: Annotated[str, KIT_ONLY] = ""
    """The key of the run of that batch."""

    at_most_burst: Annotated[bool, KIT_ONLY] = False
    """Whether a weight above the burst takes the burst: that of several units together."""

    named: Annotated[bool, KIT_ONLY] = field(default=False, compare=False)
    """Whether a caller chose the id, and has not derived it from the call: another call under it is refused.

    False for a call that passes values of the running task's leases, since these differ in the next delivery.
    """

    @classmethod
    def from_request(cls, body: Mapping[str, Any], **absent: Any) -> Self:
        """Parse a body, as the base class does; a caller has chosen the id."""
        request = parsed(cls, body, cls.problem, absent | {"named": True})
        WAIT_IDS.check_chosen(request.id)
        return request
