"""The tasks of a flow: its steps, and the kit's own that act for it and that tell it how something ended."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.times import EPOCH
from shared.core.rules.wake_ups import wake_up
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.commands import Batch, Lock, Step
from shared.flows.rules.headers import FlowHeader
from shared.flows.rules.locks import Renew
from shared.flows.rules.messages import Place

QUEUE = "flows"
FLOW_ACT = "flow_act"
"""The kit's own task of a function with flows: wait for a lock, renew it, give it back, populate a batch."""

FLOW_TOLD = "flow_told"
"""The kit's own task of a function with flows: leave in a flow's mailbox how something ended."""


def wake_flow(base: str, function: str, until: datetime | None = None) -> Effect:
    """Return the wake-up of a flow."""
    return wake_up(base, function, QUEUE, until)


def step_effect(header: FlowHeader, step: Step, place: Place, together: int, now: datetime | None) -> Effect:
    """Return the task of a step; one that is not the first attempt comes after a pause.

    `together` is how many the flow waits for at once.
    """
    call = step.call if place.attempt == 1 else replace(step.call, delay_seconds=step.pause_seconds)
    name = name_of("step", header.address.base, place.life, place.path, place.attempt)
    context = {"flow": header.address.base, "function": header.function, "together": together, **place.to_json()}
    return call.effect(name, now or EPOCH, step=context)  # without a delay, no time is needed


def told_call(header: FlowHeader, place: Place) -> Call:
    """Return the call of the task that tells a flow how something ended: what ended is its context.

    It goes through the queue of users' tasks: whoever grants a permit or completes a batch may enqueue to that one.
    """
    payload = {"flow": header.address.base, "function": header.function, **place.to_json()}
    return Call(header.function, FLOW_TOLD, payload)


def wait_effect(header: FlowHeader, lock: Lock, place: Place) -> Effect:
    """Return the task that waits for a lock."""
    asked = {"semaphore": lock.semaphore, "permits": lock.permits, "lease_seconds": lock.lease_seconds}
    return _act(header, place, "wait", **asked)


def renew_effect(header: FlowHeader, renew: Renew, place: Place) -> Effect:
    """Return the task that renews the lease of a lock: it names the grant."""
    return _act(header, place, "renew", lease=dict(renew.granted), lease_seconds=renew.lease_seconds)


def leave_effect(header: FlowHeader, semaphore: str, place: Place) -> Effect:
    """Return the task that ends the wait for a lock."""
    return _act(header, place, "leave", semaphore=semaphore)


def batch_effect(header: FlowHeader, batch: Batch, place: Place) -> Effect:
    """Return the task that populates a batch."""
    task = replace(batch.calls[0], payload={}).to_record() if batch.calls else None
    units = [dict(call.payload) for call in batch.calls]
    return _act(header, place, "populate", units=units, task=task, failures_max=batch.failures_max)


def end_batch_effect(header: FlowHeader, place: Place) -> Effect:
    """Return the task that ends a batch which nobody waits for."""
    return _act(header, place, "end_batch")


def release_effect(base: str, function: str, lease: Mapping[str, Any]) -> Effect:
    """Return the task that gives a lease back: `lease` is what was granted."""
    payload = {"act": "release", "lease": dict(lease)}
    name = name_of("release", base, lease["semaphore"], lease["id"])
    return Effect(name, QUEUE, function, FLOW_ACT, payload, f"/tasks/{FLOW_ACT}")


def _act(header: FlowHeader, place: Place, act: str, **others: Any) -> Effect:
    payload = {"act": act, "flow": header.address.base, "function": header.function, **place.to_json(), **others}
    name = name_of(act, header.address.base, place.life, place.path)
    return Effect(name, QUEUE, header.function, FLOW_ACT, payload, f"/tasks/{FLOW_ACT}")


def own_id(address: FlowAddress, place: Place) -> str:
    """Return the id of what a flow makes for itself at a place: a wait, a batch, a sub-flow, a call."""
    return name_of("of a flow", address.base, place.life, place.path)


def own_name(payload: Mapping[str, Any]) -> str:
    """Return `own_id` of the flow and the place in the payload of one of its tasks."""
    return own_id(FlowAddress.of_base(payload["flow"]), Place.from_json(payload))
