"""Count the starts of a user's task, and note the last error while the task is being retried.

One blind commit counts a start, and its answer has the new counts. After a start that raised, one more write notes the
error; for a first start, one write counts it and notes the error.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from signalbox.core.deliveries import Delivered
from signalbox.core.error_notes import BATCH, ERRED_AT, ErrorNote, ErrorText, record_path
from signalbox.core.ports import (
    REMOVE,
    SERVER_TIME,
    AlreadyExists,
    Change,
    Conflict,
    Increment,
    Must,
    Ports,
    Put,
)
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Field
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Context, OfUnit

STARTS, ERRORS, COUNTED_AT = ("starts",), ("errors",), ("counted_at",)
"""The fields of the record that counts starts. Firestore deletes the record 31 days after the last count, because Cloud
Tasks keeps no task for longer."""


def count_start(ports: Ports, operation: str) -> Start:
    """Count one start; return its number, and the number of earlier starts that raised. Raises `Unavailable`."""
    counts: dict[Field, Any] = {STARTS: Increment(1), ERRORS: Increment(0), COUNTED_AT: SERVER_TIME}
    [result] = ports.store.commit([Change(record_path(operation), counts, guard=None)]).results
    return Start(int(result.values[STARTS]), int(result.values[ERRORS]))


def read_starts(ports: Ports, operations: Sequence[str]) -> dict[str, int]:
    """Return the number of counted starts of each operation."""
    if not operations:
        return {}
    found = ports.store.read(*map(record_path, operations))
    pairs = zip(operations, found, strict=True)
    return {operation: 0 if record.data is None else int(record.data["starts"]) for operation, record in pairs}


def uncount_start(ports: Ports, operation: str) -> None:
    """Undo the count of a start. If that fails, the start stays counted."""
    with suppress(Unavailable, Conflict):
        ports.store.commit([Change(record_path(operation), {STARTS: Increment(-1)}, Must.EXIST)])


def note_error(ports: Ports, delivered: Delivered[Context], begun: Start, text: ErrorText) -> None:
    """Note the code's error, and count a first start. A failed write has no effect on the task."""
    note = ErrorNote.of(delivered, begun.number, text).to_record()
    batch = {BATCH: delivered.context.unit.batch} if isinstance(delivered.context, OfUnit) else {}
    noted = note | {ERRED_AT: SERVER_TIME} | batch
    with suppress(Unavailable, Conflict):
        if delivered.is_repeated or not _count_first(ports, delivered.operation, noted):
            fields: dict[Field, Any] = {(name,): value for name, value in noted.items()}
            change = Change(record_path(delivered.operation), fields | {ERRORS: Increment(1)}, Must.EXIST)
            ports.store.commit([change])


def _count_first(ports: Ports, operation: str, noted: Mapping[str, Any]) -> bool:
    """Count a first start and note its error in one write. If another delivery has counted meanwhile, only count."""
    counts = {"starts": 1, "errors": 1, "counted_at": SERVER_TIME}
    try:
        ports.store.commit([Put(record_path(operation), {**noted, **counts}, Must.NOT_EXIST)])
    except AlreadyExists:
        count_start(ports, operation)
        return False
    return True


def end_retries(ports: Ports, operation: str, begun: Start) -> None:
    """Stop showing the task's last error, if one was noted. After a failed write it is shown until it expires."""
    if begun.errors:
        with suppress(Unavailable, Conflict):
            shown: dict[Field, Any] = {(ERRED_AT,): REMOVE, (BATCH,): REMOVE}
            ports.store.commit([Change(record_path(operation), shown, Must.EXIST)])
