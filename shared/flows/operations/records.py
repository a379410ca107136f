"""What a flow's turn commits: the header under its guard, the messages it took, what it asks for, its card."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.core.operations.mailbox import header_put, message_put, revision_of
from shared.core.operations.outbox import to_record as outbox_record
from shared.core.operations.ports import REMOVE, SERVER_TIME, Change, Delete, Put, Snapshot, Write
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import Waiting, message_path, next_revision
from shared.core.rules.problems import TooLarge
from shared.flows.operations.asking import Asked
from shared.flows.operations.logs import Log, extended, left_behind
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.headers import FlowHeader
from shared.flows.rules.messages import Result, to_record
from shared.flows.rules.next_headers import check_log, new_entries, next_header
from shared.flows.rules.tasks import release_effect, wake_flow
from shared.flows.rules.turns import FlowTurn


@dataclass(frozen=True, slots=True)
class Commit:
    """The writes and the tasks of one commit."""

    writes: Sequence[Write]
    effects: Sequence[Effect]

    def checked(self) -> "Commit":
        """Return this commit. Raises `TooLarge` if it is more than one commit may be."""
        outbox_record(self.effects)
        size_bytes = sum(len(repr(each.data)) for each in self.writes if isinstance(each, Put))
        if size_bytes > LIMITS.flow_commit_bytes_max or len(self.writes) > LIMITS.turn_writes_max:
            raise TooLarge(f"One turn of a flow writes at most {LIMITS.flow_commit_bytes_max:,} bytes.")
        return self


def header_of(snapshot: Snapshot, address: FlowAddress) -> FlowHeader | None:
    """Return the header of a flow, or None: there is no flow of this id."""
    return None if snapshot.data is None else FlowHeader.from_record(address, snapshot.data)


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """A turn as it is committed: the header's record as it was read, the log, the messages it took.

    `revision` is that of the code; `more`: something is left for another run.
    """

    snapshot: Snapshot
    turn: FlowTurn
    log: Log
    taken: Sequence[Waiting]
    revision: int
    more: bool

    def commit(self, new_id: Callable[[], str]) -> Commit:
        """Return the writes and tasks. Raises `Stuck`, or `TooLarge` if these are too many for one commit."""
        turn, before = self.turn, self.turn.header
        after, chunks = extended(next_header(turn, self.revision), self.log, new_entries(turn))
        check_log(after.log.told, after.log.held_bytes)
        asked = Asked(turn, new_id).collect()
        gone = {message_path(before.address.base, each.id) for each in self.taken}
        writes = [
            header_write(self.snapshot, after, self.snapshot.read_time),
            *taken_messages(before.address, self.taken, self.snapshot.read_time),
            *(each for each in asked.writes if each.path not in gone),
            *chunks,
            *(left_behind(before) if turn.again else ()),
            *card(self.snapshot, before, after),
            *end_messages(after),
        ]
        return Commit(writes, [*asked.effects, *self._releases(), *end_tasks(after), *self._own_wake()]).checked()

    def _releases(self) -> Iterator[Effect]:
        header = self.turn.header
        return (release_effect(header.address.base, header.function, lease) for lease in self.turn.released)

    def _own_wake(self) -> Iterator[Effect]:
        header = self.turn.header
        if self.more or self.turn.again:
            yield wake_flow(header.address.base, header.function)


def header_write(snapshot: Snapshot, header: FlowHeader, now: datetime) -> Put:
    """Return the write of a header over the one that was read, under its guard."""
    return header_put(snapshot, header.to_record(), next_revision(revision_of(snapshot), now))


def taken_messages(address: FlowAddress, taken: Sequence[Waiting], now: datetime) -> Iterator[Write]:
    """Iterate over the writes that take messages out of the mailbox: an event becomes a receipt."""
    for each in taken:
        path = message_path(address.base, each.id)
        if each.data["kind"] != "event":
            yield Delete(path, each.version)
        else:
            expires_at = now + timedelta(seconds=LIMITS.call_receipt_seconds)
            yield Change(path, {("since",): REMOVE, ("expires_at",): expires_at}, each.version)


def card(snapshot: Snapshot, before: FlowHeader, after: FlowHeader) -> Iterator[Put]:
    """Iterate over the write of the card, if the flow's state has changed: for lists, and for the sweeper."""
    if before.state != after.state or snapshot.data is None:
        yield Put(after.address.base, card_of(after, snapshot.create_time or SERVER_TIME, snapshot.read_time))


def card_of(header: FlowHeader, created_at: Any, now: datetime) -> dict[str, Any]:
    """Return a card. `due_at` is when the sweeper looks: a stuck flow is woken, one that has ended is removed."""
    known = {**header.address.to_json(), "state": header.state, "created_at": created_at}
    if header.end:
        due_at = header.end.at + timedelta(seconds=LIMITS.flow_kept_seconds)
        return known | {"ended_at": header.end.at, "due_at": due_at}
    return known | ({"due_at": now + timedelta(seconds=LIMITS.flow_stuck_seconds)} if header.stuck else {})


def end_messages(header: FlowHeader) -> Iterator[Put]:
    """Iterate over the message that tells the flow around this one how it ended."""
    if header.end and header.parent:
        message = to_record(Result(header.parent.place, header.end.outcome))
        yield message_put(header.parent.base, _end_name(header), message)


def end_tasks(header: FlowHeader) -> Iterator[Effect]:
    """Iterate over the tasks of an end: `on_complete`, and the wake-up of the flow around this one."""
    if header.end and header.parent:
        yield wake_flow(header.parent.base, header.parent.function)
    if header.end and header.on_complete:
        outcome = {"called": header.address.to_json(), "call": header.address.id, **header.end.outcome.to_json()}
        yield header.on_complete.effect(_end_name(header), header.end.at, outcome=outcome)


def _end_name(header: FlowHeader) -> str:
    return name_of("end", header.address.base, header.incarnation)
