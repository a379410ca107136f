"""Start a run: with arguments, or as a fork, from a prefix of another run's log.

Where the process has the flow's code, a start runs the code in memory first, so that one commit creates the header
together with the first commands. Otherwise the header alone is created, and a wake-up starts the code. A repeat of a
start or of a fork changes nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.idempotency_keys import sorted_json, without_leases
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import AlreadyExists, Ports, Snapshot
from signalbox.core.problems import OtherBody, TooLarge
from signalbox.core.times import EPOCH
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows.machine.deadlines import checked_timeout, with_deadline
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.machine.headers import forked_header
from signalbox.flows.machine.stuck import Stuck, checked_json
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import FlowHeader, new_header
from signalbox.flows.model.labels import NO_LABELS, checked_labels
from signalbox.flows.model.messages import Event, Incoming, Message, Result, Update, message_to_record
from signalbox.flows.model.payloads import place_of_events, place_of_execution
from signalbox.flows.problems import BadFlow, CannotFork
from signalbox.flows.service.messages import claimed_message
from signalbox.flows.service.reads import present
from signalbox.flows.service.turns import refuse_sub_flows, write_log
from signalbox.flows.storage.commands import creation, with_stored_arguments
from signalbox.flows.storage.commits import Commit, TurnCommit, header_of, timed
from signalbox.flows.storage.log import LoadedLog, read_log
from signalbox.mailboxes.model.messages import header_path
from signalbox.mailboxes.storage import message_put
from signalbox.payloads.model import Outgoing, PayloadLost, opened_members, payload_in
from signalbox.payloads.service import opens_payloads
from signalbox.payloads.service import store as store_payloads


@dataclass(frozen=True, slots=True)
class Started:
    """The answer to a start. `created` is False if the flow had been started before, with the same arguments."""

    address: FlowAddress
    created: bool


def start(
    ports: Ports,
    flows: Flows,
    function: str,
    address: FlowAddress,
    arguments: Mapping[str, Any],
    on_complete: Call | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    timeout_seconds: float | None = None,
) -> Started:
    """Start a flow; `function` is the name of the function that has its code. A repeated start changes nothing.

    After `timeout_seconds` by the server's time the run is cancelled, unless it has ended before.

    Raises `OtherBody` if the id was used with other arguments, `BadArgument` if the arguments do not fit the code in
    this process, `BadFlow` if they are not JSON, and `Unavailable` if it is unknown whether the flow was started.
    """
    new = _new_run(ports, flows, function, address, arguments, on_complete, labels, timeout_seconds)
    try:
        commit_start(ports, new.stored(ports).commit(ports, flows))
    except AlreadyExists:
        _check_same_start(ports, new.header)
        return Started(address, created=False)
    return Started(address, created=True)


def start_with(
    ports: Ports,
    flows: Flows,
    function: str,
    address: FlowAddress,
    arguments: Mapping[str, Any],
    message: tuple[str, Incoming],
    on_complete: Call | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    timeout_seconds: float | None = None,
) -> None:
    """Start a flow with a message in its mailbox, by the message's id, in one commit. Its wake-up applies the message.

    Raises `AlreadyExists` if there is a run, and the errors of `start`.
    """
    new = _new_run(ports, flows, function, address, arguments, on_complete, labels, timeout_seconds).stored(ports)
    outgoing, (id_, sent) = Outgoing(), message
    record = message_to_record(claimed_message(new.header, sent, outgoing))
    store_payloads(ports, outgoing)
    commit = new.commit(ports, flows)
    put = replace(message_put(address.base, id_, record), guard=None)  # one of a removed run may exist
    wake = wake_flow(address.base, function)
    wakes = [] if wake in commit.effects else [wake]
    commit_start(ports, replace(commit, writes=[*commit.writes, put], effects=[*commit.effects, *wakes]))


@dataclass(frozen=True, slots=True)
class _NewRun:
    """A run to be created: its header, its code if this process has it, and the time if the run has a time-out."""

    header: FlowHeader
    definition: FlowDefinition | None
    seconds: float | None
    now: datetime | None

    def stored(self, ports: Ports) -> "_NewRun":
        """Store the large arguments, and return the run whose header names them. Raises `AlreadyExists`."""
        return replace(self, header=_stored(ports, self.header))

    def commit(self, ports: Ports, flows: Flows) -> Commit:
        """Return the commit that creates the run."""
        begun = _begun(ports, flows, self.definition, self.header, self.now) if self.definition else None
        commit = begun or _created(self.header)
        return timed(commit, self.header, self.seconds) if self.seconds else commit


def _new_run(
    ports: Ports,
    flows: Flows,
    function: str,
    address: FlowAddress,
    arguments: Mapping[str, Any],
    on_complete: Call | None,
    labels: Mapping[str, str],
    timeout_seconds: float | None,
) -> _NewRun:
    checked = checked_json(dict(arguments), "the arguments", CORE_LIMITS.task_bytes_max, "arguments")
    seconds, incarnation = checked_timeout(timeout_seconds), ports.store.new_id()
    header = new_header(
        address, function, checked, incarnation, on_complete, labels=checked_labels(labels), timeout_seconds=seconds
    )
    header = flows.kept(header) if flows.function == function else header
    definition = flows.definitions.get(address.name) if flows.function == function else None
    now = _server_time(ports, header) if seconds else None
    header = with_deadline(header, seconds, now) if now else header
    if definition:
        definition.signature.bind(checked, None)
    return _NewRun(header, definition, seconds, now)


def _stored(ports: Ports, header: FlowHeader) -> FlowHeader:
    """Store the large arguments of a new run, before its code reads them, and return the header that names them.

    Raises `AlreadyExists` if there is a run: a repeat stores nothing.
    """
    outgoing = Outgoing()
    header = with_stored_arguments(header, outgoing)
    if outgoing:
        _check_absent(ports, header)
    store_payloads(ports, outgoing)
    return header


def _check_absent(ports: Ports, header: FlowHeader) -> None:
    """Raise `AlreadyExists` if there is a run."""
    [read] = ports.store.read(header_path(header.address.base), fields=())
    if read.create_time is not None:
        raise AlreadyExists("the run exists")


def commit_start(ports: Ports, commit: Commit) -> None:
    """Store the payloads of a start, and commit it, with its tasks in the outbox.

    Raises `AlreadyExists` if the id is in use: a repeat stores nothing.
    """
    if commit.outgoing and commit.header is not None:
        _check_absent(ports, commit.header)
    store_payloads(ports, commit.outgoing)
    outbox.commit(ports, commit.writes, commit.effects)
    write_log(ports, commit)


def _created(header: FlowHeader) -> Commit:
    """Return the commit that creates a flow and the wake-up that starts its code."""
    wake = wake_flow(header.address.base, header.function)
    return Commit(creation(header, EPOCH), [wake])


@opens_payloads
def _begun(ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader, now: datetime | None) -> Commit:
    """Return the commit of a flow whose code has been started.

    If the code fails, the flow is only created; its wake-up runs the code again and marks the flow stuck.
    """
    try:
        commit = _first_turn(ports, flows, definition, header, now)
        if commit is None:  # it needs the time
            commit = _first_turn(ports, flows, definition, header, _server_time(ports, header))
    except (Stuck, TooLarge):
        return _created(header)
    assert commit is not None, "the time is known"
    return commit


def _server_time(ports: Ports, header: FlowHeader) -> datetime:
    [read] = ports.store.read(header_path(header.address.base), fields=())
    return read.read_time


def _first_turn(
    ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader, now: datetime | None
) -> Commit | None:
    """Return the commit of the first turn.

    Return None if the turn needs the server's time and no record was read.
    """
    with closing(FlowTurn.begin(definition, header, (), now)) as turn:
        if turn.new_sub_flows:
            return _created(header)  # the turn checks that the ids are free
        if turn.needs_time:
            return None
        missing = Snapshot(header_path(header.address.base), None, now or EPOCH)
        return TurnCommit(missing, turn, LoadedLog(), (), flows.revision, more=False).commit(ports.store.new_id)


def _check_same_start(ports: Ports, header: FlowHeader) -> None:
    """Raise `OtherBody` if the flow was started with other arguments.

    If the code has not been started, wake the flow.
    """
    [read] = ports.store.read(header_path(header.address.base))
    before = header_of(read, header.address)
    if before is None:
        return
    if before.digest != header.digest:
        raise OtherBody(f"The flow {header.address.key!r} was started with other arguments or options.", field="id")
    if not before.begun and not before.end:
        wake = wake_flow(before.address.base, before.function)
        ports.queue.create(complete_wake_ups([wake], read.read_time))


@dataclass(frozen=True, slots=True)
class Fork:
    """A new run under an id, from the first `from_entry` entries of another run's log.

    If the arguments or the labels are None, the new run has those of the other run.
    """

    id: str
    from_entry: int
    arguments: Mapping[str, Any] | None = None
    on_complete: Call | None = None
    labels: Mapping[str, str] | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Raise `BadFlow` for a fork that is impossible whatever the other run is."""
        if isinstance(self.from_entry, bool) or not isinstance(self.from_entry, int) or self.from_entry < 0:
            raise BadFlow("`from_entry` must be a whole number, 0 or more.", field="from_entry")
        if self.arguments is not None:
            checked_json(self.arguments, "the arguments", CORE_LIMITS.task_bytes_max, "arguments")
        if self.labels is not None:
            checked_labels(self.labels)
        checked_timeout(self.timeout_seconds)

    def header(self, source: FlowAddress, incarnation: str) -> FlowHeader:
        """Return a header with the fork's own fields. Raises `BadFlow`, `BadKey`."""
        address = FlowAddress.chosen(source.name, self.id)
        if address == source:
            raise BadFlow("A fork needs an id of its own.", field="id")
        new = new_header(address, "", {}, incarnation, self.on_complete)
        own = [source.key, self.from_entry, self.arguments, new.digest, self.labels, self.timeout_seconds]
        return replace(new, digest=name_of(sorted_json(without_leases(own))))


@opens_payloads
def fork(ports: Ports, flows: Flows, source: FlowAddress, wanted: Fork) -> Started:
    """Start a run from a prefix of another run's log. The same commit schedules the commands that are pending there.

    The other run does not change. The prefix is one of its current execution, since `continue_as_new` removes earlier
    logs. A repeat changes nothing.

    Raises `NoFlow`, `OtherBody` if the id was used in another way, `CannotFork`, `BadArgument`, and `Unavailable` if
    this process cannot run the code.
    """
    new = wanted.header(source, ports.store.new_id())
    target, read = ports.store.read(header_path(new.address.base), header_path(source.base))
    if target.data is not None:
        _check_same_start(ports, new)
        return Started(new.address, created=False)
    before, seconds = present(read, source), wanted.timeout_seconds
    flows.check_revision(before.written_by)
    header = forked_header(before, wanted.from_entry, replace(new, function=before.function), wanted.arguments)
    header = flows.kept(replace(header, labels=before.labels if wanted.labels is None else wanted.labels))
    header = with_deadline(header, seconds, read.read_time)
    entries = _prefix(ports, before, wanted.from_entry)
    header, entries = _with_own_payloads(ports, header, entries, new=wanted.arguments is not None)
    flows.of(source.name).signature.bind(opened_members(header.arguments), None, stored=True)
    commit = _first_turn_of_fork(ports, flows, header, entries, read.read_time)
    try:
        commit_start(ports, timed(commit, header, seconds) if seconds else commit)
    except AlreadyExists:  # a run now has the id, or the id of a new sub-flow: read again
        return fork(ports, flows, source, wanted)
    return Started(new.address, created=True)


def _with_own_payloads(
    ports: Ports, header: FlowHeader, entries: Sequence[Message], *, new: bool
) -> tuple[FlowHeader, Sequence[Message]]:
    """Copy the payloads that a fork needs, and return its header and its entries with their new names.

    `new` is whether the fork has its own arguments. Raises `CannotFork` if a payload is gone.
    """
    outgoing, events = Outgoing(), place_of_events(header.address, header.incarnation)
    place = place_of_execution(header.address, header.execution_id)
    own = replace(header, has_payloads=False)
    if new:
        own = with_stored_arguments(own, outgoing)
    else:
        arguments = {name: outgoing.copied(value, place) for name, value in header.arguments.items()}
        own = replace(own, arguments=arguments)
    copied: list[Message] = []
    for entry in entries:
        match entry:
            case Result() if payload_in(entry.outcome.result):
                result = outgoing.copied(entry.outcome.result, place)
                copied.append(replace(entry, outcome=replace(entry.outcome, result=result)))
            case Event() | Update() if payload_in(entry.value):
                copied.append(replace(entry, value=outgoing.copied(entry.value, events)))
            case _:
                copied.append(entry)
    try:
        store_payloads(ports, outgoing)
    except PayloadLost as error:
        raise CannotFork(f"A large value of the run is gone: {error}") from error
    return replace(own, has_payloads=bool(outgoing)), copied


def _prefix(ports: Ports, header: FlowHeader, count: int) -> Sequence[Message]:
    """Return the first entries of a log. Raises `CannotFork` if the log has fewer entries."""
    entries = read_log(ports.store, header).entries
    if not header.begun:
        raise CannotFork(f"The code of {header.address.key!r} has not been started: start another run instead.")
    if count > len(entries):
        detail = f"`from_entry` is {count:,}, and the log of {header.address.key!r} has {len(entries):,} entries."
        raise CannotFork(detail, field="from_entry")
    return entries[:count]


def _first_turn_of_fork(
    ports: Ports, flows: Flows, header: FlowHeader, log: Sequence[Message], now: datetime
) -> Commit:
    """Return the commit that creates a fork. Raises `CannotFork`."""
    missing = Snapshot(header_path(header.address.base), None, now)
    try:
        with closing(FlowTurn.fork(flows.of(header.address.name), header, log, now)) as turn:
            refuse_sub_flows(ports.store, turn)
            return TurnCommit(missing, turn, LoadedLog(), (), flows.revision, more=False).commit(ports.store.new_id)
    except (Stuck, TooLarge) as error:
        raise CannotFork(f"The first turn of the fork failed: {error.detail}", field="from_entry") from error
