"""The tasks of a run: those that run the commands its code waits for, and the wake-ups of its turns.

The name of a task is derived from the wait, so enqueuing it twice creates one task.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.effects import WAKE_UP_PATH, WAKE_UP_TASK, Effect, name_of
from signalbox.core.failure_notices import FailureNotice
from signalbox.core.kit_names import FLOW_COMMAND_TASK, FLOW_RESULT_TASK, FLOWS_QUEUE
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.times import EPOCH, rfc3339
from signalbox.core.wake_ups import wake_up
from signalbox.flows.machine.commands import Batch, Lock, RatePermits, Renew, Step
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.model.headers import FAILED, FlowHeader
from signalbox.flows.model.waits import Wait


def wake_flow(base: str, function: str, until: datetime | None = None) -> Effect:
    """Return the wake-up of a flow."""
    return wake_up(base, function, FLOWS_QUEUE, until)


def carry_flow(header: FlowHeader, revision: int) -> Effect:
    """Return the wake-up, due at once, that runs the inline steps left by the commit of a revision."""
    base, at = header.address.base, rfc3339(EPOCH)
    name, payload = name_of("carry", base, header.incarnation, revision), {"mailbox": base, "at": at, "until": at}
    return Effect(name, FLOWS_QUEUE, header.function, WAKE_UP_TASK, payload, WAKE_UP_PATH)


def repeat_flow(base: str, function: str) -> Effect:
    """Return the wake-up of a flow whose turn schedules the pending commands again."""
    wake = wake_flow(base, function)
    return replace(wake, name=f"repeat {base}", payload={**wake.payload, "repeats": True})


def step_effect(header: FlowHeader, step: Step[Any], wait: Wait, together: int, now: datetime | None) -> Effect:
    """Return the task of a step, delayed by the step's pause if it is retried.

    `together` is the number of commands that the flow waits for.
    """
    pause_seconds = step.pause_before(wait.attempt)
    call = step.call if wait.attempt == 1 else replace(step.call, delay_seconds=pause_seconds)
    name = step_operation(header, wait)
    context = {"flow": header.address.base, "function": header.function, "together": together, **wait.to_json()}
    context |= {"delayed": True} if call.delay_seconds else {}
    return call.effect(name, now or EPOCH, step=context)  # without a delay, the time is not used


def step_operation(header: FlowHeader, wait: Wait) -> str:
    """Return the operation of the task of a step, under which its starts are counted."""
    return name_of("step", header.address.base, wait.execution_id, wait.path, wait.attempt)


def result_call(header: FlowHeader, wait: Wait) -> Call:
    """Return the call of the task that posts a result to a flow; its context has the lease, batch or outcome.

    It uses the default queue of users' tasks, to which every function that grants a permit or completes a batch may
    enqueue.
    """
    payload = {"flow": header.address.base, "function": header.function, **wait.to_json()}
    return Call(header.function, FLOW_RESULT_TASK, payload)


def wait_effect(header: FlowHeader, lock: Lock, wait: Wait) -> Effect:
    """Return the task that waits for a lock."""
    members = {"semaphore": lock.semaphore, "permits": lock.permits, "lease_seconds": lock.lease_seconds}
    lane = {"key": lock.key} if lock.key else {}
    lane |= {"priority": lock.priority} if lock.priority != "normal" else {}
    return _command_effect(header, wait, "wait", **members, **lane)


def renew_effect(header: FlowHeader, renew: Renew, wait: Wait) -> Effect:
    """Return the task that renews the lease of a lock. The task's payload has the lease as it was granted."""
    members = {"lease": dict(renew.granted), "lease_seconds": renew.lease_seconds}
    return _command_effect(header, wait, "renew", **members)


def cancel_wait_effect(header: FlowHeader, semaphore: str, wait: Wait) -> Effect:
    """Return the task that cancels the wait for a lock."""
    return _command_effect(header, wait, "leave", semaphore=semaphore)


def rate_effect(header: FlowHeader, permits: RatePermits, wait: Wait) -> Effect:
    """Return the task that waits for permits of a rate."""
    return _command_effect(header, wait, "wait_rate", rate=permits.rate, weight=permits.weight)


def cancel_rate_effect(header: FlowHeader, rate: str, wait: Wait) -> Effect:
    """Return the task that cancels the wait for permits of a rate."""
    return _command_effect(header, wait, "leave_rate", rate=rate)


def batch_effect(header: FlowHeader, batch: Batch, wait: Wait) -> Effect:
    """Return the task that populates a batch."""
    task = replace(batch.calls[0], payload={}).to_record() if batch.calls else None
    units = [dict(call.payload) for call in batch.calls]
    permits: dict[str, Any] = {"semaphore": batch.semaphore} if batch.semaphore else {}
    permits |= {"rate": batch.rate, "weight": batch.weight} if batch.rate or batch.weight != 1 else {}
    return _command_effect(header, wait, "populate", units=units, task=task, failures_max=batch.failures_max, **permits)


def cancel_batch_effect(header: FlowHeader, wait: Wait) -> Effect:
    """Return the task that cancels an abandoned batch."""
    return _command_effect(header, wait, "end_batch")


def release_effect(base: str, function: str, lease: Mapping[str, Any]) -> Effect:
    """Return the task that releases a lease. The task's payload has the lease as it was granted."""
    payload = {"act": "release", "lease": dict(lease)}
    name = name_of("release", base, lease["semaphore"], lease["id"])
    return Effect(name, FLOWS_QUEUE, function, FLOW_COMMAND_TASK, payload, f"/tasks/{FLOW_COMMAND_TASK}")


def archive_effect(header: FlowHeader, again: str = "") -> Effect:
    """Return the task that writes the archive of an ended run. `again` distinguishes repeats after a failed task."""
    base = header.address.base
    payload = {"act": "archive", "flow": base, "run": header.ended_as}
    name = name_of("archive", base, header.incarnation, again, *header.rewind_parts)
    return Effect(name, FLOWS_QUEUE, header.function, FLOW_COMMAND_TASK, payload, f"/tasks/{FLOW_COMMAND_TASK}")


def stuck_notice(header: FlowHeader, stuck: Stuck, revision: int) -> tuple[Effect, ...]:
    """Return the task that notifies the function of a run that the commit of a revision marks as stuck."""
    locks = tuple(sorted({str(lease["semaphore"]) for lease in header.held_leases}))
    what = header.address.name, header.address.key, stuck.kind, stuck.detail, stuck.location, locks
    return FailureNotice("flow", "stuck", *what).tasks(header.function, header.address.base, revision)


def end_notice(header: FlowHeader) -> tuple[Effect, ...]:
    """Return the task that notifies the function of a run that has failed, or that its deadline has ended.

    There is none for a sub-flow, since its parent receives the error.
    """
    if header.end is None or not (header.end.state == FAILED or header.is_timed_out) or header.parent:
        return ()
    error, address = header.end.outcome.error or {}, header.address
    notice = FailureNotice("flow", "failed", address.name, address.key, error.get("type", ""), error.get("detail", ""))
    return notice.tasks(header.function, address.base, header.ended_as)


def _command_effect(header: FlowHeader, wait: Wait, act: str, **members: Any) -> Effect:
    payload = {"act": act, "flow": header.address.base, "function": header.function, **wait.to_json(), **members}
    name = name_of(act, header.address.base, wait.execution_id, wait.path, wait.attempt)
    path = f"/tasks/{FLOW_COMMAND_TASK}"
    return Effect(name, FLOWS_QUEUE, header.function, FLOW_COMMAND_TASK, payload, path)
