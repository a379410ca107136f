"""The commit of a turn: the header, the log, the messages that it took, its commands and the listing."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from logging import LogRecord
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Effect, RecordedSpan, name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import REMOVE, Change, Delete, Put, Query, Snapshot, Store, Write
from signalbox.core.problems import TooLarge
from signalbox.core.records.queries import Order
from signalbox.core.times import EPOCH
from signalbox.core.write_checks import check_commit
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.deadlines import deadline_message, wake_at_deadline
from signalbox.flows.machine.effects import archive_effect, carry_flow, end_notice, release_effect, wake_flow
from signalbox.flows.machine.headers import check_log, new_entries, next_header
from signalbox.flows.machine.timeline import recorded_spans
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FAILED, FlowHeader
from signalbox.flows.model.messages import (
    Cancel,
    Event,
    Result,
    Update,
    message_from_record,
    message_to_record,
    payload_of,
    update_id,
)
from signalbox.flows.model.payloads import place_of_events, place_of_execution
from signalbox.flows.storage.commands import CommandWrites
from signalbox.flows.storage.listings import listing_writes
from signalbox.flows.storage.log import ENTRIES, LoadedLog, chunk_deletes, cut, extended, stale_chunks
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.machine import next_revision
from signalbox.mailboxes.model.messages import StoredMessage, collection_of, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import header_put, message_put, revision_of
from signalbox.payloads.model import Outgoing, Place, payload_in, place_of_tasks
from signalbox.payloads.service import removal

UNREAD = "unread"
"""The field of the receipt of an event that a run has not read before its end: the time of the event's commit."""

REPLY = "reply"
"""The field of the receipt of an update that has an answer: the outcome that its callers receive, as text.
The receipt of an event that a turn has refused has the problem there.
"""


NO_REPLIES: Mapping[str, CallOutcome] = {}


@dataclass(frozen=True, slots=True)
class Commit:
    """The writes and the tasks of one commit, and the logged lines of the code, which are written after the commit.

    `header` is the flow's new header. `last_chunk` is the text of the last chunk of its log. `spans` are the spans of
    the commands that have ended. `outgoing` are the payloads that the commit names, which are stored before it.
    """

    writes: Sequence[Write]
    effects: Sequence[Effect]
    lines: Sequence[LogRecord] = ()
    header: FlowHeader | None = None
    last_chunk: str = "[]"
    spans: Sequence[RecordedSpan] = ()
    outgoing: Outgoing = field(default_factory=Outgoing)

    def checked(self) -> "Commit":
        """Return the commit. Raises `TooLarge` if the store would not accept it."""
        parts = enumerate(outbox.divided(self.effects))
        records = [Put(f"{outbox.COLLECTION}/{number}", outbox.to_record(part)) for number, part in parts]
        writes = [*self.writes, *records]
        size_bytes = sum(check_commit(writes))
        if size_bytes > LIMITS.flow_commit_bytes_max or len(writes) > MAILBOXES_LIMITS.turn_writes_max:
            most = f"{LIMITS.flow_commit_bytes_max:,} bytes in {MAILBOXES_LIMITS.turn_writes_max} records"
            raise TooLarge(f"One turn of a flow can write at most {most}; these are {size_bytes:,} in {len(writes)}.")
        return self


def timed(commit: Commit, header: FlowHeader, timeout_seconds: float) -> Commit:
    """Return the commit of a start with the message and the wake-up of the deadline added, unless the run has ended."""
    if commit.header and commit.header.end:
        return commit
    id_, message = deadline_message(header, timeout_seconds)
    put = message_put(header.address.base, id_, message_to_record(message), header.deadline_at)
    return replace(commit, writes=[*commit.writes, put], effects=[*commit.effects, *wake_at_deadline(header)])


def header_of(snapshot: Snapshot, address: FlowAddress) -> FlowHeader | None:
    """Return the header of a flow, or None if the flow does not exist."""
    if snapshot.data is None:
        return None
    header = FlowHeader.from_record(address, snapshot.data)
    if header.begun and header.start_at is None:  # begun without a read, in the commit that created it
        return replace(header, start_at=snapshot.create_time)
    return header


@dataclass(frozen=True, slots=True)
class Opening:
    """What the opening turn of a rewound run commits besides its own: the rewinds of the sub-flows that it adopts."""

    writes: Sequence[Write] = ()
    effects: Sequence[Effect] = ()


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """A turn with its input records: the header as read, the log, and the messages that it has applied.

    - `revision` is the revision of the code.
    - `more` is whether messages are left for another turn.
    - `live` is whether the turn follows another turn of the same process and has read nothing. Then it writes the
      header's old revision, since it has not checked the code against the log.
    - `opens` is the opening of a rewound run, if this is its opening turn. It takes nothing from the mailbox.
    - `unread` are the ids of the messages which the end of the run has left unread.
    """

    snapshot: Snapshot
    turn: FlowTurn
    log: LoadedLog
    taken: Sequence[StoredMessage]
    revision: int
    more: bool
    live: bool = False
    opens: Opening | None = None
    unread: Collection[str] = ()

    def commit(self, new_id: Callable[[], str]) -> Commit:
        """Return the writes and tasks. Raises `Stuck`, or `TooLarge` if they exceed one commit."""
        turn, before = self.turn, self.turn.header
        after, new, log = next_header(turn, self.revision), new_entries(turn), self.log
        if self.opens:
            stored, log, moved = cut(before, self.log)
            others = {path: id_ for path, id_ in before.adopted.items() if path not in turn.pending}
            trace = after.trace if after.end else ""
            after = replace(after, rewound=None, adopted=others | turn.adopted, log=stored, trace=trace)
            new = [*moved, *new]
        commands = CommandWrites(turn, new_id).collect()
        replies = {id_: claimed_reply(before, reply, turn.outgoing) for id_, reply in turn.replies().items()}
        has_past = before.has_payloads or any(map(payload_of, turn.applied))
        has_payloads = has_past or bool(turn.outgoing) or any(map(payload_of, new))
        if has_payloads != after.has_payloads:
            after = replace(after, has_payloads=has_payloads)
        after, chunks = extended(after, log, new, live=self.live)
        check_log(after.log.length, after.log.held_bytes)
        earlier = {id_: reply for id_, reply in replies.items() if id_ not in turn.updates}
        gone = {message_path(before.address.base, message.id) for message in self.taken}
        refused = dict.fromkeys(turn.refused, CallOutcome.from_problem(turn.refusal())) if turn.refused else {}
        kept = replies, refused, turn.misdirected
        writes = [
            header_put(self.snapshot, after.to_record(), self._revision),
            *taken_messages(before.address, self.taken, self.snapshot.read_time, self.unread_after(after), *kept),
            *(reply_write(before.address, id_, reply, turn.now) for id_, reply in earlier.items()),
            *(write for write in commands.writes if write.path not in gone),
            *chunks,
            *(chunk_deletes(before) if turn.continued else ()),
            *((*stale_chunks(before, after), *self.opens.writes) if self.opens else ()),
            *listing_writes(self.snapshot, before, after),
            *end_messages(after, turn.outgoing),
            *([past_payloads(before)] if turn.continued and has_past else ()),
        ]
        releases = [release_effect(before.address.base, before.function, lease) for lease in turn.released]
        effects = [*commands.effects, *releases, *end_tasks(after, turn.outgoing), *self.next_wake()]
        effects += self.opens.effects if self.opens else ()
        last_chunk = str(chunks[-1].data[ENTRIES]) if chunks else log.last_chunk
        spans = recorded_spans(turn, after)
        commit = Commit(writes, effects, turn.driver.logged, after, last_chunk, spans, turn.outgoing)
        return commit.checked()

    @property
    def _revision(self) -> int:
        """The revision that the commit writes."""
        has_read = not (self.live or self.opens)
        return next_revision(revision_of(self.snapshot), self.snapshot.read_time if has_read else EPOCH)

    def unread_after(self, after: FlowHeader) -> Collection[str]:
        """Return the ids of the events that a run which fails has not read: a retry applies them."""
        return self.unread if after.end and after.end.state == FAILED else ()

    def next_wake(self) -> Iterator[Effect]:
        """Iterate over the wake-ups of the turns after this one."""
        header, times = self.turn.header, self.turn.wake_times()
        if self.more or self.turn.continued:
            yield wake_flow(header.address.base, header.function)
        if None in times:
            yield carry_flow(header, self._revision)
        for at in sorted({at for at in times if at is not None}):
            yield wake_flow(header.address.base, header.function, at)


def header_write(snapshot: Snapshot, header: FlowHeader, now: datetime) -> Put:
    """Return the write of a header over the one that was read, under its guard."""
    return header_put(snapshot, header.to_record(), next_revision(revision_of(snapshot), now))


def rewind_writes(read: Snapshot, before: FlowHeader, after: FlowHeader) -> list[Write]:
    """Return the writes of a rewind. The header has no later revision, since nothing has read the mailbox."""
    put = header_put(read, after.to_record(), next_revision(revision_of(read), EPOCH))
    return [put, *listing_writes(read, before, after)]


def unread_messages(store: Store, base: str, page_max: int) -> tuple[StoredMessage, ...]:
    """Return a page of the events that the end of a run has left unread, in the order of their commits."""
    query = Query(collection_of(base), order_by=(Order((UNREAD,)),), limit=page_max)
    found = []
    for record in store.query(query):
        assert record.data is not None, "a query finds only records that exist"
        assert record.create_time is not None, "a record that exists has a create time"
        assert record.update_time is not None, "a record that exists has an update time"
        since = record.data[UNREAD]
        found.append(StoredMessage(record.id, record.data, since, record.create_time, record.update_time))
    return tuple(found)


def taken_messages(
    address: FlowAddress,
    taken: Sequence[StoredMessage],
    now: datetime,
    unread: Collection[str] = (),
    replies: Mapping[str, CallOutcome] = NO_REPLIES,
    refused: Mapping[str, CallOutcome] = NO_REPLIES,
    misdirected: Collection[str] = (),
) -> Iterator[Write]:
    """Iterate over the writes that remove messages from the mailbox. Events, updates and cancels become receipts.

    A `misdirected` one, which was sent to an earlier run of the id, leaves no receipt: a repeat is a new message.

    The receipt of an `unread` event or update, which the run has not read before its end, has the time of its commit
    instead of an expiry. The receipt of an update has an expiry once it has an answer. The receipt of a `refused`
    event, which the run has no room for, has the problem for its sender.
    """
    for message in taken:
        path, kind = message_path(address.base, message.id), message.data["kind"]
        if kind not in (Event.kind, Update.kind, Cancel.kind) or message.id in misdirected:
            yield Delete(path, message.version)
            continue
        marks: dict[tuple[str, ...], Any] = {("since",): REMOVE}
        if kind != Cancel.kind and message.id in unread:
            yield Change(path, marks | {(UNREAD,): message.created_at}, message.version)
            continue
        marks |= {(UNREAD,): REMOVE} if UNREAD in message.data else {}
        if kind == Update.kind:
            reply = replies.get(_update_of(message))
            yield Change(path, marks | (_answered(reply, now) if reply else {}), message.version)
        elif message.id in refused:
            yield Change(path, marks | _answered(refused[message.id], now), message.version)
        else:
            yield Change(path, marks | {("expires_at",): _expiry(now)}, message.version)


def _update_of(message: StoredMessage) -> str:
    update = message_from_record(message.data)
    assert isinstance(update, Update), "the record is that of an update"
    return update.id


def _answered(reply: CallOutcome, now: datetime) -> dict[tuple[str, ...], Any]:
    return {(REPLY,): reply.to_text(), ("expires_at",): _expiry(now)}


def _expiry(now: datetime) -> datetime:
    return now + timedelta(seconds=MAILBOXES_LIMITS.call_receipt_seconds)


def claimed_reply(header: FlowHeader, reply: CallOutcome, outgoing: Outgoing) -> CallOutcome:
    """Return an answer as the record of its update contains it: `outgoing` collects a large one.

    It is read as long as the run exists, in whichever generation.
    """
    place = place_of_events(header.address, header.incarnation)
    return replace(reply, result=outgoing.claimed(reply.result, place, CORE_LIMITS.result_bytes_max))


def reply_write(address: FlowAddress, id_: str, reply: CallOutcome, now: datetime | None) -> Change:
    """Return the write of the answer to an update that an earlier turn has applied."""
    assert now is not None, "a run that has received an update was read"
    return Change(message_path(address.base, update_id(address, id_)), _answered(reply, now))


def past_payloads(header: FlowHeader) -> Write:
    """Return the write by which the payloads of a generation are deleted, once it is over."""
    return removal(place_of_execution(header.address, header.execution_id))


def end_messages(header: FlowHeader, outgoing: Outgoing | None = None) -> Iterator[Put]:
    """Iterate over the message to the parent flow, if the flow has ended.

    A large result is copied for the parent; then `outgoing` collects it.
    """
    if header.end and header.parent:
        wait = header.parent.wait
        place = place_of_execution(FlowAddress.of_base(header.parent.base), wait.execution_id)
        message = message_to_record(Result(wait, _copied(header.end.outcome, place, outgoing)))
        yield message_put(header.parent.base, end_name(header), message)


def end_tasks(header: FlowHeader, outgoing: Outgoing | None = None) -> Iterator[Effect]:
    """Iterate over the tasks of an ended flow: `on_complete`, archive, notice, the wake-up of the parent flow.

    A large result is copied for `on_complete`; then `outgoing` collects it.
    """
    if header.archive:
        yield archive_effect(header)
    yield from end_notice(header)
    if header.end and header.parent:
        yield wake_flow(header.parent.base, header.parent.function)
    if header.end and header.on_complete:
        ends = {"rewinds": header.rewinds} if header.rewinds else {}
        ended = _copied(header.end.outcome, place_of_tasks(header.end.at), outgoing)
        outcome = {
            "called": header.address.to_json(),
            "call": header.address.key,
            **ended.to_json(),
            **ends,
        }
        yield header.on_complete.effect(end_name(header), header.end.at, outcome=outcome)


def _copied(outcome: CallOutcome, place: Place, outgoing: Outgoing | None) -> CallOutcome:
    """Return an outcome for another place. Only a turn, which has an `outgoing`, can end a run with a large result."""
    if payload_in(outcome.result) is None:
        return outcome
    assert outgoing is not None, "the commit stores its payloads"
    return replace(outcome, result=outgoing.copied(outcome.result, place))


def end_name(header: FlowHeader) -> str:
    """Return the name of what an end enqueues. Each end of a run has another one."""
    return name_of("end", header.address.base, header.incarnation, *header.rewind_parts)
