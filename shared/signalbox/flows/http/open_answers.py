"""The parts of a run that an open function shows: all but the texts of exceptions and the stack traces.

The text of an exception may contain values, and a stack trace contains lines of the code. A `Problem` is an answer that
the code has chosen, so it is shown. Callers of a private function, which IAM admits, see everything.
"""

from collections.abc import Mapping
from typing import Any

from signalbox.core.lazy_dataclasses import replace
from signalbox.flows.machine.combinations import ALL_FAILED
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Message, Result
from signalbox.flows.model.waits import Wait
from signalbox.flows.problems import AllFailed
from signalbox.flows.service.turns import NOT_CONTINUED
from signalbox.mailboxes.model.outcomes import CallOutcome, without_exception_text

FAILED_DETAIL = "The code of the flow has failed."


def header_for_anyone(header: FlowHeader) -> FlowHeader:
    """Return a header without the texts of exceptions and without stack traces."""
    end = replace(header.end, outcome=outcome_for_anyone(header.end.outcome)) if header.end else None
    pending = {path: _wait(wait) for path, wait in header.pending.items()}
    stuck = _stuck(header.stuck) if header.stuck else None
    return replace(header, end=end, stuck=stuck, pending=pending, running={}, trace="")


def entry_for_anyone(entry: Message) -> Message:
    """Return an entry of a log without the texts of exceptions."""
    if not isinstance(entry, Result):
        return entry
    return replace(entry, wait=_wait(entry.wait), outcome=outcome_for_anyone(entry.outcome))


def _wait(wait: Wait) -> Wait:
    return replace(wait, last_error="") if wait.last_error else wait


def _stuck(stuck: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in stuck.items() if name != "trace"}
    return {**shown, "detail": FAILED_DETAIL} if stuck["type"] == "flow-failed" else shown


def outcome_for_anyone(outcome: CallOutcome) -> CallOutcome:
    """Return an outcome without the texts of exceptions, also those that another error quotes."""
    shown = without_exception_text(outcome)
    if shown.error is None:
        return shown
    detail, *not_continued = str(shown.error["detail"]).split(NOT_CONTINUED, 1)
    if shown.error["type"] == AllFailed.slug():
        detail = "".join(detail.partition(ALL_FAILED)[:2])
    reason = NOT_CONTINUED.removesuffix(": ") + "." if not_continued else ""
    return replace(shown, error={**shown.error, "detail": f"{detail}{reason}"})
