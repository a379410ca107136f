"""The parts of a run that an open function shows: all but the texts of exceptions and the stack traces.

The text of an exception may contain values, and a stack trace contains lines of the code. A `Problem` is an answer that
the code has chosen, so it is shown. Callers of a private function, which IAM admits, see everything.
"""

from collections.abc import Mapping
from typing import Any

from signalbox.core.error_notes import without_last_error
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.problems import GaveUp
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Message, Result
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome

FAILED_DETAIL = "The code of the flow has failed."


def header_for_anyone(header: FlowHeader) -> FlowHeader:
    """Return a header without the texts of exceptions and without stack traces."""
    end = replace(header.end, outcome=_outcome(header.end.outcome)) if header.end else None
    pending = {path: _wait(wait) for path, wait in header.pending.items()}
    stuck = _stuck(header.stuck) if header.stuck else None
    return replace(header, end=end, stuck=stuck, pending=pending, running={}, trace="")


def entry_for_anyone(entry: Message) -> Message:
    """Return an entry of a log without the texts of exceptions."""
    if not isinstance(entry, Result):
        return entry
    return replace(entry, wait=_wait(entry.wait), outcome=_outcome(entry.outcome))


def _wait(wait: Wait) -> Wait:
    return replace(wait, last_error="") if wait.last_error else wait


def _stuck(stuck: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in stuck.items() if name != "trace"}
    return {**shown, "detail": FAILED_DETAIL} if stuck["type"] == "flow-failed" else shown


def _outcome(outcome: CallOutcome) -> CallOutcome:
    """Return an outcome without the last error of a task that was given up: only the number of its starts remains."""
    if outcome.error is None or outcome.error["type"] != GaveUp.slug():
        return outcome
    error = {name: value for name, value in outcome.error.items() if name != "fields"}
    return replace(outcome, error={**error, "detail": without_last_error(str(error["detail"]))})
