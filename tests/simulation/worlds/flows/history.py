"""What is seen of the flows of a simulated world: the outcomes of steps, what landed, and each write of a header."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from signalbox.core.ports import Snapshot
from signalbox.flows.model import (
    Event,
    FlowAddress,
    FlowHeader,
    Message,
    Result,
    message_from_record,
)
from signalbox.mailboxes.model import HEADER
from tests.simulation.world import Violation

Execution = tuple[str, str]
"""The base of a flow, and an execution id."""


@dataclass
class FlowsHistory:
    """What has happened. `outcomes` are those that each attempt of a step had, by base, execution id and path.

    `landed` are events in mailboxes, with the incarnation of their flow; `logs` has the entries of each execution's
    log.
    """

    sound: bool = True
    outcomes: dict[tuple[str, str, str], set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    landed: dict[str, list[tuple[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    logs: dict[Execution, list[Message | None]] = field(default_factory=lambda: defaultdict(list))
    present: set[str] = field(default_factory=set)
    headers: dict[str, FlowHeader] = field(default_factory=dict)
    events_applied: dict[tuple[str, str], set[Any]] = field(default_factory=lambda: defaultdict(set))

    def observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Observe a write. Raises `Violation` if a header is impossible."""
        parts = path.split("/")
        if parts[0] == FlowAddress.COLLECTION:
            (self.present.discard if after.data is None else self.present.add)(path)
        if parts[0] != FlowAddress.COLLECTION or len(parts) != 4 or parts[2] != "mailbox":
            return
        address = FlowAddress.of_base("/".join(parts[:2]))
        if parts[3] != HEADER:
            self._note_message(address, before, after)
        elif after.data is not None:
            known = FlowHeader.from_record(address, before.data) if before.data is not None else None
            self._check(known, FlowHeader.from_record(address, after.data))
        else:
            removed = self.headers.pop(address.base, None)
            if removed and not removed.end:
                raise Violation(f"{address.base} was removed before its end")

    def is_awaited(self, step: Mapping[str, Any]) -> bool:
        """Return whether a flow waits for a step, by the context of its task, on this attempt."""
        header = self.headers.get(step["flow"])
        pending = header.pending.get(step["path"]) if header and header.execution_id == step["life"] else None
        return pending is not None and pending.attempt <= step["attempt"]

    def _note_message(self, address: FlowAddress, before: Snapshot, after: Snapshot) -> None:
        if before.data is not None or after.data is None:
            return
        message = message_from_record(after.data)
        header = self.headers.get(address.base)
        if isinstance(message, Event) and header:
            self.landed[address.base].append((header.incarnation, message))

    def _check(self, before: FlowHeader | None, after: FlowHeader) -> None:
        base = after.address.base
        self.headers[base] = after
        same_execution = before is not None and before.execution_id == after.execution_id
        if before and same_execution and after.log.length < before.log.length:
            raise Violation(f"the log of {base} is shorter than it was")
        if after.log.tail:
            known = self.logs[base, after.execution_id]
            known.extend([None] * (after.log.held - len(known)))  # in the commit that filled a chunk
            for entry in after.log.tail[max(0, len(known) - after.log.held) :]:
                self._check_entry(before, after, entry)
            known[after.log.held :] = after.log.tail
        if after.stuck and self.sound:
            raise Violation(f"{base} is stuck, though its code is sound: {after.stuck}")
        if before and before.end and before.incarnation == after.incarnation and after.end != before.end:
            raise Violation(f"{base} ended twice")

    def _check_entry(self, before: FlowHeader | None, header: FlowHeader, entry: Message) -> None:
        base = header.address.base
        if isinstance(entry, Event) and header.begun:
            applied = self.events_applied[base, header.execution_id]
            if entry.value in applied:
                raise Violation(f"{base} has applied the event {entry.value} twice")
            applied.add(entry.value)
        if isinstance(entry, Result) and entry.wait.signature.startswith("step "):
            self._check_step(before, header, entry)

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
