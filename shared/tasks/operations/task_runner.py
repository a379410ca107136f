"""Run a user's task in its context (a lease, a unit, a batch that ended), however often it is delivered.

    context      before the code runs        code returns             code raises a Problem      any other exception
    lease        claim it; if lost: end      release, if requested    release, log the error     keep it; retried
    section      claim it; if over: end      end the run              end the run, log it        let it go; retried
    unit         done before: end            record the result        record the failure         retried
    otherwise    -                           end                      log the error              retried

With `release_on_failure`, a lease is not kept for the retry, but released, and the next attempt waits for another one
(`resumption.py`).

Right before the code, its start is counted (`attempts.py`), so that a task whose code fails every time still ends: one
start too many does not run the code, but releases the lease, or records the unit as failed. What fails before that,
because the store is away, counts nothing (docs/protocols/tasks.md).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shared.batches.operations import units as batch_units
from shared.batches.operations.sub_batches import populate_sub_batch
from shared.batches.rules.batch_spec import BatchSpec
from shared.batches.rules.outcomes import failed, succeeded
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Ports
from shared.core.rules.effects import Json
from shared.core.rules.problems import Problem
from shared.core.rules.task_context import Lease, SectionRun, TaskSubject, Unit, subject_of
from shared.core.rules.times import rfc3339
from shared.semaphores.operations import critical_sections, semaphores
from shared.tasks.operations import attempts, resumption
from shared.tasks.rules.attempts import Attempt, RetryLimits, Start

IsLive = Callable[[PlacedUnit], bool]
"""Returns whether a unit should run, since its batch has not ended; may be some seconds old."""

Code = Callable[[TaskSubject | None, Start], Json | BatchSpec]
"""The user's function, with its arguments bound except for its subject and its start. What it returns is a unit's
result; a `BatchSpec` is a batch whose completion is the result."""


def run(ports: Ports, attempt: Attempt, retry_limits: RetryLimits, is_live: IsLive, code: Code) -> None:
    """Run the code as the table above shows. Raises `Problem` for a permanent error; anything else is to be retried."""

    def started(subject: TaskSubject | None) -> Json | BatchSpec:
        return attempts.start(ports, attempt, retry_limits, lambda start: code(subject, start))

    match subject_of(attempt.context):
        case Lease():
            _run_with_lease(ports, attempt, started)
        case SectionRun():
            _run_in_section(ports, attempt.context["section"], started)
        case Unit() as unit:
            placed = PlacedUnit.from_record(attempt.context["unit"])
            if is_live(placed) and not (attempt.is_repeated and batch_units.resume_unit(ports, placed)):
                _run_unit(ports, placed, lambda: started(unit))
        case subject:
            started(subject)


def _run_with_lease(ports: Ports, attempt: Attempt, code: Callable[[Lease], object]) -> None:
    granted = attempt.context["lease"]
    if attempt.is_repeated and resumption.is_resumed(ports, granted):
        semaphores.release(ports, granted)  # the delivery that waited anew may have died before
        return
    claimed = semaphores.claim(ports, granted)
    if claimed is None:
        ports.log.info("lease lost, task dropped", semaphore=granted["semaphore"], lease=granted["id"])
        return
    with _kept_or_released(ports, claimed):
        returned = resumption.run_or_wait_anew(ports, attempt, claimed, code)
    if returned and granted.get("release_on_return"):
        semaphores.release(ports, claimed)


def _run_in_section(ports: Ports, granted: Mapping[str, Any], code: Callable[[SectionRun], object]) -> None:
    """Run the code alone under its key. A `Problem` ends the run too: nobody repeats it, and others wait."""
    run = critical_sections.claim(ports, granted)
    if run is None:
        ports.log.info("run of a critical section is over, task dropped", key=granted["key"], token=granted["token"])
        return
    try:
        code(run)
    except Problem:
        critical_sections.end(ports, run)
        raise
    except Exception:
        critical_sections.let_go(ports, run)
        raise
    critical_sections.end(ports, run)


@contextmanager
def _kept_or_released(ports: Ports, lease: Lease) -> Iterator[None]:
    """Release the permit before a `Problem` is raised on: the task is not retried, so nothing else would release it.

    Any other error keeps it for the retry, which blocks others until then, at most to the lease's end.
    """
    try:
        yield
    except Problem:
        semaphores.release(ports, lease)
        raise
    except Exception:
        ends_at = rfc3339(lease.ends_at)
        ports.log.info("lease kept for the retry", semaphore=lease.semaphore, lease=lease.id, ends_at=ends_at)
        raise


def _run_unit(ports: Ports, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]) -> None:
    """Record the code's result, or populate the batch whose completion will be the result."""
    try:
        returned = code()
        if isinstance(returned, BatchSpec):
            populate_sub_batch(ports, unit, returned)
            return
        outcome = succeeded(returned)
    except Problem as problem:
        ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=problem.detail)
        outcome = failed(problem.detail)
    batch_units.complete_unit(ports, unit, outcome)
