"""Filters of lists: conditions of a request's query parameters, and those that code adds.

    done=false                   a field equals; several times: one of these
    order_gte=3                  _gt _gte _lt _lte _ne; on a list, tags_contains=red
    country=FR  country.name=…   the item that a reference names, or a field of its copy

A value is read as its field's type has it. Fields that are not shown cannot be searched.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.core.rules.problems import BadQuery
from shared.core.rules.queries import ID, Condition, Operator
from shared.resources.rules.field_types import DATETIME
from shared.resources.rules.fields import Field
from shared.resources.rules.items import Resource
from shared.resources.rules.models import Model
from shared.resources.rules.references import META, key_of

SUFFIXES: Mapping[str, Operator] = {
    "_ne": "!=",
    "_gte": ">=",
    "_gt": ">",
    "_lte": "<=",
    "_lt": "<",
    "_contains": "array_contains",
}

ALTERNATIVES_MAX = 30
"""Of a field: Firestore's bound."""


def conditions_of(
    resource: Resource, owner: str | None, narrowed: Iterable[tuple[str, Operator, Any]]
) -> tuple[Condition, ...]:
    """Return the conditions that make items a resource's, an owner's if it has owners, and what code adds to them.

    `narrowed` may name hidden fields. Raises `BadQuery`.
    """
    ours = [Condition((META, "name"), "==", resource.name)]
    owned = [Condition((META, "owner"), "==", owner)] if resource.owned else []
    return (*ours, *owned, *(_narrowing(resource.model, one) for one in narrowed))


def _narrowing(model: Model, condition: tuple[str, Operator, Any]) -> Condition:
    name, operator, value = condition
    each = model.fields[name]
    if each.refers_to:
        return Condition((name, "key"), operator, key_of(each.refers_to.resource, value))
    return Condition((META, "hidden", name) if each.is_hidden else (name,), operator, value)


def condition_of(resource: Resource, name: str, texts: Sequence[str]) -> Condition:
    """Return the condition that a query parameter is. Raises `BadQuery`."""
    field, operator = _field_and_operator(resource.model, name)
    values = [_value(resource, field, operator, name, text) for text in texts]
    if len(values) == 1:
        return Condition(place_of(resource.model, field), operator, values[0])
    if operator != "==" or len(values) > ALTERNATIVES_MAX:
        raise BadQuery(f"`{name}` may come once, or a field up to {ALTERNATIVES_MAX} times.", field=name)
    return Condition(place_of(resource.model, field), "in", values)


def _field_and_operator(model: Model, name: str) -> tuple[str, Operator]:
    """Split a parameter. A field's own name is no field and operator; what a copy's fields are called is not known."""
    if "." not in name and is_known(model, name):
        return name, "=="
    for suffix, operator in SUFFIXES.items():
        if name.endswith(suffix) and is_known(model, name.removesuffix(suffix)):
            return name.removesuffix(suffix), operator
    if is_known(model, name):
        return name, "=="
    raise BadQuery(f"There is no field or parameter `{name[:100]}`.", field=name[:100])


def is_known(model: Model, name: str) -> bool:
    """Return whether a name is that of a field that is shown, or of one in the copy that a reference shows."""
    first, *inner = name.split(".")
    each = _by_name(model, first)
    if name == "id" or each is None:
        return name == "id"
    reaches_in = each.refers_to is not None and not each.is_list
    return (not inner or reaches_in) and all(part and not part.startswith("_") and part != "key" for part in inner)


def _by_name(model: Model, name: str) -> Field | None:
    return next((each for each in model.shown if each.name == name), None)


def place_of(model: Model, name: str) -> tuple[str, ...]:
    """Return where a field lies in the document."""
    if name == "id":
        return ID
    if name in model.kept:
        return (META, name)
    first, *inner = name.split(".")
    return (first, *(["key"] if inner in ([], ["id"]) and model.fields[first].refers_to else inner))


def _value(resource: Resource, name: str, operator: Operator, parameter: str, text: str) -> Any:
    try:
        return _parsed(resource, name, operator, text)
    except ValueError as error:
        raise BadQuery(f"`{parameter}`: {error}", field=parameter) from error


def _parsed(resource: Resource, name: str, operator: Operator, text: str) -> Any:
    first, *inner = name.split(".")
    if first == "id":
        return _id_key(resource.name, text)
    each = _by_name(resource.model, first)
    assert each is not None, "a known field"
    if inner not in ([], ["id"]):
        return _json_or_text(text)
    if each.is_list != (operator == "array_contains") or (each.is_list and each.refers_to):
        raise ValueError("a list is searched with _contains, what is no list without; references in lists are not")
    if each.is_optional and text == "null" and operator == "==":
        return None
    value = (DATETIME if first in resource.model.kept else each.type).parse(text)
    return value["key"] if each.refers_to else value


def _id_key(resource: str, text: str) -> str:
    if not text or "/" in text:
        raise ValueError("must be an id")
    return key_of(resource, text)


def _json_or_text(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, dict | list) else value
