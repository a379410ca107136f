"""Planted faults of locks, sub-flows and the end of a flow (flow-13, flow-14, flow-17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from signalbox.batches.model.tree import BATCH_IDS
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service.population import populate_whole
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect, name_of
from signalbox.core.keys import IdSpace
from signalbox.core.kit_names import FLOW_COMMAND_TASK, FLOWS_QUEUE
from signalbox.core.ports import AlreadyExists, Ports
from signalbox.core.times import EPOCH
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import RUN_IDS, FlowAddress
from signalbox.flows.model.headers import FlowHeader, ParentFlow, new_header
from signalbox.flows.model.messages import Message, Result, child_id
from signalbox.flows.model.waits import Wait
from signalbox.flows.storage import commands
from signalbox.flows.storage.commands import CommandWrites
from signalbox.flows.tasks import steps
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.requests import RenewRequest
from signalbox.semaphores.service import leases
from tests.simulation.faults.flows.planting import in_flows, in_nested_flows


def _drops(_: FlowTurn, __: Message) -> None:
    """Drop a message without releasing its lease."""


def _keeps_at_the_end(turn: FlowTurn) -> list[dict[str, Any]]:
    """Release no lease that the code holds at its end."""
    had, held = turn.leases | turn.driver.granted, turn.driver.held
    return [*(dict(lease["granted"]) for path, lease in had.items() if path not in held), *turn.dropped_leases]


def _created_by_a_task(self: CommandWrites, flow: SubFlow[Any], wait: Wait, _: str) -> None:
    """Enqueue a task that creates the sub-flow."""
    payload = {"act": "create", "flow": self.header.address.base, "function": self.header.function, **wait.to_json()}
    others = {"name": flow.flow, "arguments": dict(flow.arguments)}
    name = name_of("create", self.header.address.base, wait.execution_id, wait.path)
    path = f"/tasks/{FLOW_COMMAND_TASK}"
    effect = Effect(name, FLOWS_QUEUE, self.header.function, FLOW_COMMAND_TASK, payload | others, path, not_before=None)
    self.effects.append(effect)


def _create(ports: Ports, payload: Any) -> None:
    around, wait = FlowAddress.of_base(payload["flow"]), Wait.from_json(payload)
    address = FlowAddress(payload["name"], child_id(RUN_IDS, around, wait))
    parent = ParentFlow(around.base, payload["function"], wait)
    child = new_header(address, payload["function"], payload["arguments"], ports.store.new_id(), parent=parent)
    try:
        outbox.commit(ports, commands.creation(child, EPOCH), [wake_flow(address.base, payload["function"])])
    except AlreadyExists:
        return


def _continues(_: CommandWrites, __: SubFlow[Any], ___: Wait) -> None:
    """Let an abandoned sub-flow run."""


def _posts_nothing(_: FlowHeader, __: Any = None) -> Iterator[Any]:
    """Leave the outcome out of the last commit."""
    return iter(())


def _identified_by_path(ids: IdSpace, address: FlowAddress, wait: Wait) -> str:
    return ids.derived(name_of("of a flow", address.base, wait.path))


def _releases_always(turn: FlowTurn, message: Message) -> None:
    """Release the lease of each dropped result."""
    if isinstance(message, Result) and message.lease:
        turn.dropped_leases.append(message.lease)


def _renews_the_token(ports: Ports, granted: Granted, lease_seconds: float | None = None) -> datetime | None:
    """Renew the lease by the token that it had when it was granted."""
    return leases.renew(ports, granted.semaphore, RenewRequest(granted.id, lease_seconds))


def _always_awaited(_: Ports, __: Mapping[str, Any]) -> bool:
    """Populate a batch without looking whether its flow waits for it."""
    return True


def _populates_without_a_second_look(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Look only before the batch is populated."""
    if steps.is_awaited(ports, payload):
        populate_whole(ports, steps._child_id(BATCH_IDS, payload), _spec(payload), payload["units"])


def _spec(payload: Mapping[str, Any]) -> BatchSpec:
    return BatchSpec(task=Call.from_record(payload["task"]), on_complete=steps._result_call(payload))


FAULTS = (
    in_flows(
        "flow-19",
        "looking again after the batch is populated",
        ("flows.COMMANDS", {**steps.COMMANDS, "populate": _populates_without_a_second_look}),
    ),
    in_flows("flow-19", "looking whether a flow waits for its batch", ("flows.is_awaited", _always_awaited)),
    in_flows(
        "flow-13",
        "releasing leases in dropped results",
        ("flows.FlowTurn.drop", _drops),
        ("flows.leases_of", lambda _: ()),
    ),
    in_flows("flow-13", "releasing leases at the end", ("flows.FlowTurn.released", property(_keeps_at_the_end))),
    in_flows("flow-14", "cancelling an abandoned sub-flow", ("flows.CommandWrites.cancel_flow", _continues)),
    in_flows("flow-14", "the outcome in the last commit", ("flows.end_messages", _posts_nothing)),
    in_flows("flow-14", "the execution id in the id of a sub-flow", ("flows.child_id", _identified_by_path)),
    in_flows("flow-13", "keeping a lease that the flow holds", ("flows.FlowTurn.drop", _releases_always)),
    in_flows("flow-17", "the grant in a renewal", ("semaphores.renew_granted", _renews_the_token)),
)

NESTED = (
    in_nested_flows(
        "flow-14",
        "creating a sub-flow in its parent's commit",
        ("flows.CommandWrites.run_flow", _created_by_a_task),
        ("flows.COMMANDS", {**steps.COMMANDS, "create": _create}),
    ),
)
"""Faults that nested flows notice sooner: they have more sub-flows."""
