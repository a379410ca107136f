"""What callers may ask of a critical section, typed and checked; HTTP and kit build the same requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules.calls import Call
from shared.core.rules.keys import valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadCriticalSection, BadKey
from shared.core.rules.request_fields import REQUIRED, RequestFields

_FIELDS = ("continuation", "debounce_seconds", "debounce_max_seconds", "collect", "lease_seconds", "id")


@dataclass(frozen=True, slots=True)
class SectionRequest:
    """A call that runs alone under its key. Raises `BadCriticalSection` naming the field and what is allowed.

    `debounce_seconds` postpones the run until nobody has called for so long, at most until `debounce_max_seconds` after
    the first call. `collect` names an argument that is a list: the lists of calls that share a run are concatenated.
    `id` makes a repeat recognisable.
    """

    continuation: Call
    debounce_seconds: float = 0
    debounce_max_seconds: float | None = None
    collect: str = ""
    lease_seconds: float = LIMITS.section_lease_seconds
    id: str = ""

    def __post_init__(self) -> None:
        _keep_seconds(self, "debounce_seconds", LIMITS.debounce_seconds_max, zero=True)
        _keep_seconds(self, "debounce_max_seconds", LIMITS.debounce_seconds_max, default=None)
        _keep_seconds(self, "lease_seconds", LIMITS.lease_seconds_max)
        _fields_of(self).text("collect")
        if not isinstance(self.id, str) or len(self.id) > LIMITS.key_bytes_max:
            raise BadCriticalSection(f"`id` has at most {LIMITS.key_bytes_max:,} characters.", field="id")
        self._check_collected()

    def _check_collected(self) -> None:
        if not self.collect:
            return
        items = self.continuation.payload.get(self.collect)
        if not isinstance(items, list) or len(items) > LIMITS.collected_items_max:
            most = f"{LIMITS.collected_items_max:,}"
            field = f"continuation.payload.{self.collect}"
            raise BadCriticalSection(f"`collect` names an argument with a list of at most {most} items.", field=field)

    @classmethod
    def from_request(cls, body: Mapping[str, Any], id_: str = "") -> Self:
        """Parse the body of a `POST`; `id_` is its id if it has none. Raises `BadCall` or `TooLarge` too."""
        fields = RequestFields(body, BadCriticalSection).only(*_FIELDS)
        call = Call.from_request(fields.value("continuation"), "continuation")
        given = {name: value for name, value in body.items() if value is not None}
        return cls(**({"id": id_} | given | {"continuation": call}))


def check_section_key(key: str) -> str:
    """Return the key of a critical section, or raise `BadKey`."""
    if not valid_key(key):
        raise BadKey(f"A key has 1 to {LIMITS.key_bytes_max:,} bytes of UTF-8, without '/'.", field="key")
    return key


def _fields_of(request: SectionRequest) -> RequestFields:
    return RequestFields({name: getattr(request, name) for name in request.__slots__}, BadCriticalSection)


def _keep_seconds(
    request: SectionRequest, name: str, most: float, default: Any = REQUIRED, *, zero: bool = False
) -> None:
    """Check a number of seconds and keep it as a float; with a default it may be absent."""
    object.__setattr__(request, name, _fields_of(request).seconds(name, most, default, zero=zero))
