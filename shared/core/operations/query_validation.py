"""What a query means: its checks and its order for both stores, and its answer for the one in memory.

Firestore's rules: a condition on a missing field does not hold; a range holds only among values of one kind; `!=` holds
for every other value except null; null and NaN are found by `==` alone. A field with an inequality is part of the
order, behind `order_by`, and so part of a cursor.
"""

import math
from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Any

from shared.core.operations.ports import ID, Condition, Order, Query
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadQuery
from shared.core.rules.queries import INEQUALITIES, with_implied
from shared.core.rules.record_limits import check_collection, check_path, field_bytes, name_of, value_bytes

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
    if len({one.field for one in query.where if one.operator in INEQUALITIES}) > LIMITS.inequality_fields_max:
        raise BadQuery(f"A query compares at most {LIMITS.inequality_fields_max} fields with < <= > >= or !=.")
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
