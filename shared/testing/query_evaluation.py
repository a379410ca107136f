"""Evaluate a query over records in memory, as Firestore does."""

from collections.abc import Callable, Iterable
from operator import ge, gt, itemgetter, le, lt
from typing import Any

from shared.core.operations.ports import ID, Condition, Data, Field, Query
from shared.core.operations.query_validation import full_order, is_descending, operands
from shared.core.rules.ordering import NAN_RANK, NULL_RANK, Key, order_key

RANGES: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
MISSING = object()


def found(query: Query, records: Iterable[tuple[str, Data]]) -> list[str]:
    """Return the ids of all matching records, in order, after the cursor. A record is passed as id and data."""
    tests = [_test(condition) for condition in query.where]
    fields = [order.field for order in full_order(query)]
    ranked = []
    for id_, data in records:
        keys = [_key_at(data, field) for field in fields]
        if None not in keys and all(test(id_, data) for test in tests):
            ranked.append((*keys, id_))
    return [rank[-1] for rank in _behind(query, _sorted(query, ranked))]


def value_at(data: Data, field: Field) -> Any:
    """Return the value of a field, or `MISSING`."""
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
