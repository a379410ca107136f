"""Planted faults that lose something outside a flow's turns: leases, wake-ups, the ends of terminated flows.

Nested flows notice them (flow-10, flow-11, flow-13, flow-14, flow-24).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from signalbox.core import outbox
from signalbox.core.deliveries import Delivered
from signalbox.core.ports import REMOVE, Conflict, Delete, Ports, Snapshot, Write
from signalbox.core.problems import TooLarge, Unavailable
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.combinations import Group
from signalbox.flows.machine.commands import Lock, ObjectCall, Renew
from signalbox.flows.machine.effects import release_effect, repeat_flow, wake_flow
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.machine.tree import PendingCommand
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import CANCELLED, End, FlowHeader
from signalbox.flows.model.messages import Message, Result
from signalbox.flows.problems import FlowCancelled
from signalbox.flows.service.turns import FlowMailbox, advance
from signalbox.flows.storage import commits, listings
from signalbox.flows.storage.commands import CommandWrites
from signalbox.flows.tasks import steps
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import header_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import read_mailbox
from signalbox.tasks.model.contexts import OfStep
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.flows.planting import in_nested_flows
from tests.simulation.faults.points import original

take_result = original("flows.FlowTurn.take_result")
replayed = original("flows.FlowTurn.replay_log")
is_over = original("flows.is_over")
repeat = original("flows.CommandWrites.repeat")
mark_stuck = original("flows.mark_stuck")


# --- leases ---


def _keeps_earlier_grants(turn: FlowTurn, message: Result, now: datetime) -> None:
    if message.wait.execution_id == turn.header.execution_id:
        take_result(turn, message, now)


def _deletes_grants(ports: Ports, _: FlowAddress, __: Snapshot, records: Sequence[Snapshot], *with_them: Write) -> None:
    ports.store.commit([*with_them, *(Delete(record.path) for record in records)])


def _leaves_results(group: Group) -> None:
    """Abandon what a group waits for, and not what it has received."""
    group._left = 0
    for child in group._open():
        child.abandon()


def _knows_held_leases_only(turn: FlowTurn, log: Sequence[Message]) -> FlowTurn:
    replayed(turn, log)
    turn.leases = {path: lease for path, lease in turn.leases.items() if path in turn.driver.held}
    return turn


# --- wake-ups ---


def _over_without_wake_up(ports: Ports, step: steps.StepOfFlow, delivered: Delivered[OfStep]) -> bool:
    quiet = Ports(ports.store, _NoQueue(), ports.clock, ports.log)
    return bool(is_over(quiet, step, delivered))


class _NoQueue:
    def create(self, _: Any) -> Collection[str]:
        """Create nothing."""
        return ()


# --- silent flows ---


def _checked_once(ports: Ports, listing: Snapshot, address: FlowAddress) -> None:
    [read] = ports.store.read(header_path(address.base))
    header = commits.header_of(read, address)
    if header and not header.end and not header.stuck:
        ports.queue.create(complete_wake_ups([repeat_flow(address.base, header.function)], read.read_time))
    sweep._set_checked(ports, listing, REMOVE)


def _repeats_no_call(commands: CommandWrites, pending: PendingCommand) -> None:
    if not isinstance(pending.command, ObjectCall):
        repeat(commands, pending)


def _repeats_no_lock(commands: CommandWrites, pending: PendingCommand) -> None:
    if not isinstance(pending.command, Lock | Renew):
        repeat(commands, pending)


# --- ends ---


def _ended(ports: Ports, read: Snapshot, header: FlowHeader, detail: str, *, without: str) -> None:
    """End a flow without running its code, and leave out one part of the commit."""
    after = header.ended(End(CANCELLED, CallOutcome.from_problem(FlowCancelled(detail)), read.read_time))
    base, function = header.address.base, header.function
    parts: Mapping[str, Sequence[Any]] = {
        "leases": [release_effect(base, function, lease["granted"]) for lease in header.leases.values()],
        "wake-up": [wake_flow(base, function)],
    }
    told = [] if without == "message" else list(commits.end_messages(after))
    writes = [commits.header_write(read, after, read.read_time), *listings.listing_writes(read, header, after), *told]
    effects = [effect for name, part in parts.items() if name != without for effect in part]
    outbox.commit(ports, writes, [*effects, *sweep._cancels_of_commands(header), *commits.end_tasks(after)])


def _without(part: str) -> Any:
    def ended(ports: Ports, read: Snapshot, header: FlowHeader, detail: str) -> None:
        _ended(ports, read, header, detail, without=part)

    return ended


def _refused(ports: Ports, read: FlowMailbox, header: FlowHeader, stuck: Stuck) -> None:
    """Raise the reason why a turn is too large in the task of a step."""
    if read.own and stuck.kind == "flow-too-large":
        raise TooLarge(stuck.detail)
    mark_stuck(ports, read, header, stuck)


def _acknowledged(ports: Ports, flows: Flows, step: steps.StepOfFlow, result: Result) -> bool:
    """Take a refusal of the turn for an answer to the task."""
    mailbox = read_mailbox(ports.store, step.address.base, MAILBOXES_LIMITS.mailbox_page)
    if mailbox.more or step.together > LIMITS.flow_siblings_max:
        return False
    try:
        return advance(ports, flows, FlowMailbox(step.address, mailbox, result)).complete
    except TooLarge:
        return True
    except (Conflict, Unavailable):
        return False


LOCKS_IN_RESULTS = in_nested_flows(
    "flow-13", "releasing locks in nested results", ("flows.Group.abandon", _leaves_results)
)
"""A fault that the model of flows notices: the driver that these worlds compare with has the same gap."""

FAULTS: tuple[Fault, ...] = (
    in_nested_flows(
        "flow-13", "releasing grants of an earlier execution", ("flows.FlowTurn.take_result", _keeps_earlier_grants)
    ),
    in_nested_flows("flow-13", "releasing grants that a removal deletes", ("flows.delete_messages", _deletes_grants)),
    in_nested_flows(
        "flow-13", "releasing leases that only the header has", ("flows.FlowTurn.replay_log", _knows_held_leases_only)
    ),
    in_nested_flows("flow-13", "waking for a posted grant", ("flows.wake_again", lambda *_: None)),
    in_nested_flows("flow-10", "waking for a posted outcome", ("flows.is_over", _over_without_wake_up)),
    in_nested_flows(
        "flow-21",
        "keeping an outcome whose turn is refused",
        ("flows.apply_at_once", _acknowledged),
        ("flows.mark_stuck", _refused),
    ),
    in_nested_flows("flow-24", "looking at a silent flow again", ("flows.check_silent", _checked_once)),
    in_nested_flows("flow-24", "requesting the outcome of a call", ("flows.CommandWrites.repeat", _repeats_no_call)),
    in_nested_flows("flow-24", "repeating a lock", ("flows.CommandWrites.repeat", _repeats_no_lock)),
    in_nested_flows("flow-25", "the leases of a terminated flow", ("flows.end_at_once", _without("leases"))),
    in_nested_flows("flow-25", "the wake-up of a terminated flow", ("flows.end_at_once", _without("wake-up"))),
    in_nested_flows("flow-25", "the message of a terminated sub-flow", ("flows.end_at_once", _without("message"))),
    in_nested_flows("flow-25", "the sub-flows of a terminated flow", ("flows.cancel_sub_flows", lambda *_: None)),
)
