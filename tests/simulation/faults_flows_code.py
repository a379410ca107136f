"""Planted faults of what the code is told and how it goes on: order, events, cancels, patches (flow-3 to 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.core.operations.ports import Ports
from shared.core.rules.mailbox import header_path
from shared.core.rules.problems import FlowCancelled
from shared.flows.operations import posts, records, steps
from shared.flows.operations.asking import Asked
from shared.flows.operations.records import header_of, header_write
from shared.flows.rules import next_headers, turns
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.branches import Branch
from shared.flows.rules.commands import Sleep
from shared.flows.rules.definitions import Flows
from shared.flows.rules.driver import Driver, replay, waits_for
from shared.flows.rules.ends import End
from shared.flows.rules.entries import Entry, EventEntry, ResultEntry
from shared.flows.rules.messages import Place
from shared.flows.rules.nodes import Ended
from shared.flows.rules.positions import Position
from shared.flows.rules.running import running
from shared.flows.rules.turns import FlowTurn
from shared.objects.rules.outcomes import CallOutcome
from shared.tasks.rules.attempts import Attempt
from tests.simulation.faults_flows_planting import in_flows
from tests.simulation.flows_world import FlowsWorld

new_entries, told_at_once, run_step, begin = next_headers.new_entries, steps._told_at_once, steps.run, FlowTurn.begin
run_driver, ask_sleep, begin_world = Driver._run, Asked._sleep, FlowsWorld.__init__


def _by_path(driver: Driver, at: datetime | None, log: Sequence[Entry], *, began_before: bool = True) -> Driver:
    """Results are looked up by their paths, whenever they came."""
    replay(driver, at, (), began_before=began_before)
    left = sorted(log, key=lambda each: each.path if isinstance(each, ResultEntry) else "")
    while entry := next(
        (each for each in left if not isinstance(each, ResultEntry) or each.path in driver.pending), None
    ):
        driver.tell(entry)
        left.remove(entry)
    if began_before:
        driver.sent.clear()
        driver.granted.clear()
    return driver


def _meets_only_who_waits(driver: Driver, entry: EventEntry) -> None:
    first = next((each for each in driver.pending.values() if waits_for(each, entry.name)), None)
    if first is not None:
        driver.complete(first, Ended(entry.value))


def _carries_nothing_over(turn: FlowTurn) -> list[Entry]:
    return new_entries(turn) if turn.again is None else []


def _cancels_the_header(ports: Ports, address: FlowAddress, reason: str = "") -> None:
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header and not header.end:
        end = End("cancelled", CallOutcome.from_problem(FlowCancelled(reason or "cancelled")), read.read_time)
        after = header.ended(end)
        ports.store.commit([header_write(read, after, read.read_time), *records.card(read, header, after)])


def _compares_nothing(_: FlowTurn) -> None:
    """The code may wait for something else."""


def _takes_any_result(driver: Driver, entry: ResultEntry) -> None:
    if waiting := driver.pending.get(entry.path):
        driver.complete(waiting, driver._outcome(waiting, entry))


def _drops_its_own(*arguments: Any) -> bool:
    """An outcome in hand is gone, also where the flow is stuck."""
    told_at_once(*arguments)
    return True


def _patched_everywhere(position: Position, name: str) -> bool:
    if name not in position.patches and position.number > position.known:
        position.patches[name] = 0
    return position.number >= position.patches.get(name, position.number + 1)


def _patched_at_once(position: Position, name: str) -> bool:
    """What the last commit has asked for counts as new."""
    if name not in position.patches and position.number >= position.known:
        position.patches[name] = position.number
    return position.number >= position.patches.get(name, position.number + 1)


def _any_revision(_: Flows, __: int) -> None:
    """Older code goes on with what newer code has brought forward."""


def _as_the_first_time(ports: Ports, flows: Flows, attempt: Attempt, *others: Any) -> None:
    run_step(ports, flows, replace(attempt, executions=0, retries=0), *others)


COLLECTED: list[Branch] = []
"""Generators that the collector has not come to yet."""


def _collected_later(driver: Driver) -> None:
    """Python's collector closes the code, some time."""
    driver.dropped = True
    COLLECTED.extend(driver.branches)


def _begins_with_none(world: FlowsWorld, *arguments: Any) -> None:
    """Each world is as if it were the first of its process."""
    COLLECTED.clear()
    begin_world(world, *arguments)


def _runs_while_collecting(driver: Driver) -> Driver:
    """The collector runs while another flow's code does, behind its replay."""
    if driver.position.number > driver.position.known:
        with running(driver):
            for branch in COLLECTED:
                branch.close()
        COLLECTED.clear()
    return run_driver(driver)


def _sleeps_alone(asked: Asked, sleep: Sleep, place: Place) -> None:
    """A sleep is a message for later, and nothing wakes for it."""
    effects = list(asked.effects)
    ask_sleep(asked, sleep, place)
    asked.effects[:] = effects


COMPARES_NOTHING = (FlowTurn, "_compare", _compares_nothing), (Driver, "_complete_known", _takes_any_result)

FAULTS = (
    in_flows("flow-3", "the order of telling", (turns, "replay", _by_path)),
    in_flows("flow-4", "keeping what nobody waits for", (Driver, "_meet", _meets_only_who_waits)),
    in_flows("flow-4", "carrying over what was kept", (records, "new_entries", _carries_nothing_over)),
    in_flows("flow-6", "the wake-up of a sleep", (Asked, "_sleep", _sleeps_alone)),
    in_flows("flow-7", "a cancel in its turn", (posts, "cancel", _cancels_the_header)),
    in_flows("flow-10", "a look before a step runs again", (steps, "run", _as_the_first_time)),
    in_flows(
        "flow-11",
        "comparing",
        (FlowTurn, "_compare", _compares_nothing),
        (Driver, "_complete_known", _takes_any_result),
    ),
    in_flows("flow-11", "leaving the outcome in hand", (steps, "_told_at_once", _drops_its_own)),
    in_flows("flow-12", "the place of a patch", (Position, "patched", _patched_everywhere)),
    in_flows("flow-12", "only what is new is patched", (Position, "patched", _patched_at_once)),
    in_flows("flow-12", "older code stands back", (Flows, "check_revision", _any_revision)),
    in_flows(
        "flow-15",
        "closing a driver that is dropped",
        (Driver, "drop", _collected_later),
        (Driver, "_run", _runs_while_collecting),
        (FlowsWorld, "__init__", _begins_with_none),
    ),
)
