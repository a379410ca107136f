"""The request that HTTP and Python callers both build, checked when it is made."""

from collections.abc import Mapping
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadKey
from signalbox.core.request_fields import REQUIRED, RequestFields
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.model import Grant
from signalbox.critical_sections.problems import BadCriticalSection


@dataclass(frozen=True, slots=True)
class SectionRequest:
    """A call of a critical section. Raises `BadCriticalSection` with the field that is wrong and its allowed values.

    The run starts once no call has arrived for `debounce_seconds`, at most `debounce_max_seconds` after its first call.
    `collect` names a list argument; calls that share a run have their lists concatenated. `id` identifies a repeated
    call; an empty one is never recognised.
    """

    continuation: Call
    debounce_seconds: float = 0
    debounce_max_seconds: float | None = None
    collect: str = ""
    lease_seconds: float = LIMITS.section_lease_seconds
    id: str = ""

    def __post_init__(self) -> None:
        self._check_seconds("debounce_seconds", LIMITS.debounce_seconds_max, zero=True)
        self._check_seconds("debounce_max_seconds", LIMITS.debounce_seconds_max, default=None)
        self._check_seconds("lease_seconds", CORE_LIMITS.lease_seconds_max)
        self._fields().text("collect")
        if not isinstance(self.id, str) or len(self.id) > CORE_LIMITS.key_bytes_max:
            detail = f"`id` must be a string of at most {CORE_LIMITS.key_bytes_max:,} characters."
            raise BadCriticalSection(detail, field="id")
        if self.collect:
            self._check_collected()

    @classmethod
    def from_request(cls, body: Mapping[str, Any], id_: str = "") -> Self:
        """Parse the body of a `POST`; `id_` is used if the body has no id. Also raises `BadCall` and `TooLarge`."""
        fields = RequestFields(body, BadCriticalSection).only(*cls.__slots__)
        return cls(
            continuation=Call.from_request(fields.value("continuation"), "continuation"),
            debounce_seconds=fields.value("debounce_seconds", 0),
            debounce_max_seconds=fields.value("debounce_max_seconds", None),
            collect=fields.value("collect", ""),
            lease_seconds=fields.value("lease_seconds", LIMITS.section_lease_seconds),
            id=fields.value("id", id_),
        )

    @classmethod
    def repeating(cls, grant: Grant, call: Call, id_: str) -> Self:
        """Return the request that repeats the failed task of a grant, as a new call under its key."""
        return cls(call, collect=grant.collect, lease_seconds=grant.lease_seconds, id=id_)

    def _check_seconds(self, name: str, most: float, default: Any = REQUIRED, *, zero: bool = False) -> None:
        """Check a number of seconds and store it as a float."""
        object.__setattr__(self, name, self._fields().seconds(name, most, default, zero=zero))

    def _check_collected(self) -> None:
        items = self.continuation.payload.get(self.collect)
        if not isinstance(items, list) or len(items) > LIMITS.collected_items_max:
            detail = f"`collect` must name an argument that is a list of at most {LIMITS.collected_items_max:,} items."
            raise BadCriticalSection(detail, field=f"continuation.payload.{self.collect}")

    def _fields(self) -> RequestFields:
        return RequestFields({name: getattr(self, name) for name in self.__slots__}, BadCriticalSection)


def check_key(key: str) -> str:
    """Return the key. Raises `BadKey`."""
    if not valid_key(key):
        raise BadKey(f"A key has 1 to {CORE_LIMITS.key_bytes_max:,} bytes of UTF-8, without '/'.", field="key")
    return key
