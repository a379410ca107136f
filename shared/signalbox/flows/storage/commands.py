"""The writes and the tasks of a turn's commands: those that it schedules, repeats or abandons.

The writes and tasks of a commit for each command that the turn schedules or abandons:

    command  scheduled                                       abandoned
    -------  ----------------------------------------------  ------------------------------
    step     a task                                          -
    run      a claim of the delivery, or a wake-up           -
    sleep    a message to the flow itself, with a due time   the message is deleted
    event    -                                               -
    lock     a task that waits for the semaphore             a task that cancels the wait
    rate     a task that waits for the rate                  a task that cancels the wait
    renew    a task that renews the lease                    -
    object   a message to the object                         -
    flow     the sub-flow's header and listing               a message that cancels it
    batch    a task that populates the batch                 a task that cancels the batch

A turn that repeats schedules the same tasks under the same names, so a task that still exists is not created again. A
sleep's message, the sub-flow and the call of the object exist; their wake-ups are enqueued again, and one more message
to the object asks for the call's outcome.
"""

from collections.abc import Callable
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import OBJECTS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import larger_values, value_bytes_max
from signalbox.core.ports import SERVER_TIME, Delete, Put, Snapshot, Write
from signalbox.core.times import EPOCH
from signalbox.core.wake_ups import wake_up
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import Batch, Lock, ObjectCall, RatePermits, Renew, Sleep, Step, SubFlow
from signalbox.flows.machine.deadlines import wake_at_deadline
from signalbox.flows.machine.effects import (
    batch_effect,
    cancel_batch_effect,
    cancel_rate_effect,
    cancel_wait_effect,
    rate_effect,
    renew_effect,
    result_call,
    step_effect,
    wait_effect,
    wake_flow,
)
from signalbox.flows.machine.stuck import too_large
from signalbox.flows.machine.tree import PendingCommand
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import RUN_IDS, FlowAddress
from signalbox.flows.model.headers import FlowHeader, ParentFlow, new_header
from signalbox.flows.model.messages import Cancel, Result, child_id, message_to_record, parent_key, timer_id
from signalbox.flows.model.payloads import place_of_execution
from signalbox.flows.model.waits import Wait
from signalbox.flows.storage.listings import CREATED_AT, shown_in_lists
from signalbox.mailboxes.model.messages import header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import header_put, message_put
from signalbox.objects.machine.large_values import claimed_anew
from signalbox.objects.model import CALL_IDS, continuation_message, method_call
from signalbox.payloads.model import Outgoing, Place, content_of, payloads_in, place_of_sent


@dataclass(slots=True)
class CommandWrites:
    """The writes and tasks of the commands that a turn schedules and abandons."""

    turn: FlowTurn
    new_id: Callable[[], str]
    writes: list[Write] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    @property
    def header(self) -> FlowHeader:
        """The header that the turn has read. The commands belong to its execution."""
        return self.turn.header

    def collect(self) -> "CommandWrites":
        """Collect the writes and tasks, including the tasks that the code sends. Raises `Stuck`."""
        for pending in self.turn.scheduled:
            self._schedule(pending)
        for pending in self.turn.repeated:
            self.repeat(pending)
        if self.turn.repeats:
            self.effects += wake_at_deadline(self.header)
        for pending in self.turn.abandoned:
            self._abandon(pending)
        for number, call in enumerate(self.turn.sent):
            base, positions = self.header.address.base, self.header.committed_positions
            name = name_of("sent", base, self.header.execution_id, positions, number)
            place = place_of_sent("sent", base, self.header.execution_id, str(positions))
            task = call.effect(name, self.turn.now or EPOCH)
            self.effects.append(self.turn.outgoing.claimed_task(task, place))
        return self

    def _schedule(self, pending: PendingCommand) -> None:
        wait = self.turn.pending[pending.path]
        match pending.command:
            case Step() as step:
                together = len(self.turn.pending)
                self.effects.append(step_effect(self.header, self._claimed(step), wait, together, self.turn.now))
            case Sleep() as sleep:
                self.sleep(sleep, wait)
            case Lock() as lock:
                self.effects.append(wait_effect(self.header, lock, wait))
            case RatePermits() as rate:
                self.effects.append(rate_effect(self.header, rate, wait))
            case Renew() as renew:
                self.effects.append(renew_effect(self.header, renew, wait))
            case ObjectCall() as call:
                self._call_object(call, wait)
            case SubFlow() as flow:
                self.run_flow(flow, wait, pending.location)
            case Batch() as batch:
                place = place_of_execution(self.header.address, self.header.execution_id)
                effect = batch_effect(self.header, batch, wait)
                self.effects.append(claimed_batch(effect, place, self.turn.outgoing, pending.location))

    def _claimed(self, step: Step[Any]) -> Step[Any]:
        """Return a step whose task has the names of large arguments."""
        place = place_of_execution(self.header.address, self.header.execution_id)
        payload = self.turn.outgoing.claimed_members(step.call.payload, place)
        return replace(step, call=replace(step.call, payload=payload))

    def repeat(self, pending: PendingCommand) -> None:
        """Schedule a command again: its task may be lost."""
        wait, address = self.turn.pending[pending.path], self.header.address
        match pending.command:
            case Sleep() as sleep:
                due_at = datetime.fromisoformat(wait.scheduled_at) + timedelta(seconds=sleep.seconds)
                self.effects.append(wake_flow(address.base, self.header.function, due_at))
            case SubFlow() as flow:
                self.effects.append(wake_flow(_child(self.header, flow, wait).base, flow.function))
            case ObjectCall() as call:
                id_, then = child_id(CALL_IDS, address, wait), result_call(self.header, wait)
                follow = continuation_message(id_, then, receipt=False)
                self.writes.append(message_put(call.address.base, self.new_id(), follow.to_record()))
                self.effects.append(wake_up(call.address.base, call.function, OBJECTS_QUEUE))
            case _:
                self._schedule(pending)

    def sleep(self, sleep: Sleep, wait: Wait) -> None:
        """Write the message that ends a sleep, and its wake-up."""
        assert self.turn.now is not None, "a turn that schedules a sleep has read the time"
        address, due_at = self.header.address, self.turn.now + timedelta(seconds=sleep.seconds)
        message = message_to_record(Result(wait, CallOutcome()))
        self.writes.append(message_put(address.base, timer_id(address, wait), message, due_at))
        self.effects.append(wake_flow(address.base, self.header.function, due_at))

    def _call_object(self, call: ObjectCall, wait: Wait) -> None:
        then = (result_call(self.header, wait),)
        message = method_call(call.method, call.arguments, then=then)
        id_ = child_id(CALL_IDS, self.header.address, wait)
        message = claimed_anew(message, call.address, id_, self.new_id, self.turn.outgoing)
        self.writes.append(message_put(call.address.base, id_, message.to_record()))
        self.effects.append(wake_up(call.address.base, call.function, OBJECTS_QUEUE))

    def run_flow(self, flow: SubFlow[Any], wait: Wait, location: str) -> None:
        """Create a sub-flow, with the wake-up that starts it."""
        parent = ParentFlow(self.header.address.base, self.header.function, wait, self.header.depth + 1)
        if parent.depth > LIMITS.flow_depth_max:
            raise too_large(f"Sub-flows can be nested at most {LIMITS.flow_depth_max} deep.", location)
        address = _child(self.header, flow, wait)
        child = with_stored_arguments(
            new_header(address, flow.function, flow.arguments, self.new_id(), parent=parent), self.turn.outgoing
        )
        self.writes += creation(child, EPOCH)
        self.effects.append(wake_flow(address.base, flow.function))

    def _abandon(self, pending: PendingCommand) -> None:
        wait = self.header.pending[pending.path]
        match pending.command:
            case Sleep():
                address = self.header.address
                self.writes.append(Delete(message_path(address.base, timer_id(address, wait))))
            case Lock() as lock:
                self.effects.append(cancel_wait_effect(self.header, lock.semaphore, wait))
            case RatePermits() as rate:
                self.effects.append(cancel_rate_effect(self.header, rate.rate, wait))
            case SubFlow() as flow:
                self.cancel_flow(flow, wait)
            case Batch():
                self.effects.append(cancel_batch_effect(self.header, wait))

    def cancel_flow(self, flow: SubFlow[Any], wait: Wait) -> None:
        """Post the cancel of an abandoned sub-flow, and wake it."""
        child = _child(self.header, flow, wait)
        id_ = name_of("abandoned", child.base, wait.execution_id, wait.path)
        key = parent_key(self.header.address.base, wait)
        cancel = Cancel(f"{self.header.address.name} does not wait for it any more", parent=key)
        self.writes.append(message_put(child.base, id_, message_to_record(cancel)))
        self.effects.append(wake_flow(child.base, flow.function))


def with_stored_arguments(header: FlowHeader, outgoing: Outgoing) -> FlowHeader:
    """Return the header of a new run with the names of its large arguments.

    The digest of its start is that of the arguments themselves.
    """
    place = place_of_execution(header.address, header.execution_id)
    arguments = outgoing.claimed_members(header.arguments, place)
    return replace(header, arguments=arguments, has_payloads=bool(payloads_in(*arguments.values())))


def creation(header: FlowHeader, read_time: Any) -> list[Write]:
    """Return the writes that create a flow: its header, which must not exist, and its listing."""
    address = header.address
    missing = Snapshot(header_path(address.base), None, read_time)
    listing = {**shown_in_lists(header), CREATED_AT: SERVER_TIME, "checked_at": SERVER_TIME}
    return [header_put(missing, header.to_record(), 1), Put(address.base, listing)]


def _child(header: FlowHeader, flow: SubFlow[Any], wait: Wait) -> FlowAddress:
    return FlowAddress(flow.flow, wait.child or child_id(RUN_IDS, header.address, wait))


def claimed_batch(effect: Effect, place: Place, outgoing: Outgoing, location: str) -> Effect:
    """Return the task that populates a batch. It names the units if they do not fit. Raises `Stuck`."""
    content = content_of(effect.payload["units"])
    if (size := len(content)) <= LIMITS.flow_batch_bytes_max:
        return effect
    if size > (bytes_max := value_bytes_max(LIMITS.flow_batch_bytes_max)):
        detail = f"The calls of the batch have {size:,} bytes; the limit is {bytes_max:,}.{larger_values()}"
        raise too_large(f"{detail} A step can populate larger batches (docs/flow-waits.md).", location)
    units = outgoing.named(content, place)
    return replace(effect, payload={**effect.payload, "units": units})
