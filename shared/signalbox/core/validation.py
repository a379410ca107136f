"""Checks of queries and writes before they are sent, the same for both stores.

Firestore's rules for queries: a condition on a missing field does not hold; a range holds only among values of one
type; `!=` holds for every other value except null; null and NaN are found by `==` alone. A field with an inequality is
part of the order, after `order_by`, and so part of a cursor.

Checks of writes raise a `Problem` where a caller's data can be the cause, and `ValueError` where only the kit's own
code can. They do not depend on the stored record: a `Change` that makes it too large is refused by the server.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from signalbox.core.keys import check_collection, check_path
from signalbox.core.ports import REMOVE, SERVER_TIME, Change, Increment, Must, Put, Query, Write
from signalbox.core.problems import BadQuery, BadValue, TooLarge
from signalbox.core.queries import ALTERNATIVES_MAX, ID, INEQUALITIES, Condition, Field, Order, with_implied
from signalbox.core.record_values import RECORD, field_name, map_bytes, record_bytes, size_bytes

OPERAND_BYTES_MAX = 1_500
"""Bytes of a value that a condition compares with, as stored: a text has a byte for its end. Firestore's indexes hold
no more of a value, and it refuses values that they cannot distinguish. Cursors and ids have no such limit."""


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
    """Return the values a condition compares with: several for `in`, else one. Raises `BadQuery`."""
    if condition.operator != "in":
        return (condition.value,)
    if not isinstance(condition.value, list | tuple) or not condition.value:
        raise BadQuery("`in` takes a list of values.", field=field_name(condition.field))
    return condition.value


def _check_whole(query: Query) -> None:
    operators = [condition.operator for condition in query.where]
    fields = [order.field for order in query.order_by]
    if math.prod(len(operands(condition)) for condition in query.where) > ALTERNATIVES_MAX:
        raise BadQuery(f"`in` conditions may branch into {ALTERNATIVES_MAX} alternatives.")
    if operators.count("array_contains") > 1 or operators.count("!=") > 1:
        raise BadQuery("A query takes one array_contains and one !=.")
    if (
        len({condition.field for condition in query.where if condition.operator in INEQUALITIES})
        > INEQUALITY_FIELDS_MAX
    ):
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


WRITES_EACH_MAX = 500
"""Of one `write_each`: Firestore's limit on a BatchWrite."""


COMMIT_BYTES_MAX = 4 * 1024 * 1024
"""Of one commit: the emulator's limit. The cloud's is 10 MiB, but what runs on one should run on the other."""


_SERVER_VALUE_BYTES = 8


def is_server_value(value: Any) -> bool:
    """Return whether the server computes this value at the commit."""
    return value is SERVER_TIME or isinstance(value, Increment)


def check_distinct(writes: Sequence[Write]) -> None:
    """Raise `ValueError` if a record is written twice. Firestore refuses some of these commits, by complex rules."""
    if len({write.path for write in writes}) < len(writes):
        raise ValueError("one call writes a record once")


def check_each(writes: Sequence[Write]) -> None:
    """Raise `ValueError` for more independent writes than one call may have, or for a record written twice."""
    if len(writes) > WRITES_EACH_MAX:
        raise ValueError(f"at most {WRITES_EACH_MAX} writes a call")
    check_distinct(writes)


def check_commit(writes: Sequence[Write]) -> list[int]:
    """Check a commit. Returns for each write an upper bound of the bytes it adds to its record.

    Raises as `check_write` and `check_distinct` do, and `TooLarge`.
    """
    check_distinct(writes)
    sizes = [check_write(write) for write in writes]
    if sum(sizes) > COMMIT_BYTES_MAX:
        raise TooLarge(f"A commit has at most {COMMIT_BYTES_MAX:,} bytes; this one has {sum(sizes):,}.")
    return sizes


def check_write(write: Write) -> int:
    """Check a write. Returns an upper bound of the bytes it adds to its record.

    Raises `BadKey`, `BadValue`, `TooLarge`, or `ValueError` for a guard that makes no sense.
    """
    check_path(write.path)
    if isinstance(write, Put):
        return _put_bytes(write)
    if isinstance(write, Change):
        return _change_bytes(write)
    return 0


def _put_bytes(put: Put) -> int:
    plain = {name: value for name, value in put.data.items() if not is_server_value(value)}
    from_server: dict[Field, Any] = {(name,): value for name, value in put.data.items() if is_server_value(value)}
    RECORD.check_map(plain.items())
    return record_bytes(put.path, map_bytes(plain) + _fields_bytes(from_server))


def _change_bytes(change: Change) -> int:
    is_count = bool(change.fields) and all(map(is_server_value, change.fields.values()))
    if change.guard is Must.NOT_EXIST or (change.guard is None and not is_count):
        raise ValueError("a change is of a record that exists: guard it by Must.EXIST or its update time")
    _check_disjoint(change.fields)
    return record_bytes(change.path, _fields_bytes(change.fields))


def _check_disjoint(fields: Mapping[Field, Any]) -> None:
    for field in fields:
        if any(field[:length] in fields for length in range(1, len(field))):
            raise BadValue("A change names a field and a part of it.", field=field_name(field))


def _fields_bytes(fields: Mapping[Field, Any]) -> int:
    size = 0
    for field, value in fields.items():
        names_bytes = RECORD.check_field(field)
        size += names_bytes + _new_bytes(value, field, names_bytes)
    return size


def _new_bytes(value: Any, field: Field, names_bytes: int) -> int:
    if value is SERVER_TIME or value is REMOVE:
        return _SERVER_VALUE_BYTES
    if isinstance(value, Increment):
        _check_increment(value, field)
        return _SERVER_VALUE_BYTES
    RECORD.check(value, field, names_bytes)
    return size_bytes(value)


def _check_increment(increment: Increment, field: Field) -> None:
    if type(increment.by) is not int:
        raise BadValue("An increment is an integer.", field=field_name(field))
    RECORD.check(increment.by, field)
