"""Planted faults of turns: their writes, the execution of results, drivers (flow-1, flow-2, flow-5, flow-8, flow-9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Effect, name_of
from signalbox.core.ports import Committed, Delete, OutOfTime, Ports, Put, Query, Snapshot, Store, Write
from signalbox.core.problems import Unavailable
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback
from signalbox.flows.machine.claims import NOBODY, Carrier
from signalbox.flows.machine.effects import step_effect
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Event, Message, Result
from signalbox.flows.model.waits import Wait
from signalbox.flows.service.turns import Advanced, FlowMailbox, advance, mark_stuck
from signalbox.flows.storage import commits
from signalbox.flows.storage.commits import header_of
from signalbox.mailboxes.model.messages import StoredMessage, collection_of, header_path, message_path
from signalbox.mailboxes.storage import header_put, read_mailbox
from tests.simulation.faults.flows.planting import in_flows, in_nested_flows
from tests.simulation.faults.points import original

remove = original("flows.remove")
take_result = original("flows.FlowTurn.take_result")
take = original("flows.FlowTurn.take")
post_callback = original("flows.post_callback")
listing_writes = original("flows.listing_writes")
run_turn = original("flows.run_turn")
sweep_flow = original("flows.sweep_flow")


def _unguarded(header: Snapshot, fields: Any, revision: int) -> Put:
    return replace(header_put(header, fields, revision), guard=None)


def _removes_afterwards(ports: Ports, commit: commits.Commit) -> Committed:
    """Remove the applied messages in a second commit."""
    taken = [write for write in commit.writes if not isinstance(write, Put)]
    committed = outbox.commit(ports, [write for write in commit.writes if isinstance(write, Put)], commit.effects)
    if taken:
        ports.store.commit(taken)
    return committed


def _of_any_header(store: Store, read: FlowMailbox, _: FlowHeader) -> FlowMailbox:
    """Read a larger page, also one of a header that another turn has written."""
    return replace(read, mailbox=read_mailbox(store, read.address.base, LIMITS.flow_page_max))


def _wakes_no_other_run(_: Any) -> Iterator[Effect]:
    return iter(())


def _enqueues_without_outbox(ports: Ports, commit: commits.Commit) -> Committed:
    """Enqueue the tasks after the commit, without a record of them."""
    committed = ports.store.commit(commit.writes)
    ports.queue.create(complete_wake_ups(commit.effects, committed.commit_time))
    return committed


def _of_any_execution(turn: FlowTurn, message: Result, now: datetime) -> None:
    wait = replace(message.wait, execution_id=turn.header.execution_id)
    take_result(turn, replace(message, wait=wait), now)


def _id_without_execution(self: Result, address: FlowAddress) -> str:
    return name_of("done", address.base, self.wait.path, self.wait.attempt, self.lease and self.lease["id"])


def _name_without_execution(header: FlowHeader, step: Any, wait: Wait, together: int, now: Any) -> Effect:
    effect = step_effect(header, step, wait, together, now)
    return replace(effect, name=name_of("step", header.address.base, wait.path, wait.attempt))


def _no_receipt(address: FlowAddress, taken: Sequence[StoredMessage], *_: Any) -> Iterator[Write]:
    return (Delete(message_path(address.base, message.id), message.version) for message in taken)


def _any_failure(turn: FlowTurn, message: Result, now: datetime) -> None:
    wait = turn.pending.get(message.wait.path, message.wait)
    take_result(turn, replace(message, wait=replace(message.wait, attempt=wait.attempt)), now)


_cached: dict[tuple[str, str, int], FlowTurn] = {}


class CachedTurn(FlowTurn):
    """A turn whose driver is cached for the next turn, under the length of the log."""

    @classmethod
    def begin(
        cls,
        definition: FlowDefinition,
        header: FlowHeader,
        log: Sequence[Message],
        now: datetime | None,
        carrier: Carrier = NOBODY,
    ) -> Any:
        """Continue with the driver that has applied as many entries."""
        cached = _cached.pop((header.address.base, header.execution_id, len(log)), None) if header.begun else None
        if cached is None or cached.driver.ended is not None:
            return super().begin(definition, header, log, now, carrier)
        turn = cls(header, cached.driver, now, dict(cached.driver.pending), dict(header.pending))
        turn.leases = dict(cached.driver.held)
        turn.driver.sent.clear()
        turn.driver.granted.clear()
        turn._update_pending()
        return turn

    def close(self) -> None:
        """Cache the driver, whether or not the commit succeeds."""
        _cached[self.header.address.base, self.header.execution_id, self.header.log.length + len(self.applied)] = self


def _permanent(*arguments: Any) -> None:
    """Acknowledge a wake-up whose run raises `Unavailable`."""
    try:
        run_turn(*arguments)
    except Unavailable:
        return


def _counts_deliveries(self: Any, read: FlowMailbox) -> Advanced:
    """Count the deliveries of a wake-up, whether or not they start the code."""
    header = read.header
    if header and not header.end and self.delivery.deliveries >= LIMITS.flow_starts_max:
        self.flows.check_revision(header.written_by)
        mark_stuck(self.ports, read, header, Stuck("flow-failed", "delivered too often"))
        return Advanced(complete=False)
    return advance(self.ports, self.flows, read)


def _nothing(_: FlowTurn) -> list[Any]:
    """A turn schedules only what was not pending before."""
    return []


def _drops_one_page(*_: Any) -> list[Effect]:
    """Drop one page of messages, without a wake-up for the next one."""
    return []


def _removes_without_guard(ports: Ports, address: FlowAddress, read: Snapshot, *_: OutOfTime) -> bool:
    """Delete whatever is below the id, and look at the header at last."""
    _delete_below(ports, address, read)
    ports.store.commit([Delete(read.path, read.guard), Delete(address.base)])
    return True


def _delete_below(ports: Ports, address: FlowAddress, read: Snapshot) -> None:
    while messages := sweep._messages(ports, collection_of(address.base)):
        sweep.delete_messages(ports, address, read, messages, Put("elsewhere/one", {}))
    while chunks := ports.store.query(Query(f"{address.base}/log")):
        ports.store.commit([Delete(chunk.path) for chunk in chunks])


def _removes_any_run(ports: Ports, address: FlowAddress, read: Snapshot, *out_of_time: OutOfTime) -> bool:
    """Remove what is under the id when the removal begins, which may be a new run."""
    [now] = ports.store.read(read.path)
    return now.data is None or bool(remove(ports, address, now, *out_of_time))


def _kept_for_a_week(header: FlowHeader) -> datetime:
    assert header.end is not None
    return header.end.at + timedelta(days=7)


def _removed_as_listed(ports: Ports, listing: Snapshot, address: FlowAddress, out_of_time: OutOfTime) -> bool:
    """Remove a flow whose listing was due, though it may have ended since."""
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header and header.end:
        return bool(remove(ports, address, read, out_of_time))
    return bool(sweep_flow(ports, listing, address, out_of_time))


def _removes_the_header_first(ports: Ports, address: FlowAddress, read: Snapshot, *out_of_time: OutOfTime) -> bool:
    """Remove the header, and then what is below the id, as far as the time allows."""
    ports.store.commit([Delete(read.path, read.guard), Delete(address.base)])
    if not any(is_over() for is_over in out_of_time):
        _delete_below(ports, address, read)
    return True


def _of_any_run(turn: FlowTurn, message: Message, id_: str = "") -> None:
    take(turn, replace(message, incarnation="") if isinstance(message, Event) else message, id_)


def _new_at_each_use(ports: Ports, callback: Callback, value: Any) -> None:
    post_callback(ports, replace(callback, operation=ports.store.new_id()), value)


def _with_the_state_only(snapshot: Snapshot, before: FlowHeader, after: FlowHeader) -> Iterator[Put]:
    return listing_writes(snapshot, replace(before, labels=after.labels), after)


FAULTS = (
    in_flows("flow-29", "a label in the listing", ("flows.listing_writes", _with_the_state_only)),
    in_flows("flow-28", "the run in the address of a callback", ("flows.Callback.check", lambda *_: None)),
    in_flows("flow-28", "the run in the event of a callback", ("flows.FlowTurn.take", _of_any_run)),
    in_flows("flow-28", "one event for all uses of a callback", ("flows.post_callback", _new_at_each_use)),
    in_flows("flow-1", "the header's guard", ("flows.header_put", _unguarded)),
    in_flows("flow-1", "removing applied messages in the same commit", ("flows.commit_turn", _removes_afterwards)),
    in_flows("flow-1", "the header of a larger page", ("flows.with_larger_page", _of_any_header)),
    in_flows("flow-1", "the wake-up for the next page", ("flows.TurnCommit.next_wake", _wakes_no_other_run)),
    in_flows("flow-1", "the tasks of a start in its outbox", ("flows.commit_start", _enqueues_without_outbox)),
    in_flows("flow-1", "the tasks of a turn in its outbox", ("flows.commit_turn", _enqueues_without_outbox)),
    in_flows("flow-1", "no permanent error of a run", ("flows.run_turn", _permanent)),
    in_flows(
        "flow-10", "counting starts of a turn, not its deliveries", ("flows.FlowDelivery.advance", _counts_deliveries)
    ),
    in_flows("flow-23", "removing the header last", ("flows.remove", _removes_the_header_first)),
    in_flows("flow-23", "removing a flow that has just ended", ("flows.sweep_flow", _removed_as_listed)),
    in_flows("flow-24", "waking flows that are silent", ("flows.sweep_silent", lambda _, __: 0)),
    in_flows("flow-24", "repeating what a silent flow waits for", ("flows.FlowTurn.repeated", property(_nothing))),
    in_flows(
        "flow-26",
        "keeping an ended flow while its start may come again",
        ("flows.FlowHeader.kept_until", property(_kept_for_a_week)),
    ),
    in_flows("flow-2", "the execution id in the id of a result", ("flows.Result.id_for", _id_without_execution)),
    in_flows("flow-2", "the execution id in the name of a step's task", ("flows.step_effect", _name_without_execution)),
    in_flows("flow-5", "an event's receipt", ("flows.taken_messages", _no_receipt)),
    in_flows("flow-8", "a driver for each turn", ("flows.FlowTurn", CachedTurn)),
    in_flows("flow-9", "the attempt of a failure", ("flows.FlowTurn.take_result", _any_failure)),
)

NESTED = (
    in_nested_flows(
        "flow-1", "the wake-up for the next page of dropped messages", ("flows.next_wake", _drops_one_page)
    ),
    in_nested_flows(
        "flow-20", "the header's guard on each page of a removal", ("flows.remove", _removes_without_guard)
    ),
    in_nested_flows("flow-20", "the incarnation that a removal is of", ("flows.remove", _removes_any_run)),
    in_nested_flows("flow-2", "the execution id of a result", ("flows.FlowTurn.take_result", _of_any_execution)),
)
"""Faults that nested flows notice sooner, since people remove and end flows there."""
