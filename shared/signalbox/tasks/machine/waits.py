"""The waits of a task for a permit, or of a unit for permits of a rate: the same in every delivery.

A task that releases its lease between attempts (`release_on_failure`) waits for a permit again, and its next attempt
continues its count. The id of that wait is derived from the wait before it, so every delivery makes the same wait.
"""

import json

from signalbox.batches.model.tree import rated_record
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import replace
from signalbox.rates.requests import WAIT_IDS as RATE_WAIT_IDS
from signalbox.rates.requests import RateWaitRequest
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.requests import WAIT_IDS, WaitRequest
from signalbox.tasks.model.contexts import OfGroup, OfUnit, named_members


def unit_wait(delivered: Delivered[OfUnit]) -> WaitRequest:
    """Return the wait of a unit for a permit: the same in every delivery of the unit's task."""
    operation, unit = delivered.operation, json.dumps(delivered.context.record)
    id_ = WAIT_IDS.derived(operation)
    return WaitRequest(id_, delivered.call, release_on_return=True, resumes=operation, unit=unit)


def unit_wait_ids(delivered: Delivered[OfUnit]) -> tuple[str, ...]:
    """Return the ids of the waits that a unit's delivery may have made.

    Without a grant that is the unit's first wait, with a grant the wait of the grant and the wait after it.
    """
    granted = delivered.context.granted
    return (granted.wait_id, next_wait_id(granted)) if granted else (WAIT_IDS.derived(delivered.operation),)


def unit_rate_wait(delivered: Delivered[OfUnit]) -> RateWaitRequest:
    """Return the wait of a unit for its rate: the same in every delivery, and after the rate was deleted."""
    context = delivered.context
    unit, batch = json.dumps(context.record), context.unit.run.key
    id_ = RATE_WAIT_IDS.derived(context.unit.operation)
    return RateWaitRequest(id_, delivered.call, context.weight, unit=unit, batch=batch)


def group_rate_wait(delivered: Delivered[OfGroup]) -> RateWaitRequest:
    """Return the wait of a group for its rate: the same in every delivery, and in that of a group that was lost."""
    context, group = delivered.context, replace(delivered.context.group, rest=None, careful=False)
    rated = rated_record(context.rate, context.weight)
    unit, batch = json.dumps({"group": group.to_record() | rated | named_members(context)}), group.run.key
    id_ = RATE_WAIT_IDS.derived(group.operation)
    return RateWaitRequest(id_, delivered.call, context.weight, unit=unit, batch=batch, at_most_burst=True)


def repeated_wait(delivered: Delivered[object], granted: Granted) -> WaitRequest:
    """Return the wait that a task's grant belongs to."""
    again = granted.options()
    return WaitRequest(granted.wait_id, delivered.call, **again, resumes=delivered.operation, resumed=granted.resumed)


def next_wait_id(granted: Granted) -> str:
    """Return the id of the wait that follows a grant: the same for all grants of one wait, of which one is live."""
    return WAIT_IDS.derived(name_of("after a failure", granted.semaphore, granted.wait_id))


def next_wait(delivered: Delivered[object], granted: Granted) -> WaitRequest:
    """Return the wait for the next attempt. Once it is granted, the task is delayed by the queue's pause."""
    call = delivered.call.after(delivered.pause_seconds)
    again, resumed = granted.options(), granted.resumed + 1
    return WaitRequest(next_wait_id(granted), call, **again, resumes=delivered.operation, resumed=resumed)
