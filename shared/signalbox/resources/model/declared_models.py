"""Models: plain classes or dataclasses whose annotated attributes are the fields of a resource.

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
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, Literal, Self, get_args, get_origin

from signalbox.core.codec.annotations import hints_of
from signalbox.core.lazy_dataclasses import dataclass
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
    reference_to,
)

SERVER_KEPT = ("created", "modified")


RESERVED = frozenset(("id", "key"))


@dataclass(frozen=True, slots=True)
class Model:
    """The fields of a resource by name; `kept` are the times that the kit records and the model shows.

    `code` is the class that declares them.
    """

    name: str
    code: type
    fields: Mapping[str, Field]
    kept: tuple[str, ...] = ()

    @classmethod
    def from_class(cls, code: type) -> Self:
        """Read a class. Raises `TypeError` for an unsupported field or a default that does not fit."""
        hints = hints_of(code, code.__name__, include_extras=True)
        kept = tuple(name for name in SERVER_KEPT if name in hints)
        for name in kept:
            if hints[name] is not datetime:
                raise TypeError(
                    f"{code.__name__}.{name} is a time that the kit records: annotate it as datetime, or rename it"
                )
        defaults = dict(_defaults(code, hints))
        fields = {name: _field(code, name, hint, defaults) for name, hint in hints.items() if name not in kept}
        return cls(code.__name__, code, fields, kept)

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
