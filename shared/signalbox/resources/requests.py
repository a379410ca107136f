"""Lists of items: the filters, order and page of a request, as table components send them (json-server's parameters).

    done=false                   a field equals a value; repeated: one of these
    order_gte=3                  _gt _gte _lt _lte _ne; on a list, tags_contains=red
    due=null  due_ne=null        the field has no value; it has one. The text "null" is written with its quotes
    country=FR  country.name=…   the item that a reference names, or a field of its copy
    _sort=order,-text            or _sort=order,text with _order=asc,desc; `id` is also a field
    _start=20&_end=40            or _page=3&_limit=20; then `X-Total-Count` has the number of items
    page_token=…                 the next page, from `Link`

A value is parsed by its field's type. Hidden fields cannot be searched. If an index is missing, a small resource is
filtered and sorted here, with the same results as in Firestore.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import BadQuery
from signalbox.core.records.queries import ALTERNATIVES_MAX, ID, Condition, Operator, Order, with_implied
from signalbox.core.records.queries import Field as core_Field
from signalbox.core.records.value_order import Key, order_key
from signalbox.core.surface.paging import read_page_token
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import RESOURCE_META
from signalbox.documents.requests import FindRequest
from signalbox.resources.limits import LIMITS
from signalbox.resources.model.declared_models import Model
from signalbox.resources.model.fields import DATETIME, Field, key_of
from signalbox.resources.model.items import Resource

SUFFIXES: Mapping[str, Operator] = {
    "_ne": "!=",
    "_gte": ">=",
    "_gt": ">",
    "_lte": "<=",
    "_lt": "<",
    "_contains": "array_contains",
}


def conditions_of(
    resource: Resource, owner: str | None, narrowed: Iterable[tuple[str, Operator, Any]]
) -> tuple[Condition, ...]:
    """Return the conditions of every list: on the resource, on the owner if items have one, and those of hook `narrow`.

    `narrowed` may name hidden fields. Raises `BadQuery`.
    """
    ours = [Condition((RESOURCE_META, "name"), "==", resource.name)]
    owned = [Condition((RESOURCE_META, "owner"), "==", owner)] if resource.owned else []
    return (*ours, *owned, *(_narrowing(resource.model, condition) for condition in narrowed))


def _narrowing(model: Model, condition: tuple[str, Operator, Any]) -> Condition:
    name, operator, value = condition
    each = model.fields[name]
    if each.refers_to:
        return Condition((name, "key"), operator, key_of(each.refers_to.resource, value))
    return Condition((RESOURCE_META, "hidden", name) if each.is_hidden else (name,), operator, value)


def condition_of(resource: Resource, name: str, texts: Sequence[str]) -> Condition:
    """Return the condition of a query parameter. Raises `BadQuery`."""
    field, operator = _field_and_operator(resource.model, name)
    values = [_value(resource, field, operator, name, text) for text in texts]
    if len(values) == 1:
        return Condition(place_of(resource.model, field), operator, values[0])
    if operator != "==" or len(values) > ALTERNATIVES_MAX:
        raise BadQuery(
            f"`{name}` may be given once; a field without a suffix, up to {ALTERNATIVES_MAX} times.", field=name
        )
    if None in values:
        raise BadQuery(f"null cannot be one of several alternatives: send `{name}=null` alone.", field=name)
    return Condition(place_of(resource.model, field), "in", values)


def _field_and_operator(model: Model, name: str) -> tuple[str, Operator]:
    """Split a parameter into field and operator. A parameter that is itself the name of a field means equality."""
    if "." not in name and is_known(model, name):
        return name, "=="
    for suffix, operator in SUFFIXES.items():
        if name.endswith(suffix) and is_known(model, name.removesuffix(suffix)):
            return name.removesuffix(suffix), operator
    if is_known(model, name):
        return name, "=="
    raise BadQuery(f"`{name[:100]}` is neither a field nor a parameter. `meta` lists the fields.", field=name[:100])


def is_known(model: Model, name: str) -> bool:
    """Return whether a name is a visible field, or a field in the copy of a reference."""
    first, *inner = name.split(".")
    each = _by_name(model, first)
    if name == "id" or each is None:
        return name == "id"
    reaches_in = each.refers_to is not None and not each.is_list
    return (not inner or reaches_in) and all(part and not part.startswith("_") and part != "key" for part in inner)


def _by_name(model: Model, name: str) -> Field | None:
    return next((field for field in model.shown if field.name == name), None)


def place_of(model: Model, name: str) -> tuple[str, ...]:
    """Return the path of a field in the document."""
    if name == "id":
        return ID
    if name in model.kept:
        return (RESOURCE_META, name)
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
        return _checked_null(_json_or_text(text), operator)
    if each.is_list != (operator == "array_contains") or (each.is_list and each.refers_to):
        raise ValueError("use _contains for a list, and only for a list; references in lists cannot be searched")
    if each.is_optional and not each.is_list and text == "null":
        return _checked_null(None, operator)
    if each.is_optional and text == '"null"':
        text = "null"
    value = (DATETIME if first in resource.model.kept else each.type).parse(text)
    return value["key"] if each.refers_to else value


def _checked_null(value: Any, operator: Operator) -> Any:
    if value is None and operator not in ("==", "!="):
        raise ValueError("null has no order: use the field without a suffix, or with _ne")
    return value


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


Parameters = Mapping[str, Sequence[str]]
"""The values of each query parameter, in order."""


PAGING = ("_sort", "_order", "_start", "_end", "_page", "_limit", "page_token")

PAGE_DEFAULT = 10
"""Items of a page if `_page` is given without `_limit`, as in json-server."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A page of a resource's items.

    - `base` are the conditions of every list of the resource, and `where` all conditions.
    - `order_by` is the full order without the id, which is always last.
    - `by_id_descending` is whether the order is that of the id alone, descending.
    - `reads_copies` is whether a condition or the order is on a field in the copy of a reference. Only copies that
      `owner` may see count there.
    """

    base: tuple[Condition, ...]
    where: tuple[Condition, ...]
    order_by: tuple[Order, ...]
    limit: int
    start: int = 0
    after: tuple[Any, ...] = ()
    wants_total: bool = False
    by_id_descending: bool = False
    reads_copies: bool = False
    owner: str | None = None

    @classmethod
    def from_request(
        cls, resource: Resource, parameters: Parameters, base: tuple[Condition, ...], owner: str | None = None
    ) -> Self:
        """Parse the query parameters of a request by `owner`. Raises `BadQuery` with the invalid parameter."""
        asked = tuple(
            condition_of(resource, *parameter) for parameter in parameters.items() if parameter[0] not in PAGING
        )
        where = (*base, *asked)
        start, limit = _page(parameters)
        orders = _orders(resource.model, parameters)
        by_id_descending = orders == (Order(ID, descending=True),)
        named = tuple(order for order in orders if order.field != ID)
        wants_total = any(name in parameters for name in ("_end", "_limit", "_page", "_start"))
        fields = [*(condition.field for condition in asked), *(order.field for order in named)]
        request = cls(
            base,
            where,
            with_implied(named, where),
            limit,
            start,
            wants_total=wants_total,
            by_id_descending=by_id_descending,
            reads_copies=any(_is_in_a_copy(resource.model, field) for field in fields),
            owner=owner,
        )
        token = _one(parameters, "page_token")
        return replace(request, after=read_page_token(token, request.mark, len(request.order_by))) if token else request

    @property
    def mark(self) -> str:
        """A hash of the query, which is part of its page tokens."""
        return self.find(1).mark + ("-" if self.by_id_descending else "")

    def find(self, limit: int, after: tuple[Any, ...] = ()) -> FindRequest:
        """Return the query for documents."""
        return FindRequest(self.where, self.order_by, limit, after)

    def cursor(self, token: str) -> tuple[Any, ...]:
        """Return the position in a page token of this query."""
        return read_page_token(token, self.mark, len(self.order_by))


def _is_in_a_copy(model: Model, field: core_Field) -> bool:
    first, *inner = field
    return inner not in ([], ["key"]) and first in model.fields and model.fields[first].refers_to is not None


def _orders(model: Model, parameters: Parameters) -> tuple[Order, ...]:
    """Return the requested order. It ends with the id if the id is named, since no ties are left after the id."""
    directions = [part for part in _one(parameters, "_order").lower().split(",") if part]
    orders: list[Order] = []
    for place, text in enumerate(part for part in _one(parameters, "_sort").split(",") if part):
        name, turned = text.removeprefix("-"), text.startswith("-")
        if not is_known(model, name) or any(order.field == place_of(model, name) for order in orders):
            raise BadQuery(
                f"`_sort` must name visible fields, each once; {name[:100]!r} is unknown or repeated.", field="_sort"
            )
        direction = directions[place] if place < len(directions) else "asc"
        if direction not in ("asc", "desc"):
            raise BadQuery("`_order` must be asc or desc for each field of `_sort`.", field="_order")
        orders.append(Order(place_of(model, name), descending=turned != (direction == "desc")))
        if name == "id":
            break
    return tuple(orders)


def _page(parameters: Parameters) -> tuple[int, int]:
    """Return the number of items to skip and the largest number to show."""
    most = LIMITS.resource_items_max
    if "_page" in parameters:
        limit = _number(parameters, "_limit", PAGE_DEFAULT, 1, most)
        start = (_number(parameters, "_page", 1, 1, LIMITS.resource_offset_max) - 1) * limit
    else:
        start = _number(parameters, "_start", 0, 0, LIMITS.resource_offset_max)
        end = _number(parameters, "_end", start + most, start, LIMITS.resource_offset_max + most)
        limit = min(end - start, _number(parameters, "_limit", most, 1, most))
    if start > LIMITS.resource_offset_max:
        detail = f"A list skips at most {LIMITS.resource_offset_max:,} items. Follow its `Link` instead."
        raise BadQuery(detail, field="_page")
    return start, min(limit, most)


def _number(parameters: Parameters, name: str, default: int, least: int, most: int) -> int:
    if name not in parameters:
        return default
    text = _one(parameters, name)
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= most):
        raise BadQuery(f"`{name}` must be an integer from {least:,} to {most:,}.", field=name)
    return int(text)


def _one(parameters: Parameters, name: str) -> str:
    texts = parameters.get(name, [""])
    if len(texts) > 1:
        raise BadQuery(f"`{name}` may be given once.", field=name)
    return texts[0]


_NOTHING = object()


def matching(documents: Sequence[Content], request: ListRequest) -> list[Content]:
    """Return the documents that meet all conditions and have all fields of the order, sorted."""
    fields = [order.field for order in request.order_by]
    found = [document for document in documents if all(_meets(document, condition) for condition in request.where)]
    complete = [document for document in found if all(_at(document, field) is not _NOTHING for field in fields)]
    return sorted(complete, key=cmp_to_key(_order_of(request)))


def _order_of(request: ListRequest) -> Callable[[Content, Content], int]:
    def compared(one: Content, other: Content) -> int:
        return _compared(request, position_of(one, request), position_of(other, request))

    return compared


def behind(documents: Sequence[Content], request: ListRequest) -> list[Content]:
    """Return the sorted documents after the end of the previous page."""
    return [document for document in documents if _compared(request, position_of(document, request), request.after) > 0]


def position_of(document: Content, request: ListRequest) -> tuple[Any, ...]:
    """Return the values by which the request orders, then the key."""
    return (*(_at(document, order.field) for order in request.order_by), document["key"])


def _compared(request: ListRequest, one: Sequence[Any], other: Sequence[Any]) -> int:
    *directions, last = _directions(request)
    for descending, mine, its in zip([*directions, last], one, other, strict=True):
        left, right = order_key(mine), order_key(its)
        if left != right:
            return 1 if (left > right) != descending else -1
    return 0


def _directions(request: ListRequest) -> list[bool]:
    named = [order.descending for order in request.order_by]
    return [*named, named[-1] if named else request.by_id_descending]


def _at(document: Content, field: core_Field) -> Any:
    value: Any = document
    for name in ("key",) if field == ID else field:
        if not isinstance(value, dict) or name not in value:
            return _NOTHING
        value = value[name]
    return value


def _meets(document: Content, condition: Condition) -> bool:
    value = _at(document, condition.field)
    if value is _NOTHING:
        return False
    if condition.operator == "in":
        return value is not None and any(order_key(value) == order_key(choice) for choice in condition.value)
    if condition.operator == "array_contains":
        return isinstance(value, list) and any(order_key(member) == order_key(condition.value) for member in value)
    return _holds(order_key(value), condition.operator, order_key(condition.value), value)


def _holds(left: Key, operator: str, right: Key, value: Any) -> bool:
    if operator == "==":
        return left == right
    if operator == "!=":
        return left != right and value is not None
    if left[0] != right[0]:
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]
