"""JSON types as annotations: None, bool, int, float, str, list, dict, Literal, and unions of them.

A value of such a type is JSON itself, so it is checked and not changed. Other types are written and read by `codec`.
"""

import dataclasses
import math
import types
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

_JSON_TYPES = {int: "int", float: "float", str: "str", bool: "bool", type(None): "None", list: "list", dict: "dict"}

SCALARS: frozenset[type] = frozenset({int, float, str, bool, type(None)})
"""The types of values without parts."""


def type_errors(value: Any, annotation: Any, at: str) -> Iterator[str]:
    """Iterate over the reasons why a value is not JSON of the annotated type, part by part; `at` names the value."""
    if annotation is Any or annotation is object:
        if not _is_json(value):
            yield from _json_errors(value, at)
    elif get_origin(annotation) is Literal:
        if not any(value == option and type(value) is type(option) for option in get_args(annotation)):
            yield f"{at} must be one of {', '.join(map(repr, get_args(annotation)))}"
    elif is_union(annotation):
        yield from _union_errors(value, annotation, at)
    elif not _is_instance(value, get_origin(annotation) or annotation):
        yield f"{at} must be {type_name(annotation)}, not {type_name(type(value))}"
    else:
        yield from _item_errors(value, annotation, at)


def _union_errors(value: Any, union: Any, at: str) -> Iterator[str]:
    """Iterate over the errors of the nearest member of a union. If a member fits, there are no errors."""
    failed = [(member, list(type_errors(value, member, at))) for member in get_args(union)]
    if all(errors for _, errors in failed):
        nearest = (errors for member, errors in failed if (get_origin(member) or member) is type(value))
        yield from next(nearest, [f"{at} must be {type_name(union)}, not {type_name(type(value))}"])


def _is_instance(value: Any, plain: type) -> bool:
    if plain is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is plain


def _item_errors(value: Any, annotation: Any, at: str) -> Iterator[str]:
    inner = get_args(annotation)
    if _is_uniform(value, inner):
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from type_errors(item, inner[0] if inner else Any, f"{at}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                yield f"{at} has the key {name!r}, which is not a str"
            yield from type_errors(item, inner[1] if inner else Any, f"{at}.{name}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{at} is {value}, which is not JSON"


def _is_uniform(value: Any, inner: tuple[Any, ...]) -> bool:
    """Return whether all items of a list or a dict have one annotated plain type. This is fast for large values."""
    if not inner or inner[-1] not in (str, int, bool) or not isinstance(value, list | dict):
        return False
    items = value.values() if isinstance(value, dict) else value
    return {*map(type, items)} <= {inner[-1]} and (items is value or {*map(type, value)} <= {str})


def _is_json(value: Any) -> bool:
    """Return whether a value is JSON. This is a fast check, which does not name the part that is wrong."""
    kind = type(value)
    if kind is dict:
        return all(isinstance(name, str) and _is_json(item) for name, item in value.items())
    if kind is list:
        return all(map(_is_json, value))
    return math.isfinite(value) if kind is float else kind in SCALARS


def _json_errors(value: Any, at: str) -> Iterator[str]:
    if type(value) not in _JSON_TYPES:
        yield f"{at} is of type {type(value).__name__}, which is not JSON{_advice_of_value(value)}"
    else:
        yield from _item_errors(value, type(value), at)


def _advice_of_value(value: Any) -> str:
    typed = dataclasses.is_dataclass(value) or isinstance(value, Enum | date | UUID | Decimal | bytes | tuple)
    return ": annotate it with its type" if typed else ""


def is_json_type(annotation: Any) -> bool:
    """Return whether values of an annotated type are JSON without conversion."""
    inner = get_args(annotation)
    if annotation is Any or annotation is object or annotation in _JSON_TYPES:
        return True
    if get_origin(annotation) is Literal:
        return all(type(option) in SCALARS for option in inner)
    if get_origin(annotation) is dict:
        return not inner or (inner[0] is str and is_json_type(inner[1]))
    return (is_union(annotation) or get_origin(annotation) is list) and all(map(is_json_type, inner))


def json_kinds(annotation: Any) -> frozenset[type]:
    """Return the types that the values of an annotated JSON type have."""
    if annotation is Any or annotation is object:
        return frozenset(_JSON_TYPES)
    if get_origin(annotation) is Literal:
        return frozenset(map(type, get_args(annotation)))
    if is_union(annotation):
        return frozenset[type]().union(*map(json_kinds, get_args(annotation)))
    return frozenset({int, float}) if annotation is float else frozenset({get_origin(annotation) or annotation})


def is_union(annotation: Any) -> bool:
    """Return whether an annotation is a union of types."""
    return get_origin(annotation) in (Union, types.UnionType)


def type_name(annotation: Any) -> str:
    """Return a type as messages show it."""
    if annotation in _JSON_TYPES:
        return _JSON_TYPES[annotation]
    if is_union(annotation):
        return " | ".join(map(type_name, get_args(annotation)))
    origin = get_origin(annotation)
    if isinstance(origin, type):
        return f"{origin.__name__}[{', '.join(map(type_name, get_args(annotation)))}]"
    return (
        "..."
        if annotation is ...
        else str(getattr(annotation, "__name__", annotation) if origin is None else annotation)
    )


def copied(value: Any) -> Any:
    """Return a deep copy of JSON."""
    if type(value) is list:
        return [copied(item) if type(item) in (list, dict) else item for item in value]
    if type(value) is dict:
        return {name: copied(item) if type(item) in (list, dict) else item for name, item in value.items()}
    return value
