"""Checks of writes before they are sent, the same for both stores.

They raise a `Problem` if a caller's data can be the cause, and `ValueError` if only the kit's own code can be. They do
not depend on the stored record: a `Change` that makes it too large is refused by the server.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from signalbox.core.keys import check_path
from signalbox.core.ports import REMOVE, SERVER_TIME, Change, Data, Increment, Marker, Must, Put, Write
from signalbox.core.problems import BadValue, TooLarge
from signalbox.core.records.queries import Field
from signalbox.core.records.record_values import RECORD, field_name, record_bytes

WRITES_EACH_MAX = 500
"""Writes of one `write_each`: Firestore's limit on a BatchWrite."""

COMMIT_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of one commit: the emulator's limit. The cloud's limit is 10 MiB, but a commit that succeeds on one should
succeed on the other."""

_SERVER_VALUE_BYTES = 8

_SERVER_KINDS = frozenset((Marker, Increment))


def is_server_value(value: Any) -> bool:
    """Return whether the server computes this value at the commit."""
    return value is SERVER_TIME or isinstance(value, Increment)


def server_values(data: Data) -> dict[str, Any]:
    """Return the values of a record that the server computes at the commit."""
    if _SERVER_KINDS.isdisjoint(map(type, data.values())):  # nearly always, and faster than a look at each value
        return {}
    return {name: value for name, value in data.items() if is_server_value(value)}


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
    """Check a commit. Return for each write an upper bound of the bytes that the write adds to its record.

    Raises as `check_write` and `check_distinct` do, and `TooLarge`.
    """
    check_distinct(writes)
    sizes = [check_write(write) for write in writes]
    if sum(sizes) > COMMIT_BYTES_MAX:
        raise TooLarge(f"A commit has at most {COMMIT_BYTES_MAX:,} bytes; this one has {sum(sizes):,}.")
    return sizes


def check_write(write: Write) -> int:
    """Check a write. Return an upper bound of the bytes that the write adds to its record.

    Raises `BadKey`, `BadValue`, `TooLarge`, or `ValueError` for a guard that makes no sense.
    """
    check_path(write.path)
    if isinstance(write, Put):
        return _put_bytes(write)
    if isinstance(write, Change):
        return _change_bytes(write)
    return 0


def _put_bytes(put: Put) -> int:
    from_server = server_values(put.data)
    if not from_server:
        return record_bytes(put.path, RECORD.check_map(put.data.items()))
    plain = [(name, value) for name, value in put.data.items() if name not in from_server]
    fields: dict[Field, Any] = {(name,): value for name, value in from_server.items()}
    return record_bytes(put.path, RECORD.check_map(plain) + _fields_bytes(fields))


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
    return RECORD.check(value, field, names_bytes)


def _check_increment(increment: Increment, field: Field) -> None:
    if type(increment.by) is not int:
        raise BadValue("An increment is an integer.", field=field_name(field))
    RECORD.check(increment.by, field)
