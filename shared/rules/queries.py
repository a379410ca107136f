"""What people write in a URL to find documents, as a value.

``where=address.zipcode==54321`` compares a field, embedded ones included; the value is taken as JSON if it is JSON
(``54321``, ``true``, ``"54321"`` for the text), else as text. Firestore orders an inequality by its own field first,
so that is the order where ``order_by`` does not say; documents of equal rank are ordered by key, and a page token names
the last of them: it stays good whatever is written in between.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from shared.rules import values
from shared.rules.bounds import QUERY_LIMIT_DEFAULT, QUERY_LIMIT_MAX
from shared.rules.documents import RESERVED, valid_key
from shared.rules.problems import BadQuery

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "array_contains"]
Field = tuple[str, ...]

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
_TIME_MARK = "__time__"
_INEQUALITIES = ("!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a field, given as its path of names."""

    field: Field
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class Order:
    """One field to order by."""

    field: Field
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """What to find; `after` is the place of the last document of the page before."""

    where: tuple[Condition, ...]
    order_by: tuple[Order, ...]
    limit: int
    after: tuple[Any, ...] = ()


def parse(where: Sequence[str], order_by: Sequence[str], limit: str, page_token: str) -> Search:
    """Read a search. Raises `BadQuery` naming the parameter."""
    conditions = tuple(map(_condition, where))
    order = _with_implied(tuple(map(_order, order_by)), conditions)
    return Search(conditions, order, _limit(limit), _after(page_token, len(order)))


def _condition(text: str) -> Condition:
    match = _CONDITION.match(text)
    if not match:
        raise BadQuery(f"{text!r} is no FIELD==VALUE (or != < <= > >= in contains).", field="where")
    operator, value = _OPERATORS[match["operator"]], _value(match["value"])
    if operator == "in" and not (isinstance(value, list) and 1 <= len(value) <= 30):
        raise BadQuery(f"{text!r}: 'in' takes a JSON list of 1 to 30 values.", field="where")
    return Condition(_field(match["field"], "where"), operator, _stored(operator, value))


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _stored(operator: Operator, value: Any) -> Any:
    """Give what a record holds for a value; what `contains` looks for stands in a list there."""
    if operator == "in":
        return [values.encode(one) for one in value]
    return values.encode([value])[0] if operator == "array_contains" else values.encode(value)


def _field(text: str, parameter: str) -> Field:
    names = tuple(text.split("."))
    if not all(names):
        raise BadQuery(f"{text!r} is no field; write name.name.name.", field=parameter)
    if names[0] in ("key", RESERVED):
        raise BadQuery(f"{names[0]!r} is no field of what is stored; GET a key at its own address.", field=parameter)
    return names


def _order(text: str) -> Order:
    return Order(_field(text.removeprefix("-"), "order_by"), descending=text.startswith("-"))


def _with_implied(named: tuple[Order, ...], conditions: Sequence[Condition]) -> tuple[Order, ...]:
    """Add the fields of inequalities, as Firestore would: without them no page token names a place."""
    descending = bool(named) and named[-1].descending
    unequal = {condition.field for condition in conditions if condition.operator in _INEQUALITIES}
    implied = sorted(unequal - {order.field for order in named})
    return (*named, *(Order(field, descending) for field in implied))


def _limit(text: str) -> int:
    if not text:
        return QUERY_LIMIT_DEFAULT
    if not (text.isdecimal() and len(text) <= len(str(QUERY_LIMIT_MAX)) and 1 <= int(text) <= QUERY_LIMIT_MAX):
        raise BadQuery(f"limit is a whole number from 1 to {QUERY_LIMIT_MAX:,}.", field="limit")
    return int(text)


def token(key: str, data: Mapping[str, Any], search: Search) -> str:
    """Name the document after which the next page begins."""
    place = [*(_at(data, order.field) for order in search.order_by), key]
    return base64.urlsafe_b64encode(json.dumps(place, default=_time_as_json).encode()).decode().rstrip("=")


def _time_as_json(moment: datetime) -> dict[str, str]:
    """Mark a time, which only other clients store, in a way that no map in a record can look like."""
    return {_TIME_MARK: moment.isoformat()}


def _time_from_json(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(str(value[_TIME_MARK])) if value.keys() == {_TIME_MARK} else value


def _at(data: Any, field: Field) -> Any:
    for name in field:
        data = data[name]
    return data


def _after(page_token: str, orders: int) -> tuple[Any, ...]:
    if not page_token:
        return ()
    try:
        decoded = base64.urlsafe_b64decode(page_token + "=" * (-len(page_token) % 4))
        place = json.loads(decoded, object_hook=_time_from_json)
    except (ValueError, binascii.Error, RecursionError):
        place = None
    if not isinstance(place, list) or len(place) != orders + 1 or not valid_key(place[-1]):
        raise BadQuery("This page_token is of another query.", field="page_token")
    return tuple(place)
