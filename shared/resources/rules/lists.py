"""Lists of items: the order and page of a request, as table components send them (json-server's parameters).

    _sort=order,-text            or _sort=order,text with _order=asc,desc; `id` is a field too
    _start=20&_end=40            or _page=3&_limit=20; then `X-Total-Count` says how many there are
    page_token=…                 the page behind another, as its `Link` says

All other parameters are filters (`filters.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from shared.core.rules import page_tokens
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadQuery
from shared.core.rules.queries import ID, Condition, Order, with_implied
from shared.documents.rules.queries import FindRequest
from shared.resources.rules.filters import condition_of, is_known, place_of
from shared.resources.rules.items import Resource
from shared.resources.rules.models import Model

Parameters = Mapping[str, Sequence[str]]
"""The texts of each query parameter, in order."""

PAGING = ("_sort", "_order", "_start", "_end", "_page", "_limit", "page_token")
PAGE_DEFAULT = 10
"""Items of a page if `_page` comes without `_limit`, as json-server has it."""


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
        asked = tuple(condition_of(resource, *each) for each in parameters.items() if each[0] not in PAGING)
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


def _orders(model: Model, parameters: Parameters) -> tuple[Order, ...]:
    """Return the named order, up to the id, after which nothing is left to order."""
    directions = [each for each in _one(parameters, "_order").lower().split(",") if each]
    orders: list[Order] = []
    for place, text in enumerate(each for each in _one(parameters, "_sort").split(",") if each):
        name, turned = text.removeprefix("-"), text.startswith("-")
        if not is_known(model, name) or any(each.field == place_of(model, name) for each in orders):
            raise BadQuery(f"`_sort` names fields, each once; {name[:100]!r} is none.", field="_sort")
        direction = directions[place] if place < len(directions) else "asc"
        if direction not in ("asc", "desc"):
            raise BadQuery("`_order` is asc or desc for each field of `_sort`.", field="_order")
        orders.append(Order(place_of(model, name), descending=turned != (direction == "desc")))
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
