"""Lists of items: the filters, order and page of a request, as table components send them (json-server's parameters).

    done=false                   a field equals; several times: one of these
    order_gte=3                  _gt _gte _lt _lte _ne; on a list, tags_contains=red
    country=FR  country.name=…   the item that a reference names, or a field of its copy
    _sort=order,-text            or _sort=order,text with _order=asc,desc; `id` is a field too
    _start=20&_end=40            or _page=3&_limit=20; then `X-Total-Count` says how many there are
    page_token=…                 the page behind another, as its `Link` says

A value is read as its field's type has it. Fields that are not shown cannot be searched.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from shared.core.rules import page_tokens
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadQuery
from shared.core.rules.queries import ID, Condition, Operator, Order, with_implied
from shared.documents.rules.queries import FindRequest
from shared.resources.rules.field_types import DATETIME
from shared.resources.rules.items import Resource
from shared.resources.rules.models import Field, Model
from shared.resources.rules.references import META, key_of

Parameters = Mapping[str, Sequence[str]]
"""The texts of each query parameter, in order."""

PAGING = ("_sort", "_order", "_start", "_end", "_page", "_limit", "page_token")
SUFFIXES: Mapping[str, Operator] = {
    "_ne": "!=",
    "_gte": ">=",
    "_gt": ">",
    "_lte": "<=",
    "_lt": "<",
    "_contains": "array_contains",
}
PAGE_DEFAULT = 10
"""Items of a page if `_page` comes without `_limit`, as json-server has it."""

ALTERNATIVES_MAX = 30
"""Of a field: Firestore's bound."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A page of a resource's items. `base` are the conditions that make them this resource's, `where` all of them.

    `order_by` is the full order without the id, which comes last. `by_id_descending`: the id alone, from the last.
    """

    base: tuple[Condition, ...]
    where: tuple[Condition, ...]
    order_by: tuple[Order, ...]
    limit: int
    start: int = 0
    after: tuple[Any, ...] = ()
    wants_total: bool = False
    by_id_descending: bool = False

    @classmethod
    def from_request(cls, resource: Resource, parameters: Parameters, base: tuple[Condition, ...]) -> Self:
        """Parse query parameters. Raises `BadQuery` naming the one that is wrong."""
        asked = tuple(_condition(resource, *each) for each in parameters.items() if each[0] not in PAGING)
        where = (*base, *asked)
        start, limit = _page(parameters)
        orders = _orders(resource.model, parameters)
        by_id_descending = orders == (Order(ID, descending=True),)
        named = tuple(each for each in orders if each.field != ID)
        wants_total = any(name in parameters for name in ("_end", "_limit", "_page", "_start"))
        request = cls(base, where, with_implied(named, where), limit, start, (), wants_total, by_id_descending)
        token = _one(parameters, "page_token")
        return (
            replace(request, after=page_tokens.read(token, request.mark, len(request.order_by))) if token else request
        )

    @property
    def mark(self) -> str:
        """Return a hash of the query, which its page tokens carry."""
        return self.find(1).mark + ("-" if self.by_id_descending else "")

    def find(self, limit: int, after: tuple[Any, ...] = ()) -> FindRequest:
        """Return the query for documents."""
        return FindRequest(self.where, self.order_by, limit, after)

    def cursor(self, token: str) -> tuple[Any, ...]:
        """Return the place that a page token of this query names."""
        return page_tokens.read(token, self.mark, len(self.order_by))


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


def _condition(resource: Resource, name: str, texts: Sequence[str]) -> Condition:
    field, operator = _field_and_operator(resource.model, name)
    values = [_value(resource, field, operator, name, text) for text in texts]
    if len(values) == 1:
        return Condition(_place(resource.model, field), operator, values[0])
    if operator != "==" or len(values) > ALTERNATIVES_MAX:
        raise BadQuery(f"`{name}` may come once, or a field up to {ALTERNATIVES_MAX} times.", field=name)
    return Condition(_place(resource.model, field), "in", values)


def _field_and_operator(model: Model, name: str) -> tuple[str, Operator]:
    """Split a parameter. A field's own name is no field and operator; what a copy's fields are called is not known."""
    if "." not in name and _is_known(model, name):
        return name, "=="
    for suffix, operator in SUFFIXES.items():
        if name.endswith(suffix) and _is_known(model, name.removesuffix(suffix)):
            return name.removesuffix(suffix), operator
    if _is_known(model, name):
        return name, "=="
    raise BadQuery(f"There is no field or parameter `{name[:100]}`.", field=name[:100])


def _is_known(model: Model, name: str) -> bool:
    first, *inner = name.split(".")
    each = _by_name(model, first)
    if name == "id" or each is None:
        return name == "id"
    reaches_in = each.refers_to is not None and not each.is_list
    return (not inner or reaches_in) and all(part and not part.startswith("_") and part != "key" for part in inner)


def _by_name(model: Model, name: str) -> Field | None:
    return next((each for each in model.shown if each.name == name), None)


def _place(model: Model, name: str) -> tuple[str, ...]:
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


def _orders(model: Model, parameters: Parameters) -> tuple[Order, ...]:
    """Return the named order, up to the id, after which nothing is left to order."""
    directions = [each for each in _one(parameters, "_order").lower().split(",") if each]
    orders: list[Order] = []
    for place, text in enumerate(each for each in _one(parameters, "_sort").split(",") if each):
        name, turned = text.removeprefix("-"), text.startswith("-")
        if not _is_known(model, name) or any(each.field == _place(model, name) for each in orders):
            raise BadQuery(f"`_sort` names fields, each once; {name[:100]!r} is none.", field="_sort")
        direction = directions[place] if place < len(directions) else "asc"
        if direction not in ("asc", "desc"):
            raise BadQuery("`_order` is asc or desc for each field of `_sort`.", field="_order")
        orders.append(Order(_place(model, name), descending=turned != (direction == "desc")))
        if name == "id":
            break
    return tuple(orders)


def _page(parameters: Parameters) -> tuple[int, int]:
    """Return how many items to skip, and how many to show at most."""
    most = LIMITS.resource_items_max
    if "_page" in parameters:
        limit = _number(parameters, "_limit", PAGE_DEFAULT, 1, most)
        start = (_number(parameters, "_page", 1, 1, LIMITS.resource_offset_max) - 1) * limit
    else:
        start = _number(parameters, "_start", 0, 0, LIMITS.resource_offset_max)
        end = _number(parameters, "_end", start + most, start, LIMITS.resource_offset_max + most)
        limit = min(end - start, _number(parameters, "_limit", most, 1, most))
    if start > LIMITS.resource_offset_max:
        detail = f"A list skips at most {LIMITS.resource_offset_max:,} items; follow its `Link` instead."
        raise BadQuery(detail, field="_page")
    return start, min(limit, most)


def _number(parameters: Parameters, name: str, default: int, least: int, most: int) -> int:
    text = _one(parameters, name)
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= most):
        raise BadQuery(f"`{name}` must be an integer from {least:,} to {most:,}.", field=name)
    return int(text)


def _one(parameters: Parameters, name: str) -> str:
    texts = parameters.get(name, [""])
    if len(texts) > 1:
        raise BadQuery(f"`{name}` may come once.", field=name)
    return texts[0]
