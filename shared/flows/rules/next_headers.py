"""The header after a turn: where the code is now, how it ended, or how it begins anew."""

from dataclasses import replace
from datetime import datetime

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import FlowCancelled, Problem
from shared.flows.rules.combinations import Again
from shared.flows.rules.ends import End
from shared.flows.rules.entries import Entry, EventEntry
from shared.flows.rules.failures import too_large
from shared.flows.rules.headers import FlowHeader, LogPlace
from shared.flows.rules.nodes import Ended
from shared.flows.rules.results import json_text
from shared.flows.rules.turns import FlowTurn
from shared.objects.rules.outcomes import CallOutcome


def next_header(turn: FlowTurn, revision: int) -> FlowHeader:
    """Return the header after a turn of code of this revision. Its log is still to be extended. Raises `Stuck`."""
    if turn.again is not None:
        return _next_generation(turn, turn.again, revision)
    driver = turn.driver
    header = replace(
        turn.header,
        begun=True,
        start_at=turn.start_at,
        pending=turn.pending,
        leases=dict(driver.held),
        patches=dict(driver.position.patches),
        written_by=max(revision, turn.header.written_by),
        progress=driver.progress,
        stuck=None,
    )
    return header if driver.ended is None else header.ended(end_of(driver.ended, turn.now))


def _next_generation(turn: FlowTurn, again: Again, revision: int) -> FlowHeader:
    json_text(again.arguments, "the arguments of `again`", LIMITS.task_bytes_max)
    return replace(
        turn.header,
        generation=turn.header.generation + 1,
        arguments=dict(again.arguments),
        begun=False,
        start_at=None,
        log=LogPlace(),
        pending={},
        leases={},
        patches={},
        written_by=max(revision, turn.header.written_by),
        progress=turn.driver.progress,
        stuck=None,
    )


def new_entries(turn: FlowTurn) -> list[Entry]:
    """Return what the log is extended by: what was told, or the events that the next generation begins with."""
    if turn.again is None:
        return turn.told
    kept = turn.driver.kept.items()
    return [EventEntry(name, value, _known(turn.now)) for name, values in kept for value in values]


def end_of(ended: Ended, now: datetime | None) -> End:
    """Return how a flow ended, in the terms of its header. Raises `Stuck` for a result that is no JSON or too large."""
    at = _known(now)
    match ended.error:
        case None:
            json_text(ended.value, "the flow's result", LIMITS.result_bytes_max)
            return End("completed", CallOutcome(ended.value), at)
        case Problem() as problem:
            return End("failed", CallOutcome.from_problem(problem), at)
    return End("cancelled", CallOutcome.from_problem(FlowCancelled(str(ended.error) or "The flow was cancelled.")), at)


def _known(now: datetime | None) -> datetime:
    assert now is not None, "a flow that needs the time has read it"
    return now


def check_log(told: int, size_bytes: int) -> None:
    """Raise `Stuck` for a log that is too long."""
    if told > LIMITS.flow_log_entries_max or size_bytes > LIMITS.flow_log_bytes_max:
        raise too_large(
            f"The log has {told:,} entries and {size_bytes:,} bytes; at most {LIMITS.flow_log_entries_max:,} and "
            f"{LIMITS.flow_log_bytes_max:,}. Let the flow begin anew with `flow.again` before."
        )
