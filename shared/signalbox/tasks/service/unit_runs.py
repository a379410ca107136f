"""Run a unit of a batch that has no outcome and whose batch has not ended: at once, or when it has its permits."""

from collections.abc import Callable

from signalbox.batches.model.units import PlacedUnit, UnitOutcome, failed, succeeded
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import units
from signalbox.batches.service.sub_batches import populate_sub_batch
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Json
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem
from signalbox.rates import service as rates
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.semaphore import waiter_path
from signalbox.semaphores.model.waiters import WaitAnswer
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, waits
from signalbox.semaphores.storage import read_waiter
from signalbox.tasks.machine.waits import next_wait, repeated_wait, unit_rate_wait, unit_wait, unit_wait_ids
from signalbox.tasks.model.contexts import OfUnit
from signalbox.tasks.service import lease_runs
from signalbox.tasks.service.lease_runs import release

IsLive = Callable[[PlacedUnit], bool]
"""Return whether a unit should run, since its batch has not ended; may be a few seconds old."""

CodeOfUnit = Callable[[], Json | BatchSpec]
"""The code of one unit. It returns the unit's result, or a `BatchSpec`: a batch whose completion is the result."""

_ENDED = {"cancelled": "cancelled", "deleted": "ended, because the semaphore was deleted"}


def deliver_unit(ports: Ports, delivered: Delivered[OfUnit], is_live: IsLive, code: CodeOfUnit) -> None:
    """Run a unit, make its wait for permits, record it as failed, or drop its task."""
    context, unit, granted = delivered.context, delivered.context.unit, delivered.context.granted
    had_permits = granted is not None or bool(context.wait_ended) or context.has_permits
    may_have_run = delivered.is_repeated or had_permits
    if not is_live(unit) or units.need_not_run(ports, unit, is_repeated=may_have_run):
        _release_and_withdraw(ports, delivered)
    elif context.wait_ended:
        _fail(ports, unit, f"The wait for a permit of {context.limiter} was {_ENDED[context.wait_ended]}.")
    elif granted is not None:
        run_unit_with_lease(ports, delivered, granted, code)
    elif context.semaphore:
        wait_first(ports, delivered, unit_wait(delivered))
    elif context.rate and not context.has_permits:
        wait_for_rate(ports, delivered)
    else:
        run_unit(ports, unit, code)


def _release_and_withdraw(ports: Ports, delivered: Delivered[OfUnit]) -> None:
    """Release the permit of a unit that does not run, and withdraw the waits that an earlier delivery may have made.

    If that delivery died after it had created a wait, and before it had closed the semaphore, no operation finds the
    wait.
    """
    granted, semaphore = delivered.context.granted, delivered.context.semaphore
    if granted is not None:
        release(ports, granted)
    if semaphore and delivered.is_repeated:
        for id_ in unit_wait_ids(delivered):
            waits.withdraw(ports, semaphore, id_)


def wait_for_rate(ports: Ports, delivered: Delivered[OfUnit]) -> None:
    """Make a unit's wait for its rate, whose grant runs the unit.

    If the wait is refused, or was cancelled, record the unit as failed. A repeat enqueues the task of a grant again. If
    another call of a retry has made the wait, this call looks again later.
    """
    context, unit = delivered.context, delivered.context.unit
    try:
        answer = rates.wait(ports, context.rate, unit_rate_wait(delivered))
    except Problem as problem:
        _fail(ports, unit, problem.detail)
    else:
        if answer.state == "cancelled":
            _fail(ports, unit, f"The wait for a permit of {context.limiter} was cancelled.")
        elif answer.repeated:
            units.look_again(ports, unit)


def run_unit_with_lease(ports: Ports, delivered: Delivered[OfUnit], granted: Granted, code: CodeOfUnit) -> None:
    """Run a unit under its lease, and release the lease. If it is lost, the unit waits for a permit again."""
    unit = delivered.context.unit
    claimed = leases.claim(ports, granted)
    if claimed is None:
        lost = {"semaphore": granted.semaphore, "lease": granted.id}
        ports.log.info("lease lost, unit waits again", **lost, batch=unit.batch, index=unit.index)
        answer = _wait_for_permit(ports, unit, granted.semaphore, repeated_wait(delivered, granted))
        if answer is not None and answer.ended:
            _wait_for_permit(ports, unit, granted.semaphore, next_wait(delivered, granted))
        return
    with lease_runs.kept_or_released(ports, claimed, batch=unit.batch, index=unit.index):
        run_unit(ports, unit, code)
    release(ports, claimed)


def wait_first(ports: Ports, delivered: Delivered[OfUnit], request: WaitRequest) -> None:
    """Make a unit's first wait. If that wait has ended, the task of its grant is lost: do what that task would do.

    A lease that the task had claimed has expired, and its wait returns to the queue. If the lease was ended, the unit
    waits again, as `run_unit_with_lease` does. So a late delivery of the lost task makes no other wait.
    """
    unit, semaphore = delivered.context.unit, delivered.context.semaphore
    answer = _wait_for_permit(ports, unit, semaphore, request)
    while answer is not None and answer.ended:
        [read] = ports.store.read(waiter_path(semaphore, request.id))
        waiter = read_waiter(read)
        if waiter is None or waiter.grant is None:
            _fail(ports, unit, f"The wait for a permit of {semaphore} was cancelled.")
            return
        granted = Granted(semaphore, f"{request.id}~{waiter.grant}", release_on_return=True, unit=request.unit)
        leases.claim(ports, granted)
        answer = _wait_for_permit(ports, unit, semaphore, repeated_wait(delivered, granted))
        if answer is not None and answer.ended:
            request = next_wait(delivered, granted)
            answer = _wait_for_permit(ports, unit, semaphore, request)


def _wait_for_permit(ports: Ports, unit: PlacedUnit, semaphore: str, request: WaitRequest) -> WaitAnswer | None:
    """Make a unit's wait, whose grant runs the unit. If the wait is refused, record the unit as failed, return None.

    If another call of a retry has made the wait, this call looks again later.
    """
    try:
        answer = waits.wait(ports, semaphore, request)
    except Problem as problem:
        _fail(ports, unit, problem.detail)
        return None
    if answer.repeated:
        units.look_again(ports, unit)
    return answer


def _fail(ports: Ports, unit: PlacedUnit, detail: str) -> None:
    ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=detail)
    units.complete_unit(ports, unit, failed(detail))


def run_unit(ports: Ports, unit: PlacedUnit, code: CodeOfUnit) -> None:
    """Record the code's result, or populate the batch whose completion will be the result."""
    outcome = outcome_of(ports, unit, code)
    if outcome is not None:
        units.complete_unit(ports, unit, outcome)


def outcome_of(ports: Ports, unit: PlacedUnit, code: CodeOfUnit) -> UnitOutcome | None:
    """Run the code and return its outcome, or populate the batch whose completion will be its outcome."""
    try:
        returned = code()
        if isinstance(returned, BatchSpec):
            populate_sub_batch(ports, unit, returned)
            return None
        return succeeded(returned)
    except Problem as problem:
        ports.log.error("unit failed", batch=unit.batch, index=unit.index, detail=problem.detail)
        return failed(problem.detail)
