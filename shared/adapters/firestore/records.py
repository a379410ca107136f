"""Convert writes to Firestore's protobuf messages, and messages to snapshots and results.

Raw messages throughout: the generated client wraps a request once, when it is complete.
"""

from datetime import datetime
from typing import Any

from google.cloud.firestore_v1.types import Write as WriteType

from shared.adapters.firestore.values import decode, decode_fields, field_path, fill, fill_timestamp, timestamp
from shared.core.operations.ports import (
    REMOVE,
    SERVER_TIME,
    Change,
    Data,
    Delete,
    Field,
    Guard,
    Increment,
    Must,
    Put,
    Snapshot,
    Write,
    WriteResult,
)
from shared.core.operations.write_validation import is_server_value

_Write = WriteType.pb()
_SERVER_REQUEST_TIME = 1  # REQUEST_TIME of the enumeration of server values


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
    plain = {field: value for field, value in fields if not is_server_value(value)}
    for field, value in plain.items():
        if value is not REMOVE:  # what the mask names and the data lacks is removed
            _fill_field(message.update.fields, field, value)
    if isinstance(write, Change):
        message.update_mask.SetInParent()  # an empty mask changes nothing, no mask replaces the record
        message.update_mask.field_paths.extend(field_path(field) for field in plain)
    for field, value in fields:
        if is_server_value(value):
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


def snapshot(path: str, document: Any, read_time: datetime) -> Snapshot:
    """Read a `Document`; None: the record does not exist."""
    if document is None:
        return Snapshot(path, None, read_time)
    data: Data = decode_fields(document.fields)
    return Snapshot(path, data, read_time, timestamp(document.update_time), timestamp(document.create_time))
