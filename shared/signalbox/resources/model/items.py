"""Models and items: the fields of a resource, how they are stored in a document, and how clients see them.

    documents/todos~Vq3…   {"text": "buy tea", "done": false,
                            "_resource": {"name": "todos", "created": …, "modified": …,
                                          "owner": …,        if each user sees only their own items
                                          "hidden": {…},     fields that are never shown
                                          "goes_with": […]}} items whose deletion also deletes this one

Fields that begin with ``_`` are not shown in copies of the item. `goes_with` has the key of each item that a reference
with ``on_delete="cascade"`` names, and the key prefix of its resource, so one query finds all dependent items.

A model is a plain class or a dataclass whose annotated attributes are the fields of a resource.

    class ToDo:
        text: str
        order: int = 0
        done: bool = False
        tags: list[str]
        due: date | None = None
        project: Annotated[str, RefersTo("projects", on_delete="cascade")] | None = None
        score: Annotated[int, Hidden, ReadOnly] = 0

A field without a default is required when an item is created, unless it is a list or may be None. The kit records when
an item was created and modified; a model shows these times if it has `created` or `modified` annotated as `datetime`.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import date, datetime
from typing import Any, Literal, Self, get_args, get_origin

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.documents.model import RESOURCE_META, Content
from signalbox.resources.model import fields as resources_fields
from signalbox.resources.model.fields import (
    DATETIME,
    TYPES,
    Field,
    FieldType,
    Hidden,
    Missing,
    ReadOnly,
    RefersTo,
    choice,
    key_of,
    reference_to,
    stored_time,
)

# --- models ---


SERVER_KEPT = ("created", "modified")

RESERVED = frozenset(("id", "key"))


@dataclass(frozen=True, slots=True)
class Model:
    """The fields of a resource by name; `kept` are the times that the kit records and the model shows."""

    name: str
    fields: Mapping[str, Field]
    kept: tuple[str, ...] = ()

    @classmethod
    def from_class(cls, code: type) -> Self:
        """Read a class. Raises `TypeError` for an unsupported field or a default that does not fit."""
        hints = typing.get_type_hints(code, include_extras=True)
        kept = tuple(name for name in SERVER_KEPT if name in hints)
        for name in kept:
            if hints[name] is not datetime:
                raise TypeError(
                    f"{code.__name__}.{name} is a time that the kit records: annotate it as datetime, or rename it"
                )
        defaults = dict(_defaults(code, hints))
        fields = {name: _field(code, name, hint, defaults) for name, hint in hints.items() if name not in kept}
        return cls(code.__name__, fields, kept)

    @property
    def shown(self) -> list[Field]:
        """The fields that clients see, and the times of `kept`."""
        kept = [Field(name, DATETIME, is_read_only=True, default=None) for name in self.kept]
        return [field for field in self.fields.values() if not field.is_hidden] + kept


def _defaults(code: type, hints: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(code):
        for each in dataclasses.fields(code):
            if each.default is not dataclasses.MISSING:
                yield each.name, each.default
            elif each.default_factory is not dataclasses.MISSING:
                yield each.name, each.default_factory()
    else:
        yield from ((name, getattr(code, name)) for name in hints if hasattr(code, name))


def _field(code: type, name: str, hint: Any, defaults: Mapping[str, Any]) -> Field:
    if name in RESERVED or name.startswith("_") or not name.isascii():
        raise TypeError(
            f"{code.__name__}.{name}: rename the field: ASCII, neither id nor key, without a leading underscore"
        )
    hint, optional, marks = _unwrapped(hint, optional=False, marks=[])
    is_list = get_origin(hint) is list
    if is_list:
        [hint] = get_args(hint) or [str]
        hint, inner_optional, marks = _unwrapped(hint, optional=False, marks=marks)
        if inner_optional:
            raise TypeError(
                f"{code.__name__}.{name}: the items of a list cannot be None; remove `| None` inside the list"
            )
    refers_to = next((mark for mark in marks if isinstance(mark, RefersTo)), None)
    field = Field(
        name,
        _type_of(code, name, hint, refers_to),
        is_list,
        optional,
        is_hidden=_is_marked(marks, Hidden),
        is_read_only=_is_marked(marks, ReadOnly),
        refers_to=refers_to,
    )
    return _with_default(code, field, defaults)


def _unwrapped(hint: Any, *, optional: bool, marks: list[Any]) -> tuple[Any, bool, list[Any]]:
    """Return an annotation without ``Annotated`` and ``| None``."""
    if get_origin(hint) is typing.Annotated:
        inner, *more = get_args(hint)
        return _unwrapped(inner, optional=optional, marks=[*marks, *more])
    if get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not type(None)]
        if len(members) == 1:
            return _unwrapped(members[0], optional=True, marks=marks)
    return hint, optional, marks


def _is_marked(marks: list[Any], mark: type) -> bool:
    return any(given is mark or isinstance(given, mark) for given in marks)


def _type_of(code: type, name: str, hint: Any, refers_to: RefersTo | None) -> FieldType:
    if refers_to is not None:
        return reference_to(refers_to.resource)
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    if choices and all(isinstance(text, str) for text in choices):
        return choice(choices)
    try:
        return TYPES[hint]
    except (KeyError, TypeError):
        known = ", ".join(type_.__name__ for type_ in TYPES)
        raise TypeError(
            f"{code.__name__}.{name} has the unsupported type {hint}: use {known}, a Literal of texts, "
            "a list of one of them, or | None"
        ) from None


def _with_default(code: type, field: Field, defaults: Mapping[str, Any]) -> Field:
    if field.name not in defaults:
        given: Any = None if field.is_optional else [] if field.is_list else Missing.REQUIRED
        return dataclasses.replace(field, default=given)
    default = _as_json(defaults[field.name])
    if wrong := next(field.errors_of(default), None):
        raise TypeError(f"{code.__name__}.{wrong[0]}: the default {wrong[1]}")
    return dataclasses.replace(field, default=field.stored(default))


def _as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


# --- items ---


Values = dict[str, Any]
"""Stored fields by name."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource: its name, which is the prefix of its keys, and its model. `owned`: users see only their own items."""

    name: str
    model: Model
    owned: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A stored item: its id, its owner if it has one, its stored fields, and the times that the kit records."""

    id: str
    values: Values
    owner: str | None = None
    kept: Mapping[str, str] = field(default_factory=dict)


def from_content(resource: Resource, key: str, content: Content | None) -> Item | None:
    """Parse an item from a document; None if the document is not an item of this resource."""
    meta = (content or {}).get(RESOURCE_META)
    if content is None or not isinstance(meta, dict) or meta.get("name") != resource.name:
        return None
    hidden = meta.get("hidden")
    stored = {**content, **(hidden if isinstance(hidden, dict) else {})}
    values = {name: stored.get(name, default_of(field)) for name, field in resource.model.fields.items()}
    kept = {name: str(meta.get(name)) for name in ("created", "modified")}
    return Item(resources_fields.id_of(key), values, meta.get("owner"), kept)


def default_of(field: Field) -> Any:
    return None if field.is_required else field.default


def to_content(resource: Resource, values: Values, before: Item | None, owner: str | None, now: datetime) -> Content:
    """Return the document of an item. `modified` changes only if the fields do."""
    time, fields = stored_time(now), resource.model.fields
    meta: dict[str, Any] = {"name": resource.name, "created": time, "modified": time}
    if before is not None:
        meta["created"] = before.kept["created"]
        meta["modified"] = before.kept["modified"] if _same(resource.model, values, before.values) else time
    hidden = {name: value for name, value in values.items() if fields[name].is_hidden}
    more = {"owner": owner, "hidden": hidden, "goes_with": sorted({*_goes_with(resource.model, values)})}
    meta |= {name: value for name, value in more.items() if value}
    return {name: value for name, value in values.items() if name not in hidden} | {RESOURCE_META: meta}


def _same(model: Model, values: Values, before: Values) -> bool:
    return _text(model, values) == _text(model, before)


def _text(model: Model, values: Values) -> str:
    bare = {name: keys_in(value) if model.fields[name].refers_to else value for name, value in values.items()}
    return json.dumps(bare, sort_keys=True)


def _goes_with(model: Model, values: Values) -> Iterator[str]:
    for name, declared in model.fields.items():
        if declared.refers_to and declared.refers_to.on_delete == "cascade":
            for key in keys_in(values[name]):
                yield from (key, key_of(declared.refers_to.resource, ""))


def keys_in(value: Any) -> list[str]:
    """Return the keys of a stored reference, or of a list of references."""
    links = value if isinstance(value, list) else [value]
    return [link["key"] for link in links if isinstance(link, dict) and "key" in link]


def shown(resource: Resource, item: Item) -> dict[str, Any]:
    """Return an item as clients see it."""
    values = {**item.values, **item.kept}
    fields = {field.name: _shown(field, values[field.name], item.owner) for field in resource.model.shown}
    return {"id": item.id, **fields}


def editable(model: Model, values: Values) -> dict[str, Any]:
    """Return all fields, including hidden ones, in the form of a request, for hooks that change them."""
    return {
        name: resources_fields.as_ids(value) if model.fields[name].refers_to else value
        for name, value in values.items()
    }


def _shown(field: Field, value: Any, owner: str | None) -> Any:
    return resources_fields.shown_reference(value, owner) if field.refers_to else value
