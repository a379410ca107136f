"""Planted faults of replay and of what the code receives: order, events, cancels, patches (flow-3 to flow-30)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest.mock import patch

from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.ports import Conflict, Ports
from signalbox.core.problems import Problem, Unavailable
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine import headers
from signalbox.flows.machine.commands import Sleep
from signalbox.flows.machine.driver import Driver, Position, replay, waits_for
from signalbox.flows.machine.running_flow import running
from signalbox.flows.machine.tree import Branch
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import CANCELLED, End
from signalbox.flows.model.messages import Event, Message, Result
from signalbox.flows.model.waits import Wait
from signalbox.flows.problems import FlowCancelled
from signalbox.flows.service.turns import FlowMailbox, advance
from signalbox.flows.storage import listings
from signalbox.flows.storage.commands import CommandWrites
from signalbox.flows.storage.commits import header_of, header_write
from signalbox.flows.tasks import steps
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import header_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import read_mailbox
from signalbox.semaphores.machine.decision_types import unit_task
from signalbox.semaphores.model.waiters import Waiter
from signalbox.tasks.model.contexts import OfStep
from tests.simulation.faults.flows.planting import in_flows
from tests.simulation.faults.points import original
from tests.simulation.worlds.flows.world import FlowsWorld

new_entries = headers.new_entries
apply_at_once = original("flows.apply_at_once")
is_over = original("flows.is_over")
run_step = original("flows.run_step")
run_driver = original("flows.Driver.resume")
schedule_sleep = original("flows.CommandWrites.sleep")
begin_world = original("world.FlowsWorld.__init__")


def _by_path(driver: Driver, at: datetime | None, log: Sequence[Message], *, began_before: bool = True) -> Driver:
    """Look results up by their paths, in the order of the code."""
    replay(driver, at, (), began_before=began_before)
    left = sorted(log, key=lambda entry: entry.wait.path if isinstance(entry, Result) else "")
    while entry := next(
        (entry for entry in left if not isinstance(entry, Result) or entry.wait.path in driver.pending), None
    ):
        driver.apply(entry)
        left.remove(entry)
    if began_before:
        driver.sent.clear()
        driver.granted.clear()
    return driver


def _keeps_no_event(driver: Driver, entry: Event) -> None:
    first = next((pending for pending in driver.pending.values() if waits_for(pending, entry.name)), None)
    if first is not None:
        driver.complete(first, CallOutcome(entry.value))


def _carries_nothing_over(turn: FlowTurn) -> list[Message]:
    return new_entries(turn) if turn.continued is None else []


def _cancels_the_header(ports: Ports, address: FlowAddress, reason: str = "") -> None:
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header and not header.end:
        end = End(CANCELLED, CallOutcome.from_problem(FlowCancelled(reason or "cancelled")), read.read_time)
        after = header.ended(end)
        ports.store.commit([header_write(read, after, read.read_time), *listings.listing_writes(read, header, after)])


def _compares_nothing(_: FlowTurn) -> None:
    """Let the code wait for other commands than the header."""


def _applies_any_result(driver: Driver, entry: Result) -> None:
    if pending := driver.pending.get(entry.wait.path):
        driver.complete(pending, driver._outcome(pending, entry))


def _loses_its_outcome(*arguments: Any) -> bool:
    """Report the outcome as applied, also if the flow is stuck."""
    apply_at_once(*arguments)
    return True


def _patched_everywhere(position: Position, name: str) -> bool:
    if name not in position.patches and position.number > position.committed:
        position.patches[name] = 0
    return position.number >= position.patches.get(name, position.number + 1)


def _patched_at_once(position: Position, name: str) -> bool:
    """Count the last committed position as uncommitted."""
    if name not in position.patches and position.number >= position.committed:
        position.patches[name] = position.number
    return position.number >= position.patches.get(name, position.number + 1)


def _any_revision(_: Flows, __: int) -> None:
    """Let older code run a turn on the header of newer code."""


def _as_the_first_time(ports: Ports, flows: Flows, delivered: Delivered[OfStep], *others: Any) -> None:
    run_step(ports, flows, replace(delivered, executions=0, retries=0), *others)


def _begins_later(ports: Ports, flows: Flows, delivered: Delivered[OfStep], *others: Any) -> None:
    """Look first only in deliveries after the first one."""
    step = {name: value for name, value in delivered.context.step.items() if name != "delayed"}
    with patch.object(steps.StepOfFlow, "is_later", False):
        run_step(ports, flows, replace(delivered, context=OfStep({"step": step}, step), is_late=False), *others)


def _any_attempt(ports: Ports, step: steps.StepOfFlow, delivered: Delivered[OfStep]) -> bool:
    """Begin a step whose path is pending, whichever attempt the flow waits for."""
    wait = replace(step.wait, attempt=LIMITS.flow_step_attempts_max)
    return is_over(ports, replace(step, wait=wait), delivered)


COLLECTED: list[Branch] = []
"""Coroutines that the collector will close later."""


def _collected_later(driver: Driver) -> None:
    """Leave the code to Python's collector."""
    driver.dropped = True
    COLLECTED.extend(driver.branches)


def _begins_with_none(world: FlowsWorld, *arguments: Any) -> None:
    """Make each world the first one of its process."""
    COLLECTED.clear()
    begin_world(world, *arguments)


def _runs_while_collecting(driver: Driver) -> Driver:
    """Run the collector while the code of another flow runs, after its replay."""
    if driver.position.number > driver.position.committed:
        with running(driver), suppress(BaseException):
            for branch in COLLECTED:
                branch._code.close()
        COLLECTED.clear()
    return run_driver(driver)


def _overtaking(ports: Ports, flows: Flows, step: steps.StepOfFlow, result: Result) -> bool:
    """Apply the outcome in hand with a full page of messages, before those behind the page."""
    if step.together > LIMITS.flow_siblings_max:
        return False
    mailbox = read_mailbox(ports.store, step.address.base, MAILBOXES_LIMITS.mailbox_page)
    try:
        return advance(ports, flows, FlowMailbox(step.address, mailbox, result)).complete
    except (Conflict, Unavailable, Problem):
        return False


def _sleeps_without_wake_up(commands: CommandWrites, sleep: Sleep, wait: Wait) -> None:
    effects = list(commands.effects)
    schedule_sleep(commands, sleep, wait)
    commands.effects[:] = effects


def _itself(value: Any) -> Any:
    return value


def _tells_units_only(name: str, waiter: Waiter, now: datetime) -> tuple[Effect, ...]:
    return unit_task(name, waiter, "deleted", now)


FAULTS = (
    in_flows("flow-3", "replay in the order of the log", ("flows.replay", _by_path)),
    in_flows("flow-4", "keeping events that no command waits for", ("flows.Driver.apply_event", _keeps_no_event)),
    in_flows("flow-4", "carrying over kept events", ("flows.new_entries", _carries_nothing_over)),
    in_flows("flow-4", "a cancel before the events of its page", ("flows.cancels_before_events", lambda page: page)),
    in_flows("flow-5", "accepting a repeat after the end", ("flows.find_posted", lambda *_: None)),
    in_flows("flow-6", "the wake-up of a sleep", ("flows.CommandWrites.sleep", _sleeps_without_wake_up)),
    in_flows("flow-7", "a cancel as a message", ("flows.cancel", _cancels_the_header)),
    in_flows("flow-10", "the check before a step runs again", ("flows.run_step", _as_the_first_time)),
    in_flows("flow-18", "the check before a step that comes later", ("flows.run_step", _begins_later)),
    in_flows("flow-18", "the attempt that the flow waits for", ("flows.is_over", _any_attempt)),
    in_flows(
        "flow-11",
        "comparing replay with the header",
        ("flows.FlowTurn.compare_waits", _compares_nothing),
        ("flows.Driver.apply_result", _applies_any_result),
    ),
    in_flows(
        "flow-11", "posting the outcome of a step whose flow is stuck", ("flows.apply_at_once", _loses_its_outcome)
    ),
    in_flows(
        "flow-11",
        "the flows of a deleted semaphore",
        ("semaphores.end_tasks in sweep", _tells_units_only),
        ("semaphores.end_tasks in wait_queue", _tells_units_only),
    ),
    in_flows("flow-21", "posting an outcome behind a full page", ("flows.apply_at_once", _overtaking)),
    in_flows("flow-12", "the position of a patch", ("flows.Position.patched", _patched_everywhere)),
    in_flows("flow-12", "patching uncommitted positions only", ("flows.Position.patched", _patched_at_once)),
    in_flows("flow-12", "refusing headers of newer code", ("flows.Flows.check_revision", _any_revision)),
    in_flows("flow-30", "a copy of the arguments", ("core.copied", _itself)),
    in_flows("flow-30", "a copy of a result", ("flows.copied", _itself)),
    in_flows(
        "flow-15",
        "closing a dropped driver",
        ("flows.Driver.drop", _collected_later),
        ("flows.Driver.resume", _runs_while_collecting),
        ("world.FlowsWorld.__init__", _begins_with_none),
    ),
)
