"""The request that HTTP and Python callers both build, checked when it is made."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Self

from signalbox.core.calls import Call
from signalbox.core.keys import IdSpace, valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadKey
from signalbox.core.surface.field_rules import KIT_ONLY, Described, RequestBody, Seconds, Text, key_schema, parsed
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.model import Grant
from signalbox.critical_sections.problems import BadCriticalSection

CALL_IDS = IdSpace("call")


@dataclass(frozen=True, slots=True)
class SectionRequest(RequestBody):
    """A call of a critical section.

    Raises `BadCriticalSection` with the field that is wrong and its allowed values.
    """

    problem = BadCriticalSection

    continuation: Call
    """The task."""

    debounce_seconds: Annotated[float, Seconds(lambda: LIMITS.debounce_seconds_max, zero=True)] = 0.0
    """The run starts once no call has arrived for this time."""

    debounce_max_seconds: Annotated[float | None, Seconds(lambda: LIMITS.debounce_seconds_max)] = None
    """The latest start after the first call. Without it, calls can postpone the run without a limit."""

    collect: str = ""
    """The name of an argument that is a list: a run has the items of all calls that share it, at most 1,000."""

    lease_seconds: Annotated[float, Seconds(lambda: CORE_LIMITS.lease_seconds_max)] = float(
        LIMITS.section_lease_seconds
    )
    """If a run's task dies, its redelivery takes the run over after this time."""

    id: Annotated[str, Text(lambda: CORE_LIMITS.key_bytes_max)] = ""
    """Identifies a repeat of this call among the last 100 of the key; an empty one is never recognised."""

    named: Annotated[bool, KIT_ONLY] = field(default=False, compare=False)
    """Whether a caller chose the id, and has not derived it from the call: another call under it is refused.

    False for a call that passes values of the running task's leases, since these differ in the next delivery.
    """

    def __post_init__(self) -> None:
        RequestBody.__post_init__(self)
        if self.collect:
            self._check_collected()

    @classmethod
    def from_request(cls, body: Mapping[str, Any], **absent: Any) -> Self:
        """Parse a body, as the base class does; a caller has chosen the id."""
        request = parsed(cls, body, cls.problem, absent | {"named": True})
        CALL_IDS.check_chosen(request.id)
        return request

    @classmethod
    def repeating(cls, grant: Grant, call: Call, id_: str) -> Self:
        """Return the request that repeats the failed task of a grant, as a new call under its key."""
        return cls(call, collect=grant.collect, lease_seconds=grant.lease_seconds, id=id_)

    def _check_collected(self) -> None:
        items = self.continuation.payload.get(self.collect)
        if not isinstance(items, list) or len(items) > LIMITS.collected_items_max:
            detail = f"`collect` must name an argument that is a list of at most {LIMITS.collected_items_max:,} items."
            raise BadCriticalSection(detail, field=f"continuation.payload.{self.collect}")


def check_key(key: str) -> str:
    """Return the key. Raises `BadKey`."""
    if not valid_key(key):
        raise BadKey(f"A key has 1 to {CORE_LIMITS.key_bytes_max:,} bytes of UTF-8, without '/'.", field="key")
    return key


SectionKey = Annotated[str, Described(key_schema(CORE_LIMITS.key_bytes_max))]
"""The key of a section, which `check_key` checks."""
