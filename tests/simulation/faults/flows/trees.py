"""Planted faults that a model of flows notices: the rules of shields, of groups, and of locks in results."""

import sys
from dataclasses import replace

from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.tree import Branch, Parent
from signalbox.mailboxes.model.outcomes import CallOutcome
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.flows import lost_messages, nested_programs
from tests.simulation.faults.points import always, original
from tests.simulation.worlds.flow_trees import compared

keep_reclaimed = original("flows.Driver.keep_reclaimed")

NOTICED = ("flow-27", str(lost_messages.LOCKS_IN_RESULTS))


def _keeps_what_it_received(_: Branch) -> None:
    """Leave what a function of the kit has received where it is."""


def _ends_in_its_turn(branch: Branch, outcome: CallOutcome) -> None:
    """Let code that has not begun end after the code that is ready before it."""
    branch.cancel_due = outcome


def _after_code(_: Driver, __: int) -> None:
    """Let code run that is ready before the outcomes pass through their groups."""


def _reclaimed_later(driver: Driver) -> None:
    """Keep reclaimed events when the code waits, and not before a command begins."""
    if sys._getframe(1).f_code.co_name not in ("_add", "_place", "begin"):
        keep_reclaimed(driver)


def _later(_: Driver, __: int, ___: Parent | None = None) -> None:
    """Leave the outcomes on their way."""


FAULTS = (
    *(
        replace(fault, run=compared.run)
        for fault in (*nested_programs.FAULTS, lost_messages.LOCKS_IN_RESULTS)
        if str(fault).startswith(NOTICED)
    ),
    *(
        Fault(clause, without, always(replacement), compared.run)
        for clause, without, replacement in (
            ("flow-5", "the events of a map or a time-out", ("flows.Branch.abandon", _keeps_what_it_received)),
            ("flow-5", "passing through groups before code runs", ("flows.Driver.pass_groups", _after_code)),
            ("flow-5", "keeping an event before the next command", ("flows.Driver.keep_reclaimed", _reclaimed_later)),
            ("flow-27", "ending code that has not begun at once", ("flows.Branch.end_unbegun", _ends_in_its_turn)),
            ("flow-27", "the outcome of a shield before its cancel", ("flows.Driver.deliver", _later)),
        )
    ),
)
