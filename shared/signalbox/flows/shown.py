"""The answers about runs of flows: their status, logs, timelines, queries and lists."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.surface.field_rules import Described, Range
from signalbox.core.surface.shown import ABSENT, RetriedTaskShown
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.rewinds import RetryAnswer
from signalbox.flows.machine.timeline import ABANDONED, DONE, FAILED, HELD, PENDING, RELEASED, Span
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import STATES, FlowHeader
from signalbox.flows.model.labels import LABELS
from signalbox.flows.model.log import time_of
from signalbox.flows.model.messages import Message, Result
from signalbox.flows.model.payloads import shown_values
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.shown import ObjectAddressShown, OutcomeProblemShown, outcome_members
from signalbox.payloads.model import shown

State = Annotated[str, Described({"enum": list(STATES)})]

Labels = Annotated[Mapping[str, str], Described(LABELS)]

Reason = Annotated[str, Described({"enum": ["flow-changed", "flow-failed", "flow-too-large", "flow-killed"]})]

TIME = Described({"format": "date-time"})
"""The rule of a time that the record has as text."""

Count = Annotated[int, Range(0)]


@dataclass(frozen=True, slots=True)
class FlowAddressShown:
    """The run."""

    flow: str
    id: str

    @classmethod
    def of_address(cls, address: FlowAddress) -> Self:
        return cls(address.name, address.key)


@dataclass(frozen=True, slots=True)
class SentFlowEventShown(FlowAddressShown):
    """The run, and the event that it receives."""

    event: str
    """The event's id."""

    started: bool = False
    """Whether the event has started the run."""

    warning: str = ""
    """The names that the code waits for, if it does not wait for this one now."""


@dataclass(frozen=True, slots=True)
class FlowUpdateWaitsShown(FlowAddressShown):
    """The update has no answer yet."""

    update: str
    """The update's id."""

    ready: Literal[False]

    started: bool = False
    """Whether the update has started the run."""

    warning: str = ""
    """The names that the code waits for, if it did not wait for this one."""


@dataclass(frozen=True, slots=True)
class FlowUpdateAnsweredShown(FlowAddressShown):
    """The answer, which is one of `result` and `error`."""

    update: str
    """The update's id."""

    ready: Literal[True]

    result: Any = ABSENT
    """Any JSON."""

    error: OutcomeProblemShown | None = None
    """The problem with which the code refused the update."""


# --- status ---


@dataclass(frozen=True, slots=True)
class FlowLockShown:
    """A lock that a run holds: the semaphore, the id of the lease, and its end."""

    semaphore: str
    lease: str
    ends_at: Annotated[str, TIME]


@dataclass(frozen=True, slots=True)
class StuckShown:
    """The reason why a run is stuck."""

    type: Reason

    detail: str

    place: str
    """The place in the flow's code."""

    at: Annotated[str | None, TIME] = None
    """The time since which the run is stuck."""

    trace: str = ""
    """The stack trace of the error, in frames of the flow's code. An open function shows none."""

    locks: tuple[FlowLockShown, ...] = ()
    """The locks that the run holds meanwhile. `terminate` ends the run and releases them."""

    @classmethod
    def of(cls, header: FlowHeader) -> Self:
        leases = header.held_leases
        locks = tuple(FlowLockShown(lease["semaphore"], lease["id"], lease["ends_at"]) for lease in leases)
        return cls(**header.stuck or {}, locks=locks)


@dataclass(frozen=True, slots=True)
class StuckSubFlowShown:
    """A sub-flow that is stuck, and why."""

    flow: str
    id: str
    type: Reason
    detail: str

    place: str
    """The place in the sub-flow's code."""

    at: Annotated[str | None, TIME] = None
    """The time since which the sub-flow is stuck."""

    @classmethod
    def of(cls, header: FlowHeader) -> Self:
        stuck = header.stuck or {}
        reason = {name: value for name, value in stuck.items() if name != "trace"}
        return cls(**header.address.to_json(), **reason)


@dataclass(frozen=True, slots=True)
class StartError:
    """The error of the last start of a pending step, whose code is started again at `next_at`."""

    error: str
    starts: int
    next_at: datetime


@dataclass(frozen=True, slots=True)
class FlowWaitShown:
    """A command that a run waits for."""

    path: str
    """The command's place among the code's waits."""

    command: str
    """Its kind and its name."""

    attempt: Annotated[int, Range(1)]

    asked_at: Annotated[str | None, TIME]
    """Null if the time had not been read, as at a start."""

    last_error: str = ""
    """The error text of this attempt's last start, or the beginning of the error text of the attempt before. An open
    function shows none."""

    stuck: StuckSubFlowShown | None = None
    """A sub-flow below the command that is stuck."""

    starts: Annotated[int | None, Range(1)] = None
    """How often the code of this attempt has been started, if its last start has raised an error and is retried."""

    next_at: datetime | None = None
    """The earliest time of its next start."""

    @classmethod
    def of(cls, path: str, wait: Wait, stuck: FlowHeader | None = None, error: StartError | None = None) -> Self:
        sub_flow = StuckSubFlowShown.of(stuck) if stuck else None
        what = path, wait.signature, wait.attempt, wait.scheduled_at or None
        if error is None:
            return cls(*what, wait.last_error, sub_flow)
        return cls(*what, error.error, sub_flow, error.starts, error.next_at)


@dataclass(frozen=True, slots=True)
class UnawaitedShown:
    """Events that were sent and that the code has not waited for, perhaps since a name is misspelt."""

    events: Annotated[int, Range(1)]

    names: Annotated[tuple[str, ...], Described({"maxItems": LIMITS.flow_events_shown_max})]
    """The first of their names."""


@dataclass(frozen=True, slots=True)
class UnansweredShown:
    """Updates that the run has received and its code has not answered."""

    updates: Annotated[int, Range(1)]

    names: Annotated[tuple[str, ...], Described({"maxItems": LIMITS.flow_events_shown_max})]
    """The first of their names."""

    @classmethod
    def of(cls, header: FlowHeader) -> Self | None:
        names = sorted({*header.unanswered.values()})[: LIMITS.flow_events_shown_max]
        return cls(len(header.unanswered), tuple(names)) if names else None


@dataclass(frozen=True, slots=True)
class SuspendedShown:
    """The time since which the run takes no further step, and the reason."""

    at: Annotated[str, TIME]
    reason: str


@dataclass(frozen=True, slots=True)
class ForkedFromShown:
    """The run whose log this one's begins with, and the number of entries of it."""

    id: str
    entries: Count


@dataclass(frozen=True, slots=True)
class RetriedShown:
    """Of a run that was retried in place: how often, and the time and the reason of the last time."""

    times: Count
    at: datetime
    reason: str | None = None


NONE: Mapping[str, FlowHeader] = {}
NO_ERRORS: Mapping[str, RetriedTaskShown] = {}


def _ended(outcome: CallOutcome) -> dict[str, Any]:
    """Return the members of an outcome. Of a large result, its size and its hash are shown."""
    return outcome_members(replace(outcome, result=shown(outcome.result)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatusShown:
    """The run as it is now."""

    flow: str

    id: str

    state: State

    result: Any = ABSENT
    """The value that a completed run has returned; any JSON. A large one is `{"$payload": {"bytes", "sha256"}}`."""

    object: ObjectAddressShown | None = None
    """The object that a completed run has returned."""

    error: OutcomeProblemShown | None = None
    """The problem that ended a run that failed or was cancelled."""

    ended_at: datetime | None = None

    waiting_for: tuple[FlowWaitShown, ...]
    """The pending commands, by path."""

    unawaited: UnawaitedShown | None = None

    unanswered: UnansweredShown | None = None

    log_length: Count
    """The number of entries in its log."""

    generation: Count
    """The number of executions that ended with `flow.continue_as_new`."""

    progress: Any
    """The last value that the code showed with `flow.progress`; any JSON."""

    labels: Labels = field(default_factory=dict)

    deadline_at: datetime | None = None
    """The end of the run's time-out, if it has one."""

    problem: StuckShown | None = None

    suspended: SuspendedShown | None = None

    trace: str = ""
    """The place where the code of a failed run raised its error, in frames of the flow's code. An open function shows
    none."""

    forked_from: ForkedFromShown | None = None

    retried: RetriedShown | None = None

    @classmethod
    def of(
        cls,
        header: FlowHeader,
        stuck: Mapping[str, FlowHeader] = NONE,
        retried: Mapping[str, RetriedTaskShown] = NO_ERRORS,
    ) -> Self:
        """Return the status of a run.

        `stuck` are stuck sub-flows, and `retried` the errors of tasks of steps, by the paths of the waits that they
        hold up.
        """
        origin = next((of for of in reversed(header.origins) if of.id != header.address.key), None)
        last = header.retries[-1] if header.retries else None
        return cls(
            flow=header.address.name,
            id=header.address.key,
            state=header.state,
            **(_ended(header.end.outcome) if header.end else {}),
            ended_at=header.end.at if header.end else None,
            waiting_for=waits_shown(header, stuck, retried),
            unawaited=UnawaitedShown(header.kept, header.kept_names) if header.kept else None,
            unanswered=UnansweredShown.of(header),
            log_length=header.log_length,
            generation=header.generation,
            progress=header.progress,
            labels=header.labels,
            deadline_at=header.deadline_at,
            problem=StuckShown.of(header) if header.stuck else None,
            suspended=SuspendedShown(**header.suspended) if header.suspended else None,
            trace=header.trace if header.end else "",
            forked_from=ForkedFromShown(origin.id, origin.entries) if origin else None,
            retried=RetriedShown(header.rewinds, last.at, last.reason or None) if last else None,
        )


def waits_shown(
    header: FlowHeader,
    stuck: Mapping[str, FlowHeader] = NONE,
    retried: Mapping[str, RetriedTaskShown] = NO_ERRORS,
) -> tuple[FlowWaitShown, ...]:
    """Return the pending commands of a run, by path, with the errors of starts that are retried."""
    inline = {path: StartError(one.error, one.starts, one.until) for path, one in header.running.items() if one.error}
    tasks = {path: StartError(one.error, one.attempts, one.next_at) for path, one in retried.items()}
    starts = inline | tasks
    waits = sorted(header.pending.items())
    return tuple(FlowWaitShown.of(path, wait, stuck.get(path), starts.get(path)) for path, wait in waits)


# --- logs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEntryShown:
    """A command that ended, an event or an update that came, a cancel, or a failed result that a retry has blanked."""

    at: datetime

    entry: Annotated[str, Described({"enum": ["done", "event", "update", "cancel", "blank"]})]

    path: str | None = None
    """The command's place among the code's waits."""

    command: str | None = None

    result: Any = ABSENT
    """Any JSON."""

    object: ObjectAddressShown | None = None

    error: OutcomeProblemShown | None = None

    attempt: Annotated[int | None, Range(2)] = None
    """The number of attempts, if there were several."""

    last_error: str | None = None
    """The beginning of the error text of the attempt before the last one. An open function shows none."""

    name: str | None = None
    """The name of an event or an update."""

    value: Any = ABSENT
    """The value of an event or an update; any JSON."""

    update: str | None = None
    """The id of an update."""

    reason: str | None = None
    """The reason of a cancel."""

    @classmethod
    def of(cls, entry: Message) -> Self:
        entry = shown_values(entry)
        if not isinstance(entry, Result):
            return cls(at=time_of(entry), entry=entry.kind, **entry.shown())
        wait, outcome = entry.wait, outcome_members(entry.outcome)
        ended = {**outcome, **wait.shown_attempts()}
        return cls(at=time_of(entry), entry=entry.kind, path=wait.path, command=wait.signature, **ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLogShown:
    """One page of a log; without `next_page_token` it is the last."""

    flow: str

    id: str

    execution_id: str
    """The execution of the run whose log it is."""

    arguments: Mapping[str, Any]

    begun_at: datetime | None
    """The time of the start, if the code has read it."""

    patches: Mapping[str, int]
    """The positions from which the code's patches hold, by name."""

    origins: tuple[tuple[str, str, int], ...] = ()
    """Of a fork: the executions whose entries its log begins with, each with its run's id and the number of entries."""

    parent: FlowAddressShown | None = None
    """Of a sub-flow: the run that waits for it."""

    state: State

    waiting_for: Mapping[str, str]
    """The commands that the run waits for, by their paths."""

    begins: bool = False
    """Whether the next turn begins this execution: nothing is scheduled yet, so `waiting_for` is empty."""

    log_length: Count
    """The number of entries in the log."""

    entries: tuple[FlowEntryShown, ...]

    next_page_token: str = ""

    @classmethod
    def of(
        cls,
        header: FlowHeader,
        entries: Sequence[Message],
        page: Sequence[Message],
        next_page_token: str = "",
        **more: Any,
    ) -> Self:
        """Return a page of a log, with the values of the header that a replay needs. `more` are those of a subclass."""
        parent = header.context.parent
        return cls(
            flow=header.address.name,
            id=header.address.key,
            execution_id=header.execution_id,
            arguments={name: shown(value) for name, value in header.arguments.items()},
            begun_at=header.start_at,
            patches=header.patches,
            origins=tuple((origin.id, origin.execution_id, origin.entries) for origin in header.origins),
            parent=FlowAddressShown.of_address(parent) if parent else None,
            state=header.state,
            waiting_for={path: wait.signature for path, wait in header.pending.items()},
            begins=header.rewound is not None or (not header.begun and not header.end),
            log_length=len(entries),
            entries=tuple(map(FlowEntryShown.of, page)),
            next_page_token=next_page_token,
            **more,
        )


@dataclass(frozen=True, slots=True)
class FlowPayloadShown(FlowAddressShown):
    """A large value of a run."""

    sha256: str
    """The hash by which the run's status or its log names the value."""

    value: Any
    """Any JSON."""


@dataclass(frozen=True, slots=True)
class FlowRunShown(FlowAddressShown):
    """A sub-flow and the function that has its code."""

    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpanShown:
    """A command of a run from its schedule to its end, or a lock while it is held."""

    path: str
    """The command's place among the code's waits."""

    command: str
    """Its kind and its name; a held lock is `holds` and its semaphore."""

    outcome: Annotated[str, Described({"enum": [DONE, FAILED, ABANDONED, PENDING, HELD, RELEASED]})]

    started_at: datetime | None
    """Null if the time had not been read, as at a start."""

    ended_at: datetime | None

    entry: int | None
    """The index of the log's entry that ended it."""

    due_at: datetime | None = None
    """The end of a sleep, of a pause before an attempt, or of a lease."""

    place: str | None = None
    """The line of the code that waits for it. An open function shows none."""

    run: FlowRunShown | None = None
    """The run of a sub-flow."""

    arguments: Mapping[str, Any] | None = None
    """Those of a step, an object's call or a sub-flow, if they are not long. An open function shows none."""

    attempt: Annotated[int | None, Range(2)] = None
    """The current attempt."""

    last_error: str | None = None
    """The beginning of the text of the error of the attempt before it. An open function shows none."""

    starts: Annotated[int | None, Range(2)] = None
    """The starts of the attempt of an inline step."""

    @classmethod
    def of(cls, span: Span, *, details: bool) -> Self:
        """Return a span; `details`: with the line of the code, the arguments and the last error."""
        more = {name: value for name, value in span.more.items() if details or name not in DETAILS}
        run = more.pop("run", None)
        return cls(
            path=span.path,
            command=span.command,
            outcome=span.outcome,
            started_at=span.started_at,
            ended_at=span.ended_at,
            entry=span.entry,
            due_at=span.due_at,
            place=span.place if details else None,
            run=FlowRunShown(**run) if run else None,
            **more,
        )


DETAILS = frozenset({"arguments", "last_error"})
"""Members of a span that only callers with a right to see the code receive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLogWithSpansShown(FlowLogShown):
    """One page of a log with its timeline; without `next_page_token` it is the last."""

    spans: tuple[FlowSpanShown, ...] | None
    """The spans that end on this page, on the last page also the pending ones. Null if replay fails."""


@dataclass(frozen=True, slots=True)
class FlowWatchEventShown:
    """A server-sent event."""

    event: Literal["entry", "progress", "complete"]
    id: str

    data: str
    """JSON."""


# --- retries ---


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedEntryShown:
    """An entry of a log, by its number."""

    number: Count
    """Its number in the log, from 1 on. `from_entry` one less keeps the entries before it."""

    at: datetime

    entry: Annotated[str, Described({"enum": ["done", "event", "update", "cancel", "blank"]})]

    command: str | None = None
    """The kind and the name of the command that ended. Effects of a dropped one are not undone."""

    name: str | None = None
    """The name of an event or an update. Dropped ones are given back: the run receives them again, as new entries."""

    error: OutcomeProblemShown | None = None

    @classmethod
    def of(cls, number: int, entry: Message) -> Self:
        if isinstance(entry, Result):
            error = outcome_members(entry.outcome).get("error")
            return cls(number=number, at=time_of(entry), entry=entry.kind, command=entry.wait.signature, error=error)
        names = {name: value for name, value in entry.shown().items() if name in ("command", "name")}
        return cls(number=number, at=time_of(entry), entry=entry.kind, **names)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubFlowRetryShown(FlowAddressShown):
    """A failed sub-flow that continues with the run above it, by its default plan."""

    keeps: Count
    """The number of entries of its log that stay."""

    runs_again: tuple[NumberedEntryShown, ...]
    """Its failed entries whose commands run again. Empty if its code itself raised the error: the code is replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRetryShown(FlowAddressShown):
    """The run that is retried: with `family`, perhaps an ancestor of the one that was asked for."""

    execution_id: str
    """Its next execution."""

    keeps: Count | None
    """The number of entries of the log that stay. Null in the answer to a repeat."""

    runs_again: tuple[NumberedEntryShown, ...]
    """The failed entries that become blank: their commands run again. The log keeps their places."""

    drops: Annotated[tuple[NumberedEntryShown, ...], Described({"maxItems": LIMITS.flow_log_page})]
    """The entries behind those that stay. Their effects are not undone; what the code still waits for runs again."""

    dropped: Count
    """The number of all dropped entries."""

    cancels: tuple[str, ...]
    """The commands for which a stuck run waits. They are cancelled, and scheduled again where the code waits for them.
    """

    ended: tuple[str, ...]
    """Those of `cancels` that have ended: their outcomes wait until the code is fixed. A retry drops these outcomes, so
    the commands run a second time. `resume` lets fixed code receive the outcomes, and nothing runs twice.
    """

    sub_flows: Annotated[tuple[SubFlowRetryShown, ...], Described({"maxItems": LIMITS.flows_listed_max})]
    """In the answer to a dry run, the failed sub-flows that continue, each before those below it, as far as the code is
    known. Other sub-flows that run again begin from their start.
    """

    repeated: bool
    """Whether an earlier request with the same key has carried out the retry. This one changed nothing."""

    @classmethod
    def of(cls, done: RetryAnswer) -> Self:
        return cls(
            **done.address.to_json(),
            execution_id=done.execution_id,
            keeps=None if done.repeated else done.keep,
            runs_again=tuple(NumberedEntryShown.of(*each) for each in done.blanked),
            drops=tuple(NumberedEntryShown.of(*each) for each in done.dropped[: LIMITS.flow_log_page]),
            dropped=len(done.dropped),
            cancels=tuple(done.pending),
            ended=tuple(done.ended),
            sub_flows=tuple(
                SubFlowRetryShown(
                    **each.address.to_json(),
                    keeps=each.keep,
                    runs_again=tuple(NumberedEntryShown.of(*entry) for entry in each.blanked),
                )
                for each in done.sub_flows
            ),
            repeated=done.repeated,
        )


# --- queries ---


@dataclass(frozen=True, slots=True)
class FlowQueriesShown:
    """Their names."""

    queries: Annotated[tuple[str, ...], Described({"maxItems": LIMITS.flow_answers_max})]


@dataclass(frozen=True, slots=True)
class FlowAnswerShown(FlowAddressShown):
    """The answer, from the first `entries` of the log. These are not all if the code fails at the next entry."""

    query: str

    result: Any
    """Any JSON."""

    entries: Count


# --- lists ---


@dataclass(frozen=True, slots=True)
class ListedFlowShown:
    """A run in a list."""

    flow: str

    id: str

    state: State

    created_at: datetime | None = None
    """The time of the start."""

    ended_at: datetime | None = None

    archived_at: datetime | None = None
    """The time at which the archive of the ended run was written."""

    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowsShown:
    """One page, of which the last has no `next_page_token`."""

    flows: Annotated[tuple[ListedFlowShown, ...], Described({"maxItems": LIMITS.flows_listed_max})]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class FlowCountShown:
    """The number of the runs."""

    count: Count


@dataclass(frozen=True, slots=True)
class FlowCountsShown:
    """The numbers of the runs with each value of a label, the largest first."""

    counts: dict[str, Count]


@dataclass(frozen=True, slots=True)
class FlowsBatchShown:
    """The batch, whose progress `GET batches/{batch}` shows, and the number of its runs."""

    batch: str
    count: Count


# --- callbacks ---


@dataclass(frozen=True, slots=True)
class CallbackSentShown:
    """The event was accepted."""

    event: str
