"""Count the starts of a user's task, and note the last error for as long as the task is being retried.

A start is counted by one blind commit, whose answer carries the new counts. An error is noted after the start that
raised it, by one more write; the first start is counted and its error noted in one.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from shared.core.operations.ports import (
    REMOVE,
    SERVER_TIME,
    AlreadyExists,
    Change,
    Conflict,
    Field,
    Increment,
    Must,
    Ports,
    Put,
)
from shared.core.rules.problems import GaveUp, Problem, Unavailable
from shared.tasks.operations import failures
from shared.tasks.rules.attempts import FIRST, Attempt, RetryLimits, Start
from shared.tasks.rules.errors import BATCH, ERRED_AT, ErrorNote, explained

STARTS, ERRORS, COUNTED_AT = ("starts",), ("errors",), ("counted_at",)
"""The fields of the record. Firestore deletes it 31 days after the last count: Cloud Tasks keeps no task for longer."""

Returned = TypeVar("Returned")


def start(ports: Ports, attempt: Attempt, retry_limits: RetryLimits, code: Callable[[Start], Returned]) -> Returned:
    """Run the code with its start, and count that. Raises `GaveUp` instead if that would be one start too many.

    Raises `Unavailable`, and runs nothing, if a repeated attempt cannot be counted.
    """
    begun = count_start(ports, attempt) if attempt.is_repeated else FIRST
    if not retry_limits.allow(begun):
        problem = gave_up(ports, attempt, retry_limits)
        give_up(ports, attempt, begun, problem)
        raise problem
    try:
        returned = code(begun)
    except Problem as problem:
        give_up(ports, attempt, begun, problem)
        raise
    except Exception as error:
        note_error(ports, attempt, begun, error)
        raise
    end_retries(ports, attempt, begun)
    return returned


def count_start(ports: Ports, attempt: Attempt) -> Start:
    """Count one start; return its number, and how many before it raised. Raises `Unavailable`."""
    counts: dict[Field, Any] = {STARTS: Increment(1), ERRORS: Increment(0), COUNTED_AT: SERVER_TIME}
    [result] = ports.store.commit([Change(attempt.record_path, counts, guard=None)]).results
    return Start(int(result.values[STARTS]), int(result.values[ERRORS]))


def note_error(ports: Ports, attempt: Attempt, begun: Start, error: Exception) -> None:
    """Note what the code raised, and count the first start. What cannot be written now costs the task nothing."""
    note = ErrorNote.of(attempt, begun.number, failures.text_of(error)).to_record()
    noted = note | {ERRED_AT: SERVER_TIME} | _batch_of(attempt)
    with suppress(Unavailable, Conflict):
        if attempt.is_repeated or not _count_first(ports, attempt, noted):
            fields: dict[Field, Any] = {(name,): value for name, value in noted.items()}
            ports.store.commit([Change(attempt.record_path, fields | {ERRORS: Increment(1)}, Must.EXIST)])


def _count_first(ports: Ports, attempt: Attempt, noted: Mapping[str, Any]) -> bool:
    """Count a first start and note its error, in one write; or count alone, if another delivery counted meanwhile."""
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
    """Show the task's last error no longer, if one was noted; what cannot be written now stays until it expires."""
    if begun.errors:
        with suppress(Unavailable, Conflict):
            shown: dict[Field, Any] = {(ERRED_AT,): REMOVE, (BATCH,): REMOVE}
            ports.store.commit([Change(attempt.record_path, shown, Must.EXIST)])


def give_up(ports: Ports, attempt: Attempt, begun: Start, problem: Problem) -> None:
    """Keep what is given up. Raises `Unavailable` if it cannot be kept now: then nothing else may follow from it.

    A unit is not kept here: its batch records it as failed, and runs it again. Nor is a step: its flow is told.
    """
    if not attempt.context.keys() & {"unit", "step"}:
        failures.keep(ports, attempt, begun, problem)
    end_retries(ports, attempt, begun)


def gave_up(ports: Ports, attempt: Attempt, retry_limits: RetryLimits) -> GaveUp:
    """Return the error of a task that was started too often, with the last one that was noted. Raises `Unavailable`."""
    [read] = ports.store.read(attempt.record_path)
    note = ErrorNote.from_record(read.data)
    detail = explained(f"Gave up after {retry_limits.attempts_max} attempts.", note)
    return GaveUp(detail, *((note.error, note.traceback) if note else ()))
