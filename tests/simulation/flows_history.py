"""What is seen of the flows of a simulated world: the outcomes of steps, what landed, and each write of a header."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from shared.core.operations.ports import Snapshot
from shared.core.rules.mailbox import HEADER
from shared.flows.rules.addresses import COLLECTION, FlowAddress
from shared.flows.rules.entries import Entry, EventEntry, ResultEntry
from shared.flows.rules.headers import FlowHeader
from shared.flows.rules.messages import Event, from_record
from tests.simulation.world import Violation

Life = tuple[str, str]
"""A flow's base, and its life."""


@dataclass
class FlowsHistory:
    """What has happened. `outcomes` are those that each attempt of a step had, by base, life and path.

    `landed` are events in mailboxes, with the life they came in; `told` the entries of each life's log as far as seen.
    """

    sound: bool = True
    outcomes: dict[tuple[str, str, str], set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    landed: dict[str, list[tuple[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    told: dict[Life, list[Entry | None]] = field(default_factory=lambda: defaultdict(list))
    present: set[str] = field(default_factory=set)
    headers: dict[str, FlowHeader] = field(default_factory=dict)
    events_told: dict[tuple[str, str], set[Any]] = field(default_factory=lambda: defaultdict(set))

    def observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Observe a write. Raises `Violation` if a header tells what cannot be."""
        parts = path.split("/")
        if parts[0] == COLLECTION:
            (self.present.discard if after.data is None else self.present.add)(path)
        if parts[0] != COLLECTION or len(parts) != 4 or parts[2] != "mailbox":
            return
        address = FlowAddress.of_base("/".join(parts[:2]))
        if parts[3] != HEADER:
            self._note_message(address, before, after)
        elif after.data is not None:
            known = FlowHeader.from_record(address, before.data) if before.data is not None else None
            self._check(known, FlowHeader.from_record(address, after.data))
        else:
            self.headers.pop(address.base, None)

    def _note_message(self, address: FlowAddress, before: Snapshot, after: Snapshot) -> None:
        if before.data is not None or after.data is None:
            return
        message = from_record(after.data)
        header = self.headers.get(address.base)
        if isinstance(message, Event) and header:
            self.landed[address.base].append((header.incarnation, message))

    def _check(self, before: FlowHeader | None, after: FlowHeader) -> None:
        base = after.address.base
        self.headers[base] = after
        same_life = before is not None and before.life == after.life
        if before and same_life and after.log.told < before.log.told:
            raise Violation(f"the log of {base} is shorter than it was")
        if after.log.tail:
            known = self.told[base, after.life]
            known.extend([None] * (after.log.held - len(known)))  # told by the commit that filled a chunk
            for entry in after.log.tail[max(0, len(known) - after.log.held) :]:
                self._check_entry(before, after, entry)
            known[after.log.held :] = after.log.tail
        if after.stuck and self.sound:
            raise Violation(f"{base} is stuck, though its code is sound: {after.stuck}")
        if before and before.end and before.incarnation == after.incarnation and after.end != before.end:
            raise Violation(f"{base} ended twice")

    def _check_entry(self, before: FlowHeader | None, header: FlowHeader, entry: Entry) -> None:
        base = header.address.base
        if isinstance(entry, EventEntry) and header.begun:
            told = self.events_told[base, header.life]
            if entry.value in told:
                raise Violation(f"{base} was told the event {entry.value} twice")
            told.add(entry.value)
        if isinstance(entry, ResultEntry) and entry.signature.startswith("step "):
            self._check_step(before, header, entry)

    def _check_step(self, before: FlowHeader | None, header: FlowHeader, entry: ResultEntry) -> None:
        """Check that a step was told an outcome that it had: a failure, that of the attempt which was under way."""
        place = header.address.base, header.life, entry.path
        text = str(entry.outcome.error["detail"] if entry.outcome.error else entry.outcome.result)
        had = self.outcomes[place]
        pending = before.pending.get(entry.path) if before else None
        attempts = [attempt for attempt, what in had if what == text]
        if not attempts or pending is None or (entry.outcome.error and pending.attempt not in attempts):
            raise Violation(f"{place} was told {text} while {pending}, and its runs ended with {sorted(had)}")
        if not entry.signature.endswith(self.names[place]):
            raise Violation(f"{place} was told the end of {self.names[place]} for {entry.signature}")
