"""The log of a flow: what its code was told, in order, each with the server's time of the turn that told it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.rules.times import rfc3339
from shared.objects.rules.outcomes import CallOutcome


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """The command at `path`, asked for as `signature`, ended."""

    path: str
    signature: str
    outcome: CallOutcome
    at: datetime

    def to_json(self) -> list[Any]:
        """Return the entry as the log holds it."""
        return ["done", self.path, self.signature, self.outcome.to_json(), rfc3339(self.at)]

    def shown(self) -> dict[str, Any]:
        """Return the entry as people see it."""
        what = {"at": rfc3339(self.at), "entry": "done", "path": self.path, "command": self.signature}
        return what | self.outcome.to_json()


@dataclass(frozen=True, slots=True)
class EventEntry:
    """An event came."""

    name: str
    value: Any
    at: datetime

    def to_json(self) -> list[Any]:
        """Return the entry as the log holds it."""
        return ["event", self.name, self.value, rfc3339(self.at)]

    def shown(self) -> dict[str, Any]:
        """Return the entry as people see it."""
        return {"at": rfc3339(self.at), "entry": "event", "name": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class CancelEntry:
    """Somebody cancelled the flow."""

    reason: str
    at: datetime

    def to_json(self) -> list[Any]:
        """Return the entry as the log holds it."""
        return ["cancel", self.reason, rfc3339(self.at)]

    def shown(self) -> dict[str, Any]:
        """Return the entry as people see it."""
        return {"at": rfc3339(self.at), "entry": "cancel", "reason": self.reason}


Entry = ResultEntry | EventEntry | CancelEntry


def entry_of(stored: Sequence[Any]) -> Entry:
    """Undo `to_json`."""
    kind, *parts, at = stored
    when = datetime.fromisoformat(at)
    if kind == "done":
        path, signature, outcome = parts
        return ResultEntry(path, signature, CallOutcome.from_json(outcome), when)
    if kind == "event":
        name, value = parts
        return EventEntry(name, value, when)
    return CancelEntry(parts[0], when)


def to_text(entries: Sequence[Entry]) -> str:
    """Return entries as a record holds them."""
    return json.dumps([each.to_json() for each in entries], separators=(",", ":"))


def from_text(text: str) -> tuple[Entry, ...]:
    """Undo `to_text`."""
    return tuple(map(entry_of, json.loads(text)))
