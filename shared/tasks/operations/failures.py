"""Keep what was given up; show it, run it again, delete it.

A failure is kept before the lease of its task is released and before its delivery is acknowledged: until then the
delivery is repeated, and keeps it.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import REMOVE, SERVER_TIME, Change, Field, Must, Order, Ports, Put, Query, Snapshot
from shared.core.rules import page_tokens
from shared.core.rules.effects import Decision, Effect
from shared.core.rules.keys import printable
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import GaveUp, NotFound, Problem, StillRetried
from shared.semaphores.operations import critical_sections, semaphores
from shared.tasks.operations.errors import retrying_json
from shared.tasks.rules import attempts, failures
from shared.tasks.rules.attempts import Attempt, Start
from shared.tasks.rules.errors import ERRED_AT, ErrorText
from shared.tasks.rules.failures import FAILED_AT, STATE, Failure, path_of

NEWEST_FAILED = Order((FAILED_AT,), descending=True)
NEWEST_ERRED = Order((ERRED_AT,), descending=True)
DELETED = {"state": "deleted"}


def keep(ports: Ports, attempt: Attempt, start: Start, problem: Problem) -> None:
    """Write the failure of a task that is given up, unless a delivery before has. Raises `Unavailable`."""
    text = ErrorText(problem.error, problem.traceback) if isinstance(problem, GaveUp) else text_of(problem)
    number = start.number - isinstance(problem, GaveUp)
    failure = Failure.of(attempt, (problem.slug(), problem.detail), text, number)
    times = {"failed_at": SERVER_TIME, "recorded_at": SERVER_TIME}

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        if read[0].data is not None:
            return Decision((), None)
        return Decision((Put(path_of(failure.id), failure.to_record() | times, Must.NOT_EXIST),), None)

    perform(ports, [path_of(failure.id)], decide)


def text_of(error: BaseException) -> ErrorText:
    """Return an exception's texts as they are kept."""
    return ErrorText.cut(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


# --- show ---


def get(ports: Ports, id_: str) -> dict[str, Any]:
    """Return a failure, or the last error of a task that is being retried. Raises `NotFound` or `Gone`."""
    read = ports.store.read(*_paths(id_))
    shown = retrying_json(read[1]) if read[0].data is None else None
    return shown or _failure(read).to_json()


@dataclass(frozen=True, slots=True)
class FailuresPage:
    """Failures, newest first; `next_page_token` is empty on the last page."""

    failures: list[dict[str, Any]]
    next_page_token: str = ""


def list_failed(ports: Ports, page_token: str) -> FailuresPage:
    """Return a page of what was given up, and neither retried nor deleted."""
    return _page(ports, failures.COLLECTION, NEWEST_FAILED, page_token, _failed)


def list_retrying(ports: Ports, page_token: str) -> FailuresPage:
    """Return a page of the last errors of tasks that are being retried."""
    return _page(ports, attempts.COLLECTION, NEWEST_ERRED, page_token, retrying_json)


def _failed(read: Snapshot) -> dict[str, Any] | None:
    return None if read.data is None else Failure.from_record(read.id, read.data).to_json()


Shown = Callable[[Snapshot], dict[str, Any] | None]


def _page(ports: Ports, collection: str, newest: Order, page_token: str, shown: Shown) -> FailuresPage:
    after = page_tokens.read(page_token, collection, 1) if page_token else ()
    found = ports.store.query(Query(collection, order_by=(newest,), limit=LIMITS.failures_listed_max, after=after))
    listed = [entry for entry in map(shown, found) if entry is not None]
    if len(found) < LIMITS.failures_listed_max:
        return FailuresPage(listed)
    assert found[-1].data is not None, "a query finds only records that exist"
    return FailuresPage(listed, page_tokens.write(collection, [found[-1].data[newest.field[0]]], found[-1].id))


# --- retry and delete ---


def retry(ports: Ports, id_: str) -> None:
    """Run a failed task again, once. Raises `NotFound`, `Gone`, `StillRetried`, or `NoSemaphore` for a lost semaphore.

    A task that ran for a lease waits for a new one first, one of a critical section is called again: both idempotent.
    All else is one commit.
    """
    reads = _paths(id_)
    read = ports.store.read(*reads)
    waits, section_call = _failure(read).wait(), _failure(read).section_call()
    if waits and _is_failed(read[0]):
        semaphores.wait(ports, *waits)
    if section_call and _is_failed(read[0]):
        critical_sections.call(ports, *section_call)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        failure = _failure(read)
        if not _is_failed(read[0]):
            return Decision((), None)
        return retried(read[0], () if waits or section_call else (failure.effect(),))

    perform(ports, reads, decide)


def retried(read: Snapshot, effects: tuple[Effect, ...]) -> Decision[Writes, None]:
    """Decide to mark a failure as retried, with its task in the same commit."""
    fields: dict[Field, Any] = {(STATE,): "retried", (FAILED_AT,): REMOVE}
    return Decision((Change(read.path, fields, read.guard),), None, effects)


def delete(ports: Ports, id_: str) -> None:
    """Delete the content of a failure. Raises `NotFound`, `Gone` or `StillRetried`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        _failure(read)
        assert read[0].data is not None, "what can be read exists"
        kept = {"recorded_at": read[0].data["recorded_at"]}
        return Decision((Put(path_of(id_), DELETED | kept, read[0].guard),), None)

    perform(ports, _paths(id_), decide)


def _paths(id_: str) -> tuple[str, str]:
    return path_of(id_), f"{attempts.COLLECTION}/{id_}"


def _failure(read: tuple[Snapshot, ...]) -> Failure:
    """Return the failure that was read. Raises `Gone`, `NotFound`, or `StillRetried` if the queue still retries it."""
    failed, counted = read
    if failed.data is not None:
        return Failure.from_record(failed.id, failed.data)
    if retrying_json(counted):
        raise StillRetried("The task has not been given up: the queue runs it again by itself.", field="id")
    raise NotFound(f"No failure {printable(failed.id)} is known; failures are kept for 30 days.", field="id")


def _is_failed(read: Snapshot) -> bool:
    return read.data is not None and read.data["state"] == "failed"
