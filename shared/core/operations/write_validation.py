"""What no store is asked to do: writes and queries that Firestore refuses whatever it holds.

Refused with a `Problem` where a caller's data can be the cause, with `ValueError` where only the kit's own code can.
Not covered, since it depends on what a record already holds: a `Change` or an `ArrayUnion` that makes it too large. The
server refuses that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.core.operations.ports import REMOVE, SERVER_TIME, ArrayUnion, Change, Field, Increment, Must, Put, Write
from shared.core.rules.problems import BadValue, TooLarge
from shared.core.rules.record_limits import check_path, data_bytes, field_bytes, name_of, record_bytes, value_bytes

WRITES_EACH_MAX = 500
"""Of one `write_each`: the API's limit of a BatchWrite."""

COMMIT_BYTES_MAX = 4 * 1024 * 1024
"""Of one commit: what the emulator takes. The cloud takes 10 MiB, but then the one would not stand for the other."""


def fills_in(value: Any) -> bool:
    """Tell whether only the server can say what this value will be."""
    return value is SERVER_TIME or isinstance(value, Increment | ArrayUnion)


def check_apart(writes: Sequence[Write]) -> None:
    """Raise `ValueError` when a record is named twice: which of such commits Firestore refuses is intricate."""
    if len({write.path for write in writes}) < len(writes):
        raise ValueError("one call writes a record once")


def check_each(writes: Sequence[Write]) -> None:
    """Raise `ValueError` for more independent writes than one call takes, or for a record named twice."""
    if len(writes) > WRITES_EACH_MAX:
        raise ValueError(f"at most {WRITES_EACH_MAX} writes a call")
    check_apart(writes)


def check_commit(writes: Sequence[Write]) -> list[int]:
    """Refuse a commit that can never succeed. Returns for each write a bound of the bytes it adds to its record."""
    check_apart(writes)
    sizes = [check_write(write) for write in writes]
    if sum(sizes) > COMMIT_BYTES_MAX:
        raise TooLarge(f"A commit takes {COMMIT_BYTES_MAX:,} bytes; this one has {sum(sizes):,}.")
    return sizes


def check_write(write: Write) -> int:
    """Refuse a write that can never succeed. Returns a bound of the bytes it adds to the record."""
    check_path(write.path)
    if isinstance(write, Put):
        return _put_bytes(write)
    if isinstance(write, Change):
        return _change_bytes(write)
    if write.guard is Must.NOT_EXIST:
        raise ValueError("a delete of what must not exist is a mistake")
    return 0


def _put_bytes(put: Put) -> int:
    plain = [(key, value) for key, value in put.data.items() if not fills_in(value)]
    filled: dict[Field, Any] = {(key,): value for key, value in put.data.items() if fills_in(value)}
    return record_bytes(put.path, data_bytes(plain) + _fields_bytes(filled))


def _change_bytes(change: Change) -> int:
    if change.guard in {None, Must.NOT_EXIST}:
        raise ValueError("a change is of a record that exists: guard it by Must.EXIST or its update time")
    _check_disjoint(change.fields)
    return record_bytes(change.path, _fields_bytes(change.fields))


def _check_disjoint(fields: Mapping[Field, Any]) -> None:
    for field in fields:
        if any(field[:length] in fields for length in range(1, len(field))):
            raise BadValue("A change names a field and a part of it.", field=name_of(field))


def _fields_bytes(fields: Mapping[Field, Any]) -> int:
    size = 0
    for field, value in fields.items():
        keys = field_bytes(field)
        size += keys + _new_bytes(value, field, keys)
    return size


def _new_bytes(value: Any, field: Field, above_bytes: int) -> int:
    if value is SERVER_TIME or value is REMOVE:
        return 8
    if isinstance(value, Increment):
        return _increment_bytes(value, field)
    if isinstance(value, ArrayUnion):
        return value_bytes(list(value.values), field, above_bytes)
    return value_bytes(value, field, above_bytes)


def _increment_bytes(increment: Increment, field: Field) -> int:
    if type(increment.by) is not int:
        raise BadValue("An increment is an integer.", field=name_of(field))
    return value_bytes(increment.by, field)
