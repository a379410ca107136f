"""What a query means: its checks and its order for both stores, and its answer for the one in memory.

Firestore's rules: a condition on a missing field does not hold; a range holds only among values of one kind; `!=` holds
for every other value except null; null and NaN are found by `==` alone. A field with an inequality is part of the
order, behind `order_by`, and so part of a cursor.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from operator import ge, gt, itemgetter, le, lt
from typing import Any

from shared.adapters.stores.limits import check_collection, check_path, field_bytes, name_of, value_bytes
from shared.adapters.stores.ordering import NAN_RANK, NULL_RANK, Key, order_key
from shared.operations.ports import ID, Condition, Data, Field, Order, Query
from shared.rules.bounds import INEQUALITY_FIELDS_MAX
from shared.rules.problems import BadQuery
from shared.rules.queries import INEQUALITIES, with_implied

ALTERNATIVES_MAX = 30
"""What all `in` conditions together may branch into."""

RANGES: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
MISSING = object()


def check_query(query: Query) -> None:
    """Raise `BadQuery`, `BadKey` or `BadValue` for what Firestore would not answer."""
    check_collection(query.collection)
    for condition in query.where:
        if condition.field == ID:
            _check_ids(query.collection, condition)
        else:
            _check_condition(condition)
    for order in query.order_by:
        field_bytes(order.field)
    _check_whole(query)
    if query.after:
        _check_cursor(query)


def _check_condition(condition: Condition) -> None:
    field_bytes(condition.field)
    for value in operands(condition):
        value_bytes(value, condition.field)
    if condition.operator not in {"==", "!=", "in"} and (condition.value is None or is_nan(condition.value)):
        raise BadQuery("Null and NaN have no order; ask for them with ==.", field=name_of(condition.field))


def _check_ids(collection: str, condition: Condition) -> None:
    for id_ in operands(condition):
        if not isinstance(id_, str) or condition.operator == "array_contains":
            raise BadQuery("A record's id is compared with texts.")
        check_path(f"{collection}/{id_}")


def operands(condition: Condition) -> Sequence[Any]:
    """Give the values a condition compares with: several for `in`, else one."""
    if condition.operator != "in":
        return (condition.value,)
    if not isinstance(condition.value, list | tuple) or not condition.value:
        raise BadQuery("`in` wants a list of values.", field=name_of(condition.field))
    return condition.value


def _check_whole(query: Query) -> None:
    operators = [condition.operator for condition in query.where]
    fields = [order.field for order in query.order_by]
    if math.prod(len(operands(condition)) for condition in query.where) > ALTERNATIVES_MAX:
        raise BadQuery(f"`in` conditions may branch into {ALTERNATIVES_MAX} alternatives.")
    if operators.count("array_contains") > 1 or operators.count("!=") > 1:
        raise BadQuery("A query takes one array_contains and one !=.")
    if len({one.field for one in query.where if one.operator in INEQUALITIES}) > INEQUALITY_FIELDS_MAX:
        raise BadQuery(f"A query compares at most {INEQUALITY_FIELDS_MAX} fields with < <= > >= or !=.")
    if len(set(fields)) < len(fields):
        raise BadQuery("A query orders by a field once.")
    if query.limit < 1:
        raise BadQuery("A limit is at least 1.")


def _check_cursor(query: Query) -> None:
    orders = full_order(query)
    if len(query.after) != len(orders) + 1 or not isinstance(query.after[-1], str):
        raise BadQuery("A cursor is the values of the fields that the query orders by, then a record's id.")
    for order, value in zip(orders, query.after, strict=False):
        value_bytes(value, order.field)
    check_path(f"{query.collection}/{query.after[-1]}")


def full_order(query: Query) -> tuple[Order, ...]:
    """Give the order in full, but for the id: fields with an inequality come last, in the last direction."""
    return with_implied(query.order_by, query.where)


def is_descending(query: Query) -> bool:
    """Tell the direction of what `order_by` does not name: the last it names."""
    return bool(query.order_by) and query.order_by[-1].descending


def is_nan(value: Any) -> bool:
    """Tell NaN from everything else."""
    return isinstance(value, float) and math.isnan(value)


def found(query: Query, records: Iterable[tuple[str, Data]]) -> list[str]:
    """Find the ids of all matching records, in order, behind the cursor. A record is given as id and data."""
    tests = [_test(condition) for condition in query.where]
    fields = [order.field for order in full_order(query)]
    ranked = []
    for id_, data in records:
        keys = [_key_at(data, field) for field in fields]
        if None not in keys and all(test(id_, data) for test in tests):
            ranked.append((*keys, id_))
    return [rank[-1] for rank in _behind(query, _sorted(query, ranked))]


def value_at(data: Data, field: Field) -> Any:
    """Give the value of a field, or `MISSING`."""
    value: Any = data
    for key in field:
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = value[key]
    return value


def _key_at(data: Data, field: Field) -> Key | None:
    value = value_at(data, field)
    return None if value is MISSING else order_key(value)


def _test(condition: Condition) -> Callable[[str, Data], bool]:
    holds = _comparison(condition)
    field = condition.field
    if field == ID:
        return lambda id_, _: holds(id_)

    def test(_: str, data: Data) -> bool:
        value = value_at(data, field)
        return value is not MISSING and holds(value)

    return test


def _comparison(condition: Condition) -> Callable[[Any], bool]:
    keys = [order_key(value) for value in operands(condition)]
    wanted = keys[0]
    match condition.operator:
        case "==":
            return lambda value: order_key(value) == wanted
        case "!=":
            return lambda value: value is not None and order_key(value) != wanted
        case "in":
            comparable = [key for key in keys if key[0] not in {NULL_RANK, NAN_RANK}]
            return lambda value: order_key(value) in comparable
        case "array_contains":
            return lambda value: isinstance(value, list) and any(order_key(item) == wanted for item in value)
        case operator:
            return _range(RANGES[operator], wanted)


def _range(compare: Callable[[Any, Any], bool], wanted: Key) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        key = order_key(value)
        return bool(key[0] == wanted[0] and compare(key, wanted))

    return holds


def _directions(query: Query) -> list[bool]:
    return [*(order.descending for order in full_order(query)), is_descending(query)]


def _sorted(query: Query, ranked: list[Key]) -> list[Key]:
    """Sort by each column in its own direction: the last first, since sorting keeps the order of equals."""
    for column, descending in reversed(list(enumerate(_directions(query)))):
        ranked.sort(key=itemgetter(column), reverse=descending)
    return ranked


def _behind(query: Query, ranked: list[Key]) -> Iterable[Key]:
    if not query.after:
        return ranked
    cursor = (*(order_key(value) for value in query.after[:-1]), query.after[-1])
    directions = _directions(query)
    return (rank for rank in ranked if _is_behind(rank, cursor, directions))


def _is_behind(rank: Key, cursor: Key, directions: list[bool]) -> bool:
    for one, other, descending in zip(rank, cursor, directions, strict=True):
        if one != other:
            return bool(one < other if descending else one > other)
    return False
