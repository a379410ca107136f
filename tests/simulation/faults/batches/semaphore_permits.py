"""Faults of batch-15: units that run under permits of a semaphore."""

from __future__ import annotations

from collections.abc import Callable

from signalbox.batches.requests import BatchSpec
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Json
from signalbox.core.ports import Ports
from signalbox.semaphores.model.leases import Granted, Lease
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, waits
from signalbox.tasks.model.contexts import OfUnit
from signalbox.tasks.service import lease_runs
from tests.simulation.faults.batches.planting import in_batches
from tests.simulation.faults.points import original

unit_wait = original("tasks.unit_wait")
Code = Callable[[], Json | BatchSpec]

run_unit = original("tasks.run_unit")


def _a_wait_for_each_delivery(delivered: Delivered[OfUnit]) -> WaitRequest:
    """The wait has a new id in each delivery."""
    request = unit_wait(delivered)
    return WaitRequest(
        f"{request.id}-{delivered.retries}",
        request.continuation,
        release_on_return=True,
        resumes=request.resumes,
        unit=request.unit,
    )


def _run_at_once(ports: Ports, delivered: Delivered[OfUnit], granted: Granted, code: Code) -> None:
    """The unit runs under its grant, which it does not claim."""
    run_unit(ports, delivered.context.unit, code)
    lease_runs.release(ports, granted)


def _dropped_when_lost(ports: Ports, delivered: Delivered[OfUnit], granted: Granted, code: Code) -> None:
    """A unit whose lease is lost is dropped, as a continuation is."""
    claimed = leases.claim(ports, granted)
    if claimed is not None:
        run_unit(ports, delivered.context.unit, code)
        lease_runs.release(ports, claimed)


def _wait_once(ports: Ports, delivered: Delivered[OfUnit], request: WaitRequest) -> None:
    """A unit whose first wait has ended does not look for its grant: the task of the grant is still to come."""
    waits.wait(ports, delivered.context.semaphore, request)


def _keep(_: Ports, lease: Lease | Granted) -> None:
    """No permit is released."""
    del lease


FAULTS = (
    in_batches("batch-15", "one wait for all deliveries", "tasks.unit_wait", _a_wait_for_each_delivery),
    in_batches("batch-15", "the claim of a unit's lease", "tasks.run_unit_with_lease", _run_at_once),
    in_batches(
        "batch-15", "the next wait of a unit whose lease is lost", "tasks.run_unit_with_lease", _dropped_when_lost
    ),
    in_batches("batch-15", "releasing the permit of a unit that ends", "tasks.release", _keep),
    in_batches("batch-15", "the wait of a unit that does not run", "semaphores.withdraw", lambda *_, **__: None),
    in_batches("batch-15", "the unit of a wait that ends without a grant", "semaphores.unit_task", lambda *_: ()),
    in_batches("batch-15", "the units of a deleted semaphore", "semaphores.end_units", lambda *_: None),
    in_batches("batch-15", "the units of an earlier semaphore", "semaphores.stale_units", lambda *_: ()),
    in_batches("batch-15", "the task of a grant that is lost after its claim", "tasks.wait_first", _wait_once),
)
