"""Planted faults of turns: what they write, whom results are for, which driver they use (flow-1, 2, 5, 8, 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.mailbox import header_put
from shared.core.operations.ports import Delete, Ports, Put, Snapshot, Write
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.mailbox import Waiting, message_path
from shared.core.rules.problems import Unavailable
from shared.core.rules.wake_ups import completed
from shared.flows.operations import asking, records, runs, starts, turns
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import FlowDefinition
from shared.flows.rules.entries import Entry
from shared.flows.rules.headers import FlowHeader
from shared.flows.rules.messages import Place, Result
from shared.flows.rules.tasks import step_effect
from shared.flows.rules.turns import FlowTurn
from tests.simulation.faults_flows_planting import in_flows

take, run = FlowTurn._take_result, runs.run


def _unguarded(header: Snapshot, fields: Any, revision: int) -> Put:
    return replace(header_put(header, fields, revision), guard=None)


class TwoCommits:
    """An outbox whose commits clear the mailbox in a commit of their own, afterwards."""

    @staticmethod
    def commit(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> None:
        """Commit what is told first, and what it was taken from then."""
        taken = [each for each in writes if not isinstance(each, Put)]
        outbox.commit(ports, [each for each in writes if isinstance(each, Put)], effects)
        if taken:
            ports.store.commit(taken)


def _asks_for_no_more(_: Any) -> Iterator[Effect]:
    return iter(())


def _starts_without_outbox(ports: Ports, writes: Sequence[Write], effects: Sequence[Effect] = ()) -> Any:
    committed = ports.store.commit(writes)
    ports.queue.create(completed(effects, committed.commit_time))
    return committed


class NoOutbox:
    """An outbox that hands over without having written what."""

    commit = staticmethod(_starts_without_outbox)


def _for_any_life(turn: FlowTurn, message: Result, now: datetime) -> None:
    place = replace(message.place, life=turn.header.life)
    take(turn, replace(message, place=place), now)


def _id_without_life(self: Result, address: FlowAddress) -> str:
    return name_of("done", address.base, self.place.path, self.place.attempt, self.lease and self.lease["id"])


def _step_without_life(header: FlowHeader, step: Any, place: Place, together: int, now: Any) -> Effect:
    effect = step_effect(header, step, place, together, now)
    return replace(effect, name=name_of("step", header.address.base, place.path, place.attempt))


def _no_receipt(address: FlowAddress, taken: Sequence[Waiting], _: datetime) -> Iterator[Write]:
    return (Delete(message_path(address.base, each.id), each.version) for each in taken)


def _any_failure(turn: FlowTurn, message: Result, now: datetime) -> None:
    pending = turn.pending.get(message.place.path)
    attempt = pending.attempt if pending else message.place.attempt
    take(turn, replace(message, place=replace(message.place, attempt=attempt)), now)


_kept: dict[tuple[str, str, int], FlowTurn] = {}


class CachedTurn(FlowTurn):
    """A turn whose driver is kept for the next one, known by the length of the log."""

    @classmethod
    def begin(cls, definition: FlowDefinition, header: FlowHeader, log: Sequence[Entry], now: datetime | None) -> Any:
        """Go on with the driver that has been told as many entries."""
        known = _kept.pop((header.address.base, header.life, len(log)), None) if header.begun else None
        if known is None or known.driver.ended is not None:
            return super().begin(definition, header, log, now)
        turn = cls(header, known.driver, now, dict(known.driver.pending), dict(header.pending))
        turn.leases = dict(known.driver.held)
        turn.driver.sent.clear()
        turn.driver.granted.clear()
        turn._follow()
        return turn

    def close(self) -> None:
        """Keep the driver, whether the commit will land or not."""
        _kept[self.header.address.base, self.header.life, self.header.log.told + len(self.told)] = self


def _permanent(*arguments: Any) -> None:
    """Whatever a run meets is a definite no."""
    try:
        run(*arguments)
    except Unavailable:
        return


def _drops_one_page(*_: Any) -> list[Effect]:
    """What came for a flow that has ended is dropped a page at a time, and nobody asks for the next."""
    return []


FAULTS = (
    in_flows("flow-1", "the header's guard", (records, "header_put", _unguarded)),
    in_flows("flow-1", "what was told leaves the mailbox in the same commit", (turns, "outbox", TwoCommits)),
    in_flows("flow-1", "asking for another run", (records.TurnCommit, "_own_wake", _asks_for_no_more)),
    in_flows("flow-1", "another run where messages are dropped", (turns, "_next_run", _drops_one_page)),
    in_flows("flow-1", "the tasks of a start in its outbox", (starts, "outbox", NoOutbox)),
    in_flows("flow-1", "the tasks of a turn in its outbox", (turns, "outbox", NoOutbox)),
    in_flows("flow-1", "no definite no", (runs, "run", _permanent)),
    in_flows("flow-2", "the life of a result", (FlowTurn, "_take_result", _for_any_life)),
    in_flows("flow-2", "the life in the id of a result", (Result, "id_for", _id_without_life)),
    in_flows("flow-2", "the life in the name of a step's task", (asking, "step_effect", _step_without_life)),
    in_flows("flow-5", "an event's receipt", (records, "taken_messages", _no_receipt)),
    in_flows("flow-8", "a driver for each turn", (turns, "FlowTurn", CachedTurn)),
    in_flows("flow-9", "the attempt of a failure", (FlowTurn, "_take_result", _any_failure)),
)
