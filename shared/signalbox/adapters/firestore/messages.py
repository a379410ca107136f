"""Convert queries and writes to Firestore's protobuf messages, and responses to snapshots, results and errors.

All messages are raw: the generated client wraps a request once, when it is complete. The records of a stream are
decoded as they arrive, and the stream is left as soon as enough of them are read.

An error becomes a conflict, a permanent error, `Unavailable`, or the name of a missing index. A code means a conflict
only if a guard could have caused it: NOT_FOUND is also the code of a missing database, and FAILED_PRECONDITION that of
a query without its index. Errors that no operation can handle (a missing permission, a missing database) are raised
unchanged: they are errors of the deployment.
"""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from google.api_core.exceptions import GoogleAPICallError, RetryError
from grpc import StatusCode

from signalbox.adapters.firestore.message_types import query as types
from signalbox.adapters.firestore.message_types import write
from signalbox.adapters.firestore.values import decode, decode_fields, field_path, fill, fill_timestamp, timestamp
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import (
    REMOVE,
    SERVER_TIME,
    AlreadyExists,
    Change,
    Data,
    Delete,
    Guard,
    Increment,
    Must,
    Put,
    Query,
    RecordMissing,
    Snapshot,
    Stale,
    Write,
    WriteResult,
    snapshot_bytes,
)
from signalbox.core.problems import BadQuery, BadValue, TooLarge, Unavailable
from signalbox.core.query_checks import full_order, is_descending, needs_index, operands
from signalbox.core.records.composite_indexes import lacking
from signalbox.core.records.formats import check_record
from signalbox.core.records.queries import ID, Condition, Field, Order
from signalbox.core.records.record_values import RECORD_BYTES_MAX
from signalbox.core.records.value_order import NAN_RANK, NULL_RANK, order_key
from signalbox.core.write_checks import is_server_value

_Write = write.Write.pb()

_SERVER_REQUEST_TIME = 1  # REQUEST_TIME of the enumeration of server values


def write_message(root: str, write: Write) -> Any:
    """Build a `Write`. `root` is the prefix of the names of the database's records."""
    message = _Write()
    if isinstance(write, Delete):
        message.delete = f"{root}/{write.path}"
    else:
        message.update.name = f"{root}/{write.path}"
        _fill_update(message, write)
    _fill_guard(message, write.guard)
    return message


def _fill_update(message: Any, write: Put | Change) -> None:
    stored, masked = message.update.fields, []
    for field, value in _fields_of(write):
        if is_server_value(value):
            _fill_transform(message.update_transforms.add(field_path=field_path(field)), value)
            continue
        if value is not REMOVE:  # fields that the mask names and the data lacks are removed
            _fill_field(stored, field, value)
        masked.append(field)
    if isinstance(write, Change):
        message.update_mask.SetInParent()  # an empty mask changes nothing, no mask replaces the record
        message.update_mask.field_paths.extend(map(field_path, masked))


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
    else:
        message.increment.integer_value = value.by


def _fill_guard(message: Any, guard: Guard) -> None:
    if isinstance(guard, datetime):
        fill_timestamp(message.current_document.update_time, guard)
    elif guard is not None:
        message.current_document.exists = guard is Must.EXIST


def write_result(write: Write, message: Any) -> WriteResult:
    """Read a `WriteResult`. The API returns the results of transforms in the order of the write."""
    markers = [(field, value) for field, value in _fields_of(write) if is_server_value(value)]
    values = {
        field: decode(result)
        for (field, marker), result in zip(markers, message.transform_results, strict=True)
        if isinstance(marker, Increment)
    }
    updated = timestamp(message.update_time) if message.HasField("update_time") else None
    return WriteResult(None if isinstance(write, Delete) else updated, values)


def snapshot_of(path: str, document: Any, read_time: datetime) -> Snapshot:
    """Read a `Document`; None: the record does not exist. Raises `NewerFormat`."""
    if document is None:
        return Snapshot(path, None, read_time)
    data: Data = decode_fields(document.fields)
    check_record(path, data)
    return Snapshot(path, data, read_time, timestamp(document.update_time), timestamp(document.create_time))


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
"""Operators of the API for null and NaN, which equal no value, not even themselves."""


def parent_of(root: str, collection: str) -> str:
    """Return the name of the record above a collection, or the root."""
    return f"{root}/{collection}".rpartition("/")[0]


def query_message(root: str, query: Query) -> Any:
    """Build a `StructuredQuery` with the query's full order, because a cursor has a value for each ordered field."""
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
    message.from_.add(collection_id=query.collection.rpartition("/")[2], all_descendants=query.group)
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


PathOf = Callable[[str], str]
"""Turns a record's full name into its path."""


def records_by_name(
    answers: Iterable[Any], path_of: PathOf, needed: Collection[str], bytes_max: int | None = None
) -> dict[str, Snapshot]:
    """Read `BatchGetDocumentsResponse`s, which arrive in any order; return the records by name.

    With `bytes_max`, reading ends when the records read take that many bytes and include all `needed` ones and at least
    one other.
    """
    read: dict[str, Snapshot] = {}
    wanted, total, full = set(needed), 0, False
    at = None
    for answer in answers:
        at = _later_time(at, answer)
        name = answer.found.name or answer.missing
        if not name or (full and name not in wanted):
            continue
        document = answer.found if answer.HasField("found") else None
        read[name] = snapshot_of(path_of(name), document, timestamp(answer.read_time))
        if bytes_max is not None:
            wanted.discard(name)
            total += snapshot_bytes(read[name])
            full = total >= bytes_max and not read.keys() <= set(needed)
            if full and not wanted:
                break
    return {name: _read_at(record, at) for name, record in read.items()}


def matching_records(answers: Iterable[Any], path_of: PathOf, bytes_max: int | None) -> tuple[Snapshot, ...]:
    """Read `RunQueryResponse`s until the records take `bytes_max`."""
    found: list[Snapshot] = []
    total = 0
    at = None
    for answer in answers:
        at = _later_time(at, answer)
        if not answer.HasField("document"):
            continue
        found.append(snapshot_of(path_of(answer.document.name), answer.document, timestamp(answer.read_time)))
        if bytes_max is not None:
            total += snapshot_bytes(found[-1])
            if total >= bytes_max:
                break
    return tuple(_read_at(record, at) for record in found)


def _later_time(at: datetime | None, answer: Any) -> datetime | None:
    """Return the instant at which all responses of a stream so far are valid.

    Their read times may grow; the API guarantees that earlier responses are still valid at the later times.
    """
    if not answer.HasField("read_time"):
        return at
    time = timestamp(answer.read_time)
    return time if at is None else max(at, time)


def _read_at(one: Snapshot, at: datetime | None) -> Snapshot:
    return one if at is None or one.read_time == at else replace(one, read_time=at)


# --- errors ---


UNKNOWN_OUTCOME = frozenset(
    (
        StatusCode.ABORTED,
        StatusCode.CANCELLED,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.INTERNAL,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.UNAVAILABLE,
        StatusCode.UNKNOWN,
    )
)


_NEWER_THAN_STORED = "greater than the stored version"
"""Text in the message of INVALID_ARGUMENT: a guard's update time is later than the record's."""


_BY_NUMBER = {code.value[0]: code for code in StatusCode}


class MissingIndex(Exception):
    """Firestore has no index for a query. The message is Firestore's."""


def code_numbered(number: int) -> StatusCode:
    """Return the status code for the number in a `Status` message."""
    return _BY_NUMBER.get(number, StatusCode.UNKNOWN)


def code_of(error: GoogleAPICallError | RetryError) -> StatusCode:
    """Return the status code of a failed call."""
    code = getattr(error, "grpc_status_code", None)
    return code if isinstance(code, StatusCode) else StatusCode.UNKNOWN


def of_read(code: StatusCode, message: str) -> Exception | None:
    """Return the error that a read's failure means, or None if the failure is to be raised unchanged."""
    if code in UNKNOWN_OUTCOME:
        return Unavailable(f"Firestore did not answer a read: {code.name} {message}")
    return None


def of_query(code: StatusCode, message: str) -> Exception | None:
    """Return the error that a query's failure means, or None if the failure is to be raised unchanged."""
    if code is StatusCode.FAILED_PRECONDITION:
        return MissingIndex(message)
    if code is StatusCode.INVALID_ARGUMENT:
        return BadQuery(f"Firestore refuses this query: {message}")
    return of_read(code, message)


def of_write(code: StatusCode, message: str, guards: Iterable[Guard]) -> Exception | None:
    """Return the error that a failure of writes under these guards means, or None to raise the failure unchanged."""
    if code in UNKNOWN_OUTCOME:
        return Unavailable(f"Firestore did not confirm a write: {code.name} {message}")
    if code is StatusCode.INVALID_ARGUMENT and _NEWER_THAN_STORED not in message:
        return _refusal(message)
    return _conflict(code, message, tuple(guards))


def _refusal(message: str) -> Exception:
    if f"{RECORD_BYTES_MAX} bytes" in message.replace(",", ""):
        return TooLarge(f"A record has at most {RECORD_BYTES_MAX:,} bytes; this one would have more.")
    return BadValue(f"Firestore refuses this: {message}")


def _conflict(code: StatusCode, message: str, guards: tuple[Guard, ...]) -> Exception | None:
    dated = any(isinstance(guard, datetime) for guard in guards)
    if code is StatusCode.ALREADY_EXISTS and Must.NOT_EXIST in guards:
        return AlreadyExists(message)
    if code is StatusCode.NOT_FOUND and (dated or Must.EXIST in guards):
        return RecordMissing(message)
    if code in {StatusCode.FAILED_PRECONDITION, StatusCode.INVALID_ARGUMENT} and dated:
        return Stale(message)
    return None


def refused_query(query: Query, message: str) -> Exception:
    """Return the error that Firestore's refusal of a query without an index means."""
    if "currently building" in message:
        return Unavailable("An index that this query needs is still being built.", retry_after_seconds=30)
    index = lacking(query.collection, query.where, full_order(query))
    return needs_index(index) if index else BadQuery(f"Firestore has no index for this query: {message}")
