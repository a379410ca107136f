"""The waits of a task for a permit, or of a unit for permits of a rate: the same in every delivery.

A task that releases its lease between attempts (`release_on_failure`) waits for a permit again, and its next attempt
continues its count. The id of that wait is derived from the grant, so every delivery makes the same wait.
"""

import json
from collections.abc import Mapping
from typing import Any

from signalbox.batches.model.units import PlacedUnit
from signalbox.core.effects import name_of
from signalbox.rates.requests import RateWaitRequest
from signalbox.semaphores.model.leases import parse_lease_id
from signalbox.semaphores.requests import WaitRequest
from signalbox.tasks.model import Attempt

REQUESTED = ("permits", "lease_seconds", "release_on_return", "release_on_failure", "holder", "unit", "key", "priority")
"""The options of a wait, as the context of its task has them."""


def unit_wait(attempt: Attempt) -> WaitRequest:
    """Return the wait of a unit for a permit: the same in every delivery of the unit's task."""
    operation, unit = attempt.operation, json.dumps(attempt.context["unit"])
    return WaitRequest(operation, attempt.call, release_on_return=True, resumes=operation, unit=unit)


def unit_wait_ids(attempt: Attempt) -> tuple[str, ...]:
    """Return the ids of the waits that a delivery of a unit may make: without a grant, or after its lease is lost."""
    granted = attempt.context.get("lease")
    return (parse_lease_id(granted["id"])[0], next_wait_id(granted)) if granted else (attempt.operation,)


def unit_rate_wait(unit: PlacedUnit, attempt: Attempt) -> RateWaitRequest:
    """Return the wait of a unit for its rate: the same in every delivery, and after the rate was deleted."""
    record = attempt.context["unit"]
    of_unit = {"unit": json.dumps(record), "batch": unit.run.key}
    return RateWaitRequest(unit.operation, attempt.call, record["weight"], **of_unit)


def repeated_wait(attempt: Attempt) -> WaitRequest:
    """Return the wait that a task's grant belongs to."""
    granted = attempt.context["lease"]
    counts = {"resumes": attempt.operation, "resumed": granted.get("resumed", 0)}
    return WaitRequest(parse_lease_id(granted["id"])[0], attempt.call, **requested(granted), **counts)


def next_wait_id(granted: Mapping[str, Any]) -> str:
    """Return the id of the wait that follows a grant."""
    return name_of("after a failure", granted["semaphore"], granted["id"])


def next_wait(attempt: Attempt) -> WaitRequest:
    """Return the wait for the next attempt. Once granted, its task pauses as the queue would have."""
    granted = attempt.context["lease"]
    call = attempt.call.after(attempt.pause_seconds)
    counts = {"resumes": attempt.operation, "resumed": granted.get("resumed", 0) + 1}
    return WaitRequest(next_wait_id(granted), call, **requested(granted), **counts)


def requested(lease: Mapping[str, Any]) -> dict[str, Any]:
    return {name: lease[name] for name in REQUESTED if name in lease}
