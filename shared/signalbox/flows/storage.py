"""The log of a flow in the store, and the writes and tasks of a turn's commit.

The last entries of the log are in the header, the earlier ones in chunks of up to 900 KB, which only grow. A chunk may
be newer than the header that was read with it. The header has the number of valid entries, and each generation has its
own chunks, so the entries of a later turn are left out.

What a commit contains for each command that the turn schedules or abandons:

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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from logging import LogRecord
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Effect, RecordedSpan, name_of, wake_up
from signalbox.core.names import OBJECTS_QUEUE
from signalbox.core.ports import REMOVE, SERVER_TIME, Change, Delete, Must, Put, Snapshot, Store, Write
from signalbox.core.problems import TooLarge, Unavailable
from signalbox.core.queries import parse
from signalbox.core.times import EPOCH
from signalbox.core.validation import check_commit
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import Batch, Lock, ObjectCall, RatePermits, Renew, Sleep, Step, SubFlow
from signalbox.flows.machine.effects import (
    archive_effect,
    batch_effect,
    cancel_batch_effect,
    cancel_rate_effect,
    cancel_wait_effect,
    carry_flow,
    rate_effect,
    release_effect,
    renew_effect,
    result_call,
    step_effect,
    wait_effect,
    wake_at_deadline,
    wake_flow,
)
from signalbox.flows.machine.failures import too_large
from signalbox.flows.machine.headers import check_log, new_entries, next_header
from signalbox.flows.machine.timeline import recorded_spans
from signalbox.flows.machine.tree import PendingCommand
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader, ParentFlow, deadline_message, new_header
from signalbox.flows.model.log import StoredLog, entries_from_text, entries_to_text, joined
from signalbox.flows.model.messages import (
    Cancel,
    Event,
    Message,
    Result,
    child_id,
    message_to_record,
    parent_key,
    timer_id,
)
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.machine import next_revision
from signalbox.mailboxes.model.messages import StoredMessage, header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import header_put, message_put, revision_of
from signalbox.objects.model import continuation_message, method_call

ENTRIES = "entries"

DUE_AT, ARCHIVED_AT = "due_at", "archived_at"
"""The fields of a listing for the sweeper, and for the archive of an ended run."""

LABELS = "labels"
"""The field of a listing that queries search for a label."""

CREATED_AT = "created_at"
"""The field of a listing with the time of the run's start."""

CHANGING = (LABELS, "ended_at", DUE_AT, "checked_at")
"""The fields of a listing that it has in some states only."""

_BY_START = (("flow", "-created_at"), ("flow", "state", "-created_at"), ("flow", "labels[]", "-created_at"))

INDEXES = tuple(parse(FlowAddress.COLLECTION, fields) for fields in _BY_START)
"""The composite indexes of lists by the time of the start, the newest first. Terraform creates them, too."""


# --- the log ---


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The whole log of a generation, and the text of its last chunk."""

    entries: tuple[Message, ...] = ()
    last_chunk: str = "[]"


def read_log(store: Store, header: FlowHeader) -> LoadedLog:
    """Read the log of a header. Raises `Unavailable` if it was removed since the header was read."""
    if not header.log.chunks:
        return LoadedLog(header.log.tail)
    texts = []
    for chunk in store.read(*chunk_paths(header)):
        if chunk.data is None:
            raise Unavailable("the log was replaced while it was read")
        texts.append(str(chunk.data[ENTRIES]))
    held = islice((entry for text in texts for entry in entries_from_text(text)), header.log.held)
    return LoadedLog((*held, *header.log.tail), texts[-1])


def chunk_paths(header: FlowHeader) -> list[str]:
    """Return the paths of a header's chunks."""
    return [header.address.chunk_path(header.generation, number) for number in range(header.log.chunks)]


def extended(header: FlowHeader, log: LoadedLog, new: Sequence[Message]) -> tuple[FlowHeader, list[Put]]:
    """Return the header with new entries in its log, and the writes of the chunks if its tail has become too long."""
    tail, text = (*header.log.tail, *new), joined(header.log.tail_text, new)
    if len(text) <= LIMITS.flow_tail_bytes_max:
        return replace(header, log=replace(header.log, tail=tail, text=text)), []
    chunks = _packed(log.last_chunk if header.log.chunks else "[]", tail)
    first = max(0, header.log.chunks - 1)
    stored = StoredLog((), first + len(chunks), header.log.held + len(tail), header.log.held_bytes + len(text))
    paths = [header.address.chunk_path(header.generation, first + number) for number in range(len(chunks))]
    return replace(header, log=stored), [Put(path, {ENTRIES: text}) for path, text in zip(paths, chunks, strict=True)]


def _packed(last: str, entries: Sequence[Message]) -> list[str]:
    """Return the texts of the last chunk and of new chunks after it, with these entries added."""
    texts = [last]
    for entry in entries:
        added = entries_to_text([entry])
        if texts[-1] != "[]" and len(texts[-1]) + len(added) > LIMITS.flow_chunk_bytes_max:
            texts.append("[]")
        texts[-1] = joined(texts[-1], [entry])
    return texts


# --- the commands of a turn ---


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
            self._repeat(pending)
        if self.turn.repeats:
            self.effects += wake_at_deadline(self.header)
        for pending in self.turn.abandoned:
            self._abandon(pending)
        for number, call in enumerate(self.turn.sent):
            base, positions = self.header.address.base, self.header.committed_positions
            name = name_of("sent", base, self.header.execution_id, positions, number)
            self.effects.append(call.effect(name, self.turn.now or EPOCH))
        return self

    def _schedule(self, pending: PendingCommand) -> None:
        wait = self.turn.pending[pending.path]
        match pending.command:
            case Step() as step:
                together = len(self.turn.pending)
                self.effects.append(step_effect(self.header, step, wait, together, self.turn.now))
            case Sleep() as sleep:
                self._sleep(sleep, wait)
            case Lock() as lock:
                self.effects.append(wait_effect(self.header, lock, wait))
            case RatePermits() as rate:
                self.effects.append(rate_effect(self.header, rate, wait))
            case Renew() as renew:
                self.effects.append(renew_effect(self.header, renew, wait))
            case ObjectCall() as call:
                self._call_object(call, wait)
            case SubFlow() as flow:
                self._run_flow(flow, wait, pending.location)
            case Batch() as batch:
                self.effects.append(_checked_batch(batch_effect(self.header, batch, wait), pending.location))

    def _repeat(self, pending: PendingCommand) -> None:
        wait, address = self.turn.pending[pending.path], self.header.address
        match pending.command:
            case Sleep() as sleep:
                due_at = datetime.fromisoformat(wait.scheduled_at) + timedelta(seconds=sleep.seconds)
                self.effects.append(wake_flow(address.base, self.header.function, due_at))
            case SubFlow() as flow:
                self.effects.append(wake_flow(_child(self.header, flow, wait).base, flow.function))
            case ObjectCall() as call:
                follow = continuation_message(child_id(address, wait), result_call(self.header, wait), receipt=False)
                self.writes.append(message_put(call.address.base, self.new_id(), follow.to_record()))
                self.effects.append(wake_up(call.address.base, call.function, OBJECTS_QUEUE))
            case _:
                self._schedule(pending)

    def _sleep(self, sleep: Sleep, wait: Wait) -> None:
        assert self.turn.now is not None, "a turn that schedules a sleep has read the time"
        address, due_at = self.header.address, self.turn.now + timedelta(seconds=sleep.seconds)
        message = message_to_record(Result(wait, CallOutcome()))
        self.writes.append(message_put(address.base, timer_id(address, wait), message, due_at))
        self.effects.append(wake_flow(address.base, self.header.function, due_at))

    def _call_object(self, call: ObjectCall, wait: Wait) -> None:
        then = (result_call(self.header, wait),)
        message = method_call(call.method, call.arguments, then=then)
        id_ = child_id(self.header.address, wait)
        self.writes.append(message_put(call.address.base, id_, message.to_record()))
        self.effects.append(wake_up(call.address.base, call.function, OBJECTS_QUEUE))

    def _run_flow(self, flow: SubFlow[Any], wait: Wait, location: str) -> None:
        parent = ParentFlow(self.header.address.base, self.header.function, wait, self.header.depth + 1)
        if parent.depth > LIMITS.flow_depth_max:
            raise too_large(f"Sub-flows can be nested at most {LIMITS.flow_depth_max} deep.", location)
        address = _child(self.header, flow, wait)
        child = new_header(address, flow.function, flow.arguments, self.new_id(), parent=parent)
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
                self._cancel_flow(flow, wait)
            case Batch():
                self.effects.append(cancel_batch_effect(self.header, wait))

    def _cancel_flow(self, flow: SubFlow[Any], wait: Wait) -> None:
        child = _child(self.header, flow, wait)
        id_ = name_of("abandoned", child.base, wait.execution_id, wait.path)
        key = parent_key(self.header.address.base, wait)
        cancel = Cancel(f"{self.header.address.name} does not wait for it any more", parent=key)
        self.writes.append(message_put(child.base, id_, message_to_record(cancel)))
        self.effects.append(wake_flow(child.base, flow.function))


def creation(header: FlowHeader, read_time: Any, *, revision: int = 1) -> list[Write]:
    """Return the writes that create a flow: its header, which must not exist, and its listing."""
    address = header.address
    missing = Snapshot(header_path(address.base), None, read_time)
    listing = {**_shown_in_lists(header), CREATED_AT: SERVER_TIME, "checked_at": SERVER_TIME}
    return [header_put(missing, header.to_record(), revision), Put(address.base, listing)]


def _child(header: FlowHeader, flow: SubFlow[Any], wait: Wait) -> FlowAddress:
    return FlowAddress(flow.flow, wait.child or child_id(header.address, wait))


def _checked_batch(effect: Effect, location: str) -> Effect:
    size = len(repr(effect.payload))
    if size > LIMITS.flow_batch_bytes_max:
        detail = f"The calls of the batch have {size:,} bytes; the limit is {LIMITS.flow_batch_bytes_max:,}."
        raise too_large(f"{detail} Let a step populate it (docs/flows.md).", location)
    return effect


# --- the commit of a turn ---


@dataclass(frozen=True, slots=True)
class Commit:
    """The writes and the tasks of one commit, and the lines that the code has logged, which are written after it.

    `header` is the flow's new one, `last_chunk` the text of the last chunk of its log, and `spans` are those of the
    commands that have ended.
    """

    writes: Sequence[Write]
    effects: Sequence[Effect]
    lines: Sequence[LogRecord] = ()
    header: FlowHeader | None = None
    last_chunk: str = "[]"
    spans: Sequence[RecordedSpan] = ()

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
    """Return the commit that creates a run with the message and the wake-up of its deadline, unless it has ended."""
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
class TurnCommit:
    """A turn with its input records: the header as read, the log, the messages that it has applied.

    `revision` is that of the code. `more` says whether messages are left for another turn. `live`: the turn follows
    another one of its process and has read nothing, so its revision must not say that it has.
    """

    snapshot: Snapshot
    turn: FlowTurn
    log: LoadedLog
    taken: Sequence[StoredMessage]
    revision: int
    more: bool
    live: bool = False

    def commit(self, new_id: Callable[[], str]) -> Commit:
        """Return the writes and tasks. Raises `Stuck`, or `TooLarge` if they exceed one commit."""
        turn, before = self.turn, self.turn.header
        after, chunks = extended(next_header(turn, self.revision), self.log, new_entries(turn))
        check_log(after.log.length, after.log.held_bytes)
        commands = CommandWrites(turn, new_id).collect()
        gone = {message_path(before.address.base, message.id) for message in self.taken}
        writes = [
            header_put(self.snapshot, after.to_record(), self._revision),
            *taken_messages(before.address, self.taken, self.snapshot.read_time),
            *(write for write in commands.writes if write.path not in gone),
            *chunks,
            *(_chunk_deletes(before) if turn.continued else ()),
            *listing_writes(self.snapshot, before, after),
            *end_messages(after),
        ]
        effects = [*commands.effects, *self._releases(), *end_tasks(after), *self._next_wake()]
        last_chunk = str(chunks[-1].data[ENTRIES]) if chunks else self.log.last_chunk
        return Commit(writes, effects, turn.driver.logged, after, last_chunk, recorded_spans(turn, after)).checked()

    @property
    def _revision(self) -> int:
        """The revision that the commit writes."""
        return next_revision(revision_of(self.snapshot), EPOCH if self.live else self.snapshot.read_time)

    def _releases(self) -> Iterator[Effect]:
        header = self.turn.header
        return (release_effect(header.address.base, header.function, lease) for lease in self.turn.released)

    def _next_wake(self) -> Iterator[Effect]:
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


def taken_messages(address: FlowAddress, taken: Sequence[StoredMessage], now: datetime) -> Iterator[Write]:
    """Iterate over the writes that remove messages from the mailbox. An event and a cancel become receipts."""
    for message in taken:
        path = message_path(address.base, message.id)
        if message.data["kind"] not in (Event.kind, Cancel.kind):
            yield Delete(path, message.version)
        else:
            expires_at = now + timedelta(seconds=MAILBOXES_LIMITS.call_receipt_seconds)
            yield Change(path, {("since",): REMOVE, ("expires_at",): expires_at}, message.version)


def _chunk_deletes(header: FlowHeader) -> Iterator[Write]:
    """Iterate over the deletions of the log of an execution that has ended."""
    return (Delete(path) for path in chunk_paths(header))


def listing_writes(snapshot: Snapshot, before: FlowHeader, after: FlowHeader) -> Iterator[Write]:
    """Iterate over the write of the listing, which changes with the flow's state and labels only.

    The time of the start stays as it was written, since lists are sorted by it and have pages after a time.
    """
    if snapshot.data is None:
        listing = listing_of(after, snapshot.read_time, checked_at=SERVER_TIME)
        yield Put(after.address.base, listing | {CREATED_AT: SERVER_TIME})
    elif (before.state, before.labels) != (after.state, after.labels):
        changed = dict.fromkeys(CHANGING, REMOVE) | listing_of(after, snapshot.read_time)
        yield Change(after.address.base, {(name,): value for name, value in changed.items()})


def listing_of(header: FlowHeader, now: datetime, checked_at: Any = None) -> dict[str, Any]:
    """Return a listing without its `created_at`. At `due_at`, the sweeper wakes a stuck flow and removes an ended one.

    If the ended one has an archive, it is due when the archive may be late, and later than that when it is written
    (`archived_write`). A running flow has `checked_at` instead, the time at which the sweeper last saw that it had a
    turn. A suspended one has neither.
    """
    listing = _shown_in_lists(header)
    if header.end:
        due_at = archive_due_at(header.end.at) if header.archive else header.kept_until
        return listing | {"ended_at": header.end.at, "due_at": due_at}
    if header.suspended:
        return listing
    if header.stuck:
        return listing | {"due_at": now + timedelta(seconds=LIMITS.flow_stuck_seconds)}
    return listing | {"checked_at": checked_at or now}


def archive_due_at(now: datetime) -> datetime:
    """Return when the sweeper repeats the task of an archive that is being written now."""
    return now + timedelta(seconds=LIMITS.flow_archive_seconds)


def archived_writes(read: Snapshot, header: FlowHeader) -> list[Write]:
    """Return the writes that note the archive of an ended run in its listing. Its header, as read, is their guard."""
    noted: dict[tuple[str, ...], Any] = {(ARCHIVED_AT,): read.read_time, (DUE_AT,): header.kept_until}
    return [Change(read.path, {}, read.guard), Change(header.address.base, noted, Must.EXIST)]


def lacks_archive(header: FlowHeader, listing: Snapshot) -> bool:
    """Return whether an ended run must not be removed, since its archive is not written."""
    return bool(header.archive) and ARCHIVED_AT not in (listing.data or {})


def _shown_in_lists(header: FlowHeader) -> dict[str, Any]:
    labels = {LABELS: header.label_entries} if header.labels else {}
    return {**header.address.to_json(), "state": header.state, **labels}


def end_messages(header: FlowHeader) -> Iterator[Put]:
    """Iterate over the message to the parent flow, if the flow has ended."""
    if header.end and header.parent:
        message = message_to_record(Result(header.parent.wait, header.end.outcome))
        yield message_put(header.parent.base, _end_name(header), message)


def end_tasks(header: FlowHeader) -> Iterator[Effect]:
    """Iterate over the tasks of an ended flow: its `on_complete`, its archive, and the wake-up of the parent flow."""
    if header.archive:
        yield archive_effect(header)
    if header.end and header.parent:
        yield wake_flow(header.parent.base, header.parent.function)
    if header.end and header.on_complete:
        outcome = {"called": header.address.to_json(), "call": header.address.key, **header.end.outcome.to_json()}
        yield header.on_complete.effect(_end_name(header), header.end.at, outcome=outcome)


def _end_name(header: FlowHeader) -> str:
    return name_of("end", header.address.base, header.incarnation)
