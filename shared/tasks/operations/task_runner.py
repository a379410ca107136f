"""Run a user's task in its context (a lease, a unit, a batch that ended), however often it is delivered.

    context      before the code runs        code returns             code raises a Problem      any other exception
    lease        claim it; if lost: end      release, if requested    release, log the error     keep it; retried
    unit         done before: end            record the result        record the failure         retried
    otherwise    -                           end                      log the error              retried

Attempts are counted, so that a task whose code fails every time still ends: one attempt too many does not run the code,
but releases the lease, or records the unit as failed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shared.batches.operations import batches
from shared.batches.operations import units as batch_units
from shared.batches.rules.outcomes import failed, succeeded
from shared.batches.rules.requests import BatchSpec
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Ports
from shared.core.rules.effects import Json
from shared.core.rules.problems import GaveUp, Problem
from shared.core.rules.task_context import Lease, TaskContext, Unit, context_of
from shared.semaphores.operations import semaphores

IsLive = Callable[[PlacedUnit], bool]
"""Returns whether a unit should run, since its batch has not ended; may be some seconds old."""

Code = Callable[[TaskContext | None], Json | BatchSpec]
"""The user's function, with its arguments bound except for the context. What it returns is a unit's result; a
`BatchSpec` is a batch whose completion is the result."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery of a task: its `context`, and how many deliveries came before it.

    `executions` counts those that a process answered, `retries` all.
    """

    context: Mapping[str, Any]
    executions: int
    retries: int

    @property
    def is_repeated(self) -> bool:
        """Return whether the task was delivered before."""
        return self.executions + self.retries > 0


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How many deliveries a task may have: those that a process answered, and all.

    Two limits, since Cloud Tasks does not document whether a delivery that was answered with 5xx is an execution.
    """

    executions_max: int
    retries_max: int

    def check(self, attempt: Attempt) -> None:
        """Raise `GaveUp` if this attempt is one too many."""
        if attempt.executions >= self.executions_max or attempt.retries >= self.retries_max:
            raise GaveUp(f"Gave up after {max(attempt.executions, attempt.retries)} attempts.")


def run(ports: Ports, attempt: Attempt, retry_limits: RetryLimits, is_live: IsLive, code: Code) -> None:
    """Run the code as the table above shows. Raises `Problem` for a permanent error; anything else is to be retried."""

    def check() -> None:
        retry_limits.check(attempt)

    def checked(context: TaskContext | None) -> Json | BatchSpec:
        check()
        return code(context)

    match context_of(attempt.context):
        case Lease():
            _run_with_lease(ports, attempt.context["lease"], check, code)
        case Unit() as unit:
            placed = PlacedUnit.from_record(attempt.context["unit"])
            if is_live(placed) and not (attempt.is_repeated and batch_units.resume_unit(ports, placed)):
                _run_unit(ports, placed, lambda: checked(unit))
        case context:
            checked(context)


def _run_with_lease(ports: Ports, granted: Mapping[str, Any], check: Callable[[], None], code: Code) -> None:
    with _released_on_problem(ports, granted):
        check()
    claimed = semaphores.claim(ports, granted)
    if claimed is None:
        ports.log.info("lease lost, task dropped", semaphore=granted["semaphore"], lease=granted["id"])
        return
    with _released_on_problem(ports, claimed):
        code(claimed)
    if granted.get("release_on_return"):
        semaphores.release(ports, claimed)


@contextmanager
def _released_on_problem(ports: Ports, lease: Lease | Mapping[str, Any]) -> Iterator[None]:
    """Release the permit before a `Problem` is raised on: the task is not retried, so nothing else would release it."""
    try:
        yield
    except Problem:
        semaphores.release(ports, lease)
        raise


def _run_unit(ports: Ports, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]) -> None:
    """Record the code's result, or populate the batch whose completion will be the result."""
    try:
        returned = code()
        if isinstance(returned, BatchSpec):
            batches.populate(ports, unit.sub_batch_id, returned, parent=unit)
            return
        outcome = succeeded(returned)
    except Problem as problem:
        ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=problem.detail)
        outcome = failed(problem.detail)
    batch_units.complete_unit(ports, unit, outcome)
