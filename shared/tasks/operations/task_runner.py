"""Run a user's task for what it was granted, counted or announced for, however often it is delivered.

                 first of all            the user's code returns     it raises a Problem        it raises else
    lease        claim it; lost: end     release it, if asked to     release it, tell           keep it: asked again
    unit         over: pass it on, end   record the result           record the failure, end    asked again
    otherwise                            end                         tell                       asked again

A task that dies every time would be asked for without end, so its deliveries are counted. One too many does not run the
user's code any more: it releases the lease, or records that the unit was given up.
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

IsWanted = Callable[[PlacedUnit], bool]
"""Tells whether a unit's batch goes on; the answer may be some seconds old."""

Code = Callable[[TaskContext | None], Json | BatchSpec]
"""The user's function, its arguments given but for what it runs for. What a unit gives is its result; a `BatchSpec`:
the batch whose end is its result."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What stood in the task's `context`, and how often a process has been at this task, or nearly, before."""

    context: Mapping[str, Any]
    executions: int
    retries: int

    @property
    def is_repeated(self) -> bool:
        """Tell whether this task was delivered before."""
        return self.executions + self.retries > 0


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """Bounds on a task's deliveries: those that reached a process, and all.

    Two, since it is not said whether Cloud Tasks counts a delivery that was answered with 5XX as an execution.
    """

    executions_max: int
    retries_max: int

    def check(self, delivery: Attempt) -> None:
        """Raise `GaveUp` if this delivery is one too many."""
        if delivery.executions >= self.executions_max or delivery.retries >= self.retries_max:
            raise GaveUp(f"Gave up after {max(delivery.executions, delivery.retries)} attempts.")


def run(ports: Ports, delivery: Attempt, retry_limits: RetryLimits, is_wanted: IsWanted, code: Code) -> None:
    """Run the code as the table above says. Raises what the queue should hear of."""

    def attempt(context: TaskContext | None) -> Json | BatchSpec:
        retry_limits.check(delivery)
        return code(context)

    match context_of(delivery.context):
        case Lease():
            _with_lease(ports, delivery.context["lease"], lambda: retry_limits.check(delivery), code)
        case Unit() as unit:
            place = PlacedUnit.from_record(delivery.context["unit"])
            if is_wanted(place) and not (delivery.is_repeated and batch_units.resume_unit(ports, place)):
                _as_unit(ports, place, lambda: attempt(unit))
        case context:
            attempt(context)


def _with_lease(ports: Ports, given: Mapping[str, Any], check: Callable[[], None], code: Code) -> None:
    with _released_if_refused(ports, given):
        check()
    claimed = semaphores.claim(ports, given)
    if claimed is None:
        ports.log.info("nothing to run: the lease is over", semaphore=given["semaphore"], lease=given["id"])
        return
    with _released_if_refused(ports, claimed):
        code(claimed)
    if given.get("release_on_return"):
        semaphores.release(ports, claimed)


@contextmanager
def _released_if_refused(ports: Ports, lease: Lease | Mapping[str, Any]) -> Iterator[None]:
    """Give the permit back before a `Problem` goes on: nobody will come back to do it."""
    try:
        yield
    except Problem:
        semaphores.release(ports, lease)
        raise


def _as_unit(ports: Ports, unit: PlacedUnit, attempt: Callable[[], Json | BatchSpec]) -> None:
    """Record what the code gives, or begin the batch that will complete the unit in its stead."""
    try:
        given = attempt()
        if isinstance(given, BatchSpec):
            batches.populate(ports, unit.sub_batch_id, given, parent=unit)
            return
        outcome = succeeded(given)
    except Problem as problem:
        ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=problem.detail)
        outcome = failed(problem.detail)
    batch_units.complete_unit(ports, unit, outcome)
