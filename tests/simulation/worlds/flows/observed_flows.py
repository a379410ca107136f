"""Observations of the flows of a simulated world: outcomes of steps, committed messages, and writes of headers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from signalbox.core.effects import name_of
from signalbox.core.ports import Snapshot
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import COMPLETED, FlowHeader, Origin
from signalbox.flows.model.log import entries_from_text, time_of
from signalbox.flows.model.messages import Cancel, Event, Message, Result, message_from_record
from signalbox.flows.service.messages import callback_message
from signalbox.flows.storage.log import chunk_paths
from signalbox.mailboxes.model.messages import HEADER, header_path, message_path
from tests.simulation.world import Violation
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns

TIME_OUT = "The run's time-out of "
"""What the reason of a cancel at a deadline begins with."""

ABANDONED = "does not wait for it any more"
"""What the reason of a cancel by the flow around it ends with."""

Execution = tuple[str, str]
"""The base of a flow, and an execution id."""


class CheckRemoved(Protocol):
    """Check the removal of an ended run, by the sweeper or by a person."""

    def __call__(self, header: FlowHeader, /, *, swept: bool) -> None: ...


@dataclass
class FlowsHistory:
    """What has happened. `outcomes` are those that each attempt of a step had, by base, execution id and path.

    `landed` are events in mailboxes, with the incarnation of their flow; `logs` has the entries of each execution's
    log, and `received` the events in all logs of an incarnation. `waiting` has the places in the order of the messages
    that wait, `ended_at` the time of each outcome of a step, and `behind` those of the outcomes that the last commit of
    a flow has applied. `cancelled` are the incarnations that received a cancel, and `cancels` the ids of all cancels.
    `admitted` has the incarnations of the runs that the events of callbacks are for. `half_removed` has the ids of
    ended executions of which a removal has deleted a part of the log. It deletes the log after all messages.
    `deadlines` are those of runs, and `timed_out` the runs that were cancelled at theirs.
    `holders` has the run that each lease was granted to.
    `removed` checks a removal. `replaced`: an execution was followed by another one, or a run was removed.
    `is_swept`: today's sweeper writes.
    """

    sound: bool = True
    outcomes: dict[tuple[str, str, str], set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    landed: dict[str, list[tuple[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    logs: dict[Execution, list[Message | None]] = field(default_factory=lambda: defaultdict(list))
    present: set[str] = field(default_factory=set)
    headers: dict[str, FlowHeader] = field(default_factory=dict)
    events_applied: dict[tuple[str, str], set[Any]] = field(default_factory=lambda: defaultdict(set))
    received: dict[tuple[str, str], set[Any]] = field(default_factory=lambda: defaultdict(set))
    waiting: dict[str, dict[str, datetime]] = field(default_factory=lambda: defaultdict(dict))
    ended_at: dict[str, datetime] = field(default_factory=dict)
    behind: dict[str, datetime] = field(default_factory=dict)
    cancelled: set[tuple[str, str]] = field(default_factory=set)
    cancels: set[str] = field(default_factory=set)
    admitted: dict[str, str] = field(default_factory=dict)
    deadlines: dict[tuple[str, str], datetime | None] = field(default_factory=dict)
    timed_out: set[tuple[str, str]] = field(default_factory=set)
    holders: dict[str, tuple[str, str]] = field(default_factory=dict)
    half_removed: set[str] = field(default_factory=set)
    replaced: bool = False
    inline: InlineRuns = field(default_factory=InlineRuns)
    is_swept: Callable[[], bool] = lambda: False
    removed: CheckRemoved = lambda _, *, swept: None  # noqa: ARG005  what a world without archives checks

    def observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Observe a write. Raises `Violation` if a header is impossible."""
        parts = path.split("/")
        if parts[0] == FlowAddress.COLLECTION:
            (self.present.discard if after.data is None else self.present.add)(path)
            if len(parts) == 4 and parts[2] == "log":
                self._note_chunk("/".join(parts[:2]), path, after)
        if parts[0] != FlowAddress.COLLECTION or len(parts) != 4 or parts[2] != "mailbox":
            return
        address = FlowAddress.of_base("/".join(parts[:2]))
        if parts[3] != HEADER:
            self._note_message(address, before, after)
        elif after.data is not None:
            self.check_order(address.base)
            known = FlowHeader.from_record(address, before.data) if before.data is not None else None
            self._check(known, FlowHeader.from_record(address, after.data))
        else:
            removed, self.replaced = self.headers.pop(address.base, None), True
            if removed and not removed.end:
                raise Violation(f"{address.base} was removed before its end")
            if removed:
                self.removed(removed, swept=self.is_swept())

    def has_landed(self, address: FlowAddress, id_: str) -> bool:
        """Return whether the mailbox has an event or its receipt."""
        ids = name_of("event", address.base, id_), callback_message(address.base, id_)
        return any(message_path(address.base, each) in self.present for each in ids)

    def sub_flow(self) -> FlowAddress | None:
        """Return a sub-flow that runs, or None."""
        running = sorted(base for base, header in self.headers.items() if header.parent and not header.end)
        return FlowAddress.of_base(running[0]) if running else None

    def is_awaited(self, step: Mapping[str, Any]) -> bool:
        """Return whether a flow waits for a step, by the context of its task, on this attempt."""
        header = self.headers.get(step["flow"])
        pending = header.pending.get(step["path"]) if header and header.execution_id == step["life"] else None
        return pending is not None and pending.attempt <= step["attempt"]

    def _note_events(self, header: FlowHeader, entries: Sequence[Message]) -> None:
        """Note the events in the log of a run."""
        events = {entry.value for entry in entries if isinstance(entry, Event)}
        if others := [each for each in events if self.admitted.get(each, header.incarnation) != header.incarnation]:
            raise Violation(f"{header.address.base} received the callbacks {others} of another run")
        self.received[header.address.base, header.incarnation] |= events

    def is_half_removed(self, header: FlowHeader) -> bool:
        """Return whether a part of the log is deleted, so that it cannot be replayed."""
        return header.execution_id in self.half_removed

    def check_order(self, base: str) -> None:
        """Check that no message waits that was due before the end of a step whose outcome was applied.

        A cancel may wait for the code of an inline step, also until the run has ended and a turn drops it.
        """
        ended_at, header = self.behind.pop(base, None), self.headers.get(base)
        left = self.cancels if header and (header.cancel_waits or header.end) else set()
        waiting = [(id_, place) for id_, place in self.waiting[base].items() if id_ not in left]
        if ended_at and (overtaken := [id_ for id_, place in waiting if place < ended_at]):
            raise Violation(f"an outcome of {ended_at} has overtaken {overtaken} of {base}")

    def _note_chunk(self, base: str, path: str, after: Snapshot) -> None:
        """Note the events of a chunk, or that a removal has deleted it: after the end of its flow and all messages."""
        if after.data is not None:
            self._note_events(self.headers[base], entries_from_text(after.data["entries"]))
            return
        header = self.headers.get(base)
        messages = f"{base}/mailbox/"
        left = any(other.startswith(messages) and other != header_path(base) for other in self.present)
        if header and header.end and path in chunk_paths(header) and not left:
            self.half_removed.add(header.execution_id)

    def _note_message(self, address: FlowAddress, before: Snapshot, after: Snapshot) -> None:
        self._note_place(address.base, after)
        if before.data is not None or after.data is None:
            return
        message = message_from_record(after.data)
        if isinstance(message, Cancel):
            self.cancels.add(after.id)
        header = self.headers.get(address.base)
        if isinstance(message, Event) and header:
            self._note_event(header, message)

    def _note_event(self, header: FlowHeader, event: Event) -> None:
        """Note an event in a mailbox. One of a callback has its run; there it arrives once."""
        landed, incarnation = self.landed[header.address.base], event.incarnation or header.incarnation
        is_repeat = any(run == incarnation and known.value == event.value for run, known in landed)
        if event.incarnation == header.incarnation and is_repeat and not header.end:
            raise Violation(f"the callback {event.value} of {header.address.base} was used twice")
        if event.incarnation:
            self.admitted[event.value] = event.incarnation
        landed.append((incarnation, event))

    def _note_place(self, base: str, message: Snapshot) -> None:
        data = message.data or {}
        if "since" not in data:
            self.waiting[base].pop(message.id, None)
        elif message.id not in self.waiting[base]:
            assert message.create_time is not None, "a record that exists has a create time"
            self.waiting[base][message.id] = data["since"] if data.get("later") else message.create_time

    def _check(self, before: FlowHeader | None, after: FlowHeader) -> None:
        base = after.address.base
        self.headers[base] = after
        self.inline.note_claims(after)
        self._note_events(after, after.log.tail)
        same_execution = before is not None and before.execution_id == after.execution_id
        self.replaced |= after.generation > 0 or (before is not None and not same_execution)
        if self.deadlines.setdefault((base, after.incarnation), after.deadline_at) != after.deadline_at:
            raise Violation(
                f"the deadline of {base} was {self.deadlines[base, after.incarnation]}, now {after.deadline_at}"
            )
        if before and same_execution and after.log.length < before.log.length:
            raise Violation(f"the log of {base} is shorter than it was")
        for lease in after.leases.values():
            run = base, after.incarnation
            if self.holders.setdefault(lease["granted"]["id"], run) != run:
                raise Violation(f"{run} holds the lease of {self.holders[lease['granted']['id']]}")
        if before is None and after.origins:
            self._check_fork(after, after.origins[-1])
        if after.log.tail:
            known = self.logs[base, after.execution_id]
            known.extend([None] * (after.log.held - len(known)))  # in the commit that filled a chunk
            new = after.log.tail[max(0, len(known) - after.log.held) :]
            for entry in new:
                self._check_entry(before, after, entry)
            if new and isinstance(new[0], Cancel):  # after another entry, what ran may be the loser of a group
                self.inline.check_cancel(before)
            self._check_cancels(after, new)
            known[after.log.held :] = after.log.tail
        if after.stuck and self.sound:
            raise Violation(f"{base} is stuck, though its code is sound: {after.stuck}")
        if before and before.end and before.incarnation == after.incarnation and after.end != before.end:
            raise Violation(f"{base} ended twice")
        if after.end and after.end.state == COMPLETED and (base, after.incarnation) in self.cancelled:
            raise Violation(f"{base} received a cancel, and its code has continued")

    def _check_fork(self, header: FlowHeader, origin: Origin) -> None:
        """Check that the log of a fork begins with that of its origin, and note it: nothing of it is new."""
        source = self.logs[FlowAddress(header.address.name, origin.id).base, origin.execution_id][: origin.entries]
        own = [*(header.log.tail or [None] * header.log.held)][: origin.entries]
        if len(own) != origin.entries or any(a and b and a != b for a, b in zip(own, source, strict=False)):
            raise Violation(f"the log of {header.address.base} begins with {own}, and that of its origin with {source}")
        self.logs[header.address.base, header.execution_id] = own
        if any(isinstance(entry, Cancel) for entry in [*own, *source]):
            self.cancelled.add((header.address.base, header.incarnation))

    def _check_cancels(self, header: FlowHeader, new: Sequence[Message]) -> None:
        """Check that a cancel was applied before the events of its page; note it."""
        kinds = [type(entry) for entry in new]
        if Cancel not in kinds:
            return
        if header.begun and Event in kinds[: kinds.index(Cancel)]:
            raise Violation(f"{header.address.base} received events before a cancel that was on their page")
        self.cancelled.add((header.address.base, header.incarnation))

    def _check_entry(self, before: FlowHeader | None, header: FlowHeader, entry: Message) -> None:
        base = header.address.base
        if isinstance(entry, Event) and header.begun:
            applied = self.events_applied[base, header.execution_id]
            if entry.value in applied:
                raise Violation(f"{base} has applied the event {entry.value} twice")
            applied.add(entry.value)
        if isinstance(entry, Result) and entry.wait.signature.startswith("step "):
            self._check_step(before, header, entry)
        if isinstance(entry, Result) and entry.wait.signature.startswith("run "):
            self.inline.check_entry(before, header, entry)
        if isinstance(entry, Cancel):
            self._check_deadline(header, entry)
            self._check_abandoned(header, entry)

    def _check_abandoned(self, header: FlowHeader, cancel: Cancel) -> None:
        """Check that a flow that is cancelled since its parent does not wait for it is not of one that does."""
        if header.parent is None or not cancel.reason.endswith(ABANDONED):
            return
        around, wait = self.headers.get(header.parent.base), header.parent.wait
        if around and around.execution_id == wait.execution_id and wait.path in around.pending:
            raise Violation(
                f"{header.address.base} was cancelled for another flow, and {around.address.base} waits for it"
            )

    def _check_deadline(self, header: FlowHeader, cancel: Cancel) -> None:
        """Check that the cancel at a deadline comes once, and at its time; a later generation may begin with it."""
        run = header.address.base, header.incarnation
        if not cancel.reason.startswith(TIME_OUT):
            return
        if header.deadline_at is None or time_of(cancel) < header.deadline_at:
            raise Violation(f"{run} was cancelled before its deadline {header.deadline_at}")
        if run in self.timed_out and header.generation == 0:
            raise Violation(f"{run} was cancelled at its deadline twice")
        self.timed_out.add(run)

    def _check_step(self, before: FlowHeader | None, header: FlowHeader, entry: Result) -> None:
        """Check that the outcome is one that the step had; a failure must be of the current attempt."""
        place = header.address.base, header.execution_id, entry.wait.path
        text = str(entry.outcome.error["detail"] if entry.outcome.error else entry.outcome.result)
        had = self.outcomes[place]
        pending = before.pending.get(entry.wait.path) if before else None
        attempts = [attempt for attempt, what in had if what == text]
        if not attempts or pending is None or (entry.outcome.error and pending.attempt not in attempts):
            raise Violation(f"{place} has {text} in the log while {pending}, and its runs ended with {sorted(had)}")
        if not entry.wait.signature.endswith(self.names[place]):
            raise Violation(f"{place} has the result of {self.names[place]} for {entry.wait.signature}")
        base = header.address.base
        self.behind[base] = max(self.behind.get(base, self.ended_at[text]), self.ended_at[text])
