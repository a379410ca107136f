"""Yokes: a user yokes an item, with a value perhaps (a rating, an amount) and attributes (a category, a day)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeGuard

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue
from shared.core.rules.request_fields import RequestFields
from shared.standings.rules.keys import YokeKey, encode, fits
from shared.standings.rules.tallies import DECIMALS, VALUE_MAX, Value, units_of

RESERVED = ("user", "item")


@dataclass(frozen=True, slots=True)
class Yoke:
    """A relation between a user and an item."""

    key: YokeKey
    value: Value = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_request(cls, key: YokeKey, body: Mapping[str, Any]) -> Self:
        """Parse a put. Raises `BadValue`."""
        fields = RequestFields(body, BadValue).only("value", "attributes")
        value, attributes = fields.value("value", None), fields.value("attributes", {})
        if value is not None and units_of(value) is None:
            detail = f"`value` must be a number up to {VALUE_MAX:,}, with at most {DECIMALS} decimals."
            raise fields.refuse("value", detail)
        _check_attributes(fields, attributes)
        return cls(key, value, attributes)

    @classmethod
    def from_record(cls, key: YokeKey, data: Mapping[str, Any] | None) -> Self | None:
        """Return what a record holds. Another client may have written it: what cannot be counted is left out."""
        if data is None:
            return None
        value, attributes = data.get("value"), data.get("attributes")
        return cls(key, value if units_of(value) is not None else None, dict(attributes) if _is_map(attributes) else {})

    def to_record(self) -> dict[str, Any]:
        """Return the record; its user and item are in its id, and again as fields for queries."""
        value = {} if self.value is None else {"value": self.value}
        return {"user": self.key.user, "item": self.key.item, "attributes": dict(self.attributes), **value}

    def part(self, name: str) -> str | None:
        """Return the part of a standing's id that this yoke has under a name; None if it has none."""
        value = getattr(self.key, name) if name in RESERVED else self.attributes.get(name)
        if isinstance(value, bool):
            value = str(value).lower()
        text = str(value) if isinstance(value, str | int) else ""
        return text if text and fits(text) else None


def _is_map(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _check_attributes(fields: RequestFields, attributes: Any) -> None:
    if not _is_map(attributes) or len(attributes) > LIMITS.yoke_attributes_max:
        raise fields.refuse("attributes", f"`attributes` must be an object of at most {LIMITS.yoke_attributes_max}.")
    for name, value in attributes.items():
        if name in RESERVED or not fits(name) or encode(name) != name:
            raise fields.refuse(f"attributes.{name}", "An attribute's name is a key, and neither `user` nor `item`.")
        if not isinstance(value, str | int) or not fits(str(value)):
            detail = f"An attribute is a text of 1 to {LIMITS.yoke_part_bytes_max} bytes, an integer, true or false."
            raise fields.refuse(f"attributes.{name}", detail)
