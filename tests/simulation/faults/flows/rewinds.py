"""Planted faults of retries in place, in the world of runs that are retried."""

from __future__ import annotations

from typing import Any

from signalbox.core.effects import Effect, name_of
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Store
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.log import StoredLog
from signalbox.flows.model.messages import Message
from signalbox.flows.model.waits import Wait
from signalbox.flows.storage.commits import Opening
from signalbox.flows.storage.log import LoadedLog
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.flows import rewinds

adopt_sub_flows = original("flows.adopt_sub_flows")
adopted_header = original("flows.adopted_header")
opening = original("flows.FlowTurn.open")
taken_messages = original("flows.taken_messages in turns")
wake_flow = original("flows.wake_flow in retries")


def in_rewinds(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault that the world of retries must notice."""
    return Fault(clause, without, always(*replacements), rewinds.run)


def _of_the_generation(header: FlowHeader) -> str:
    return f"{header.incarnation}-{header.generation}"


def _wakes_nobody(_: str, function: str) -> Effect:
    effect: Effect = wake_flow("flows/nobody~0", function)
    return effect


def _without_events(definition: Any, header: FlowHeader, kept: Any, _: Any, now: Any) -> Any:
    return opening(definition, header, kept, (), now)


def _without_marks(address: Any, taken: Any, now: Any, *_: Any) -> Any:
    return taken_messages(address, taken, now)


def _waits_only(store: Store, turn: Any, log: Any) -> Opening:
    adopt_sub_flows(store, turn, log)
    return Opening()


def _of_the_old_wait(child: FlowHeader, plan: Any, wait: Wait, execution_id: str, now: Any) -> FlowHeader:
    after: FlowHeader = adopted_header(child, plan, wait, execution_id, now)
    return replace(after, parent=child.parent)


def _of_the_run(header: FlowHeader) -> str:
    return name_of("end", header.address.base, header.incarnation)


def _number_only(header: FlowHeader, log: LoadedLog) -> tuple[StoredLog, LoadedLog, tuple[Message, ...]]:
    """Keep the chunk of the cut as it is, and count fewer of its entries."""
    assert header.rewound is not None
    held = min(header.rewound.keep, header.log.held)
    return replace(header.log, tail=(), text="", held=held), LoadedLog(last_chunk=log.last_chunk), log.entries[held:]


def _same_execution(header: FlowHeader, execution_id: str) -> bool:
    return execution_id == header.execution_id


FAULTS = (
    in_rewinds(
        "rewind-1", "the rewinds in the execution id", ("flows.FlowHeader.execution_id", property(_of_the_generation))
    ),
    in_rewinds("rewind-3", "the key of a request in the header", ("flows.retried_before", lambda *_: None)),
    in_rewinds("rewind-4", "the wake-up of a rewind", ("flows.wake_flow in retries", _wakes_nobody)),
    in_rewinds("rewind-5", "giving back dropped events", ("flows.FlowTurn.open", staticmethod(_without_events))),
    in_rewinds("rewind-6", "marking events that the end leaves", ("flows.TurnCommit.unread_after", lambda *_: ())),
    in_rewinds("rewind-6", "marking events behind the end", ("flows.taken_messages in turns", _without_marks)),
    in_rewinds(
        "rewind-9",
        "the rewinds in an archive's name",
        ("flows.FlowHeader.ended_as", property(lambda header: header.incarnation)),
    ),
    in_rewinds("family-2", "deleting the message of the failure", ("flows.end_name in retries", lambda _: "none")),
    in_rewinds("family-4", "the sub-flow in the opening turn's commit", ("flows.adopt_sub_flows", _waits_only)),
    in_rewinds("family-5", "going on with the sub-flow", ("flows.earlier_sub_flows", lambda *_: {})),
    in_rewinds("family-6", "the parent's new wait", ("flows.adopted_header", _of_the_old_wait)),
    in_rewinds("family-7", "the rewinds in the names of an end", ("flows.end_name", _of_the_run)),
    in_rewinds("log-3", "moving the entries of the chunk of the cut", ("flows.cut", _number_only)),
    in_rewinds("log-4", "reading the chunks of earlier executions", ("flows.is_chunk_of", _same_execution)),
)
