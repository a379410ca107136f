"""Planted faults of handles: what a flow begins now and awaits later (flow-31)."""

from __future__ import annotations

from typing import Any

from signalbox.flows.api import flow
from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.groups import Group, Handle, HandleWait
from signalbox.mailboxes.model import CallOutcome
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import Replacement, always, original
from tests.simulation.worlds.flows import composed

end_wait = original("flows.HandleWait.cancel")


def in_composed_flows(clause: str, without: str, *replacements: Replacement) -> Fault:
    """Return a fault that the world of composed flows must notice."""
    return Fault(clause, without, always(*replacements), composed.run)


def _left_pending(_: Handle[Any]) -> None:
    """Leave what was begun when the code has ended."""


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


def _in_the_order_of_the_items(handles: flow.AsCompleted[Any]) -> Handle[Any]:
    return next(handle for handle in handles._left if handle.done)


def _takes_the_first(group: Group, slot: int, outcome: CallOutcome) -> None:
    """Take the first outcome, also if it is a failure."""
    group._decide(outcome if outcome.failed else CallOutcome((group._keys[slot], outcome.value)))


FAULTS = (
    in_composed_flows("flow-31", "abandoning at the end what was begun", ("flows.Handle.abandon", _left_pending)),
    in_composed_flows("flow-31", "what was begun, after a `first`", ("flows.HandleWait.abandon", _abandons)),
    in_composed_flows("flow-31", "what was begun, after a cancel", ("flows.HandleWait.cancel", _cancels)),
    in_composed_flows("flow-31", "a path of what was begun", ("flows.Driver.begin", _without_a_path)),
    in_composed_flows(
        "flow-31", "handles in the order of the log", ("flows.AsCompleted._earliest", _in_the_order_of_the_items)
    ),
    in_composed_flows("flow-31", "a success after failures", ("flows.Group._take_success", _takes_the_first)),
)
