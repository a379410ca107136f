"""The settings of a semaphore, as requests, its record, the catalogue and clients have them."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Self

from signalbox.core.given import given
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.surface.field_rules import Checked, Range, RequestBody, Seconds, Text, unchecked
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.problems import BadSemaphore


def check_weights(weights: Any) -> dict[str, int]:
    """Return the weights of keys without those that are 1 (None: no weights), or raise `BadSemaphore`."""
    if weights is None:
        return {}
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


_OFTEN_EMPTY = ("weights", "description")

Weight = Annotated[int, Range(1, lambda: LIMITS.key_weight_max)]


@dataclass(frozen=True, slots=True)
class SemaphoreSettings(RequestBody):
    """The settings of a semaphore.

    Raises `BadSemaphore` naming the field that is wrong and its allowed values.
    """

    problem = BadSemaphore

    permits: Annotated[int, Range(1, lambda: LIMITS.permits_max)]
    """The number of permits."""

    lease_seconds: Annotated[float, Seconds(lambda: CORE_LIMITS.lease_seconds_max)]
    """The length of leases, unless a wait names another."""

    delete_after_seconds: Annotated[float | None, Seconds(lambda: LIMITS.delete_after_seconds_max)] = None
    """The time without a lease or a wait after which the semaphore is deleted."""

    weights: Annotated[Mapping[str, Weight], Checked(check_weights, {"maxProperties": LIMITS.weights_max})] = field(
        default_factory=dict
    )
    """The shares of the keys that waits name, while others wait. A key without one has the weight 1."""

    description: Annotated[str, Text(lambda: LIMITS.description_characters_max)] = ""
    """The purpose of the semaphore, for the people who operate it."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the settings in a semaphore's record, which were checked before they were stored."""
        weights = {each["key"]: each["weight"] for each in record.get("weights", ())}
        others = {"weights": weights, "description": record.get("description", "")}
        return unchecked(cls, {name: record.get(name) for name in cls.__slots__} | others)

    def to_record(self) -> dict[str, Any]:
        """Return the fields for the semaphore's record, without weights or a description that are empty."""
        record: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name not in _OFTEN_EMPTY}
        weights = [{"key": key, "weight": weight} for key, weight in sorted(self.weights.items())]
        return record | given(weights=weights or None, description=self.description or None)
