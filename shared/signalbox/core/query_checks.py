"""Checks of queries before they are sent, the same for both stores.

Firestore's rules for queries: a condition on a missing field does not hold; a range holds only among values of one
type; `!=` holds for every other value except null; null and NaN are found by `==` alone. A field with an inequality is
part of the order, after `order_by`, and so part of a cursor.
"""

import math
from collections.abc import Sequence
from typing import Any

from signalbox.core.keys import check_collection, check_path
from signalbox.core.ports import Query
from signalbox.core.problems import BadQuery, NeedsIndex
from signalbox.core.records.composite_indexes import Index
from signalbox.core.records.queries import ALTERNATIVES_MAX, ID, INEQUALITIES, Condition, Order, with_implied
from signalbox.core.records.record_values import RECORD, field_name, size_bytes

OPERAND_BYTES_MAX = 1_500
"""Bytes of a value that a condition compares with, as stored: a text has a byte for its end. Firestore's indexes
contain no more of a value, and Firestore refuses values that its indexes cannot distinguish. Cursors and ids have no
such limit."""


INEQUALITY_FIELDS_MAX = 10
"""Fields that one query may compare by size: Firestore's limit."""


def check_query(query: Query) -> None:
    """Raise `BadQuery`, `BadKey` or `BadValue` for a query that Firestore would refuse."""
    check_collection(query.collection)
    for condition in query.where:
        if condition.field == ID:
            _check_ids(query.collection, condition)
        else:
            _check_condition(condition)
    for order in query.order_by:
        RECORD.check_field(order.field)
    _check_whole(query)
    if query.group and (query.after or any(condition.field == ID for condition in query.where)):
        raise BadQuery("A query of a group has no cursor, and no condition on ids.")
    if query.after:
        _check_cursor(query)


def _check_condition(condition: Condition) -> None:
    names_bytes = RECORD.check_field(condition.field)
    for value in operands(condition):
        RECORD.check(value, condition.field, names_bytes)
        if size_bytes(value) > OPERAND_BYTES_MAX:
            field = field_name(condition.field)
            raise BadQuery(f"A condition compares with at most {OPERAND_BYTES_MAX:,} bytes.", field=field)
    if condition.operator not in {"==", "!=", "in"} and (condition.value is None or is_nan(condition.value)):
        raise BadQuery("Null and NaN have no order; compare with ==.", field=field_name(condition.field))


def _check_ids(collection: str, condition: Condition) -> None:
    for id_ in operands(condition):
        if not isinstance(id_, str) or condition.operator == "array_contains":
            raise BadQuery("A record's id is compared with texts.")
        check_path(f"{collection}/{id_}")


def operands(condition: Condition) -> Sequence[Any]:
    """Return the values that a condition compares with: several for `in`, otherwise one. Raises `BadQuery`."""
    if condition.operator != "in":
        return (condition.value,)
    if not isinstance(condition.value, list | tuple) or not condition.value:
        raise BadQuery("`in` takes a list of values.", field=field_name(condition.field))
    return condition.value


def _check_whole(query: Query) -> None:
    operators = [condition.operator for condition in query.where]
    fields = [order.field for order in query.order_by]
    unequal = {condition.field for condition in query.where if condition.operator in INEQUALITIES}
    if math.prod(len(operands(condition)) for condition in query.where) > ALTERNATIVES_MAX:
        raise BadQuery(f"`in` conditions may branch into {ALTERNATIVES_MAX} alternatives.")
    if operators.count("array_contains") > 1 or operators.count("!=") > 1:
        raise BadQuery("A query takes one array_contains and one !=.")
    if len(unequal) > INEQUALITY_FIELDS_MAX:
        raise BadQuery(f"A query compares at most {INEQUALITY_FIELDS_MAX} fields with < <= > >= or !=.")
    if unequal and ID not in unequal and any(condition.field == ID for condition in query.where):
        raise BadQuery(
            "With == or `in` of ids, a query takes no < <= > >= or != of fields, unless it has one of ids too."
        )
    if len(set(fields)) < len(fields):
        raise BadQuery("A query orders by a field once.")
    if query.limit < 1:
        raise BadQuery("A limit is at least 1.")


def _check_cursor(query: Query) -> None:
    orders = full_order(query)
    if len(query.after) != len(orders) + 1 or not isinstance(query.after[-1], str):
        raise BadQuery("A cursor is the values of the fields that the query orders by, then a record's id.")
    for order, value in zip(orders, query.after, strict=False):
        RECORD.check(value, order.field)
    check_path(f"{query.collection}/{query.after[-1]}")


def full_order(query: Query) -> tuple[Order, ...]:
    """Return the full order without the id: fields with an inequality come last, in the last direction."""
    return with_implied(query.order_by, query.where)


def is_descending(query: Query) -> bool:
    """Return whether fields that `order_by` does not name are descending, as the last field that it names is."""
    return bool(query.order_by) and query.order_by[-1].descending


def is_nan(value: Any) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def needs_index(index: Index) -> NeedsIndex:
    """Return the problem that names the index to declare."""
    return NeedsIndex(f"Add to `indexes` of the catalogue and deploy: {index}", field="where")
