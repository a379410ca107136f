"""The header after a turn, the entries that the turn adds to the log, and the end of a run.

If the code continues as new, the next execution begins with an empty log, a cancel that the code has not received, the
kept events, and the updates without an answer.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signalbox.core.codec.json_forms import JSON, Codec
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import Problem
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import ContinueAsNew
from signalbox.flows.machine.driver import DUE_PATCH
from signalbox.flows.machine.stuck import storable_json, too_large, trace_of
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.headers import CANCELLED, COMPLETED, FAILED, End, FlowHeader, Origin, execution_id_of
from signalbox.flows.model.log import NO_ENTRIES
from signalbox.flows.model.messages import Cancel, Message
from signalbox.flows.model.payloads import place_of_execution
from signalbox.flows.problems import FlowCancelled
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.model import Outgoing

DUE_POSITION = 2
"""The position of the first entry of a log."""


def forked_header(source: FlowHeader, entries: int, new: FlowHeader, arguments: Mapping[str, Any] | None) -> FlowHeader:
    """Return the header of a fork of `source` after its first `entries`. `new` has the address and the options."""
    before = [replace(each, entries=min(each.entries, entries)) for each in source.origins]
    return replace(
        new,
        arguments=source.arguments if arguments is None else arguments,
        begun=True,
        start_at=source.start_at,
        patches={name: number for name, number in source.patches.items() if number <= 1 + entries},
        origins=(*before, Origin(source.address.key, source.execution_id, entries)),
    )


def next_header(turn: FlowTurn, revision: int) -> FlowHeader:
    """Return the header after a turn of code of this revision. The header has the old log. Raises `Stuck`."""
    written_by = max(revision, turn.header.written_by)
    names = sorted(name for name, values in turn.driver.kept.items() if values)[: LIMITS.flow_events_shown_max]
    driver = turn.driver
    of_each: dict[str, Any] = {
        "written_by": written_by,
        "progress": driver.progress,
        "stuck": None,
        "kept": driver.kept_count,
        "kept_bytes": driver.kept_bytes,
        "kept_names": tuple(names),
        "unanswered": turn.unanswered,
        "labels": _labels_after(turn),
    }
    if turn.continued is not None:
        return _next_generation(replace(turn.header, **of_each), turn.continued, driver.due_cancel, turn.outgoing)
    header = replace(
        turn.header,
        **of_each,
        begun=True,
        start_at=turn.start_at,
        pending=turn.pending,
        running=turn.running,
        cancel_waits=turn.cancels_left > 0,
        leases=dict(driver.held),
        patches=dict(driver.position.patches),
    )
    if driver.ended is None:
        return header
    error = driver.ended.exception()
    trace = trace_of(error) if isinstance(error, Problem) else ""
    end = end_of(driver.ended, turn.now, turn.result)
    place = place_of_execution(header.address, header.execution_id)
    result = turn.outgoing.claimed(end.outcome.result, place, CORE_LIMITS.result_bytes_max)
    end = replace(end, outcome=replace(end.outcome, result=result))
    return replace(header.ended(end), trace=trace)


def _labels_after(turn: FlowTurn) -> Mapping[str, str]:
    """Return the labels of a run. Raises `Stuck` if there are too many labels."""
    changed = {**turn.header.labels, **turn.driver.labels}
    labels = {name: value for name, value in changed.items() if value is not None}
    if len(labels) > LIMITS.flow_labels_total_max:
        raise too_large(f"The run has {len(labels)} labels; the limit is {LIMITS.flow_labels_total_max}.")
    return labels


def _next_generation(header: FlowHeader, continued: ContinueAsNew, due: str | None, outgoing: Outgoing) -> FlowHeader:
    storable_json(continued.arguments, "the arguments of `continue_as_new`", CORE_LIMITS.task_bytes_max)
    if header.kept_bytes > LIMITS.flow_events_passed_on_bytes_max:
        updates = f" and {len(header.unanswered):,} updates" if header.unanswered else ""
        passed_on = f"{header.kept:,} events{updates}"
        detail = f"`continue_as_new` would pass on {passed_on} of {header.kept_bytes:,} bytes"
        most = f"at most {LIMITS.flow_events_passed_on_bytes_max:,} bytes fit into its commit"
        raise too_large(f"{detail}, and {most}. Let the code wait for them before.")
    generation = header.generation + 1
    place = place_of_execution(header.address, execution_id_of(header.incarnation, generation, 0))
    return replace(
        header,
        generation=generation,
        arguments=outgoing.claimed_members(continued.arguments, place),
        begun=False,
        start_at=None,
        log=NO_ENTRIES,
        pending={},
        running={},
        cancel_waits=False,
        leases={},
        patches={} if due is None else {DUE_PATCH: DUE_POSITION},
        origins=(),
    )


def new_entries(turn: FlowTurn) -> list[Message]:
    """Return the new entries of the log.

    If the flow continues as new, these are the first entries of the next log: a cancel that the code has not received,
    the kept events, and the updates without an answer.
    """
    if turn.continued is None:
        return turn.applied
    events = [replace(each, at=_known(turn.now)) for each in turn.driver.passed_on(turn.unanswered)]
    reason = turn.driver.due_cancel
    return [*([] if reason is None else [Cancel(reason, _known(turn.now))]), *events]


def end_of(outcome: CallOutcome, now: datetime | None, codec: Codec = JSON) -> End:
    """Return the end of a flow from the outcome of its code. Raises `Stuck` for a result that cannot be stored."""
    error = outcome.exception()
    match error:
        case None:
            result = storable_json(outcome.value, "the flow's result", CORE_LIMITS.result_bytes_max, codec)
            return End(COMPLETED, CallOutcome(result), _known(now))
        case Problem():
            return End(FAILED, CallOutcome.from_problem(error), _known(now))
    problem = FlowCancelled(str(error) or "The flow was cancelled.")
    return End(CANCELLED, CallOutcome.from_problem(problem), _known(now))


def _known(now: datetime | None) -> datetime:
    assert now is not None, "a turn that needs the time has read a record"
    return now


def check_log(length: int, size_bytes: int) -> None:
    """Raise `Stuck` if the log is too long."""
    if length > LIMITS.flow_log_entries_max or size_bytes > LIMITS.flow_log_bytes_max:
        raise too_large(
            f"The log has {length:,} entries and {size_bytes:,} bytes; the limits are "
            f"{LIMITS.flow_log_entries_max:,} and {LIMITS.flow_log_bytes_max:,}. Call `flow.continue_as_new` earlier."
        )
