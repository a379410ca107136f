"""A query for documents, parsed from the parameters of a URL.

``where=address.zipcode==54321`` compares a field, embedded ones included; the value is taken as JSON if it is JSON
(``54321``, ``true``, ``"54321"`` for the text), else as text. ``key`` is the document's own key, always a text.
Firestore orders an inequality by its own field first, so that is the order where ``order_by`` is absent; ties are
ordered by key.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from shared.core.rules import page_tokens, values
from shared.core.rules.keys import valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.listings import parse_limit
from shared.core.rules.problems import BadQuery
from shared.core.rules.queries import ID, Condition, Field, Operator, Order, with_implied
from shared.documents.rules.documents import RESERVED

_CONDITION = re.compile(
    r"(?P<field>[^=!<>\s]+)\s*(?P<operator>==|!=|<=|>=|<|>|\bin\b|\bcontains\b)\s*(?P<value>.*)\Z", re.DOTALL
)
_OPERATORS: dict[str, Operator] = {
    "==": "==",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "in": "in",
    "contains": "array_contains",
}


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Find documents; `after` is the place of the last document of the page before."""

    where: tuple[Condition, ...]
    order_by: tuple[Order, ...]
    limit: int
    after: tuple[Any, ...] = ()

    @classmethod
    def from_request(cls, where: Sequence[str], order_by: Sequence[str], limit: str, page_token: str) -> Self:
        """Parse parameters as a URL has them. Raises `BadQuery` naming the parameter."""
        conditions = tuple(map(_condition, where))
        count = parse_limit(limit, LIMITS.query_limit_default, LIMITS.query_limit_max)
        request = cls(conditions, _orders(tuple(map(_order, order_by)), conditions), count)
        if not page_token:
            return request
        return replace(request, after=page_tokens.read(page_token, request.mark, len(request.order_by)))

    @property
    def mark(self) -> str:
        """Return a hash of the query without its limit and page, which its page tokens carry."""
        conditions = sorted(json.dumps([one.field, one.operator, one.value], sort_keys=True) for one in self.where)
        orders = [[order.field, order.descending] for order in self.order_by]
        return hashlib.sha256(json.dumps([conditions, orders]).encode()).hexdigest()[:12]

    def page_token(self, key: str, data: Mapping[str, Any]) -> str:
        """Return the token of the page that begins after this record."""
        return page_tokens.write(self.mark, [_at(data, order.field) for order in self.order_by], key)


@dataclass(frozen=True, slots=True)
class CountRequest:
    """Count the documents that meet all conditions."""

    where: tuple[Condition, ...]

    @classmethod
    def from_request(cls, where: Sequence[str], others: Collection[str] = ()) -> Self:
        """Parse conditions; `others` are the names of the call's other parameters. Raises `BadQuery`."""
        for name in sorted(others):
            raise BadQuery(f"`{name}` cannot be combined with count=true.", field=name)
        return cls(tuple(map(_condition, where)))


def wants_count(text: str) -> bool:
    """Return whether the parameter `count` asks for a count. Raises `BadQuery`."""
    if text not in ("", "true"):
        raise BadQuery("`count` must be true.", field="count")
    return bool(text)


def _condition(text: str) -> Condition:
    match = _CONDITION.match(text)
    if not match:
        raise BadQuery(f"{text!r} is not FIELD==VALUE (or != < <= > >= in contains).", field="where")
    operator, field = _OPERATORS[match["operator"]], _field(match["field"], "where")
    value = _value(match["value"])
    if operator == "in" and not (isinstance(value, list) and 1 <= len(value) <= 30):
        raise BadQuery(f"{text!r}: 'in' takes a JSON list of 1 to 30 values.", field="where")
    if field == ID:
        return Condition(ID, operator, _keys(text, operator, match["value"], value))
    return Condition(field, operator, _stored(operator, value))


def _keys(text: str, operator: Operator, raw: str, value: Any) -> Any:
    """Return the key or keys to compare with: what is not a JSON string is taken as text, since keys are strings."""
    keys = value if operator == "in" else [value if isinstance(value, str) else raw]
    if operator == "array_contains" or not all(map(valid_key, keys)):
        raise BadQuery(f"{text!r} compares the key with a value that is not a valid key.", field="where")
    return keys if operator == "in" else keys[0]


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _stored(operator: Operator, value: Any) -> Any:
    """Return a value as records hold it; the operand of `contains` as a list item."""
    if operator == "in":
        return [values.encode(one) for one in value]
    return values.encode([value])[0] if operator == "array_contains" else values.encode(value)


def _field(text: str, parameter: str) -> Field:
    names = tuple(text.split("."))
    if not all(names):
        raise BadQuery(f"{text!r} is not a field; write name.name.name.", field=parameter)
    if names == ("key",):
        return ID
    if names[0] in ("key", RESERVED, *ID):
        raise BadQuery(f"{text!r} is not a field of a document.", field=parameter)
    return names


def _order(text: str) -> Order:
    return Order(_field(text.removeprefix("-"), "order_by"), descending=text.startswith("-"))


def _orders(named: tuple[Order, ...], conditions: Sequence[Condition]) -> tuple[Order, ...]:
    """Return the full order without the key, which always comes last and is only checked if it is named."""
    if ID not in [order.field for order in named]:
        return with_implied(named, conditions)
    *others, last = named
    descending = bool(others) and others[-1].descending
    if last != Order(ID, descending) or with_implied(tuple(others), conditions) != tuple(others):
        raise BadQuery(
            "`key` must come last in order_by, in the direction of the field before it, ascending if there is none; "
            "fields that are compared with < > or != come before it.",
            field="order_by",
        )
    return tuple(others)


def _at(data: Any, field: Field) -> Any:
    for name in field:
        data = data[name]
    return data
