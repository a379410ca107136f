"""Convert queries to Firestore's protobuf messages."""

from typing import Any

from google.cloud.firestore_v1.types import query as types

from shared.adapters.firestore.values import field_path, fill
from shared.core.operations.ports import ID, Condition, Order, Query
from shared.core.operations.query_validation import full_order, is_descending, operands
from shared.core.rules.ordering import NAN_RANK, NULL_RANK, order_key

_Structured = types.StructuredQuery.pb()

_AND = _Structured.CompositeFilter.AND
_ASCENDING, _DESCENDING = _Structured.ASCENDING, _Structured.DESCENDING
_OPERATORS = {
    "==": _Structured.FieldFilter.EQUAL,
    "!=": _Structured.FieldFilter.NOT_EQUAL,
    "<": _Structured.FieldFilter.LESS_THAN,
    "<=": _Structured.FieldFilter.LESS_THAN_OR_EQUAL,
    ">": _Structured.FieldFilter.GREATER_THAN,
    ">=": _Structured.FieldFilter.GREATER_THAN_OR_EQUAL,
    "in": _Structured.FieldFilter.IN,
    "array_contains": _Structured.FieldFilter.ARRAY_CONTAINS,
}
_UNARY = {
    ("==", NULL_RANK): _Structured.UnaryFilter.IS_NULL,
    ("!=", NULL_RANK): _Structured.UnaryFilter.IS_NOT_NULL,
    ("==", NAN_RANK): _Structured.UnaryFilter.IS_NAN,
    ("!=", NAN_RANK): _Structured.UnaryFilter.IS_NOT_NAN,
}
"""Null and NaN equal nothing, so the API has operators for them."""


def parent_of(root: str, collection: str) -> str:
    """Return the name of the record above a collection, or the root."""
    return f"{root}/{collection}".rpartition("/")[0]


def query_message(root: str, query: Query) -> Any:
    """Build a `StructuredQuery` with its order in full, so that a cursor has a value for each of its fields."""
    message = _matching(root, query)
    message.order_by.add(direction=_direction(is_descending(query))).field.field_path = "__name__"
    message.limit.value = query.limit
    if query.after:
        _fill_cursor(message.start_at, root, query)
    return message


def count_message(root: str, query: Query) -> Any:
    """Build a `StructuredAggregationQuery` that counts, with the result under ``count``."""
    message = types.StructuredAggregationQuery.pb()()
    message.structured_query.CopyFrom(_matching(root, query))
    message.aggregations.add(alias="count").count.SetInParent()
    return message


def _matching(root: str, query: Query) -> Any:
    message = _Structured()
    message.from_.add(collection_id=query.collection.rpartition("/")[2])
    _fill_where(message, root, query)
    for order in full_order(query):
        _fill_order(message.order_by.add(), order)
    return message


def _fill_where(message: Any, root: str, query: Query) -> None:
    for condition in query.where:
        both = message.where.composite_filter
        both.op = _AND
        if condition.field == ID:
            _fill_ids(both.filters.add().field_filter, f"{root}/{query.collection}", condition)
        else:
            _fill_condition(both.filters.add(), condition)


def _fill_ids(message: Any, parent: str, condition: Condition) -> None:
    message.op = _OPERATORS[condition.operator]
    message.field.field_path = "__name__"
    values = [message.value.array_value.values.add() for _ in operands(condition)]
    for value, id_ in zip(values if condition.operator == "in" else [message.value], operands(condition), strict=True):
        value.reference_value = f"{parent}/{id_}"


def _fill_condition(message: Any, condition: Condition) -> None:
    unary = _UNARY.get((condition.operator, order_key(operands(condition)[0])[0]))
    if unary is not None:
        message.unary_filter.op = unary
        message.unary_filter.field.field_path = field_path(condition.field)
        return
    message.field_filter.op = _OPERATORS[condition.operator]
    message.field_filter.field.field_path = field_path(condition.field)
    fill(message.field_filter.value, list(condition.value) if condition.operator == "in" else condition.value)


def _fill_order(message: Any, order: Order) -> None:
    message.field.field_path = field_path(order.field)
    message.direction = _direction(order.descending)


def _direction(descending: bool) -> Any:
    return _DESCENDING if descending else _ASCENDING


def _fill_cursor(message: Any, root: str, query: Query) -> None:
    *values, id_ = query.after
    for value in values:
        fill(message.values.add(), value)
    message.values.add(reference_value=f"{root}/{query.collection}/{id_}")
    message.before = False
