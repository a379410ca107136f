"""A turn in its commit: read a mailbox, apply its messages, and commit what follows.

If replay fails, the flow is marked stuck. Its messages stay in the mailbox, so nothing is lost until the code is fixed.
If the commit of all messages would be too large, a turn takes fewer of them. A process that runs inline steps commits
its next turn without a read, under the header of its last one.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import field
from datetime import datetime
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Change, Committed, Conflict, Delete, Must, Ports, Put, Snapshot, Store, Write
from signalbox.core.problems import Problem, TooLarge
from signalbox.core.times import rfc3339
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.claims import NOBODY, Carrier
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.machine.effects import release_effect, stuck_notice, wake_flow
from signalbox.flows.machine.rewinds import (
    Plan,
    adopted_header,
    earlier_sub_flows,
    is_earlier_sub_flow,
    plan_as_sub_flow,
)
from signalbox.flows.machine.stuck import Stuck, too_large
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import FAILED, End, FlowHeader
from signalbox.flows.model.messages import Cancel, Event, Message, Result, Update, message_from_record
from signalbox.flows.model.waits import Claim
from signalbox.flows.storage.commits import (
    Commit,
    Opening,
    TurnCommit,
    end_messages,
    end_tasks,
    header_of,
    header_write,
    rewind_writes,
    taken_messages,
    unread_messages,
)
from signalbox.flows.storage.listings import listing_writes
from signalbox.flows.storage.log import LoadedLog, read_log
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.machine import next_revision
from signalbox.mailboxes.model.messages import StoredMessage, header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import Mailbox, read_mailbox, revision_of
from signalbox.payloads.service import opens_payloads
from signalbox.payloads.service import store as store_payloads

NOT_CONTINUED = " The retry could not continue: "
"""The text between the error of a failed run and the reason why its retry could not continue."""

SENTENCE_ENDS = (".", "!", "?")


@dataclass(frozen=True, slots=True)
class FlowMailbox:
    """A flow's mailbox as it was read.

    - `own` is the result of the step whose task runs the turn, if a step's task runs it.
    - `repeats` is whether the turn schedules the pending commands again.
    - `carrier` is the delivery that runs inline steps after the commit.
    - `ended` are the results of the carrier's inline steps whose code has ended; they come before the messages.
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
    """A turn whose commit has landed, with its driver.

    The next turn needs no read as long as `snapshot` is still the header. `now` is the server's time at the commit.
    """

    turn: FlowTurn
    snapshot: Snapshot
    last_chunk: str
    now: datetime

    def close(self) -> None:
        """Close the code. If the code never ends, a later turn that is not live notices that."""
        with suppress(Stuck):
            self.turn.close()


@dataclass(frozen=True, slots=True)
class Advanced:
    """A turn that has ended.

    - `claims` are the claims of inline steps, by path. If `cancel_waits`, a cancel waits until their code ends.
    - `leaves_steps` is whether the turn has committed nothing and left inline steps to another carrier, for lack of
      time.
    - `complete` is whether the turn has applied all outcomes in hand. It has not if the flow is stuck, or if the turn
      is so large that its commit has room for earlier messages only.
    - `live` is the turn if its carrier has inline steps to run; it must be closed.
    """

    complete: bool
    claims: Mapping[str, Claim] = field(default_factory=dict)
    live: LiveTurn | None = None
    cancel_waits: bool = False
    leaves_steps: bool = False


@opens_payloads
def advance(ports: Ports, flows: Flows, read: FlowMailbox) -> Advanced:
    """Commit a turn.

    Raises `Conflict` if another turn committed first, and `Unavailable` if this process cannot run the flow's code.
    """
    header = read.header
    if header is None or header.end:
        _drop_all(ports, read, flows.function, header)
        return Advanced(complete=True)
    if suspended := of_suspended(header):
        return suspended
    flows.check_revision(header.written_by)
    flows.of(header.address.name)
    header = flows.kept(header)
    if header.rewound:
        return open_run(ports, flows, read, header)
    if header.collects:
        read, header = with_unread(ports.store, read, header)
    elif read.mailbox.more:
        read = with_larger_page(ports.store, read, header)
    log, snapshot = read_log(ports.store, header), read.mailbox.header
    try:
        turn, commit, complete = _commit_that_fits(ports, flows, read, header, log)
        with _closed_after_error(turn):
            committed = commit_turn(ports, commit) if commit else None
        if turn.refused:
            ports.log.warning("events refused", **header.address.to_json(), count=len(turn.refused))
    except Stuck as stuck:
        mark_stuck(ports, read, header, stuck)
        return Advanced(complete=False)
    except Problem as problem:  # the queue must not see it as the answer to the task
        mark_stuck(ports, read, header, Stuck("flow-failed", f"The turn was refused: {problem.detail}"))
        return Advanced(complete=False)
    live = None
    if _has_steps_to_run(turn):
        unchanged = LiveTurn(turn, snapshot, log.last_chunk, snapshot.read_time)
        live = live_turn(turn, snapshot, commit, committed) if commit and committed else unchanged
    leaves_steps = commit is None and None in turn.wake_times()
    return Advanced(complete, turn.running, live, turn.cancels_left > 0, leaves_steps)


def with_larger_page(store: Store, read: FlowMailbox, header: FlowHeader) -> FlowMailbox:
    """Return the mailbox with more messages if the log is long. Raises `Conflict` if another turn was faster."""
    page_max = larger_page(read.mailbox.waiting, header)
    if not page_max:
        return read
    larger = read_mailbox(store, read.address.base, page_max)
    if larger.header.guard != read.mailbox.header.guard:
        raise Conflict("another turn was faster")
    return replace(read, mailbox=larger)


def larger_page(page: Sequence[StoredMessage], header: FlowHeader) -> int:
    """Return the number of messages of a larger page, since the turn of each page replays the whole log.

    It is 0 for a short log, and for large messages: a page must have room in memory and in a commit.
    """
    size_bytes = sum(len(message.data["body"]) for message in page)
    page_max = min(LIMITS.flow_page_max, len(page) * LIMITS.flow_commit_bytes_max // size_bytes)
    return page_max if header.log.length >= LIMITS.flow_page_log_entries and page_max >= 2 * len(page) else 0


# --- the turns after a retry ---


def with_unread(store: Store, read: FlowMailbox, header: FlowHeader) -> tuple[FlowMailbox, FlowHeader]:
    """Return the mailbox with the events that the end of the run has left unread, which come before the others.

    A cancel comes before all of them. If there are none, return the mailbox as it is, and a header that does not ask
    for them any more.
    """
    base, page = read.address.base, MAILBOXES_LIMITS.mailbox_page
    unread = unread_messages(store, base, page)
    if not unread:
        return read, replace(header, collects=False)
    if len(unread) == page and (page_max := larger_page(unread, header)):
        unread = unread_messages(store, base, page_max)
    cancels = (stored for stored in read.mailbox.waiting if stored.data["kind"] == Cancel.kind)
    return replace(read, mailbox=replace(read.mailbox, waiting=(*unread, *cancels), more=True)), header


def open_run(ports: Ports, flows: Flows, read: FlowMailbox, header: FlowHeader) -> Advanced:
    """Commit the opening turn of a rewound run. It takes nothing from the mailbox, and leaves a wake-up for that.

    If the code does not fit the kept entries, or holds a lock there, a run that had failed ends again, and its parent
    receives the failure again; a run that was stuck is stuck.
    """
    log, now = read_log(ports.store, header), read.mailbox.read_time
    assert header.rewound is not None, "the run was rewound"
    dropped = log.whole[header.rewound.keep :]
    try:
        with closing(FlowTurn.open(flows.of(header.address.name), header, log.entries, dropped, now)) as turn:
            for result in (*read.ended, *([read.own] if read.own else [])):
                turn.drop(result)
            opening = adopt_sub_flows(ports.store, turn, log.whole)
            refuse_sub_flows(ports.store, turn)
            turn.claim_steps()
            decided = TurnCommit(read.mailbox.header, turn, log, (), flows.revision, more=True, opens=opening)
            commit = decided.commit(ports.store.new_id)
    except (Stuck, Problem) as error:
        stuck = error if isinstance(error, Stuck) else Stuck("flow-changed", error.detail)
        if header.rewound.end is None:
            mark_stuck(ports, read, header, stuck)
        else:
            _end_again(ports, read, header, header.rewound.end, stuck)
        return Advanced(complete=True)
    commit_turn(ports, commit)
    return Advanced(complete=True)


def _end_again(ports: Ports, read: FlowMailbox, header: FlowHeader, before: End, stuck: Stuck) -> None:
    """End a rewound run with the failure that it had before, and the reason why it could not continue."""
    error, letters_max = dict(before.outcome.error or {}), CORE_LIMITS.error_letters_max
    reason = f"{NOT_CONTINUED}{stuck.detail}"[: letters_max // 2]
    earlier, _, _ = str(error.get("detail")).partition(NOT_CONTINUED)  # without the reason of an earlier retry
    earlier = earlier[: letters_max - len(reason) - 1]
    end = "" if earlier.endswith(SENTENCE_ENDS) else "."
    error["detail"] = f"{earlier}{end}{reason}"
    base, function, now = header.address.base, header.function, read.mailbox.read_time
    after = replace(header.ended(End(FAILED, CallOutcome(error=error), now)), trace=header.trace)
    ports.log.error("run could not be retried", **header.address.to_json(), detail=stuck.detail, place=stuck.location)
    own = [read.own.lease] if read.own and read.own.lease else []
    releases = [release_effect(base, function, lease) for lease in own]
    effects = [*releases, *end_tasks(after), wake_flow(base, function)]
    commit_turn(ports, Commit([*rewind_writes(read.mailbox.header, header, after), *end_messages(after)], effects))


@dataclass(frozen=True, slots=True)
class AdoptedSubFlow:
    """A failed sub-flow that an opening turn continues: as it was read, its log and plan, and its next header."""

    read: Snapshot
    child: FlowHeader
    log: LoadedLog
    plan: Plan
    after: FlowHeader


def adopt_sub_flows(store: Store, turn: FlowTurn, log: Sequence[Message]) -> Opening:
    """Continue the failed sub-flows of the run's earlier executions, instead of new ones, by their default plans.

    The opening turn's commit also rewinds them, and makes the new execution their parent's.
    """
    writes: list[Write] = []
    effects: list[Effect] = []
    for each in adopted_sub_flows(store, turn, log):
        writes += rewind_writes(each.read, each.child, each.after)
        effects.append(wake_flow(each.child.address.base, each.child.function))
    return Opening(writes, effects)


def adopted_sub_flows(store: Store, turn: FlowTurn, log: Sequence[Message]) -> Iterator[AdoptedSubFlow]:
    """Iterate over the sub-flows that an opening turn adopts. The turn then waits for them."""
    assert turn.now is not None, "the header was read"
    candidates = earlier_sub_flows(turn, log)
    if not candidates:
        return
    reads = store.read(*(header_path(address.base) for address in candidates.values()))
    for (path, address), read in zip(candidates.items(), reads, strict=True):
        child, command = header_of(read, address), turn.driver.pending[path].command
        assert isinstance(command, SubFlow), "only the addresses of sub-flows are read"
        if child is None or not is_earlier_sub_flow(turn.header, child, path, command):
            continue
        loaded = read_log(store, child)
        plan = plan_as_sub_flow(child, loaded.whole, turn.now)
        if plan is None:
            continue
        after = adopted_header(child, plan, turn.adopt(path, address.key), turn.header.execution_id, turn.now)
        yield AdoptedSubFlow(read, child, loaded, plan, after)


def of_suspended(header: FlowHeader) -> Advanced | None:
    """Return the turn of a suspended flow, which leaves everything in the mailbox.

    Return None if the flow is not suspended.
    """
    return Advanced(complete=False) if header.suspended else None


def _has_steps_to_run(turn: FlowTurn) -> bool:
    """Return whether a turn's carrier has inline steps to run after its commit, or is running some."""
    return bool(turn.claimed or turn.carrier.busy) and turn.driver.ended is None


@opens_payloads
def advance_without_read(
    ports: Ports, flows: Flows, live: LiveTurn, now: datetime, carrier: Carrier, ended: Sequence[Result]
) -> LiveTurn | None:
    """Commit the next turn of a process under the header of its last one.

    Return None if the code does not run any more. `ended` are the results of inline steps. `now` is the time of the
    last header plus the time since then. Raises `Conflict` if another process was faster, and `Stuck`. After any error,
    read and replay.
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
        return live_turn(turn, live.snapshot, decided, commit_turn(ports, decided))


def live_turn(turn: FlowTurn, snapshot: Snapshot, commit: Commit, committed: Committed) -> LiveTurn | None:
    """Return a turn whose commit has landed. If its code does not run any more, close it and return None."""
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


def commit_turn(ports: Ports, commit: Commit) -> Committed:
    """Store the payloads of a turn, and commit it, with its tasks in the outbox.

    Raises `Conflict` if another turn was faster.
    """
    store_payloads(ports, commit.outgoing)
    committed = outbox.commit(ports, commit.writes, commit.effects)
    write_log(ports, commit)
    return committed


def write_log(ports: Ports, commit: Commit) -> None:
    """Write the lines that the code has logged, and export the spans. Only turns that have committed are logged."""
    for span in commit.spans:
        ports.log.span(span)
    for line in commit.lines:
        logging.getLogger(line.name).handle(line)


def _commit_that_fits(
    ports: Ports, flows: Flows, read: FlowMailbox, header: FlowHeader, log: LoadedLog
) -> tuple[FlowTurn, Commit | None, bool]:
    """Return the commit of a turn that takes all messages, or as many as fit into one commit.

    The outcome in hand is the last message. Also return the turn, and whether the turn takes all messages.
    """
    total = len(read.mailbox.waiting) + (read.own is not None)
    count = min(total, LIMITS.flow_page_max)
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
        taken, unread, is_cancel_due = take_page(turn, mailbox.waiting[:count], own)
        if not mailbox.more and count >= len(mailbox.waiting):
            turn.see_all()
        refuse_sub_flows(ports.store, turn)
        turn.claim_steps()
        changes = taken or turn.changes_anything or turn.dropped_leases
        more = mailbox.more or is_cancel_due or len(taken) + turn.cancels_left < len(mailbox.waiting)
        decided = TurnCommit(mailbox.header, turn, log, taken, flows.revision, more, unread=unread)
        commit = decided.commit(ports.store.new_id) if changes else None
    if not _has_steps_to_run(turn):
        turn.close()
    return turn, commit


def refuse_sub_flows(store: Store, turn: FlowTurn) -> None:
    """Complete the commands of new sub-flows whose chosen ids are in use, with an error.

    The code may then choose other ids, which are also looked up. Raises `Stuck`.
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


def take_page(
    turn: FlowTurn, page: Sequence[StoredMessage], own: Result | None
) -> tuple[Sequence[StoredMessage], Collection[str], bool]:
    """Apply messages until the turn is over. Cancels are applied before the events of the page.

    Return the applied messages, and the ids of those that the code has not read, since it has ended. A cancel that must
    wait for the code of an inline step is not applied; also return whether such a cancel is due at once.
    """
    taken: list[StoredMessage] = []
    left: list[StoredMessage] = []
    unread: list[str] = []
    for stored in cancels_before_events(page):
        if turn.is_over:
            return taken, unread, False
        message = message_from_record(stored.data)
        if turn.must_wait(message):
            left.append(stored)
            continue
        if turn.driver.ended is not None:
            unread.append(stored.id)
        turn.take(message, stored.id)
        taken.append(stored)
    if own and not turn.is_over:
        turn.take(own)
    return taken, unread, is_cancel_due(turn, left)


def is_cancel_due(turn: FlowTurn, cancels: Sequence[StoredMessage]) -> bool:
    """Return whether a cancel that was left need not wait any more, because a later message has ended the step."""
    left = turn.cancels_left
    due = turn.is_over or not all(turn.must_wait(message_from_record(stored.data)) for stored in cancels)
    turn.cancels_left = left
    return bool(cancels) and due


def cancels_before_events(page: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    """Return a page in an order in which no cancel follows an event or an update.

    The results before a cancel stay before it.
    """
    last = max((number for number, message in enumerate(page) if message.data["kind"] == Cancel.kind), default=-1)
    begin, rest = page[: last + 1], page[last + 1 :]
    return [*sorted(begin, key=lambda message: message.data["kind"] in (Event.kind, Update.kind)), *rest]


def _drop_all(ports: Ports, read: FlowMailbox, function: str, header: FlowHeader | None) -> None:
    """Remove the messages of a flow that has ended or does not exist, and release the leases in them.

    The header guards the commit: a retry may continue the run meanwhile, and another run may start under the id.
    """
    base, waiting = read.address.base, read.mailbox.waiting
    effects = [release_effect(base, function, lease) for lease in leases_of(waiting)] + next_wake(base, function, read)
    is_removed = header is None or header.removing
    writes = (left_by_removal(read) if is_removed else left_by_end(read)) if waiting else []
    if writes or effects:
        commit_turn(ports, Commit(writes, effects))


def left_by_end(read: FlowMailbox) -> list[Write]:
    """Return the writes that take messages out of the mailbox of an ended run, which keeps receipts of them.

    Events and updates of a run that has failed are marked, so that a retry finds them. The header is written: a removal
    that has read the mailbox before these writes does not find the receipts, so its commit must fail.
    """
    mailbox, header = read.mailbox, read.header
    has_failed = header is not None and header.state == FAILED
    unread = [message.id for message in mailbox.waiting] if has_failed else []
    receipts = taken_messages(read.address, mailbox.waiting, mailbox.read_time, unread)
    return [turned(mailbox), *receipts]


def turned(mailbox: Mailbox) -> Change:
    """Return the write of an ended run's header, which changes only its revision."""
    revision = next_revision(revision_of(mailbox.header), mailbox.read_time)
    return Change(mailbox.header.path, {("revision",): revision}, mailbox.header.guard)


def left_by_removal(read: FlowMailbox) -> list[Write]:
    """Return the writes that delete messages without a run. A receipt would have no run either, and its id be in use.

    The commit fails if a run has started since, or if the header of the run that is being removed has changed.
    """
    header = read.mailbox.header
    absent = Delete(header.path, Must.NOT_EXIST) if header.data is None else Change(header.path, {}, header.guard)
    deletes = (Delete(message_path(read.address.base, each.id), each.version) for each in read.mailbox.waiting)
    return [absent, *deletes]


def next_wake(base: str, function: str, read: FlowMailbox) -> list[Effect]:
    """Return the wake-up for the messages after the page, if there are any."""
    return [wake_flow(base, function)] if read.mailbox.more else []


def leases_of(messages: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    """Return the leases that messages of a mailbox grant."""
    read = [message_from_record(message.data) for message in messages]
    return [message.lease for message in read if isinstance(message, Result) and message.lease]


def grants_in(read: FlowMailbox) -> Iterator[dict[str, Any]]:
    """Iterate over the leases that messages of a mailbox grant, as the run's header has them."""
    for result in (read.own, *(message_from_record(message.data) for message in read.mailbox.waiting)):
        if isinstance(result, Result) and result.lease:
            yield {name: result.outcome.result[name] for name in ("semaphore", "id", "ends_at")}


def mark_stuck(ports: Ports, read: FlowMailbox, header: FlowHeader, stuck: Stuck) -> None:
    """Store why a flow is stuck, and notify its function, unless the header has the same reason.

    The header also gets the leases in messages that the flow could not apply, since it holds them. The sweeper wakes
    the flow from time to time.
    """
    now, before = read.mailbox.read_time, header.stuck or {}
    granted = tuple(grants_in(read))
    is_known = [before.get(key) for key in ("type", "detail", "place")] == [stuck.kind, stuck.detail, stuck.location]
    if is_known and granted == header.granted:
        return
    since = before.get("at", rfc3339(now))  # the run has been stuck since the first reason
    reason = {"type": stuck.kind, "detail": stuck.detail, "place": stuck.location, "at": since}
    reason |= {"trace": stuck.trace} if stuck.trace else {}
    address = header.address.to_json()
    if not is_known:
        ports.log.error("flow stuck", **address, problem=stuck.kind, detail=stuck.detail, place=stuck.location)
    after, snapshot = replace(header, stuck=reason, granted=granted), read.mailbox.header
    write = header_write(snapshot, after, now)
    writes = [write, *listing_writes(snapshot, header, after)]
    revision = next_revision(revision_of(snapshot), now)
    outbox.commit(ports, writes, () if is_known else stuck_notice(after, stuck, revision))
