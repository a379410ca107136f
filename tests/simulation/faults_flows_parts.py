"""Planted faults of what a flow has beside its steps: locks, flows in flows, the end (flow-13, 14, 17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.ports import AlreadyExists, Ports
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.times import EPOCH
from shared.flows.operations import asking, own_tasks, records, turns
from shared.flows.operations.asking import Asked
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.commands import SubFlow
from shared.flows.rules.headers import FlowHeader, ParentFlow, new_header
from shared.flows.rules.messages import FlowMessage, Place, Result
from shared.flows.rules.tasks import FLOW_ACT, QUEUE, own_id, wake_flow
from shared.flows.rules.turns import FlowTurn
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import RenewRequest
from tests.simulation.faults_flows_planting import in_flows


def _drops(_: FlowTurn, __: FlowMessage) -> None:
    """A lease that nobody waits for is dropped."""


def _keeps_at_the_end(turn: FlowTurn) -> list[dict[str, Any]]:
    """What the code holds at its end stays held."""
    had = turn.leases | turn.driver.granted
    return [*(dict(lease["granted"]) for path, lease in had.items() if path not in turn.driver.held), *turn.given_back]


def _created_by_a_task(self: Asked, flow: SubFlow, place: Place, _: str) -> None:
    """A flow in a flow is created by a task that the commit asks for."""
    payload = {"act": "create", "flow": self.header.address.base, "function": self.header.function, **place.to_json()}
    others = {"name": flow.flow, "arguments": dict(flow.arguments)}
    name = name_of("create", self.header.address.base, place.life, place.path)
    self.effects.append(
        Effect(name, QUEUE, self.header.function, FLOW_ACT, payload | others, f"/tasks/{FLOW_ACT}", not_before=None)
    )


def _create(ports: Ports, payload: Any) -> None:
    around, place = FlowAddress.of_base(payload["flow"]), Place.from_json(payload)
    address = FlowAddress(payload["name"], own_id(around, place))
    parent = ParentFlow(around.base, payload["function"], place)
    child = new_header(address, payload["function"], payload["arguments"], ports.store.new_id(), parent=parent)
    try:
        outbox.commit(ports, asking.creation(child, EPOCH), [wake_flow(address.base, payload["function"])])
    except AlreadyExists:
        return


def _goes_on(_: Asked, __: SubFlow, ___: Place) -> None:
    """A flow that nobody waits for is not told so."""


def _tells_nobody(_: FlowHeader) -> Iterator[Any]:
    """The outcome is not in the last commit."""
    return iter(())


def _known_by_path(address: FlowAddress, place: Place) -> str:
    return name_of("of a flow", address.base, place.path)


def _gives_back(turn: FlowTurn, message: FlowMessage) -> None:
    """Whatever grant is dropped is given back."""
    if isinstance(message, Result) and message.lease:
        turn.given_back.append(message.lease)


def _renews_the_token(ports: Ports, granted: Mapping[str, Any], lease_seconds: float | None = None) -> datetime | None:
    """A renewal names the token that the lease had when it was granted."""
    return semaphores.renew(ports, granted["semaphore"], RenewRequest(granted["id"], lease_seconds))


DROPS_LEASES = (FlowTurn, "_drop", _drops), (turns, "leases_of", lambda _: ())

FAULTS = (
    in_flows(
        "flow-13", "giving back what nobody waits for", (FlowTurn, "_drop", _drops), (turns, "leases_of", lambda _: ())
    ),
    in_flows("flow-13", "giving back at the end", (FlowTurn, "released", property(_keeps_at_the_end))),
    in_flows(
        "flow-14",
        "creating a flow in its parent's commit",
        (Asked, "_run_flow", _created_by_a_task),
        (own_tasks, "ACTS", {**own_tasks.ACTS, "create": _create}),
    ),
    in_flows("flow-14", "cancelling a flow that is abandoned", (Asked, "_cancel_flow", _goes_on)),
    in_flows("flow-14", "the outcome in the last commit", (records, "end_messages", _tells_nobody)),
    in_flows("flow-14", "the life in the id of a flow in a flow", (asking, "own_id", _known_by_path)),
    in_flows("flow-13", "keeping what the flow holds", (FlowTurn, "_drop", _gives_back)),
    in_flows("flow-17", "the grant in a renewal", (semaphores, "renew_granted", _renews_the_token)),
)
