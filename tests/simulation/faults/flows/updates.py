"""Planted faults of updates, and of messages that start their run, in the world of runs that answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.ports import REMOVE, Change, Ports, Snapshot, Write
from signalbox.flows import sweep
from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Event, Incoming
from signalbox.flows.problems import NoFlow
from signalbox.flows.service import messages, starts
from signalbox.flows.service.turns import FlowMailbox
from signalbox.flows.storage.commits import REPLY, header_write
from signalbox.mailboxes.model.messages import StoredMessage, header_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import Mailbox
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.flows import updates

opening = original("flows.FlowTurn.open")
taken_messages = original("flows.taken_messages")
passed_on = original("flows.Driver.passed_on")
wake_flow = original("flows.wake_flow in starts")
left_by_removal = original("flows.left_by_removal")


def in_updates(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault that the world of updates must notice."""
    return Fault(clause, without, always(*replacements), updates.run)


def _of_this_turn(turn: FlowTurn) -> dict[str, str]:
    return {id_: name for id_, name in turn.updates.items() if id_ not in turn.replies()}


def _all_replies(turn: FlowTurn) -> dict[str, CallOutcome]:
    return dict(turn.driver.replies)


def _no_reply(address: FlowAddress, taken: Sequence[StoredMessage], *more: Any) -> Iterator[Write]:
    for write in taken_messages(address, taken, *more):
        if isinstance(write, Change) and (REPLY,) in write.fields:
            yield Change(write.path, {("since",): REMOVE}, write.guard)
        else:
            yield write


def _kept_only(driver: Driver, _: Collection[str]) -> Sequence[Incoming]:
    found: Sequence[Incoming] = passed_on(driver, ())
    return found


def _events_only(definition: Any, header: FlowHeader, kept: Any, dropped: Any, now: Any) -> Any:
    return opening(definition, header, kept, [each for each in dropped if isinstance(each, Event)], now)


def _events_marked(
    address: FlowAddress, taken: Sequence[StoredMessage], now: Any, unread: Collection[str] = (), *more: Any
) -> Iterator[Write]:
    events = {message.id for message in taken if message.data["kind"] == Event.kind}
    writes: Iterator[Write] = taken_messages(address, taken, now, [id_ for id_ in unread if id_ in events], *more)
    return writes


def _in_two_commits(
    ports: Ports, flows: Any, function: str, address: FlowAddress, arguments: Any, message: Any, *options: Any
) -> None:
    started = starts.start(ports, flows, function, address, arguments, *options)
    id_, sent = message
    header = FlowHeader.from_record(address, ports.store.read(header_path(address.base))[0].data or {})
    assert started, "it raises otherwise"
    messages.send(ports, header, sent, id_)


def _wakes_nobody(_: str, function: str) -> Effect:
    effect: Effect = wake_flow("flows/nobody~0", function)
    return effect


def _whichever(ports: Ports, _: Snapshot, header: FlowHeader, detail: str) -> None:
    """End and remove the run that there is now."""
    with suppress(NoFlow):
        sweep.terminate(ports, header.address, detail)
        sweep.delete(ports, header.address)


def _no_end(header: FlowHeader, stored: Snapshot, _: str) -> CallOutcome | None:
    return CallOutcome.from_text(stored.data[REPLY]) if stored.data and REPLY in stored.data else None


def _receipts_without_a_run(read: FlowMailbox) -> list[Write]:
    waiting, now = read.mailbox.waiting, read.mailbox.read_time
    return [*left_by_removal(read)[:1], *taken_messages(read.address, waiting, now)]


def _whatever_run_there_is(read: FlowMailbox) -> list[Write]:
    writes: list[Write] = left_by_removal(read)[1:]
    return writes


def _marked_as_read(ports: Ports, read: Snapshot, header: FlowHeader) -> Snapshot:
    """Mark a removal with the revision of a turn that has read the mailbox now."""
    put = header_write(read, replace(header, removing=True), read.read_time)
    result, *_ = (committed := ports.store.commit([put])).results
    return Snapshot(read.path, put.data, committed.commit_time, result.update_time, read.create_time)


def _same_header(mailbox: Mailbox) -> Change:
    return Change(mailbox.header.path, {}, mailbox.header.guard)


FAULTS = (
    in_updates("flow-40", "the answer in the receipt", ("flows.taken_messages", _no_reply)),
    in_updates("flow-40", "the answer of a later turn", ("flows.FlowTurn.unanswered", property(_of_this_turn))),
    in_updates("flow-40", "the first answer of a retried run", ("flows.FlowTurn.replies", _all_replies)),
    in_updates("flow-41", "passing on updates in hand", ("flows.Driver.passed_on", _kept_only)),
    in_updates("flow-41", "giving back dropped updates", ("flows.FlowTurn.open", staticmethod(_events_only))),
    in_updates("flow-41", "marking updates that the end leaves", ("flows.taken_messages", _events_marked)),
    in_updates("flow-42", "the end of the run of an update", ("flows.reply_of", _no_end)),
    in_updates("flow-43", "the message in the commit of a start", ("flows.start_with", _in_two_commits)),
    in_updates("flow-43", "the wake-up of a message with a start", ("flows.wake_flow in starts", _wakes_nobody)),
    in_updates("flow-43", "finding the message of a repeat", ("flows.is_repeat", lambda *_: False)),
    in_updates("flow-43", "the guard of a replaced run", ("flows.end_or_remove", _whichever)),
    in_updates("flow-43", "looking again after a post", ("flows.looks_again", lambda _: False)),
    in_updates("flow-43", "a message that was posted after the end", ("flows.is_late", lambda *_: False)),
    in_updates("flow-44", "deleting a message that has no run", ("flows.left_by_removal", _receipts_without_a_run)),
    in_updates(
        "flow-44", "no run in the commit of a deleted message", ("flows.left_by_removal", _whatever_run_there_is)
    ),
    in_updates("flow-44", "the header of an ended run in the commit of receipts", ("flows.turned", _same_header)),
    in_updates("flow-44", "the revision of a removal's mark", ("flows.mark_removing", _marked_as_read)),
    in_updates("flow-44", "an answer while the message waits", ("flows.may_be_received", lambda *_: False)),
)
