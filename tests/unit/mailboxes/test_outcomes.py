"""Outcomes of calls and steps: an error is raised again as the class that it was raised as."""

import subprocess
import sys
from pathlib import Path

from signalbox.core.problems import Problem
from signalbox.documents.problems import StaleCopy
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.problems import MethodFailed

SHARED = Path(__file__).parents[3] / "shared"
LOADED = (
    "import sys, signalbox.function.user_function; print(*(each for each in sys.modules if each.endswith('.problems')))"
)


def test_an_error_is_raised_again_as_its_own_class() -> None:
    problem = CallOutcome.from_problem(StaleCopy("The copy is old.")).problem()
    assert type(problem) is StaleCopy
    assert problem.detail == "The copy is old."


def test_an_error_of_a_class_that_this_process_does_not_have_keeps_its_status_and_title() -> None:
    error = {"type": "of-another-function", "title": "No paper", "status": 409, "detail": "The printer is empty."}
    problem = CallOutcome(error=error).problem()
    assert type(problem) is MethodFailed
    assert (problem.status, problem.title, problem.detail) == (409, "No paper", "The printer is empty.")


def test_an_error_is_raised_as_a_class_that_is_defined_after_the_first_one_was_raised() -> None:
    error = {"type": "printer-jammed", "title": "Printer jammed", "status": 409, "detail": "Tray 2."}
    assert type(CallOutcome(error=error).problem()) is MethodFailed
    jammed = type("PrinterJammed", (Problem,), {"status": 409, "title": "Printer jammed"})
    assert type(CallOutcome(error=error).problem()) is jammed


def test_each_function_has_the_classes_of_all_problems_of_the_kit() -> None:
    ran = subprocess.run([sys.executable, "-c", LOADED], cwd=SHARED, capture_output=True, text=True, check=True)
    modules = {f"signalbox.{path.parent.name}.problems" for path in (SHARED / "signalbox").glob("*/problems.py")}
    assert set(ran.stdout.split()) == modules - {"signalbox.client.problems"}  # the client is not in a function


def test_an_outcome_equals_what_is_read_back_from_its_text() -> None:
    outcomes = (
        CallOutcome(7),
        CallOutcome(object=ObjectAddress("Counter", "a~b")),
        CallOutcome.from_problem(Problem("no")),
    )
    for outcome in outcomes:
        assert CallOutcome.from_text(outcome.to_text()) == outcome


def test_an_address_is_read_back_from_its_base_and_from_json() -> None:
    address = ObjectAddress("Counter", "a~b")
    assert address.base == "objects/Counter~a~b"
    assert ObjectAddress.of_base(address.base) == address
    assert ObjectAddress.from_json({"class": "Counter", "key": "a~b"}) == address
