"""Faults of batch-15: units that run under permits of a semaphore."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.requests import BatchSpec
from signalbox.core.effects import Json
from signalbox.core.ports import Ports
from signalbox.semaphores.model.leases import Lease
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases
from signalbox.tasks.model import Attempt
from signalbox.tasks.service import runs
from tests.simulation.faults.batches.planting import in_batches
from tests.simulation.faults.points import original

unit_wait = original("tasks.unit_wait")
run_unit = original("tasks._run_unit")


def _a_wait_for_each_delivery(attempt: Attempt) -> WaitRequest:
    """The wait has a new id in each delivery."""
    request = unit_wait(attempt)
    return WaitRequest(
        f"{request.id}-{attempt.retries}",
        request.continuation,
        release_on_return=True,
        resumes=request.resumes,
        unit=request.unit,
    )


def _run_at_once(ports: Ports, attempt: Attempt, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]) -> None:
    """The unit runs under its grant, which it does not claim."""
    run_unit(ports, unit, code)
    runs._release(ports, attempt.context["lease"])


def _dropped_when_lost(ports: Ports, attempt: Attempt, unit: PlacedUnit, code: Callable[[], Json | BatchSpec]) -> None:
    """A unit whose lease is lost is dropped, as a continuation is."""
    claimed = leases.claim(ports, attempt.context["lease"])
    if claimed is not None:
        run_unit(ports, unit, code)
        runs._release(ports, claimed)


def _keep(_: Ports, lease: Lease | Mapping[str, Any]) -> None:
    """No permit is released."""
    del lease


FAULTS = (
    in_batches("batch-15", "one wait for all deliveries", "tasks.unit_wait", _a_wait_for_each_delivery),
    in_batches("batch-15", "the claim of a unit's lease", "tasks._run_unit_with_lease", _run_at_once),
    in_batches(
        "batch-15", "the next wait of a unit whose lease is lost", "tasks._run_unit_with_lease", _dropped_when_lost
    ),
    in_batches("batch-15", "releasing the permit of a unit that ends", "tasks._release", _keep),
    in_batches("batch-15", "the wait of a unit that does not run", "semaphores.withdraw", lambda *_, **__: None),
    in_batches("batch-15", "the unit of a wait that ends without a grant", "semaphores.unit_task", lambda *_: ()),
    in_batches("batch-15", "the units of a deleted semaphore", "semaphores.end_units", lambda *_: None),
    in_batches("batch-15", "the units of an earlier semaphore", "semaphores.stale_units", lambda *_: ()),
)
