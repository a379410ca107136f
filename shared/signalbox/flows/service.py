"""Flows as callers and tasks use them: start, send an event, cancel, resume, look, and the turn that applies messages.

Where the process has the flow's code, a start runs the code in memory first, so that one commit creates the header
together with the first commands. Otherwise the header alone is created, and a wake-up starts the code.

If replay fails in a turn, the flow is marked stuck. Its messages stay in the mailbox, so nothing is lost until the code
is fixed.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Decision, Effect, complete_wake_ups, name_of
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.paging import read_page_token, with_prefix, write_page_token
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import AlreadyExists, Committed, Conflict, Ports, Put, Query, Snapshot, Store
from signalbox.core.problems import OtherBody, Problem, TooLarge, Unavailable
from signalbox.core.queries import ID, Condition, Order
from signalbox.core.reads import poll
from signalbox.core.times import EPOCH, rfc3339
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback, not_valid
from signalbox.flows.machine.claims import NOBODY, Carrier
from signalbox.flows.machine.commands import check_event_name
from signalbox.flows.machine.failures import Stuck, stored_json, too_large
from signalbox.flows.machine.queries import Answer, answer, queries
from signalbox.flows.machine.turns import FlowTurn, forked_header, release_effect, repeat_flow, wake_flow
from signalbox.flows.model import (
    NO_LABELS,
    RUNNING,
    STATES,
    Cancel,
    Claim,
    Event,
    FlowAddress,
    FlowDefinition,
    FlowHeader,
    Flows,
    Message,
    Result,
    Wait,
    check_label,
    checked_labels,
    checked_timeout,
    label_entry,
    message_from_record,
    message_to_record,
    new_header,
    sub_flow_address,
)
from signalbox.flows.problems import BadFlow, CannotFork, CannotQuery, FlowEnded, NoFlow, TooManyEvents
from signalbox.flows.storage import (
    ARCHIVED_AT,
    CREATED_AT,
    LABELS,
    Commit,
    LoadedLog,
    TurnCommit,
    creation,
    header_of,
    header_write,
    listing_writes,
    read_log,
    taken_messages,
    timed,
)
from signalbox.mailboxes.model.messages import StoredMessage, header_path, message_path
from signalbox.mailboxes.service import check_same_body, post
from signalbox.mailboxes.storage import Mailbox, message_put

SHOWN_IN_LISTS = ("flow", "id", "state", "created_at", "ended_at", ARCHIVED_AT)
"""The fields of a listing that lists show as they are."""

BEHIND_IDS = "\x7f"
"""The character that sorts right after the ``~`` between name and id."""


# --- start ---


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
    """Start a flow, whose code `function` has. A repeated start changes nothing.

    After `timeout_seconds` by the server's time the run is cancelled, unless it has ended before.

    Raises `OtherBody` if the id was used with other arguments, `BadArgument` if the arguments do not fit the code in
    this process, `BadFlow` if they are not JSON, and `Unavailable` if it is unknown whether the flow was started.
    """
    checked = _checked_json(dict(arguments), "the arguments", CORE_LIMITS.task_bytes_max, "arguments")
    seconds, incarnation = checked_timeout(timeout_seconds), ports.store.new_id()
    header = new_header(
        address, function, checked, incarnation, on_complete, labels=checked_labels(labels), timeout_seconds=seconds
    )
    header = flows.kept(header) if flows.function == function else header
    definition = flows.definitions.get(address.name) if flows.function == function else None
    now = _server_time(ports, header) if seconds else None
    if seconds and now:
        header = replace(header, deadline_at=now + timedelta(seconds=seconds))
    try:
        commit = _begun(ports, flows, definition, header, now) if definition else _created(header)
        _commit_start(ports, timed(commit, header, seconds) if seconds else commit)
    except AlreadyExists:
        _check_same_start(ports, header)
        return Started(address, created=False)
    return Started(address, created=True)


def _commit_start(ports: Ports, commit: Commit) -> None:
    outbox.commit(ports, commit.writes, commit.effects)
    _log(ports, commit)


def _created(header: FlowHeader) -> Commit:
    """Return the commit that creates a flow and the wake-up that starts its code."""
    wake = wake_flow(header.address.base, header.function)
    return Commit(creation(header, EPOCH), [wake])


def _begun(ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader, now: datetime | None) -> Commit:
    """Return the commit of a flow whose code has been started. If that fails, a wake-up does it and marks it stuck."""
    definition.signature.bind(header.arguments, None)
    try:
        return _first_turn(ports, flows, definition, header, now) or _with_time(ports, flows, definition, header)
    except (Stuck, TooLarge):
        return _created(header)


def _with_time(ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader) -> Commit:
    commit = _first_turn(ports, flows, definition, header, _server_time(ports, header))
    assert commit is not None, "the time is known"
    return commit


def _server_time(ports: Ports, header: FlowHeader) -> datetime:
    [read] = ports.store.read(header_path(header.address.base), fields=())
    return read.read_time


def _first_turn(
    ports: Ports, flows: Flows, definition: FlowDefinition, header: FlowHeader, now: datetime | None
) -> Commit | None:
    """Return the commit of the first turn, or None if it needs the server's time and no record was read."""
    with closing(FlowTurn.begin(definition, header, (), now)) as turn:
        if turn.new_sub_flows:
            return _created(header)  # a turn looks whether the ids are free
        if turn.needs_time:
            return None
        missing = Snapshot(header_path(header.address.base), None, now or EPOCH)
        return TurnCommit(missing, turn, LoadedLog(), (), flows.revision, more=False).commit(ports.store.new_id)


def _check_same_start(ports: Ports, header: FlowHeader) -> None:
    """Raise `OtherBody` if the flow was started with other arguments. If its code has not been started, wake it."""
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

    Arguments and labels that are None are those of the other run.
    """

    id: str
    from_entry: int
    arguments: Mapping[str, Any] | None = None
    on_complete: Call | None = None
    labels: Mapping[str, str] | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        """Raise `BadFlow` if it cannot be, whatever the other run is."""
        if isinstance(self.from_entry, bool) or not isinstance(self.from_entry, int) or self.from_entry < 0:
            raise BadFlow("`from_entry` must be a whole number, 0 or more.", field="from_entry")
        if self.arguments is not None:
            _checked_json(self.arguments, "the arguments", CORE_LIMITS.task_bytes_max, "arguments")
        if self.labels is not None:
            checked_labels(self.labels)
        checked_timeout(self.timeout_seconds)

    def header(self, source: FlowAddress, incarnation: str) -> FlowHeader:
        """Return a header with what the fork has of its own. Raises `BadFlow`, `BadKey`."""
        address = FlowAddress.checked(source.name, self.id)
        if address == source:
            raise BadFlow("A fork needs an id of its own.", field="id")
        new = new_header(address, "", {}, incarnation, self.on_complete)
        own = [source.key, self.from_entry, self.arguments, new.digest, self.labels, self.timeout_seconds]
        return replace(new, digest=name_of(json.dumps(own, sort_keys=True)))


def fork(ports: Ports, flows: Flows, source: FlowAddress, wanted: Fork) -> Started:
    """Start a run from a prefix of another run's log, in one commit: what the code waits for there is scheduled.

    The other run does not change. Its current execution counts: `continue_as_new` has removed the logs before. A repeat
    changes nothing.

    Raises `NoFlow`, `OtherBody` if the id was used in another way, `CannotFork`, `BadArgument`, and `Unavailable` if
    this process cannot run the code.
    """
    new = wanted.header(source, ports.store.new_id())
    target, read = ports.store.read(header_path(new.address.base), header_path(source.base))
    if target.data is not None:
        _check_same_start(ports, new)
        return Started(new.address, created=False)
    before, seconds = _present(read, source), wanted.timeout_seconds
    flows.check_revision(before.written_by)
    header = forked_header(before, wanted.from_entry, replace(new, function=before.function), wanted.arguments)
    header = flows.kept(replace(header, labels=before.labels if wanted.labels is None else wanted.labels))
    if seconds:
        header = replace(header, deadline_at=read.read_time + timedelta(seconds=seconds))
    flows.of(source.name).signature.bind(header.arguments, None, stored=True)
    entries = _prefix(ports, before, wanted.from_entry)
    commit = _first_turn_of_fork(ports, flows, header, entries, read.read_time)
    try:
        _commit_start(ports, timed(commit, header, seconds) if seconds else commit)
    except AlreadyExists:  # a run has the id now, or that of a new sub-flow: look again
        return fork(ports, flows, source, wanted)
    return Started(new.address, created=True)


def _prefix(ports: Ports, header: FlowHeader, count: int) -> Sequence[Message]:
    """Return the first entries of a log. Raises `CannotFork` if it has fewer."""
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
            _refuse_sub_flows(ports.store, turn)
            return TurnCommit(missing, turn, LoadedLog(), (), flows.revision, more=False).commit(ports.store.new_id)
    except (Stuck, TooLarge) as error:
        raise CannotFork(f"The first turn of the fork failed: {error.detail}", field="from_entry") from error


def _checked_json(value: Any, name: str, bytes_max: int, field: str) -> Any:
    """Return a caller's value. Raises `BadFlow` if it is not JSON, `TooLarge` if it is too large."""
    try:
        stored_json(value, name, bytes_max)
    except Stuck as error:
        raise (TooLarge if error.kind == "flow-too-large" else BadFlow)(error.detail, field=field) from error
    return value


# --- messages from callers ---


def post_event(ports: Ports, address: FlowAddress, name: str, value: Any, id_: str) -> None:
    """Send an event to a flow. It is kept until the code waits for it, and a repeat with the same id changes nothing.

    Raises `NoFlow`, `FlowEnded`, `TooManyEvents`, `OtherBody` if the id was used for another event, `BadFlow` or
    `TooLarge`.
    """
    event = _event(name, value)
    _send_event(ports, get(ports, address), event, id_)


def get_callback(ports: Ports, callback: Callback) -> FlowHeader:
    """Return the run of a callback. Raises `NoCallback`, `CallbackExpired`."""
    try:
        header, now = _read(ports.store, callback.address)
    except NoFlow:
        raise not_valid() from None
    callback.check(header, now)
    return header


def post_callback(ports: Ports, callback: Callback, value: Any) -> None:
    """Send the event of a callback to its run. A repeat with the same value changes nothing, also after the end.

    Raises `OtherBody` for another value, and what `get_callback` and `post_event` raise.
    """
    event = replace(_event(callback.event, value), incarnation=callback.incarnation)
    _send_event(ports, get_callback(ports, callback), event, f"callback {callback.operation}")


def _event(name: str, value: Any) -> Event:
    checked_name = check_event_name(name)
    return Event(checked_name, _checked_json(value, "the value of an event", CORE_LIMITS.result_bytes_max, "value"))


def _send_event(ports: Ports, header: FlowHeader, event: Event, id_: str) -> None:
    message_id = name_of("event", header.address.base, id_)
    refused = _refusal_of_events(header)
    if refused is None:
        _post(ports, header, message_id, event)
    elif not _is_posted(ports, header, message_id, event):
        raise refused


def _refusal_of_events(header: FlowHeader) -> Problem | None:
    """Return why a flow takes no more events, or None."""
    if header.end:
        return FlowEnded(f"The flow is {header.end.state} and receives no more events.")
    if header.kept >= LIMITS.flow_events_kept_max or header.kept_bytes >= LIMITS.flow_events_kept_bytes_max:
        kept = f"{header.kept:,} events ({header.kept_bytes:,} bytes)"
        detail = f"The flow has {kept} that its code has not waited for: let it wait for them, or cancel it."
        return TooManyEvents(detail)
    return None


def _is_posted(ports: Ports, header: FlowHeader, id_: str, event: Event) -> bool:
    """Return whether an event was accepted before. Raises `OtherBody` if its id was used for another one."""
    [stored] = ports.store.read(message_path(header.address.base, id_))
    check_same_body(stored, message_to_record(event))
    return stored.data is not None


def cancel(ports: Ports, address: FlowAddress, reason: str = "", id_: str | None = None, *, parent: str = "") -> None:
    """Cancel a flow: `Cancelled` is raised where its code waits. An ended flow does not change.

    A repeat with the same `id_` changes nothing, also in a later generation. With `parent`, only the sub-flow of that
    wait is cancelled (`parent_key`). Raises `NoFlow`.
    """
    header = get(ports, address)
    if not header.end:
        name = name_of("cancel", address.base, id_ or ports.store.new_id())
        with suppress(OtherBody):  # repeated with another reason
            _post(ports, header, name, Cancel(str(reason)[: CORE_LIMITS.error_letters_max], parent=parent))


def suspend(ports: Ports, address: FlowAddress, reason: str = "") -> None:
    """Suspend a flow: its messages are kept, and no turn takes them until it is resumed. A repeat changes nothing.

    Tasks that it has scheduled run. Raises `NoFlow`, or `FlowEnded`.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        header = _present(read[0], address)
        if header.end:
            raise FlowEnded(f"The run {address.key!r} has ended, so there is nothing to suspend.", field="id")
        if header.suspended:
            return Decision((), None)
        suspended = {"at": rfc3339(read[0].read_time), "reason": reason[: CORE_LIMITS.error_letters_max]}
        return Decision(_moved(read[0], header, replace(header, suspended=suspended)), None)

    perform(ports, [header_path(address.base)], decide)


def resume(ports: Ports, address: FlowAddress) -> None:
    """Wake a flow: a suspended one continues, a running one repeats its commands.

    A stuck one is replayed with the code that is deployed now. Raises `NoFlow`.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[FlowHeader, datetime]]:
        return _resumed(read[0], _present(read[0], address))

    (header, now), committed = perform(ports, [header_path(address.base)], decide)
    if committed is None:
        ports.queue.create(complete_wake_ups([repeat_flow(address.base, header.function)], now))


def _resumed(read: Snapshot, header: FlowHeader) -> Decision[Writes, tuple[FlowHeader, datetime]]:
    """Return the writes and the wake-up that let a suspended flow continue; of another flow there are no writes.

    The wake-ups of the messages that wait have ended at the suspended header.
    """
    writes = _moved(read, header, replace(header, suspended=None)) if header.suspended else ()
    return Decision(writes, (header, read.read_time), (repeat_flow(header.address.base, header.function),))


def _moved(read: Snapshot, before: FlowHeader, after: FlowHeader) -> Writes:
    """Return the writes of a header whose state has changed, and of its listing."""
    return header_write(read, after, read.read_time), *listing_writes(read, before, after)


def _post(ports: Ports, header: FlowHeader, id_: str, message: Message) -> None:
    base = header.address.base
    post(ports, message_put(base, id_, message_to_record(message)), wake_flow(base, header.function))


# --- looks ---


def get(ports: Ports, address: FlowAddress) -> FlowHeader:
    """Return a flow. Raises `NoFlow`."""
    header, _ = _read(ports.store, address)
    return header


def stuck_below(store: Store, header: FlowHeader) -> dict[str, FlowHeader]:
    """Return a stuck sub-flow for each wait of a flow that has one below it, by the wait's path.

    It reads the sub-flows level by level, up to a page of each level, and nothing if there are none.
    """
    found: dict[str, FlowHeader] = {}
    level = [(wait.path, child) for wait, child in _sub_flows(header)]
    while level := level[: LIMITS.flows_listed_max]:
        reads = store.read(*(header_path(address.base) for _, address in level))
        below: list[tuple[str, FlowAddress]] = []
        for (path, address), read in zip(level, reads, strict=True):
            if (child := header_of(read, address)) and not child.end:
                below += [(path, inner) for _, inner in _sub_flows(child)]
                if child.stuck:
                    found.setdefault(path, child)
        level = below
    return found


def _sub_flows(header: FlowHeader) -> Iterator[tuple[Wait, FlowAddress]]:
    for wait in header.pending.values():
        if address := sub_flow_address(header.address, wait):
            yield wait, address


def wait(ports: Ports, address: FlowAddress, seconds: float) -> FlowHeader:
    """Return a flow once it has ended, at the latest after `seconds`. Raises `NoFlow`."""
    return poll(ports.clock, lambda: get(ports, address), lambda header: header.end is not None, seconds)


def get_log(store: Store, address: FlowAddress) -> tuple[FlowHeader, Sequence[Message]]:
    """Return a flow and the log of its current execution. Raises `NoFlow`, `Unavailable`."""
    header, _ = _read(store, address)
    return header, read_log(store, header).entries


def query(ports: Ports, flows: Flows, address: FlowAddress, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Return what the code of a flow answers, from a replay of its log. Nothing is written or enqueued.

    Raises `NoFlow`, `CannotQuery`, `NoQuery`, the `Problem` that the answer raises, and `Unavailable` if this process
    cannot run the code, or if the code has not been started.
    """
    return answer(*_to_be_replayed(ports.store, flows, address), name, arguments)


def query_names(ports: Ports, flows: Flows, address: FlowAddress) -> list[str]:
    """Return the names of the queries that a flow answers. Raises as `query` does."""
    return queries(*_to_be_replayed(ports.store, flows, address))


def _to_be_replayed(
    store: Store, flows: Flows, address: FlowAddress
) -> tuple[FlowDefinition, FlowHeader, Sequence[Message]]:
    """Return what a query replays: the code, the header and the log."""
    header, _ = _read(store, address)
    if address.name not in flows.definitions:
        path = f"GET {{base}}{header.function}/flows/{address.name}/{address.key}/queries/…"
        detail = f"The code of {address.name} is in the function {header.function!r}: query it there, by {path}"
        raise CannotQuery(detail, field="flow")
    flows.check_revision(header.written_by)
    if not header.begun:
        if header.state == RUNNING:
            raise Unavailable("the code of the run has not been started")
        raise CannotQuery(f"The run is {header.state}, and its code has not been started.", field="id")
    if header.log.length > LIMITS.flow_query_entries_max:
        most = f"{LIMITS.flow_query_entries_max:,}"
        detail = f"The log has {header.log.length:,} entries, and a query replays at most {most}."
        raise CannotQuery(f"{detail} Return `flow.continue_as_new` earlier.", field="id")
    return flows.of(address.name), header, read_log(store, header).entries


def entries_after(store: Store, header: FlowHeader, count: int) -> Sequence[Message]:
    """Return the entries of a flow's log after the first `count`. Reads only if the header has not all of them."""
    if count >= header.log.held:
        return header.log.tail[count - header.log.held :]
    return read_log(store, header).entries[count:]


def _read(store: Store, address: FlowAddress) -> tuple[FlowHeader, datetime]:
    [read] = store.read(header_path(address.base))
    return _present(read, address), read.read_time


def _present(read: Snapshot, address: FlowAddress) -> FlowHeader:
    header = header_of(read, address)
    if header is None:
        detail = f"There is no run {address.key!r} of {address.name}: it was never started, or it was removed."
        raise NoFlow(detail, field="id")
    return header


@dataclass(frozen=True, slots=True)
class FlowsPage:
    """Listings of flows in the order of the list. `next_page_token` is empty on the last page."""

    flows: list[dict[str, Any]]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a flow, or those of them in one state, with one label, or whose ids begin with a prefix.

    With `newest_first`, or with a time, they are sorted by their starts, the newest first; otherwise by their ids.
    `started_after` is the earliest start, and all starts are before `started_before`.
    """

    flow: str
    state: str | None = None
    label: tuple[str, str] | None = None
    prefix: str = ""
    started_after: datetime | None = None
    started_before: datetime | None = None
    newest_first: bool = False

    def __post_init__(self) -> None:
        """Raise `BadFlow` for an unknown state, an impossible label, or a prefix in a list by start."""
        if self.state is not None and self.state not in STATES:
            raise BadFlow(f"`state` must be one of {', '.join(STATES)}.", field="state")
        if self.label:
            check_label(*self.label)
        if self.prefix and self.by_start:
            detail = "A list by start has no prefix: leave out `prefix`, or the times and `newest_first`."
            raise BadFlow(detail, field="prefix")

    @property
    def by_start(self) -> bool:
        """Whether the list is sorted by the starts."""
        return self.newest_first or self.started_after is not None or self.started_before is not None

    def query(self) -> Query:
        """Return the query of the listings.

        By ids it names one field at most, so it needs no composite index. By start it needs one of `INDEXES`.
        """
        if self.by_start:
            return Query(
                FlowAddress.COLLECTION, (*self._started(), *self._filter()), (Order(CREATED, descending=True),)
            )
        all_of_it = (Condition(ID, ">=", f"{self.flow}~"), Condition(ID, "<", f"{self.flow}{BEHIND_IDS}"))
        return Query(
            FlowAddress.COLLECTION, (*(with_prefix(self.prefix, f"{self.flow}~") or all_of_it), *self._filter())
        )

    def _started(self) -> Iterator[Condition]:
        yield Condition(("flow",), "==", self.flow)
        if self.started_after:
            yield Condition(CREATED, ">=", self.started_after)
        if self.started_before:
            yield Condition(CREATED, "<", self.started_before)

    def _filter(self) -> Iterator[Condition]:
        if self.label:
            yield Condition((LABELS,), "array_contains", label_entry(*self.label, self.state or ""))
        elif self.state:
            yield Condition(("state",), "==", self.state)


CREATED = (CREATED_AT,)


def count_flows(ports: Ports, runs: Runs) -> int:
    """Return the number of runs."""
    return ports.store.count(runs.query())


def list_flows(ports: Ports, runs: Runs, page_token: str = "") -> FlowsPage:
    """Return runs in the order of their ids, or by their starts."""
    most = LIMITS.flows_listed_max
    after = read_page_token(page_token, FlowAddress.COLLECTION, int(runs.by_start)) if page_token else ()
    page = ports.store.query(replace(runs.query(), limit=most, after=after))
    if len(page) < most:
        return FlowsPage([_shown(listing) for listing in page])
    last = page[-1]
    place = [(last.data or {})[CREATED_AT]] if runs.by_start else []
    return FlowsPage([_shown(listing) for listing in page], write_page_token(FlowAddress.COLLECTION, place, last.id))


def _shown(listing: Snapshot) -> dict[str, Any]:
    data = dict(listing.data or {})
    shown = {name: data[name] for name in SHOWN_IN_LISTS if name in data}
    entries = [entry.partition(":") for entry in data.get(LABELS, ())]
    labels = {name: value for name, _, value in entries if " " not in name}
    return shown | ({"labels": labels} if labels else {})


# --- turns ---


@dataclass(frozen=True, slots=True)
class FlowMailbox:
    """A flow's mailbox as it was read. `own` is the result of the step whose task runs the turn, if one does.

    `repeats`: the turn schedules again what the flow waits for. `carrier` is the delivery that runs inline steps after
    the commit, and `ended` the results of those whose code has ended there; they come before the messages.
    """

    address: FlowAddress
    mailbox: Mailbox
    own: Result | None = None
    repeats: bool = False
    carrier: Carrier = NOBODY
    ended: Sequence[Result] = ()

    @property
    def header(self) -> FlowHeader | None:
        """The flow, or None if it does not exist."""
        return header_of(self.mailbox.header, self.address)


@dataclass(frozen=True, slots=True)
class LiveTurn:
    """A turn whose commit has landed, with its driver: the next one needs no read while `snapshot` is the header.

    `now` is the server's time at the commit.
    """

    turn: FlowTurn
    snapshot: Snapshot
    last_chunk: str
    now: datetime

    def close(self) -> None:
        """Close the code. Code that never ends is noticed by a turn that is not live."""
        with suppress(Stuck):
            self.turn.close()


@dataclass(frozen=True, slots=True)
class Advanced:
    """A turn that has ended. `claims` are those of inline steps, by path; `cancel_waits` for their code.

    `leaves_steps`: it has committed nothing, and left inline steps to another carrier, for lack of time.

    `complete`: nothing is left of the outcomes in hand. They are left if the flow is stuck, or if the turn is so large
    that its commit has room for earlier messages only. `live` is the turn if its carrier has inline steps to run; it
    must be closed.
    """

    complete: bool
    claims: Mapping[str, Claim] = field(default_factory=dict)
    live: LiveTurn | None = None
    cancel_waits: bool = False
    leaves_steps: bool = False


def advance(ports: Ports, flows: Flows, read: FlowMailbox) -> Advanced:
    """Commit a turn.

    Raises `Conflict` if another turn committed first, and `Unavailable` if this process cannot run the flow's code.
    """
    header = read.header
    if header is None or header.end:
        _drop_all(ports, read, flows.function)
        return Advanced(complete=True)
    if suspended := _of_suspended(header):
        return suspended
    flows.check_revision(header.written_by)
    flows.of(header.address.name)
    header = flows.kept(header)
    log, snapshot = read_log(ports.store, header), read.mailbox.header
    try:
        turn, commit, complete = _commit_that_fits(ports, flows, read, header, log)
        with _closed_after_error(turn):
            committed = _commit_turn(ports, commit) if commit else None
    except Stuck as stuck:
        mark_stuck(ports, read, header, stuck)
        return Advanced(complete=False)
    except Problem as problem:  # the queue must not take it for an answer to the task
        mark_stuck(ports, read, header, Stuck("flow-failed", f"The turn was refused: {problem.detail}"))
        return Advanced(complete=False)
    live = None
    if _has_steps_to_run(turn):
        unchanged = LiveTurn(turn, snapshot, log.last_chunk, snapshot.read_time)
        live = _live(turn, snapshot, commit, committed) if commit and committed else unchanged
    leaves_steps = commit is None and None in turn.wake_times()
    return Advanced(complete, turn.running, live, turn.cancels_left > 0, leaves_steps)


def _of_suspended(header: FlowHeader) -> Advanced | None:
    """Return the turn of a suspended flow, which leaves everything in the mailbox; None if it is not suspended."""
    return Advanced(complete=False) if header.suspended else None


def _has_steps_to_run(turn: FlowTurn) -> bool:
    """Return whether a turn's carrier has inline steps to run after its commit, or is running some."""
    return bool(turn.claimed or turn.carrier.busy) and turn.driver.ended is None


def advance_without_read(
    ports: Ports, flows: Flows, live: LiveTurn, now: datetime, carrier: Carrier, ended: Sequence[Result]
) -> LiveTurn | None:
    """Commit the next turn of a process under the header of its last one; return None if the code runs no more.

    `ended` are the results of inline steps; `now` is the time of the last header and what has passed since. Raises
    `Conflict` if another process was faster, and `Stuck`. After any error, read and replay.
    """
    turn = live.turn.following(now, carrier)
    with _closed_after_error(turn):
        for result in ended:
            turn.take(result)
        if turn.new_sub_flows:
            raise Conflict("the ids of new sub-flows must be looked up")
        turn.claim_steps()
        log = LoadedLog(last_chunk=live.last_chunk)
        commit = TurnCommit(live.snapshot, turn, log, (), flows.revision, more=False, live=True)
        decided = commit.commit(ports.store.new_id)
        return _live(turn, live.snapshot, decided, _commit_turn(ports, decided))


def _live(turn: FlowTurn, snapshot: Snapshot, commit: Commit, committed: Committed) -> LiveTurn | None:
    """Return a turn whose commit has landed, or None, and close it, if its code runs no more."""
    [put, *_], [result, *_] = commit.writes, committed.results
    assert isinstance(put, Put), "the first write of a turn is its header"
    now, created_at = committed.commit_time, snapshot.create_time or result.update_time
    header = Snapshot(snapshot.path, put.data, now, result.update_time, created_at)
    live = LiveTurn(replace(turn, header=commit.header or turn.header), header, commit.last_chunk, now)
    if turn.driver.ended is None:
        return live
    live.close()
    return None


@contextmanager
def _closed_after_error(turn: FlowTurn) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(Stuck):
            turn.close()
        raise


def _commit_turn(ports: Ports, commit: Commit) -> Committed:
    committed = outbox.commit(ports, commit.writes, commit.effects)
    _log(ports, commit)
    return committed


def _log(ports: Ports, commit: Commit) -> None:
    """Write what the code has logged: a turn that does not count has logged nothing. Export the spans."""
    for span in commit.spans:
        ports.log.span(span)
    for line in commit.lines:
        logging.getLogger(line.name).handle(line)


def _commit_that_fits(
    ports: Ports, flows: Flows, read: FlowMailbox, header: FlowHeader, log: LoadedLog
) -> tuple[FlowTurn, Commit | None, bool]:
    """Return the commit of a turn that takes all messages, or of one that takes so few that it fits.

    The outcome in hand is the last message. Also return the turn, and whether it takes all of them.
    """
    total = count = len(read.mailbox.waiting) + (read.own is not None)
    while True:
        try:
            return *_turn(ports, flows, read, header, log, count), count == total
        except TooLarge as error:
            if count <= 1:
                raise too_large(f"The code schedules too much at once: {error.detail}") from error
            count //= 2


def _turn(
    ports: Ports, flows: Flows, read: FlowMailbox, header: FlowHeader, log: LoadedLog, count: int
) -> tuple[FlowTurn, Commit | None]:
    """Return a turn that takes `count` messages, and its commit, or None if there is nothing to commit.

    The turn is closed, unless its carrier has inline steps to run.
    """
    mailbox = read.mailbox
    own = read.own if count > len(mailbox.waiting) else None
    definition = flows.of(header.address.name)
    turn = FlowTurn.begin(definition, header, log.entries, mailbox.read_time, read.carrier)
    with _closed_after_error(turn):
        turn.repeats = read.repeats and not mailbox.more and count == len(mailbox.waiting)  # no outcome is left
        for result in read.ended:
            turn.take(result)
        taken, is_cancel_due = _take(turn, mailbox.waiting[:count], own)
        if not mailbox.more and count >= len(mailbox.waiting):
            turn.see_all()
        _refuse_sub_flows(ports.store, turn)
        turn.claim_steps()
        changes = taken or turn.changes_anything or turn.dropped_leases
        more = mailbox.more or is_cancel_due or len(taken) + turn.cancels_left < len(mailbox.waiting)
        decided = TurnCommit(mailbox.header, turn, log, taken, flows.revision, more)
        commit = decided.commit(ports.store.new_id) if changes else None
    if not _has_steps_to_run(turn):
        turn.close()
    return turn, commit


def _refuse_sub_flows(store: Store, turn: FlowTurn) -> None:
    """Let the code receive which of the ids that it has given to new sub-flows are in use. Raises `Stuck`.

    The code may then choose others, which are looked up in turn.
    """
    free: dict[FlowAddress, str] = {}
    for _ in range(LIMITS.flow_pending_max):
        new = turn.new_sub_flows
        free = {address: path for address, path in free.items() if new.get(path) == address}
        unknown = {path: address for path, address in new.items() if free.get(address) != path}
        if not unknown:
            return
        reads = store.read(*(header_path(address.base) for address in unknown.values()), fields=())
        for (path, address), read in zip(unknown.items(), reads, strict=True):
            if read.create_time is None and address not in free:
                free[address] = path
            elif turn.new_sub_flows.get(path) == address:
                turn.refuse_sub_flow(path, address)
    raise too_large(f"The ids of sub-flows were in use {LIMITS.flow_pending_max} times in one turn.")


def _take(turn: FlowTurn, page: Sequence[StoredMessage], own: Result | None) -> tuple[Sequence[StoredMessage], bool]:
    """Apply messages until the turn is over, and a cancel before the page's events; return the taken ones.

    A cancel that must wait for the code of an inline step is left. Also return whether a left one is due at once.
    """
    taken: list[StoredMessage] = []
    left: list[StoredMessage] = []
    for stored in _cancels_before_events(page):
        if turn.is_over:
            return taken, False
        message = message_from_record(stored.data)
        if turn.must_wait(message):
            left.append(stored)
            continue
        turn.take(message)
        taken.append(stored)
    if own and not turn.is_over:
        turn.take(own)
    return taken, _is_cancel_due(turn, left)


def _is_cancel_due(turn: FlowTurn, cancels: Sequence[StoredMessage]) -> bool:
    """Return whether a cancel that was left need not wait any more: a message behind it has ended the step."""
    left = turn.cancels_left
    due = turn.is_over or not all(turn.must_wait(message_from_record(stored.data)) for stored in cancels)
    turn.cancels_left = left
    return bool(cancels) and due


def _cancels_before_events(page: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    """Return a page in an order in which no cancel follows an event. The results before a cancel stay before it."""
    last = max((number for number, message in enumerate(page) if message.data["kind"] == Cancel.kind), default=-1)
    begin, rest = page[: last + 1], page[last + 1 :]
    return [*sorted(begin, key=lambda message: message.data["kind"] == Event.kind), *rest]


def _drop_all(ports: Ports, read: FlowMailbox, function: str) -> None:
    """Remove the messages of a flow that has ended or does not exist, and release the leases in them."""
    base = read.address.base
    leases = leases_of(read.mailbox.waiting)
    effects = [release_effect(base, function, lease) for lease in leases] + _next_wake(base, function, read)
    writes = list(taken_messages(read.address, read.mailbox.waiting, read.mailbox.read_time))
    if writes or effects:
        _commit_turn(ports, Commit(writes, effects))


def _next_wake(base: str, function: str, read: FlowMailbox) -> list[Effect]:
    """Return the wake-up for the messages after the page, if there are any."""
    return [wake_flow(base, function)] if read.mailbox.more else []


def leases_of(messages: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    """Return the leases that messages of a mailbox grant."""
    read = [message_from_record(message.data) for message in messages]
    return [message.lease for message in read if isinstance(message, Result) and message.lease]


def mark_stuck(ports: Ports, read: FlowMailbox, header: FlowHeader, stuck: Stuck) -> None:
    """Store why a flow is stuck, unless the header has the same reason. The sweeper wakes it from time to time."""
    now, before = read.mailbox.read_time, header.stuck or {}
    if (before.get("type"), before.get("detail"), before.get("place")) == (stuck.kind, stuck.detail, stuck.location):
        return
    since = before.get("at", rfc3339(now))  # the run has been stuck since the first reason
    reason = {"type": stuck.kind, "detail": stuck.detail, "place": stuck.location, "at": since}
    reason |= {"trace": stuck.trace} if stuck.trace else {}
    address = header.address.to_json()
    ports.log.error("flow stuck", **address, problem=stuck.kind, detail=stuck.detail, place=stuck.location)
    after, snapshot = replace(header, stuck=reason), read.mailbox.header
    ports.store.commit([header_write(snapshot, after, now), *listing_writes(snapshot, header, after)])
