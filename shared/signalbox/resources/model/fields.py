"""The fields of a model: their types, the annotations that mark them, and references to items of other resources.

A type defines the JSON values that it accepts, their stored form, and its JSON Schema. Stored values sort in the order
of their meanings: a date is ``2026-11-22``, a datetime is in UTC with six digits of a second. Importing a library such
as msgspec, attrs or cattrs would lengthen each cold start by several times the cost of these few checks.

A reference is a link in the document, and the item's `id` over HTTP. An item's document has the key ``RESOURCE~ID``. A
client sends a reference as an id, or as an object with an `id`, so that it can send back what it has read. A reference
is shown as the item's `id` and its fields, from the link's copy. Fields whose names begin with ``_`` belong to the kit
and are not shown, so neither an item's owner nor its hidden fields are visible.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated, Any, Literal

from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import FieldError, InvalidFields, NotFound
from signalbox.core.records.record_values import INTEGER_MAX
from signalbox.core.surface.field_rules import Described, Range
from signalbox.documents.model.stamped_contents import RESOURCE_META, RESOURCE_SEPARATOR


@dataclass(frozen=True, slots=True)
class FieldType:
    """A type of single values.

    `sent` is the annotation of a JSON value, by which it is described. `check` returns the value as stored, and `parse`
    returns the value of a query parameter. Both raise `ValueError` with a text that describes a valid value.
    """

    name: str
    sent: Any
    check: Callable[[Any], Any]
    parse: Callable[[str], Any]


def _integer(value: Any) -> int:
    if type(value) is not int or not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
        raise ValueError("must be an integer of at most 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or abs(value) > 1e308 or not math.isfinite(value):
        raise ValueError("must be a number")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004  all checks raise the same
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004  all checks of a value raise ValueError
    return value


def _date(value: Any) -> str:
    try:
        if date.fromisoformat(value).isoformat() == value:
            return str(value)
    except (TypeError, ValueError):
        pass
    raise ValueError("must be a date such as 2026-11-22")


def _datetime(value: Any) -> str:
    try:
        moment = datetime.fromisoformat(_text(value))
        if moment.tzinfo is not None and "T" in value.upper():
            return stored_time(moment)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be a time with its offset, such as 2026-11-22T12:00:00Z (RFC 3339)")


def stored_time(moment: datetime) -> str:
    """Return a time as stored: a text whose order is that of the times. Raises `OverflowError` beyond the calendar."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _integer_of(text: str) -> int:
    if len(text) > 20 or not text.lstrip("-").isdecimal():
        raise ValueError("must be an integer of at most 64 bits")
    try:
        return _integer(int(text))
    except ValueError as error:
        raise ValueError("must be an integer of at most 64 bits") from error


def _number_of(text: str) -> float:
    try:
        return _number(float(text))
    except ValueError as error:
        raise ValueError("must be a number") from error


def _boolean_of(text: str) -> bool:
    return _boolean({"true": True, "false": False}.get(text))


INTEGER = FieldType("int", Annotated[int, Range(-INTEGER_MAX - 1, INTEGER_MAX)], _integer, _integer_of)

NUMBER = FieldType("float", Annotated[float, Described({"minimum": -1e308, "maximum": 1e308})], _number, _number_of)

BOOLEAN = FieldType("bool", bool, _boolean, _boolean_of)

TEXT = FieldType("string", str, _text, _text)

DATE = FieldType("date", date, _date, _date)

DATETIME = FieldType("datetime", datetime, _datetime, _datetime)


TYPES: Mapping[Any, FieldType] = {
    int: INTEGER,
    float: NUMBER,
    bool: BOOLEAN,
    str: TEXT,
    date: DATE,
    datetime: DATETIME,
}
"""The types by annotation."""


def choice(choices: tuple[str, ...]) -> FieldType:
    """Return the type of a text that is one of these choices."""

    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return FieldType("string", Literal[choices], check, check)


class Missing(Enum):
    """The default of a field without a default."""

    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class RefersTo:
    """An annotation of a `str`: the id of an item of `resource`.

    With ``on_delete="cascade"``, deleting the referenced item also deletes the item that refers to it; otherwise the
    reference then shows `link_missing`.
    """

    resource: str
    on_delete: Literal["keep", "cascade"] = "keep"


class Hidden:
    """An annotation of a field that is never shown."""


class ReadOnly:
    """An annotation of a field that clients cannot set: values that they send are ignored."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a model. `default` is a stored value; `refers_to` is set for a reference or a list of references."""

    name: str
    type: FieldType
    is_list: bool = False
    is_optional: bool = False
    default: Any = Missing.REQUIRED
    is_hidden: bool = False
    is_read_only: bool = False
    refers_to: RefersTo | None = None

    @property
    def is_required(self) -> bool:
        """Whether an item cannot be created without the field."""
        return self.default is Missing.REQUIRED

    @property
    def shown(self) -> Any:
        """The annotation of the field in an answer."""
        return self._annotated(SHOWN_REFERENCE if self.refers_to else self.type.sent)

    @property
    def sent(self) -> Any:
        """The annotation of the field in a request."""
        return self._annotated(self.type.sent)

    def _annotated(self, each: Any) -> Any:
        whole = list[each] if self.is_list else each
        if self.is_optional or self.is_read_only:
            whole = whole | None
        marks = {"readOnly": self.is_read_only, "writeOnly": self.is_hidden}
        shown = {name: True for name, is_set in marks.items() if is_set}
        return Annotated[whole, Described(shown)] if shown else whole

    def errors_of(self, value: Any) -> Iterator[tuple[str, str]]:
        """Iterate over the errors of a JSON value.

        Each error is the place of the error and a description of a valid value.
        """
        parts = enumerate(value) if self.is_list and isinstance(value, list) else [(None, value)]
        if value is None and self.is_optional:
            return
        if self.is_list and not isinstance(value, list):
            yield self.name, "must be a list"
            return
        for index, part in parts:
            try:
                self.type.check(part)
            except ValueError as error:
                yield self.name if index is None else f"{self.name}[{index}]", str(error)

    def stored(self, value: Any) -> Any:
        """Return a valid JSON value as stored."""
        if value is None:
            return None
        return [self.type.check(part) for part in value] if self.is_list else self.type.check(value)


_ID: Mapping[str, Any] = {"type": "string", "minLength": 1}

SENT_REFERENCE = (
    Annotated[str, Described({"minLength": 1})]
    | Annotated[dict[str, Any], Described({"required": ["id"], "properties": {"id": _ID}})]
)

SHOWN_REFERENCE = Annotated[dict[str, Any], Described({"required": ["id"], "properties": {"id": {"type": "string"}}})]
"""An item's id, and the fields of the link's copy."""


def key_of(resource: str, id_: str) -> str:
    """Return the key of an item's document."""
    return f"{resource}{RESOURCE_SEPARATOR}{id_}"


def id_of(key: str) -> str:
    """Return the id of the item with a document key. For other documents, return the key itself."""
    resource, separator, id_ = key.partition(RESOURCE_SEPARATOR)
    return id_ if separator and resource else key


def valid_item_id(resource: str, id_: str) -> str:
    """Return an id from a URL. Raises `NotFound` for an id that no item can have."""
    if not valid_key(key_of(resource, id_)):
        raise NotFound(f"{resource} has no item {id_[:100]!r}.", field="id")
    return id_


RESERVED_IDS = frozenset({"meta", "openapi.json"})
"""The last parts of addresses below a resource that are not items."""

_MADE_ID = re.compile("item-[0-9a-f]{20}")


def made_id(operation: str) -> str:
    """Return the id of the item that an operation creates. No client can choose it."""
    return f"item-{operation[:20]}"


def check_chosen_id(id_: str) -> None:
    """Raise `InvalidFields` for an id that a client cannot choose for a new item."""
    if id_ in RESERVED_IDS:
        raise InvalidFields.of([FieldError("id", f"cannot be {id_!r}, which is an address of the resource itself")])
    if _MADE_ID.fullmatch(id_):
        raise InvalidFields.of([FieldError("id", f"cannot be {id_!r}: only the kit makes such ids")])


def reference_to(resource: str) -> FieldType:
    """Return the type of references to items of a resource."""

    def check(value: Any) -> dict[str, Any]:
        id_ = value.get("id") if isinstance(value, dict) else value
        if not isinstance(id_, str) or not id_ or not valid_key(key_of(resource, id_)):
            raise ValueError(f"must be the id of one of {resource}, or an object with it")
        return {"key": key_of(resource, id_)}

    return FieldType("reference", SENT_REFERENCE, check, check)


def shown_reference(value: Any, owner: str | None) -> Any:
    """Return a stored reference, or a part of its copy, as the owner of the referring item sees it."""
    if isinstance(value, list):
        return [shown_reference(part, owner) for part in value]
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("key"), str):
        return {name: shown_reference(part, owner) for name, part in value.items() if not name.startswith("_")}
    id_ = {"id": id_of(value["key"])}
    if not is_visible(value, owner):
        return {**id_, "link_missing": True}
    fields = {name: part for name, part in value.items() if name != "key" and not name.startswith("_")}
    return {**id_, **{name: shown_reference(part, owner) for name, part in fields.items()}}


def is_visible(content: dict[str, Any], owner: str | None) -> bool:
    """Return whether an owner's item may show another item: an item without an owner, or with the same owner."""
    meta = content.get(RESOURCE_META)
    return not isinstance(meta, dict) or meta.get("owner") in (None, owner)


def masked(value: Any, owner: str | None) -> Any:
    """Return a stored reference with a mark in place of each copy that its reader may not see."""
    if isinstance(value, list):
        return [masked(part, owner) for part in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("key"), str) and not is_visible(value, owner):
        return {"key": value["key"], "link_missing": True}
    return {name: masked(part, owner) for name, part in value.items()}


def as_ids(value: Any) -> Any:
    """Return a stored reference as an id, or a list of references as ids."""
    if isinstance(value, list):
        return [as_ids(part) for part in value]
    return id_of(value["key"]) if isinstance(value, dict) and "key" in value else value
