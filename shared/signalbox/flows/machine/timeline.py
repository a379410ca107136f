"""The timeline of a run: when and where each command was scheduled, and when and how its wait ended. All pure.

The log has the time at which a command ended. When it was scheduled, and at which line of the code, follows from a
replay: the entry that resumed the code has the time. A lock has two spans: its wait, and the time for which it is held.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.effects import RecordedSpan
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.flows.machine.commands import Command, Inline, ObjectCall, Sleep, Step, SubFlow
from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.tree import PendingCommand
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.log import time_of
from signalbox.flows.model.messages import Message, Result, sub_flow_address
from signalbox.flows.model.waits import Wait

DONE, FAILED, ABANDONED, PENDING = "done", "failed", "abandoned", "pending"
HELD, RELEASED = "held", "released"

ARGUMENTS_LETTERS_MAX = 20_000
"""The largest number of letters of a command's arguments in a timeline. Longer arguments are left out."""


@dataclass(slots=True)
class Span:
    """A command from its schedule to its end, or a lock while it is held.

    `entry` is the index of the entry that ended it. `started_at` is None if no record was read at the start of the run.
    `due_at` is the end of a sleep or of a pause.
    """

    path: str
    command: str
    place: str
    started_at: datetime | None
    outcome: str
    ended_at: datetime | None = None
    entry: int | None = None
    due_at: datetime | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def end(self, outcome: str, at: datetime | None, entry: int) -> None:
        self.outcome, self.ended_at, self.entry = outcome, at, entry


def timeline(definition: FlowDefinition, header: FlowHeader, log: Sequence[Message]) -> list[Span]:
    """Return the spans of a run in the order of their starts. Raises `Stuck` if the code has diverged from its log."""
    if not header.begun:
        return []
    driver = Driver.of(definition, header)
    spans = _Spans(header, driver, len(log))
    try:
        driver.start(header.start_at, log)
        spans.note(header.start_at, -1)
        for number, entry in enumerate(log):
            spans.apply(entry, number)
    finally:
        driver.drop()
    return spans.finished(len(log))


@dataclass(slots=True)
class _Spans:
    header: FlowHeader
    driver: Driver
    entries: int
    spans: list[Span] = field(default_factory=list)
    waits: dict[str, Span] = field(default_factory=dict)
    held: dict[str, Span] = field(default_factory=dict)

    def apply(self, entry: Message, number: int) -> None:
        """Apply an entry of the log. Commands that are no longer pending have ended, or were abandoned."""
        before = dict(self.driver.pending)
        self.driver.apply(entry)
        at, own = time_of(entry), entry.wait.path if isinstance(entry, Result) else ""
        gone = [path for path in before if self.driver.pending.get(path) is not before[path]]
        for path in gone:
            command = before[path].command
            if isinstance(command, SubFlow):
                self.waits[path].more.update(self._run_of(path, command, number + 1))
            if path == own and isinstance(entry, Result):
                self.waits[path].more.update(entry.wait.shown_attempts())
                self.waits.pop(path).end(FAILED if entry.outcome.failed else DONE, at, number)
            else:
                received = not own and before[path].command.kind == entry.kind  # of an event or an update
                self.waits.pop(path).end(DONE if received else ABANDONED, at, number)
        self.note(at, number)

    def note(self, at: datetime | None, number: int) -> None:
        """Note the commands and leases that are new."""
        for path in [path for path in self.held if path not in self.driver.held]:
            self.held.pop(path).end(RELEASED, at, number)
        for path, lease in self.driver.held.items():
            if path not in self.held:
                place = next(span.place for span in reversed(self.spans) if span.path == path)
                ends_at = datetime.fromisoformat(lease["ends_at"])
                held = Span(path, f"holds {lease['semaphore']}", place, at, HELD, due_at=ends_at)
                self.held[path] = self._added(held)
        for path, pending in self.driver.pending.items():
            if path not in self.waits:
                self.waits[path] = self._added(self._span(path, pending, at))

    def finished(self, number: int) -> list[Span]:
        """Return the spans. Commands that are pending at the end of the run were abandoned there."""
        end = self.header.end
        for span in (*self.waits.values(), *self.held.values()) if end else ():
            span.end(ABANDONED if span.outcome == PENDING else RELEASED, end.at if end else None, number)
        return self.spans

    def _added(self, span: Span) -> Span:
        self.spans.append(span)
        return span

    def _span(self, path: str, pending: PendingCommand, at: datetime | None) -> Span:
        command = pending.command
        more = self._more(path, command) | dict(self._attempts(path))
        span = Span(path, command.signature, pending.location, at, PENDING, more=more)
        wait, claim = self.header.pending.get(path), self.header.running.get(path)
        if isinstance(command, Sleep) and at:
            scheduled_at = datetime.fromisoformat(wait.scheduled_at) if wait and wait.scheduled_at else at
            span.due_at = scheduled_at + timedelta(seconds=command.seconds)  # of a fork, later than the entry
        elif wait and isinstance(command, Step | Inline) and wait.attempt > 1 and wait.scheduled_at:
            pause_seconds = command.pause_before(wait.attempt)
            span.due_at = datetime.fromisoformat(wait.scheduled_at) + timedelta(seconds=pause_seconds)
        if claim and not claim.delivery:
            span.due_at = claim.until
        return span

    def _more(self, path: str, command: Command[Any]) -> dict[str, Any]:
        """Return the arguments of a command, and the address of the run for a sub-flow."""
        arguments: Any = None
        more: dict[str, Any] = {}
        match command:
            case Step():
                arguments = command.call.payload
            case ObjectCall():
                arguments = command.arguments
            case SubFlow():
                arguments = command.arguments
                more |= self._run_of(path, command, self.entries + 1)
        if arguments is not None and len(str(arguments)) <= ARGUMENTS_LETTERS_MAX:
            more["arguments"] = dict(arguments)
        return more

    def _run_of(self, path: str, command: SubFlow[Any], number: int) -> dict[str, Any]:
        """Return the run of a sub-flow that ended at an entry, or has not.

        The entry belongs to the execution that has begun the sub-flow: of a fork or of a retried run, perhaps an
        earlier one. A retry may have adopted the sub-flow of an earlier execution.
        """
        if self.header.rewound and number > self.entries:
            return {}  # the opening turn decides
        header, id_ = self.header, command.id or self.header.adopted.get(path, "")
        origin = next((each for each in header.origins if number <= each.entries), None)
        begun_by, run = (origin.execution_id, origin.id) if origin else (header.execution_id, header.address.key)
        wait = Wait(begun_by, path, signature=command.signature, child=id_)
        address = sub_flow_address(FlowAddress(header.address.name, run), wait)
        return {"run": {"function": command.function, **address.to_json()}} if address else {}

    def _attempts(self, path: str) -> Iterator[tuple[str, Any]]:
        """Iterate over the span's members about attempts of a pending command: their number, starts and last error."""
        wait, claim = self.header.pending.get(path), self.header.running.get(path)
        if wait:
            yield from wait.shown_attempts().items()
        if claim and claim.starts > 1:
            yield "starts", claim.starts
        if claim and claim.error:
            yield "last_error", claim.error


# --- spans of a commit, for traces ---


def recorded_spans(turn: FlowTurn, after: FlowHeader) -> list[RecordedSpan]:
    """Return the spans that a turn's commit has recorded. They are of commands' attempts, and of a run that has ended.

    Their keys follow from the run, the execution, the path and the attempt, so a repeated turn gives the same keys.
    """
    if turn.now is None:
        return []
    return [*_attempt_spans(turn, turn.now), *_run_span(after)]


def _attempt_spans(turn: FlowTurn, now: datetime) -> Iterator[RecordedSpan]:
    ended = [(entry.wait.path, entry.outcome) for entry in turn.applied if isinstance(entry, Result)]
    for path, error in [
        *((path, _error(outcome.error)) for path, outcome in ended),
        *((path, turn.pending[path].last_error) for path in sorted(turn.retried & turn.pending.keys())),
    ]:
        if wait := turn.header.pending.get(path):
            started_at = datetime.fromisoformat(wait.scheduled_at) if wait.scheduled_at else turn.start_at or now
            shown: dict[str, str | int] = {**turn.header.address.to_json(), "path": path, "attempt": wait.attempt}
            run = trace_key(turn.header.address.base, turn.header.incarnation)
            key = span_key(turn.header.address.base, wait)
            yield RecordedSpan(wait.signature, run, key, run, started_at, now, shown, error)


def _run_span(after: FlowHeader) -> Iterator[RecordedSpan]:
    if after.end is None:
        return
    run, parent = trace_key(after.address.base, after.incarnation), after.parent
    links = []
    if parent:
        incarnation = parent.wait.execution_id.rpartition("-")[0]
        links.append((trace_key(parent.base, incarnation), span_key(parent.base, parent.wait)))
    started_at, error = after.start_at or after.end.at, _error(after.end.outcome.error)
    shown = {**after.address.to_json(), "state": after.end.state}
    yield RecordedSpan(f"flow {after.address.name}", run, run, "", started_at, after.end.at, shown, error, links)


def trace_key(base: str, incarnation: str) -> str:
    """Return the key of a run's trace, and of the run's own span in it."""
    return f"{base} {incarnation}"


def span_key(base: str, wait: Wait) -> str:
    """Return the key of the span of a command's attempt."""
    return f"{base} {wait.execution_id} {wait.path} {wait.attempt}"


def _error(error: Mapping[str, Any] | None) -> str:
    return f"{error.get('title')}: {error.get('detail')}" if error else ""
