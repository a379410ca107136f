"""Start a user's task: count the start, run the code, note its error, give it up after too many starts.

The start is counted right before the code, so that a task whose code fails every time still ends: one start too many
does not run the code, but releases the lease, or records the unit as failed. An earlier error, such as an unavailable
store, counts nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TypeVar

from signalbox.core import user_code
from signalbox.core.deliveries import Delivered
from signalbox.core.error_notes import ErrorNote, record_path
from signalbox.core.idempotency_keys import records_of_further_calls
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import SERVER_TIME, AlreadyExists, Must, Ports, Put
from signalbox.core.problems import GaveUp, Problem, Unavailable
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.machine.failures import explained, text_of
from signalbox.tasks.model.attempts import FIRST, Start
from signalbox.tasks.model.contexts import Context, OfStep, OfUnit
from signalbox.tasks.service import failures
from signalbox.tasks.storage import count_start, end_retries, note_error

Returned = TypeVar("Returned")


def start(
    ports: Ports, delivered: Delivered[Context], retry_limits: RetryLimits, code: Callable[[Start], Returned]
) -> Returned:
    """Count a start and run the code with it. Raises `GaveUp` instead if that would be one start too many.

    Raises `Unavailable`, and runs nothing, if a repeated attempt cannot be counted.
    """
    begun = count_start(ports, delivered.operation) if delivered.is_repeated else FIRST
    if not retry_limits.allow(begun):
        problem = gave_up(ports, delivered.operation, retry_limits)
        give_up(ports, delivered, begun, problem)
        raise problem
    try:
        returned = user_code.run(partial(code, begun))
    except Problem as problem:
        give_up(ports, delivered, begun, problem)
        raise
    except Exception as error:
        note_error(ports, delivered, begun, text_of(error))
        raise
    end_retries(ports, delivered.operation, begun)
    return returned


def report_fewer_calls(ports: Ports, delivered: Delivered[Context]) -> None:
    """Log an error for each call that an earlier delivery of the running task has made more often than this one.

    Equal calls are distinguished by their number. So if this delivery makes only the calls that an earlier one left,
    they are taken for repeats of the earlier calls, and are not made. Only a repeated delivery reads anything.
    """
    if records := records_of_further_calls():
        with suppress(Unavailable):
            for record in ports.store.read(*records):
                if record.data is not None:
                    ports.log.error(
                        "task made fewer calls than before",
                        function=delivered.function,
                        task=delivered.task,
                        operation=delivered.operation,
                        call=records[record.path],
                    )


def give_up(ports: Ports, delivered: Delivered[Context], begun: Start, problem: Problem) -> None:
    """Keep the failure of a task that is given up. Raises `Unavailable` if that fails; then nothing else may follow.

    The failure of a unit is not kept here, since its batch records it and can run the unit again. Nor is the failure of
    a step: its flow receives the error.
    """
    if not isinstance(delivered.context, OfUnit | OfStep):
        failures.keep(ports, delivered, begun, problem)
    end_retries(ports, delivered.operation, begun)


def gave_up(ports: Ports, operation: str, retry_limits: RetryLimits) -> GaveUp:
    """Return the error of a task that was started too often, with the last noted error. Raises `Unavailable`."""
    [read] = ports.store.read(record_path(operation))
    note = ErrorNote.from_record(read.data)
    detail = explained(f"Gave up after {retry_limits.attempts_max} attempts.", note)
    return GaveUp(detail, *((note.error, note.traceback) if note else ()))


# --- code of another deployment ---


def wait_for_newer_code(ports: Ports, delivered: Delivered[Context], is_coming: Callable[[], bool]) -> None:
    """Raise `Unavailable` for a task that this code does not know, for a few minutes after its first delivery.

    Meanwhile a deployment may be under way, and a newer instance may know the task. If `is_coming` returns True, the
    deployment has the task, and `Unavailable` is raised however long it takes. No start of the code is counted.
    """
    seconds = CORE_LIMITS.deployment_seconds
    if not delivered.is_repeated or is_coming() or not _is_known_for(ports, delivered.operation, seconds):
        raise Unavailable(f"{delivered.function} does not know the task {delivered.task!r}; a newer deployment may")


def _is_known_for(ports: Ports, operation: str, seconds: float) -> bool:
    """Return whether the record of a task's starts is at least `seconds` old. If there is none, create the record."""
    [read] = ports.store.read(record_path(operation))
    if read.create_time is None:
        no_starts = {"starts": 0, "errors": 0, "counted_at": SERVER_TIME}
        with suppress(AlreadyExists):
            ports.store.commit([Put(record_path(operation), no_starts, Must.NOT_EXIST)])
        return False
    return read.read_time - read.create_time >= timedelta(seconds=seconds)
