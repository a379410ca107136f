"""Planted faults that only nested flows or small limits show (flow-15 to flow-30, outbox-1)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports
from signalbox.core.problems import TooLarge
from signalbox.flows.machine.combinations import Group
from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.tree import CLOSES_MAX, Branch, Shielded, innermost, is_open
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.messages import Cancel, Message
from signalbox.flows.service.turns import Advanced, FlowMailbox
from signalbox.flows.storage.commits import Commit, header_of
from signalbox.mailboxes.model.messages import header_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.flows.planting import in_nested_flows
from tests.simulation.faults.points import original

new_entries = original("flows.new_entries")
advance = original("flows.advance in tasks")
divided = original("core.divided")


def _closed_outside(branch: Branch) -> None:
    """Close the coroutine as code of no flow."""
    for _ in range(CLOSES_MAX):
        if is_open(branch._code):
            with suppress(BaseException):
                innermost(branch._code).close()


def _stops_at_anything(group: Group, _: int) -> bool:
    """Schedule no more commands of an `any` as soon as anything in the flow is decided."""
    return bool(group.tree.ready)


def _acknowledged(ports: Ports, flows: Flows, read: FlowMailbox) -> Advanced:
    """Report the outcome in hand as applied by any turn that commits."""
    if (advanced := advance(ports, flows, read)).complete:
        return advanced
    [header] = ports.store.read(header_path(read.address.base))
    flow = header_of(header, read.address)
    return Advanced(flow is not None and not flow.stuck)


def _uncounted(commit: Commit) -> Commit:
    """Leave it to the store whether a commit fits."""
    return commit


def _one_record(effects: Sequence[Effect]) -> list[list[Effect]]:
    if len(parts := divided(effects)) > 1:
        raise TooLarge(f"One commit has at most {LIMITS.outbox_tasks_max} tasks.")
    return parts


def _passed_on(shielded: Shielded, outcome: CallOutcome) -> bool:
    """Cancel what is shielded."""
    return shielded._inner.cancel(outcome)


def _lost(_: Shielded, __: CallOutcome) -> bool:
    """Take a cancel for one that was raised."""
    return True


def _carries_no_cancel(turn: FlowTurn) -> list[Message]:
    entries = new_entries(turn)
    return [entry for entry in entries if not isinstance(entry, Cancel)] if turn.continued else entries


def _forgets_a_refusal(_: Driver) -> None:
    """Let a replay accept the call that was refused."""


FAULTS: tuple[Fault, ...] = (
    in_nested_flows("flow-15", "closing a driver as code of its flow", ("flows.Branch.close", _closed_outside)),
    in_nested_flows("flow-21", "keeping an outcome that has no room", ("flows.advance in tasks", _acknowledged)),
    in_nested_flows("flow-21", "counting the bytes of a commit", ("flows.Commit.checked", _uncounted)),
    in_nested_flows("flow-22", "all commands of an `any`", ("flows.Group.stops", _stops_at_anything)),
    in_nested_flows("flow-27", "shielding from a cancel", ("flows.Shielded.cancel", _passed_on)),
    in_nested_flows("flow-27", "the cancel after a shield", ("flows.Shielded.cancel", _lost)),
    in_nested_flows("flow-30", "a copy of the context", ("flows.copy_of", lambda context: context)),
    in_nested_flows("flow-27", "carrying over a cancel that is due", ("flows.new_entries", _carries_no_cancel)),
    in_nested_flows("flow-8", "checking calls again after a refused one", ("flows.Driver.refused", _forgets_a_refusal)),
    in_nested_flows("outbox-1", "as many records as the tasks need", ("core.divided", _one_record)),
)
