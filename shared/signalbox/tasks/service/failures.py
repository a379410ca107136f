"""Keep tasks that were given up; show them, run them again, delete them (`machine/failures.py` has the table).

A failure is kept before the lease of its task is released and before its delivery is acknowledged: until then the task
is delivered again, and the next delivery keeps it.
"""

from collections.abc import Callable
from typing import Any

from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Decision, Effect
from signalbox.core.error_notes import ATTEMPTS, ERRED_AT, ErrorText, record_path, retried_task
from signalbox.core.keys import printable
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import REMOVE, SERVER_TIME, Change, Must, Ports, Put, Query, Snapshot
from signalbox.core.problems import GaveUp, NotFound, Problem
from signalbox.core.records.queries import Field, Order
from signalbox.core.surface.paging import read_page_token, write_page_token
from signalbox.core.surface.shown import RetriedTaskShown
from signalbox.critical_sections import service as critical_sections
from signalbox.semaphores.service import waits
from signalbox.tasks.limits import LIMITS
from signalbox.tasks.machine.failures import (
    check_repeatable,
    failure_notice,
    failure_of,
    retry_section_call,
    retry_task,
    retry_wait,
    text_of,
)
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Context
from signalbox.tasks.model.failures import FAILED_AT, FAILURES, STATE, Failure, failure_path
from signalbox.tasks.problems import StillRetried
from signalbox.tasks.shown.failures import FailureShown, FailuresShown

NEWEST_FAILED = Order((FAILED_AT,), descending=True)
NEWEST_ERRED = Order((ERRED_AT,), descending=True)
DELETED = {"state": "deleted"}


def keep(ports: Ports, delivered: Delivered[Context], start: Start, problem: Problem) -> None:
    """Write the failure of a task that is given up, and notify its function, unless an earlier delivery has done so.

    Raises `Unavailable`.
    """
    text = ErrorText(problem.error, problem.traceback) if isinstance(problem, GaveUp) else text_of(problem)
    number = start.number - isinstance(problem, GaveUp)
    failure = failure_of(delivered, (problem.slug(), problem.detail), text, number)
    times = {"failed_at": SERVER_TIME, "recorded_at": SERVER_TIME}

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        if read[0].data is not None:
            return Decision((), None)
        put = Put(failure_path(failure.id), failure.to_record() | times, Must.NOT_EXIST)
        return Decision((put,), None, failure_notice(failure))

    perform(ports, [failure_path(failure.id)], decide)


# --- show ---


def get(ports: Ports, id_: str) -> FailureShown | RetriedTaskShown:
    """Return a failure, or the last error of a task that is being retried. Raises `NotFound` or `Gone`."""
    read = ports.store.read(*_paths(id_))
    retried = retried_task(id_, read[1].data) if read[0].data is None else None
    return retried or FailureShown.of(_failure(read))


def _failed(read: Snapshot) -> FailureShown | None:
    return None if read.data is None else FailureShown.of(Failure.from_record(read.id, read.data))


@dataclass(frozen=True, slots=True)
class FailuresList:
    """A list of failures: the records of `collection` that have the field of `newest`, rendered by `shown`."""

    collection: str
    newest: Order
    shown: Callable[[Snapshot], FailureShown | RetriedTaskShown | None]


FAILED = FailuresList(FAILURES, NEWEST_FAILED, _failed)
"""The failures that were neither retried nor deleted."""

RETRYING = FailuresList(ATTEMPTS, NEWEST_ERRED, lambda read: retried_task(read.id, read.data))
"""The last errors of tasks that are being retried."""


def page_of(ports: Ports, listed: FailuresList, page_token: str) -> FailuresShown:
    """Return a page of a list, newest first. Raises `BadQuery` for a bad token."""
    after = read_page_token(page_token, listed.collection, 1) if page_token else ()
    query = Query(listed.collection, order_by=(listed.newest,), limit=LIMITS.failures_listed_max, after=after)
    read = ports.store.query(query)
    found = tuple(entry for entry in map(listed.shown, read) if entry is not None)
    if len(read) < LIMITS.failures_listed_max:
        return FailuresShown(found)
    assert read[-1].data is not None, "a query finds only records that exist"
    token = write_page_token(listed.collection, [read[-1].data[listed.newest.field[0]]], read[-1].id)
    return FailuresShown(found, token)


def count(ports: Ports, listed: FailuresList) -> int:
    """Return the number of failures in a list. Counting a thousand costs one read."""
    return ports.store.count(Query(listed.collection, order_by=(listed.newest,)))


# --- retry and delete ---


def retry(ports: Ports, id_: str) -> None:
    """Run a failed task again, once.

    Raises `NotFound`, `Gone`, `StillRetried`, `NotRepeatable`, or `NoSemaphore` for a lost semaphore.

    If the task ran with a lease, this first waits for a new one; if it ran in a critical section, this first calls the
    section again. A repeat of either changes nothing. Any other task is enqueued by the commit that marks the failure
    as retried.
    """
    paths = _paths(id_)
    read = ports.store.read(*paths)
    failure = check_repeatable(_failure(read))
    wait, section_call = retry_wait(failure), retry_section_call(failure)
    if wait and is_failed(read[0]):
        waits.wait(ports, *wait)
    if section_call and is_failed(read[0]):
        critical_sections.call(ports, *section_call)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        failure = _failure(read)
        if not is_failed(read[0]):
            return Decision((), None)
        return _retried(read[0], () if wait or section_call else (retry_task(failure),))

    perform(ports, paths, decide)


def _retried(read: Snapshot, effects: tuple[Effect, ...]) -> Decision[Writes, None]:
    """Mark a failure as retried, with its task in the same commit."""
    fields: dict[Field, Any] = {(STATE,): "retried", (FAILED_AT,): REMOVE}
    return Decision((Change(read.path, fields, read.guard),), None, effects)


def delete(ports: Ports, id_: str) -> None:
    """Delete the content of a failure. Raises `NotFound`, `Gone` or `StillRetried`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        _failure(read)
        assert read[0].data is not None, "a failure that was parsed has data"
        kept = {"recorded_at": read[0].data["recorded_at"]}
        return Decision((Put(failure_path(id_), DELETED | kept, read[0].guard),), None)

    perform(ports, _paths(id_), decide)


def _paths(id_: str) -> tuple[str, str]:
    return failure_path(id_), record_path(id_)


def _failure(read: tuple[Snapshot, ...]) -> Failure:
    """Return the failure that was read. Raises `Gone`, `NotFound`, or `StillRetried` if the queue still retries it."""
    failed, counted = read
    if failed.data is not None:
        return Failure.from_record(failed.id, failed.data)
    if retried_task(counted.id, counted.data):
        raise StillRetried("The task has not been given up: the queue delivers it again.", field="id")
    raise NotFound(f"No failure {printable(failed.id)} is known; failures are kept for 30 days.", field="id")


def is_failed(read: Snapshot) -> bool:
    """Return whether a record is of a failure that was neither retried nor deleted."""
    return read.data is not None and read.data["state"] == "failed"
