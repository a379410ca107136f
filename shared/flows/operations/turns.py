"""One turn of a flow: read its mailbox, tell its code what came, commit the longer log with what the code asks for.

A flow whose code cannot be told is marked as stuck, and its messages stay where they are: nothing is lost until the
code is mended.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.mailbox import Mailbox
from shared.core.operations.ports import Ports
from shared.core.rules.effects import Effect
from shared.core.rules.mailbox import Waiting
from shared.core.rules.problems import TooLarge
from shared.core.rules.times import rfc3339
from shared.flows.operations.logs import Log, read_log
from shared.flows.operations.records import Commit, TurnCommit, card, header_of, header_write, taken_messages
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import Flows
from shared.flows.rules.failures import Stuck, too_large
from shared.flows.rules.headers import FlowHeader
from shared.flows.rules.messages import Result, from_record
from shared.flows.rules.tasks import release_effect, wake_flow
from shared.flows.rules.turns import FlowTurn


@dataclass(frozen=True, slots=True)
class FlowMailbox:
    """A flow's mailbox as it was read, its header, and the result that a step's task brings itself."""

    address: FlowAddress
    mailbox: Mailbox
    own: Result | None = None

    @property
    def header(self) -> FlowHeader | None:
        """Return the flow, or None."""
        return header_of(self.mailbox.header, self.address)


def advance(ports: Ports, flows: Flows, read: FlowMailbox) -> bool:
    """Commit a turn. Returns False if the flow is stuck: then nothing that came was told.

    Raises `Conflict` when another was faster, `Unavailable` where this process cannot bring the flow forward.
    """
    header = read.header
    if header is None or header.end:
        _drop_all(ports, read, flows.function)
        return True
    flows.check_revision(header.written_by)
    flows.of(header.address.flow)
    log = read_log(ports.store, header)
    try:
        commit = _commit_that_fits(ports, flows, read, header, log)
    except Stuck as stuck:
        mark_stuck(ports, read, header, stuck)
        return False
    if commit:
        outbox.commit(ports, commit.writes, commit.effects)
    return True


def _commit_that_fits(ports: Ports, flows: Flows, read: FlowMailbox, header: FlowHeader, log: Log) -> Commit | None:
    """Return the commit of a turn, of fewer messages if those that wait lead to more than one commit may hold."""
    count = len(read.mailbox.waiting)
    while True:
        try:
            return _turn(ports, flows, read, header, log, count)
        except TooLarge as error:
            if count <= 1:
                raise too_large(f"What the code asks for at once is too much: {error.detail}") from error
            count //= 2


def _turn(ports: Ports, flows: Flows, read: FlowMailbox, header: FlowHeader, log: Log, count: int) -> Commit | None:
    """Return the commit of a turn that takes so many messages, or None if there is nothing to commit."""
    mailbox = read.mailbox
    own = read.own if count == len(mailbox.waiting) else None
    definition = flows.of(header.address.flow)
    with closing(FlowTurn.begin(definition, header, log.entries, mailbox.read_time)) as turn:
        taken = _take(turn, mailbox.waiting[:count], own)
        if not taken and not turn.changes_anything and not turn.given_back:
            return None
        more = mailbox.more or len(taken) < len(mailbox.waiting) or own is not read.own
        return TurnCommit(mailbox.header, turn, log, taken, flows.revision, more).commit(ports.store.new_id)


def _take(turn: FlowTurn, page: Sequence[Waiting], own: Result | None) -> Sequence[Waiting]:
    """Apply messages until the turn is over; return those taken."""
    for number, each in enumerate(page):
        if turn.is_over:
            return page[:number]
        turn.take(from_record(each.data))
    if own and not turn.is_over:
        turn.take(own)
    return page


def _drop_all(ports: Ports, read: FlowMailbox, function: str) -> None:
    """Take out what came for a flow that has ended or is not there. A lease that was granted is given back."""
    base = read.address.base
    leases = leases_of(read.mailbox.waiting)
    effects = [release_effect(base, function, lease) for lease in leases] + _next_run(base, function, read)
    writes = list(taken_messages(read.address, read.mailbox.waiting, read.mailbox.read_time))
    if writes or effects:
        outbox.commit(ports, writes, effects)


def _next_run(base: str, function: str, read: FlowMailbox) -> list[Effect]:
    """Return the wake-up of another run if the page was not all."""
    return [wake_flow(base, function)] if read.mailbox.more else []


def leases_of(messages: Sequence[Waiting]) -> list[dict[str, Any]]:
    """Return the leases that were granted by messages of a mailbox."""
    read = [from_record(each.data) for each in messages]
    return [each.lease for each in read if isinstance(each, Result) and each.lease]


def mark_stuck(ports: Ports, read: FlowMailbox, header: FlowHeader, stuck: Stuck) -> None:
    """Note why a flow cannot go on, unless that is known. Its messages stay; the sweeper wakes it again and again."""
    now, known = read.mailbox.read_time, header.stuck or {}
    if (known.get("type"), known.get("detail"), known.get("place")) == (stuck.kind, stuck.detail, stuck.place):
        return
    why = {"type": stuck.kind, "detail": stuck.detail, "place": stuck.place, "at": rfc3339(now)}
    which = header.address.to_json()
    ports.log.error("flow stuck", **which, problem=stuck.kind, detail=stuck.detail, place=stuck.place)
    after, snapshot = replace(header, stuck=why), read.mailbox.header
    ports.store.commit([header_write(snapshot, after, now), *card(snapshot, header, after)])
