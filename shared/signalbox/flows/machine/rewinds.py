"""Retry in place, or rewind: a run that has failed, or is stuck, continues from an earlier point of its log. All pure.

A rewind is a new execution of the same run: its execution id counts the rewinds. Results, grants, timers, names of
tasks and ids of sub-flows of an earlier execution are refused, and so are those of the dropped entries.

    retry: commit the plan and the new execution into the header ──► opening turn: replay the kept entries, cut the log

The default plan keeps all entries, and blanks the failed results of the last `await` of the flow's own code. A blank
keeps its position, so the ids that the code draws after it do not change.

    if the run                                         with `from_entry`  without it
    -------------------------------------------------  -----------------  ----------------
    is running, suspended, completed or cancelled      not-failed         not-failed
    is being removed                                   being-removed      being-removed
    was retried 100 times                              too-many           too-many
    is stuck, and the code of an inline step runs      step-running       step-running
    has a deadline that is over                        deadline-over      deadline-over
    is stuck                                           rewound            stuck
    has failed in its last `await`                     rewound            rewound
    has failed earlier, and its code continued         rewound            tail-has-effects
    has failed in a coroutine, which continued         rewound            tail-has-effects
    has no failed result                               rewound            nothing-failed

A stuck run needs no retry: its messages wait, and fixed code applies them. A retry drops the outcomes among them, so
commands that have ended run a second time.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.machine.driver import DUE_PATCH
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import (
    CANCELLED,
    COMPLETED,
    FAILED,
    RETRY_REASON_LETTERS,
    RUNNING,
    STUCK,
    SUSPENDED,
    FlowHeader,
    Origin,
    Retry,
    Rewound,
    new_header,
)
from signalbox.flows.model.messages import Blank, Cancel, Message, Result, sub_flow_address
from signalbox.flows.model.waits import Wait
from signalbox.flows.problems import CannotRetry


@dataclass(frozen=True, slots=True)
class Plan:
    """What a retry keeps of a log: the first `keep` entries. Those with the numbers in `blanks` become blank."""

    keep: int
    blanks: tuple[int, ...] = ()

    def dropped(self, log: Sequence[Message]) -> Iterator[tuple[int, Message]]:
        """Iterate over the entries that the retry drops or blanks, with their numbers from 1 on."""
        return ((n, entry) for n, entry in enumerate(log, 1) if n > self.keep or n in self.blanks)


@dataclass(frozen=True, slots=True)
class RetryAnswer:
    """The answer to a retry, or to a dry run.

    - `address` is the run that is retried: with `family`, perhaps an ancestor of the one that was asked for.
    - `execution_id` is its next execution, and `keep` the number of entries that stay.
    - `blanked` are the failed entries whose commands run again, and `dropped` the entries behind `keep`, both with
      their numbers.
    - `pending` are the commands of a stuck run that are cancelled, and scheduled again where the code still waits for
      them. `ended` are those of them whose outcomes wait in the mailbox: they would run a second time.
    - `sub_flows` are the failed sub-flows that continue, in a dry run: each before those below it.
    - `repeated` is whether the key's first request has carried it out. Its lists are empty.
    """

    address: FlowAddress
    execution_id: str
    keep: int = 0
    blanked: Sequence[tuple[int, Message]] = ()
    dropped: Sequence[tuple[int, Message]] = ()
    pending: Sequence[str] = ()
    ended: Sequence[str] = ()
    sub_flows: Sequence["SubFlowRetry"] = ()
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class SubFlowRetry:
    """A failed sub-flow that continues with the run above it: the entries that it keeps, and those that run again."""

    address: FlowAddress
    keep: int
    blanked: Sequence[tuple[int, Message]]


WITHOUT_RETRY = {
    RUNNING: "It needs no retry.",
    SUSPENDED: "Resume it.",
    COMPLETED: "Fork it.",
    CANCELLED: "Fork it.",
}
"""The advice for a run that has not failed, by its state."""


def check_state(header: FlowHeader, now: datetime, timeout_seconds: float | None, waits_for_stuck: str = "") -> None:
    """Raise `CannotRetry` for a run that cannot be retried, whatever its log has.

    `waits_for_stuck` is a stuck sub-flow for which the run waits, as FLOW/ID.
    """
    run = f"The run {header.address.key!r}"
    if header.removing:
        raise CannotRetry(f"{run} is being removed.", "being-removed")
    if header.state not in (FAILED, STUCK):
        last = f" It was retried at {header.retries[-1].at:%Y-%m-%d %H:%M:%S} UTC." if header.retries else ""
        advice = WITHOUT_RETRY[header.state]
        if waits_for_stuck:
            advice = f"It waits for {waits_for_stuck}, which is stuck: with fixed code, both continue."
        detail = f"{run} is {header.state}: only a run that has failed, or is stuck, can be retried. {advice}{last}"
        raise CannotRetry(detail, "not-failed", first_key=header.retries[-1].key if header.retries else "")
    if header.rewinds >= LIMITS.flow_rewinds_max:
        raise CannotRetry(f"{run} was retried {header.rewinds} times, which is the limit. Fork it.", "too-many")
    if untils := [claim.until for claim in header.running.values() if claim.delivery and claim.until > now]:
        seconds = max(1, int((max(untils) - now).total_seconds()) + 1)
        detail = f"The code of an inline step may still run, for {seconds} s at most. Retry after that."
        raise CannotRetry(detail, "step-running", retry_after_seconds=seconds)
    if header.deadline_at and header.deadline_at <= now and timeout_seconds is None:
        detail = f"The deadline of {header.address.key!r} is over. Name `timeout_seconds` for a new one."
        raise CannotRetry(detail, "deadline-over", field="timeout_seconds")


STUCK_DETAIL = (
    "The run is stuck, and needs no retry: deploy fixed code, and it continues within ten minutes, or at once with "
    "`resume`. Nothing runs twice. To run commands again, name `from_entry`: a dry run lists them."
)


def plan_of(header: FlowHeader, log: Sequence[Message], from_entry: int | None) -> Plan:
    """Return the plan of a retry. Raises `CannotRetry`. The log is the whole one."""
    if from_entry is None:
        if header.stuck:
            raise CannotRetry(STUCK_DETAIL, "stuck", field="from_entry")
        return default_plan(log)
    if from_entry > len(log):
        detail = f"`from_entry` is {from_entry:,}, and the log of {header.address.key!r} has {len(log):,} entries."
        raise CannotRetry(detail, "no-entry", field="from_entry")
    is_due = bool(log) and isinstance(log[0], Cancel) and DUE_PATCH in _patches_before(header)
    return Plan(max(from_entry, int(is_due)))


def default_plan(log: Sequence[Message]) -> Plan:
    """Return the plan that keeps everything but the failed results of the last `await`. Raises `CannotRetry`.

    No entry of a later `await` follows them. A command that was begun as a handle belongs to the place of its
    `flow.begin`, and may end behind the commands of later awaits.
    """
    results = [(number, entry) for number, entry in enumerate(log, 1) if isinstance(entry, Result)]
    failed = [(number, await_of(entry)) for number, entry in results if entry.outcome.failed]
    blanks, last = list[int](), -1
    for number, entry in reversed(results):
        last = max(last, await_of(entry))
        if entry.outcome.failed and await_of(entry) == last:
            blanks.insert(0, number)
    if blanks:
        return Plan(len(log), tuple(blanks))
    if not failed:
        detail = "No command has failed, so none runs again. Fix the code, and name `from_entry`; "
        raise CannotRetry(f"{detail}{len(log)} keeps all entries.", "nothing-failed", field="from_entry")
    number, of = failed[-1]
    later = tuple(n for n, entry in results if n > number and await_of(entry) > of)
    detail = f"The code has handled the failure of entry {number}, and continued: entries {_listed(later)} follow. "
    advice = "Name `from_entry`: effects of the dropped entries are not undone."
    raise CannotRetry(detail + advice, "tail-has-effects", field="from_entry", entries=later)


def handled_in_branch(blanks: Sequence[int], log: Sequence[Message]) -> CannotRetry:
    """Return the refusal of a default plan whose blanks the code does not fit, although it fits the whole log.

    A coroutine of the last group has handled its failure, for instance undone its work, by the commands behind it.
    """
    failed = [(n, entry.wait.path.split(".")) for n in blanks if isinstance(entry := log[n - 1], Result)]
    results = [(n, entry.wait.path.split(".")) for n, entry in enumerate(log, 1) if isinstance(entry, Result)]
    later = tuple(n for n, path in results if any(n > at and _is_behind(path, of) for at, of in failed))
    later = later or tuple(n for n, _ in results if n > min(blanks) and n not in blanks)
    detail = f"A coroutine has handled the failure of entry {min(blanks)}, and continued: entries {_listed(later)} "
    advice = "follow. Name `from_entry`: effects of the dropped entries are not undone."
    return CannotRetry(detail + advice, "tail-has-effects", field="from_entry", entries=later)


def _is_behind(path: Sequence[str], failed: Sequence[str]) -> bool:
    """Return whether a command is of a later `await` of the coroutine whose command failed, or of one around it."""
    for depth, (own, other) in enumerate(zip(path, failed, strict=False)):
        if own != other:
            return depth > 1 and int(own) > int(other)
    return False


def await_of(entry: Result) -> int:
    """Return the number of the `await` of the flow's own code to which a result belongs."""
    return int(entry.wait.path.partition(".")[0])


def rewound_header(
    header: FlowHeader,
    plan: Plan,
    key: str,
    now: datetime,
    reason: str = "",
    deadline_at: datetime | None = None,
    asks: str = "",
) -> FlowHeader:
    """Return the header with the next execution, whose opening turn cuts the log.

    The header has the leases that the kept entries of a stuck run have been granted; the caller releases the others.
    """
    before = header.rewound  # a retry of a run whose opening turn is stuck
    execution_id = before.execution_id if before else _writer_of(header)
    patches, origins = _patches_before(header), before.origins if before else header.origins
    kept = [replace(each, entries=min(each.entries, plan.keep)) for each in origins]
    rewound = Rewound(plan.keep, plan.blanks, execution_id, before.end if before else header.end, patches, origins)
    retry = Retry(key, header.rewinds + 1, now, reason[:RETRY_REASON_LETTERS], asks)
    return replace(
        header,
        rewinds=header.rewinds + 1,
        retries=(*header.retries, retry)[-LIMITS.flow_rewinds_max :],
        rewound=rewound,
        collects=True,
        patches={name: number for name, number in patches.items() if number <= 1 + plan.keep},
        origins=(*kept, Origin(header.address.key, execution_id, plan.keep)),
        pending={},
        running={},
        cancel_waits=False,
        stuck=None,
        end=None,
        deadline_at=deadline_at or header.deadline_at,
        deadline_rewind=header.rewinds + 1 if deadline_at else header.deadline_rewind,
    )


def _writer_of(header: FlowHeader) -> str:
    """Return the execution that wrote the end of the log: an earlier one, if the last retry could not be opened."""
    last = header.origins[-1] if header.origins else None
    is_earlier = last and last.id == header.address.key and last.entries == header.log.length
    return last.execution_id if last and is_earlier else header.execution_id


def _patches_before(header: FlowHeader) -> Mapping[str, int]:
    return header.rewound.patches if header.rewound else header.patches


def deadline_after(timeout_seconds: float | None, now: datetime) -> datetime | None:
    """Return the new deadline of a retried run, or None if it keeps its own."""
    return None if timeout_seconds is None else now + timedelta(seconds=timeout_seconds)


# --- sub-flows of a rewound run ---


def earlier_sub_flows(turn: FlowTurn, log: Sequence[Message]) -> dict[str, FlowAddress]:
    """Return the addresses that the sub-flows for which an opening turn waits had in earlier executions, by path.

    The execution to which an entry of the whole log belongs has also begun the command that ended there.
    """
    header, found = turn.header, dict[str, FlowAddress]()
    before = header.rewound
    assert before is not None, "the turn opens a rewound run"
    ended = {path: number for number, entry in enumerate(log, 1) if (path := _path_of(entry))}
    for path, pending in turn.driver.pending.items():
        if isinstance(pending.command, SubFlow):
            id_ = pending.command.id or header.adopted.get(path, "")
            begun_by = _begun_by(before.origins, ended.get(path, len(log) + 1), before.execution_id)
            wait = Wait(begun_by, path, signature=pending.command.signature, child=id_)
            if address := sub_flow_address(header.address, wait):
                found[path] = address
    return found


def _path_of(entry: Message) -> str:
    """Return the path of the command that ended at an entry, or an empty text."""
    match entry:
        case Result():
            return entry.wait.path
        case Blank():
            return entry.path
    return ""


def is_earlier_sub_flow(header: FlowHeader, child: FlowHeader, path: str, command: SubFlow[Any]) -> bool:
    """Return whether a run is the sub-flow that the parent has begun at this place, with the same arguments."""
    parent = child.parent
    if parent is None or (parent.base, parent.wait.path) != (header.address.base, path):
        return False
    same_generation = parent.wait.execution_id.partition(".")[0] == header.execution_id.partition(".")[0]
    return same_generation and new_header(child.address, command.function, command.arguments, "").digest == child.digest


def plan_as_sub_flow(child: FlowHeader, log: Sequence[Message], now: datetime) -> Plan | None:
    """Return the plan by which a rewound parent continues a sub-flow, or None if it begins another one.

    It does if the sub-flow has not failed, has handled its failure, for instance undone its work, or was cancelled,
    also if it failed then. A sub-flow whose code has raised the error by itself is replayed with the code that is
    deployed now.
    """
    if child.state != FAILED or any(isinstance(entry, Cancel) for entry in log):
        return None
    try:
        check_state(child, now, None)
        return default_plan(log)
    except CannotRetry as error:
        return Plan(len(log)) if error.reason == "nothing-failed" else None


def adopted_header(child: FlowHeader, plan: Plan, wait: Wait, execution_id: str, now: datetime) -> FlowHeader:
    """Return the rewound header of a sub-flow, whose parent waits for it in a new execution."""
    assert child.parent is not None, "it is a sub-flow"
    parent = replace(child.parent, wait=replace(wait, child="", scheduled_at=""))
    return replace(rewound_header(child, plan, execution_id, now, "with its parent"), parent=parent)


def waits_for(parent: FlowHeader, child: FlowHeader) -> bool:
    """Return whether a run waits for the outcome of this execution of its sub-flow, and will receive it."""
    assert child.parent is not None, "it is a sub-flow"
    return not parent.end and not parent.rewound and parent.awaited(child.parent.wait) is not None


def failed_because_of(parent: FlowHeader, log: Sequence[Message], child: FlowHeader) -> bool:
    """Return whether a run's default plan blanks the failure of its sub-flow. Raises `CannotRetry` without a plan."""
    assert child.parent is not None, "it is a sub-flow"
    plan, wait = default_plan(log), child.parent.wait
    failures = ((number, entry) for number, entry in plan.dropped(log) if number in plan.blanks)
    return any(
        isinstance(entry, Result)
        and entry.wait.path == wait.path
        and _begun_by(parent.origins, number, parent.execution_id) == wait.execution_id
        for number, entry in failures
    )


def _begun_by(origins: Sequence[Origin], number: int, execution_id: str) -> str:
    """Return the execution to which an entry belongs: an earlier one, or the current one. It has begun the command."""
    return next((each.execution_id for each in origins if number <= each.entries), execution_id)


def leases_of_tail(header: FlowHeader, kept: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
    """Return the leases of a stuck run that were granted in entries which a retry drops, by path."""
    granted = {entry.lease["id"] for entry in kept if isinstance(entry, Result) and entry.lease}
    return {path: lease for path, lease in header.leases.items() if lease["granted"]["id"] not in granted}


def retried_before(header: FlowHeader, key: str) -> Retry | None:
    """Return the retry that was carried out under a key, or None."""
    return next((retry for retry in header.retries if retry.key == key), None)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} …" if len(numbers) > len(numbers[:10]) else shown
