"""Count the starts of a user's task, and note the last error while the task is being retried.

One blind commit counts a start, and its answer has the new counts. After a start that raised, one more write notes the
error; for a first start, one write counts it and notes the error.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from signalbox.core.given import given
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
    Query,
    Snapshot,
)
from signalbox.core.problems import Unavailable
from signalbox.core.queries import Condition, Field
from signalbox.tasks.model import ATTEMPTS, BATCH, ERRED_AT, Attempt, ErrorNote, ErrorText, Start

STARTS, ERRORS, COUNTED_AT = ("starts",), ("errors",), ("counted_at",)
"""The fields of the record. Firestore deletes it 31 days after the last count: Cloud Tasks keeps no task for longer."""


def count_start(ports: Ports, attempt: Attempt) -> Start:
    """Count one start; return its number, and the number of earlier starts that raised. Raises `Unavailable`."""
    counts: dict[Field, Any] = {STARTS: Increment(1), ERRORS: Increment(0), COUNTED_AT: SERVER_TIME}
    [result] = ports.store.commit([Change(attempt.record_path, counts, guard=None)]).results
    return Start(int(result.values[STARTS]), int(result.values[ERRORS]))


def read_starts(ports: Ports, operations: Sequence[str]) -> dict[str, int]:
    """Return the number of counted starts of each operation."""
    if not operations:
        return {}
    found = ports.store.read(*(f"{ATTEMPTS}/{operation}" for operation in operations))
    pairs = zip(operations, found, strict=True)
    return {operation: 0 if record.data is None else int(record.data["starts"]) for operation, record in pairs}


def uncount_start(ports: Ports, attempt: Attempt) -> None:
    """Take back the count of a start. If that fails, the start stays counted."""
    with suppress(Unavailable, Conflict):
        ports.store.commit([Change(attempt.record_path, {STARTS: Increment(-1)}, Must.EXIST)])


def note_error(ports: Ports, attempt: Attempt, begun: Start, text: ErrorText) -> None:
    """Note what the code raised, and count a first start. A failed write has no effect on the task."""
    note = ErrorNote.of(attempt, begun.number, text).to_record()
    noted = note | {ERRED_AT: SERVER_TIME} | _batch_of(attempt)
    with suppress(Unavailable, Conflict):
        if attempt.is_repeated or not _count_first(ports, attempt, noted):
            fields: dict[Field, Any] = {(name,): value for name, value in noted.items()}
            ports.store.commit([Change(attempt.record_path, fields | {ERRORS: Increment(1)}, Must.EXIST)])


def _count_first(ports: Ports, attempt: Attempt, noted: Mapping[str, Any]) -> bool:
    """Count a first start and note its error in one write. If another delivery has counted meanwhile, only count."""
    counts = {"starts": 1, "errors": 1, "counted_at": SERVER_TIME}
    try:
        ports.store.commit([Put(attempt.record_path, {**noted, **counts}, Must.NOT_EXIST)])
    except AlreadyExists:
        count_start(ports, attempt)
        return False
    return True


def _batch_of(attempt: Attempt) -> dict[str, str]:
    unit = attempt.context.get("unit")
    return {BATCH: unit["batch"]} if unit else {}


def end_retries(ports: Ports, attempt: Attempt, begun: Start) -> None:
    """Stop showing the task's last error, if one was noted. After a failed write it is shown until it expires."""
    if begun.errors:
        with suppress(Unavailable, Conflict):
            shown: dict[Field, Any] = {(ERRED_AT,): REMOVE, (BATCH,): REMOVE}
            ports.store.commit([Change(attempt.record_path, shown, Must.EXIST)])


def retrying_json(counted: Snapshot) -> dict[str, Any] | None:
    """Return the last error of a task that is being retried, as an answer shows it; None for any other record."""
    note = ErrorNote.from_record(counted.data)
    if note is None or counted.data is None or ERRED_AT not in counted.data:
        return None
    return {"id": counted.id, "state": "retrying", **note.to_json(counted.data[ERRED_AT])}


def last_error_of_batch(ports: Ports, batch: str) -> dict[str, Any]:
    """Return `last_error`, that of a unit which is being retried; an empty mapping if there is none."""
    counted = ports.store.query(Query(ATTEMPTS, (Condition((BATCH,), "==", batch),), limit=1))
    errors = [error for error in map(retrying_json, counted) if error is not None]
    return given(last_error=next(iter(errors), None))
