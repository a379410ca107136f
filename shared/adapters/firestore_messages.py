"""The words of `shared/operations/ports.py` as Firestore's protobuf messages, and back.

Raw messages throughout: the generated client's wrappers are put around a request once, when it is complete.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from google.cloud.firestore_v1.types import Write as WriteType
from google.cloud.firestore_v1.types import query as query_types

from shared.adapters.ordering import NAN_RANK, NULL_RANK, order_key
from shared.adapters.queries import full_order, is_descending, operands
from shared.adapters.refusals import fills_in
from shared.adapters.values import decode, decode_fields, field_path, fill, fill_timestamp, timestamp
from shared.operations.ports import (
    REMOVE,
    SERVER_TIME,
    ArrayUnion,
    Change,
    Condition,
    Data,
    Delete,
    Field,
    Guard,
    Increment,
    Must,
    Order,
    Put,
    Query,
    Snapshot,
    Write,
    WriteResult,
)

_Write = WriteType.pb()
_Structured = query_types.StructuredQuery.pb()

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
"""Null and NaN equal nothing, so the API asks for them in its own way."""
_SERVER_REQUEST_TIME = 1


def write_message(root: str, write: Write) -> Any:
    """Build a `Write`. `root` is the name under which the database's records lie."""
    message = _Write()
    if isinstance(write, Delete):
        message.delete = f"{root}/{write.path}"
    else:
        message.update.name = f"{root}/{write.path}"
        _fill_update(message, write)
    _fill_guard(message, write.guard)
    return message


def _fill_update(message: Any, write: Put | Change) -> None:
    fields = _fields_of(write)
    plain = {field: value for field, value in fields if not fills_in(value)}
    for field, value in plain.items():
        if value is not REMOVE:  # what the mask names and the data lacks is removed
            _fill_field(message.update.fields, field, value)
    if isinstance(write, Change):
        message.update_mask.SetInParent()  # an empty mask changes nothing, none at all replaces the record
        message.update_mask.field_paths.extend(field_path(field) for field in plain)
    for field, value in fields:
        if fills_in(value):
            _fill_transform(message.update_transforms.add(field_path=field_path(field)), value)


def _fields_of(write: Write) -> list[tuple[Field, Any]]:
    if isinstance(write, Put):
        return [((key,), value) for key, value in write.data.items()]
    return list(write.fields.items()) if isinstance(write, Change) else []


def _fill_field(fields: Any, field: Field, value: Any) -> None:
    for key in field[:-1]:
        fields = fields[key].map_value.fields
    fill(fields[field[-1]], value)


def _fill_transform(message: Any, value: Any) -> None:
    if value is SERVER_TIME:
        message.set_to_server_value = _SERVER_REQUEST_TIME
    elif isinstance(value, Increment):
        message.increment.integer_value = value.by
    elif isinstance(value, ArrayUnion):
        message.append_missing_elements.SetInParent()
        for item in value.values:
            fill(message.append_missing_elements.values.add(), item)


def _fill_guard(message: Any, guard: Guard) -> None:
    if isinstance(guard, datetime):
        fill_timestamp(message.current_document.update_time, guard)
    elif guard is not None:
        message.current_document.exists = guard is Must.EXIST


def write_result(write: Write, message: Any) -> WriteResult:
    """Read a `WriteResult`. The API gives the transforms' results in the order in which the write lists them."""
    markers = [(field, value) for field, value in _fields_of(write) if fills_in(value)]
    values = {
        field: decode(result)
        for (field, marker), result in zip(markers, message.transform_results, strict=True)
        if isinstance(marker, Increment)
    }
    updated = timestamp(message.update_time) if message.HasField("update_time") else None
    return WriteResult(None if isinstance(write, Delete) else updated, values)


def snapshot(path: str, document: Any, read_time: datetime) -> Snapshot:
    """Read a `Document`; None is a record that is not there."""
    if document is None:
        return Snapshot(path, None, read_time)
    data: Data = decode_fields(document.fields)
    return Snapshot(path, data, read_time, timestamp(document.update_time), timestamp(document.create_time))


def parent_of(root: str, collection: str) -> str:
    """Give the name of the record above a collection, or the root."""
    return f"{root}/{collection}".rpartition("/")[0]


def query_message(root: str, query: Query) -> Any:
    """Build a `StructuredQuery` with its order in full, so that a cursor has a value for each part of it."""
    message = _matching(query)
    message.order_by.add(direction=_direction(is_descending(query))).field.field_path = "__name__"
    message.limit.value = query.limit
    if query.after:
        _fill_cursor(message.start_at, root, query)
    return message


def count_message(query: Query) -> Any:
    """Build a `StructuredAggregationQuery` that counts, with the answer under ``count``."""
    message = query_types.StructuredAggregationQuery.pb()()
    message.structured_query.CopyFrom(_matching(query))
    message.aggregations.add(alias="count").count.SetInParent()
    return message


def _matching(query: Query) -> Any:
    message = _Structured()
    message.from_.add(collection_id=query.collection.rpartition("/")[2])
    _fill_where(message, query.where)
    for order in full_order(query):
        _fill_order(message.order_by.add(), order)
    return message


def _fill_where(message: Any, conditions: Iterable[Condition]) -> None:
    for condition in conditions:
        both = message.where.composite_filter
        both.op = _AND
        _fill_condition(both.filters.add(), condition)


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
