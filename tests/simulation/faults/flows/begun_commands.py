"""Planted faults of handles, which a flow begins now and awaits later (flow-31), of time-outs (flow-32),
of suspensions (flow-34), of forks (flow-35) and of queries (flow-36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.effects import Decision
from signalbox.core.ports import SERVER_TIME, Ports, Put, Snapshot, Store
from signalbox.flows.machine.combinations import Group
from signalbox.flows.machine.deadlines import wake_at_deadline
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.machine.tree import Handle, HandleWait, cancelled
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Cancel, Message
from signalbox.flows.service.turns import Advanced
from signalbox.flows.storage.commands import CommandWrites
from signalbox.flows.storage.commits import Commit
from signalbox.mailboxes.model.outcomes import CallOutcome
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.flows import begun_commands
from tests.simulation.worlds.flows.observed_flows import TIME_OUT

commit_start = original("flows.commit_start")
collect = original("flows.CommandWrites.collect")
timed = original("flows.timed")
next_header = original("flows.next_header")
take = original("flows.FlowTurn.take")
end_wait = original("flows.HandleWait.cancel")
resumed = original("flows.resumed")
fork = original("flows.FlowTurn.fork")
replayed = original("flows.replay")
draw = original("flows.Position.draw")


def in_composed_flows(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault that the world of composed flows must notice."""
    return Fault(clause, without, always(*replacements), begun_commands.run)


def _left_pending(_: Handle[Any]) -> None:
    """Leave what was begun when the code has ended."""


def _ends_nothing(handle: Handle[Any]) -> bool:
    """Leave the command of a handle pending when the code cancels it."""
    return not handle.done


def _abandons(wait: HandleWait) -> None:
    """Abandon what was begun with the wait for it."""
    wait._handle.remove(wait)
    wait._handle.abandon()


def _cancels(wait: HandleWait, outcome: CallOutcome) -> bool:
    """Abandon what was begun when the wait for it is cancelled."""
    wait._handle.abandon()
    return end_wait(wait, outcome)


def _without_a_path(driver: Driver, item: Any, location: str) -> Handle[Any]:
    """Begin a command under the path of what the code awaits next."""
    assert driver.runs is not None, "the code of a branch runs"
    path, driver.runs._waits = driver.runs.next_path(), driver.runs._waits - 1
    handle: Handle[Any] = Handle(driver, item, path)
    if not driver.dropped:
        driver.handles.append(handle)
        handle.begin(location)
    return handle


def _in_the_order_of_the_items(handles: Iterable[Handle[Any]]) -> Handle[Any]:
    return next(handle for handle in handles if handle.done)


def _takes_the_first(group: Group, slot: int, outcome: CallOutcome) -> None:
    """Take the first outcome, also if it is a failure."""
    group._decide(outcome if outcome.failed else CallOutcome((group._keys[slot], outcome.value)))


# --- time-outs ---


def _in_a_second_commit(ports: Ports, commit: Commit) -> None:
    """Leave the message of a deadline to a second commit."""
    messages = [write for write in commit.writes if isinstance(write, Put) and write.data.get("kind") == Cancel.kind]
    commit_start(ports, replace(commit, writes=[write for write in commit.writes if write not in messages]))
    if messages:
        ports.store.commit(messages)


def _without_wake_up(commit: Commit, header: FlowHeader, timeout_seconds: float) -> Commit:
    return replace(timed(commit, header, timeout_seconds), effects=commit.effects)


def _repeats_no_deadline(commands: CommandWrites) -> CommandWrites:
    collect(commands)
    wakes = list(wake_at_deadline(commands.header))
    commands.effects[:] = [effect for effect in commands.effects if effect not in wakes]
    return commands


def _of_a_generation(turn: FlowTurn, revision: int) -> FlowHeader:
    """Forget the deadline when the run continues as new."""
    header = next_header(turn, revision)
    return replace(header, deadline_at=None) if turn.continued else header


def _ends_the_run(turn: FlowTurn, message: Message, id_: str = "") -> None:
    """End a run at its deadline without its code."""
    if isinstance(message, Cancel) and message.reason.startswith(TIME_OUT) and turn.driver.ended is None:
        turn.driver.got(0, cancelled(message.reason))
    else:
        take(turn, message, id_)


def _due_at_once(commit: Commit, header: FlowHeader, timeout_seconds: float) -> Commit:
    """Post the message of a deadline without its time."""
    with_message = timed(commit, header, timeout_seconds)
    *others, message = with_message.writes
    if with_message is commit or not isinstance(message, Put):
        return commit
    data = {name: value for name, value in message.data.items() if name != "later"} | {"since": SERVER_TIME}
    return replace(with_message, writes=[*others, replace(message, data=data)])


def _takes_any_id(_: Store, turn: FlowTurn) -> None:
    """Wait for the run that has the id, whichever it is."""
    turn.before |= {path: turn.driver.pending[path] for path in turn.new_sub_flows}


def _loses_what_is_in_hand(header: FlowHeader) -> Advanced | None:
    return Advanced(complete=True) if header.suspended else None


def _without_waking(read: Snapshot, header: FlowHeader) -> Decision[Any, Any]:
    return replace(resumed(read, header), effects=())


def _schedules_nothing(
    definition: FlowDefinition, header: FlowHeader, log: Sequence[Message], now: datetime
) -> FlowTurn:
    """Count what the code waits for at the entry of a fork as scheduled."""
    turn = fork(definition, header, log, now)
    turn.before = dict(turn.driver.pending)
    return turn


def _sends_again(driver: Driver, at: datetime | None, log: Sequence[Message], *, began_before: bool = False) -> Driver:
    """Send again what the code has sent before the entry of a fork."""
    return replayed(driver, at, log, began_before=began_before)


def _as_its_origin(position: Position) -> str:
    """Draw what the origin of a fork draws, also behind the entry of the fork."""
    known = position.seed
    position.seed = position.origins[-1].execution_id if position.origins else known
    try:
        return draw(position)
    finally:
        position.seed = known


FAULTS = (
    in_composed_flows("flow-31", "abandoning at the end what was begun", ("flows.Handle.abandon", _left_pending)),
    in_composed_flows("flow-31", "ending what its handle cancels", ("flows.Handle.cancel", _ends_nothing)),
    in_composed_flows("flow-31", "what was begun, after a `first`", ("flows.HandleWait.abandon", _abandons)),
    in_composed_flows("flow-31", "what was begun, after a cancel", ("flows.HandleWait.cancel", _cancels)),
    in_composed_flows("flow-31", "a path of what was begun", ("flows.Driver.begin", _without_a_path)),
    in_composed_flows("flow-31", "handles in the order of the log", ("flows.earliest", _in_the_order_of_the_items)),
    in_composed_flows("flow-31", "a success after failures", ("flows.Group.take_success", _takes_the_first)),
    in_composed_flows("flow-32", "the message of a deadline", ("flows.commit_start", _in_a_second_commit)),
    in_composed_flows("flow-32", "the time of that message", ("flows.timed", _due_at_once)),
    in_composed_flows("flow-32", "the wake-up at a deadline", ("flows.timed", _without_wake_up)),
    in_composed_flows("flow-32", "the wake-up of a silent run", ("flows.CommandWrites.collect", _repeats_no_deadline)),
    in_composed_flows("flow-32", "the deadline of later generations", ("flows.next_header", _of_a_generation)),
    in_composed_flows("flow-32", "a deadline as a cancel", ("flows.FlowTurn.take", _ends_the_run)),
    in_composed_flows("flow-33", "looking whether an id is in use", ("flows.refuse_sub_flows", _takes_any_id)),
    in_composed_flows("flow-33", "the id in the header", ("flows.FlowHeader.children_record", lambda _: {})),
    in_composed_flows("flow-34", "the look at a suspension", ("flows.of_suspended", lambda _: None)),
    in_composed_flows(
        "flow-34", "an outcome in hand of a suspended run", ("flows.of_suspended", _loses_what_is_in_hand)
    ),
    in_composed_flows("flow-34", "the wake-up of a resumed run", ("flows.resumed", _without_waking)),
    in_composed_flows("flow-35", "what a fork waits for", ("flows.FlowTurn.fork", staticmethod(_schedules_nothing))),
    in_composed_flows("flow-35", "what its origin has sent", ("flows.replay", _sends_again)),
    in_composed_flows("flow-35", "the locks of its origin", ("flows.FlowTurn.check_fork", lambda _: None)),
    in_composed_flows("flow-35", "draws of its own", ("flows.Position.draw", _as_its_origin)),
    in_composed_flows("flow-36", "closing the code of a query", ("flows.close_code", lambda _: None)),
    in_composed_flows("flow-36", "refusing what a query does", ("flows.refusal_of_query", lambda _: None)),
)
