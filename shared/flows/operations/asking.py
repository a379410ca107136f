"""What a turn asks for, and what it abandons: the records and tasks of its commit.

command     asked for                                      abandoned
step        a task                                         -
sleep       a message for later to itself                  the message is deleted
event       -                                              -
lock        a task that waits; its grant tells the flow    a task that ends the wait
renew       a task that renews the lease                   -
object      a message to the object                        -
flow        the sub-flow's header and card                 a message that cancels it
batch       a task that populates it                       a task that ends it
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shared.core.operations.mailbox import header_put, message_put
from shared.core.operations.ports import SERVER_TIME, Delete, Put, Snapshot, Write
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path, message_path
from shared.core.rules.times import EPOCH
from shared.core.rules.wake_ups import wake_up
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.commands import Batch, Lock, ObjectCall, Sleep, Step, SubFlow
from shared.flows.rules.failures import too_large
from shared.flows.rules.headers import FlowHeader, ParentFlow, new_header
from shared.flows.rules.locks import Renew
from shared.flows.rules.messages import Cancel, Place, Result, timer_id, to_record
from shared.flows.rules.nodes import Waiting
from shared.flows.rules.tasks import (
    batch_effect,
    end_batch_effect,
    leave_effect,
    own_id,
    renew_effect,
    step_effect,
    told_call,
    wait_effect,
    wake_flow,
)
from shared.flows.rules.turns import FlowTurn
from shared.objects.operations.records import QUEUE as OBJECTS_QUEUE
from shared.objects.rules.messages import method_call
from shared.objects.rules.outcomes import CallOutcome


@dataclass(slots=True)
class Asked:
    """The records and tasks of a turn's commit, besides its header and messages."""

    turn: FlowTurn
    new_id: Callable[[], str]
    writes: list[Write] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    @property
    def header(self) -> FlowHeader:
        """Return the header that the turn read: what it asks for is of that life."""
        return self.turn.header

    def collect(self) -> "Asked":
        """Collect what the turn asks for, abandons, gives back and sends. Raises `Stuck`."""
        for waiting in self.turn.asked:
            self._ask(waiting)
        for waiting in self.turn.abandoned:
            self._abandon(waiting)
        for number, call in enumerate(self.turn.sent):
            name = name_of("sent", self.header.address.base, self.header.life, self.header.known, number)
            self.effects.append(call.effect(name, self.turn.now or EPOCH))
        return self

    def _place(self, waiting: Waiting) -> Place:
        return Place(self.header.life, waiting.path, self.turn.pending[waiting.path].attempt)

    def _ask(self, waiting: Waiting) -> None:
        place = self._place(waiting)
        match waiting.command:
            case Step() as step:
                together = len(self.turn.pending)
                self.effects.append(step_effect(self.header, step, place, together, self.turn.now))
            case Sleep() as sleep:
                self._sleep(sleep, place)
            case Lock() as lock:
                self.effects.append(wait_effect(self.header, lock, place))
            case Renew() as renew:
                self.effects.append(renew_effect(self.header, renew, place))
            case ObjectCall() as call:
                self._call_object(call, place)
            case SubFlow() as flow:
                self._run_flow(flow, place, waiting.place)
            case Batch() as batch:
                self.effects.append(_checked_batch(batch_effect(self.header, batch, place), waiting.place))

    def _sleep(self, sleep: Sleep, place: Place) -> None:
        assert self.turn.now is not None, "a sleep needs the time"
        address, due_at = self.header.address, self.turn.now + timedelta(seconds=sleep.seconds)
        message = to_record(Result(place, CallOutcome()))
        self.writes.append(message_put(address.base, timer_id(address, place), message, due_at))
        self.effects.append(wake_flow(address.base, self.header.function, due_at))

    def _call_object(self, call: ObjectCall, place: Place) -> None:
        then = (told_call(self.header, place),)
        message = method_call(call.method, call.arguments, then=then, receipt=False)
        id_ = own_id(self.header.address, place)
        self.writes.append(message_put(call.address.base, id_, message.to_record()))
        self.effects.append(wake_up(call.address.base, call.function, OBJECTS_QUEUE))

    def _run_flow(self, flow: SubFlow, place: Place, where: str) -> None:
        parent = ParentFlow(self.header.address.base, self.header.function, place, self.header.depth + 1)
        if parent.depth > LIMITS.flow_depth_max:
            raise too_large(f"At most {LIMITS.flow_depth_max} flows are inside each other.", where)
        address = _child(self.header, flow, place)
        child = new_header(address, flow.function, flow.arguments, self.new_id(), parent=parent)
        self.writes += creation(child, EPOCH)
        self.effects.append(wake_flow(address.base, flow.function))

    def _abandon(self, waiting: Waiting) -> None:
        place = Place(self.header.life, waiting.path, self.header.pending[waiting.path].attempt)
        match waiting.command:
            case Sleep():
                address = self.header.address
                self.writes.append(Delete(message_path(address.base, timer_id(address, place))))
            case Lock() as lock:
                self.effects.append(leave_effect(self.header, lock.semaphore, place))
            case SubFlow() as flow:
                self._cancel_flow(flow, place)
            case Batch():
                self.effects.append(end_batch_effect(self.header, place))

    def _cancel_flow(self, flow: SubFlow, place: Place) -> None:
        child = _child(self.header, flow, place)
        id_ = name_of("abandoned", child.base, place.life, place.path)
        reason = Cancel(f"{self.header.address.flow} does not wait for it any more")
        self.writes.append(message_put(child.base, id_, to_record(reason)))
        self.effects.append(wake_flow(child.base, flow.function))


def creation(header: FlowHeader, read_time: Any, *, revision: int = 1) -> list[Write]:
    """Return the writes that create a flow: its header, which must not exist, and its card."""
    address = header.address
    none = Snapshot(header_path(address.base), None, read_time)
    card = {**address.to_json(), "state": header.state, "created_at": SERVER_TIME}
    return [header_put(none, header.to_record(), revision), Put(address.base, card)]


def _child(header: FlowHeader, flow: SubFlow, place: Place) -> FlowAddress:
    return FlowAddress(flow.flow, own_id(header.address, place))


def _checked_batch(effect: Effect, where: str) -> Effect:
    size = len(repr(effect.payload))
    if size > LIMITS.flow_batch_bytes_max:
        raise too_large(
            f"The calls of a flow's batch have {size:,} bytes, and at most {LIMITS.flow_batch_bytes_max:,}", where
        )
    return effect
