"""Start a flow: at once where its code is, else by its header alone, which a run begins."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.ports import AlreadyExists, Ports, Snapshot
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path
from shared.core.rules.problems import BadFlow, OtherBody, TooLarge
from shared.core.rules.times import EPOCH
from shared.core.rules.wake_ups import completed
from shared.flows.operations.asking import creation
from shared.flows.operations.logs import Log
from shared.flows.operations.records import Commit, TurnCommit, header_of
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import FlowDefinition, Flows
from shared.flows.rules.failures import Stuck
from shared.flows.rules.headers import FlowHeader, new_header
from shared.flows.rules.results import json_text
from shared.flows.rules.tasks import wake_flow
from shared.flows.rules.turns import FlowTurn


@dataclass(frozen=True, slots=True)
class Started:
    """Whether this call created the flow; otherwise it was there, started alike."""

    address: FlowAddress
    created: bool


def start(
    ports: Ports,
    flows: Flows,
    function: str,
    address: FlowAddress,
    arguments: Mapping[str, Any],
    on_complete: Call | None = None,
) -> Started:
    """Start a flow, whose code `function` has. A repeat changes nothing.

    Raises `OtherBody` if the id is in use with other arguments, `BadArgument` for arguments that do not fit, where the
    code is here, `BadFlow` for what is no JSON, `Unavailable` when it is not known whether the flow is started.
    """
    header = new_header(address, function, _checked(arguments), ports.store.new_id(), on_complete)
    definition = flows.definitions.get(address.flow) if flows.function == function else None
    try:
        commit = _begun(ports, flows, definition, header) if definition else _created(header)
        outbox.commit(ports, commit.writes, commit.effects)
    except AlreadyExists:
        _check_alike(ports, header)
        return Started(address, created=False)
    return Started(address, created=True)


def _checked(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        json_text(dict(arguments), "the arguments", LIMITS.task_bytes_max)
    except Stuck as error:
        raise (TooLarge if error.kind == "flow-too-large" else BadFlow)(error.detail, field="arguments") from error
    return arguments


def _created(header: FlowHeader) -> Commit:
    """Return the commit that creates a flow and wakes it: a run begins its code."""
    wake = wake_flow(header.address.base, header.function)
    return Commit(creation(header, EPOCH), [wake])


def _begun(ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader) -> Commit:
    """Return the commit of a start whose code has begun. What cannot begin here is left to a run, which gets stuck."""
    definition.signature.bind(header.arguments, None)
    try:
        return _first_turn(ports, flows, definition, header, None) or _with_time(ports, flows, definition, header)
    except (Stuck, TooLarge):
        return _created(header)


def _with_time(ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader) -> Commit:
    [read] = ports.store.read(header_path(header.address.base), fields=())
    commit = _first_turn(ports, flows, definition, header, read.read_time)
    assert commit is not None, "the time is known"
    return commit


def _first_turn(
    ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader, now: datetime | None
) -> Commit | None:
    """Return the commit of the first turn, or None if it needs the server's time, which nobody has read."""
    with closing(FlowTurn.begin(definition, header, (), now)) as turn:
        if turn.needs_time:
            return None
        none = Snapshot(header_path(header.address.base), None, now or EPOCH)
        return TurnCommit(none, turn, Log(), (), flows.revision, more=False).commit(ports.store.new_id)


def _check_alike(ports: Ports, header: FlowHeader) -> None:
    """Raise `OtherBody` if the flow that is there was started otherwise. One that has not begun is woken again."""
    [read] = ports.store.read(header_path(header.address.base))
    known = header_of(read, header.address)
    if known is None:
        return
    if known.digest != header.digest:
        raise OtherBody(f"The flow {header.address.id!r} was started with other arguments.", field="id")
    if not known.begun and not known.end:
        wake = wake_flow(known.address.base, known.function)
        ports.queue.create(completed([wake], read.read_time))
