"""Yokes, and the names of yokes and standings.

A user yokes an item, with an optional value (a rating, an amount) and attributes (a category, a day).

    yokes/{user~item}                               the yoke: any client may write or delete it
    counted/{user~item}                             its share in the standings
    standings/{kind}/entries/{id}                   a standing
    standings/{kind}/entries/{id}/adjustments/{id}  a change of a busy standing that no fold run has added yet

An id joins its parts with ``~``; inside a part ``%``, ``~`` and ``/`` are percent-encoded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Self, TypeGuard

from signalbox.core.effects import name_of
from signalbox.core.given import given
from signalbox.core.keys import MEMOISED, valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadKey, BadValue
from signalbox.core.surface.field_rules import Described, accepted_fields, key_schema
from signalbox.core.surface.request_fields import RequestFields
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.exact_sums import DECIMALS, VALUE_MAX, Value, units_of

YOKES = "yokes"

COUNTED = "counted"

DECLARED = "standing_declarations/current"


_ENCODED = {"%": "%25", "~": "%7E", "/": "%2F"}

_ENCODE = str.maketrans(_ENCODED)


@lru_cache(MEMOISED)
def encode(part: str) -> str:
    """Return a part of an id, percent-encoded where it would be ambiguous or invalid."""
    text = part.translate(_ENCODE)
    if text in {".", ".."}:
        return text.replace(".", "%2E")
    return f"%5F{text[1:]}" if text.startswith("__") else text


def decode(part: str) -> str:
    """Undo `encode`."""
    for plain, encoded in ((".", "%2E"), ("_", "%5F"), ("/", "%2F"), ("~", "%7E"), ("%", "%25")):
        part = part.replace(encoded, plain)
    return part


@lru_cache(MEMOISED)
def fits(part: str) -> bool:
    """Return whether a text can be a part of an id: it is valid, and short enough."""
    text = encode(part)
    return valid_key(text) and len(text.encode()) <= LIMITS.yoke_part_bytes_max


def join(parts: Iterable[str]) -> str:
    """Return the id of these parts."""
    return "~".join(map(encode, parts))


class YokeKey(NamedTuple):
    """The name of a yoke: its user and its item."""

    user: str
    item: str

    @classmethod
    def from_request(cls, user: str, item: str) -> Self:
        """Return the key of a yoke in a request. Raises `BadKey`."""
        for name, part in (("user", user), ("item", item)):
            if not fits(part):
                detail = f"A yoke's {name} must be a key of at most {LIMITS.yoke_part_bytes_max} bytes."
                raise BadKey(detail, field=name)
        return cls(user, item)

    @classmethod
    def from_id(cls, id_: str) -> Self | None:
        """Parse the id of a record. Returns None for an id that the kit would not have made."""
        user, tilde, item = id_.partition("~")
        if not (tilde and user and item) or "~" in item:
            return None
        key = cls(decode(user), decode(item))
        return key if key.id == id_ else None

    @property
    def id(self) -> str:
        return f"{encode(self.user)}~{encode(self.item)}"

    @property
    def path(self) -> str:
        return f"{YOKES}/{self.id}"

    @property
    def counted_path(self) -> str:
        return f"{COUNTED}/{self.id}"

    @property
    def standings(self) -> "tuple[StandingKey, StandingKey]":
        """The standings of the yoke's user and item, in which it always counts."""
        return StandingKey("user", encode(self.user)), StandingKey("item", encode(self.item))


class StandingKey(NamedTuple):
    """The name of a standing: its kind, and its id within the kind. Counting looks it up often: a tuple hashes fast."""

    kind: str
    id: str

    @classmethod
    def from_text(cls, text: str) -> Self:
        kind, _, id_ = text.partition("/")
        return cls(kind, id_)

    @property
    def text(self) -> str:
        return f"{self.kind}/{self.id}"

    @property
    def field(self) -> str:
        """The field of this standing in counted records: a short name that needs no quotes in queries."""
        return f"s{name_of('standing', self.kind, self.id)[:24]}"

    @property
    def path(self) -> str:
        return f"{collection_of(self.kind)}/{self.id}"

    @property
    def adjustments(self) -> str:
        return f"{self.path}/adjustments"


def collection_of(kind: str) -> str:
    """Return the collection of a kind's standings."""
    return f"standings/{kind}/entries"


RESERVED = ("user", "item")

Attribute = str | int | bool

YokePart = Annotated[str, Described(key_schema(LIMITS.yoke_part_bytes_max))]


@dataclass(frozen=True, slots=True)
class YokeBody:
    """The body of a request to put a yoke: its value and attributes. The address names the yoke."""

    value: Annotated[float | None, Described({"minimum": -VALUE_MAX, "maximum": VALUE_MAX})] = None
    attributes: Annotated[Mapping[str, Attribute], Described({"maxProperties": LIMITS.yoke_attributes_max})] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class Yoke:
    """A relation between a user and an item."""

    key: YokeKey
    value: Value = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_request(cls, key: YokeKey, body: Mapping[str, Any]) -> Self:
        """Parse a put. Raises `BadValue`."""
        fields = RequestFields(body, BadValue).only(*accepted_fields(YokeBody))
        value, attributes = fields.value("value", None), fields.value("attributes", {})
        if value is not None and units_of(value) is None:
            detail = f"`value` must be a number up to {VALUE_MAX:,}, with at most {DECIMALS} decimals."
            raise fields.refuse("value", detail)
        _check_attributes(fields, attributes)
        return cls(key, value, attributes)

    @classmethod
    def from_record(cls, key: YokeKey, data: Mapping[str, Any] | None) -> Self | None:
        """Parse a record. Another client may have written it, so values that cannot be counted are left out."""
        if data is None:
            return None
        value, attributes = data.get("value"), data.get("attributes")
        return cls(key, value if units_of(value) is not None else None, dict(attributes) if _is_map(attributes) else {})

    def to_record(self) -> dict[str, Any]:
        """Return the record. User and item are in its id, and again in fields for queries."""
        place = {"user": self.key.user, "item": self.key.item}
        return {**place, "attributes": dict(self.attributes), **given(value=self.value)}

    def part(self, name: str) -> str | None:
        """Return a part of a standing's id: the user, the item or an attribute.

        Return None if it is missing or invalid.
        """
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
            raise fields.refuse(f"attributes.{name}", "An attribute's name must be a key other than `user` and `item`.")
        if not isinstance(value, str | int) or not fits(str(value)):
            detail = f"An attribute is a text of 1 to {LIMITS.yoke_part_bytes_max} bytes, an integer, true or false."
            raise fields.refuse(f"attributes.{name}", detail)
