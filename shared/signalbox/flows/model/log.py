"""The log of an execution: its entries as text, the last of them in the header, the earlier ones in chunks."""

import json
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.times import rfc3339
from signalbox.flows.model.messages import Blank, Cancel, Event, Message, Result, Update
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome


def entries_to_text(entries: Sequence[Message]) -> str:
    """Return entries of the log as a record contains them."""
    stored = [[message.kind, *message.entry(), rfc3339(time_of(message))] for message in entries]
    return json.dumps(stored, separators=(",", ":"))


def joined(text: str, entries: Sequence[Message]) -> str:
    """Return the text of entries with further entries appended."""
    return texts_joined(text, entries_to_text(entries))


def texts_joined(text: str, added: str) -> str:
    """Return one text with the entries of `text`, followed by the entries of `added`."""
    return added if text == "[]" else text if added == "[]" else f"{text[:-1]},{added[1:]}"


def entries_from_text(text: str) -> tuple[Message, ...]:
    return tuple(map(_entry_from_json, json.loads(text)))


def _entry_from_json(stored: Sequence[Any]) -> Message:
    kind, *parts, at = stored
    time = datetime.fromisoformat(at)
    match kind:
        case Event.kind:
            name, value = parts
            return Event(name, value, time)
        case Update.kind:
            name, value, id_ = parts
            return Update(name, value, id_, time)
        case Cancel.kind:
            return Cancel(parts[0], time)
        case Blank.kind:
            path, signature = parts
            return Blank(path, signature, time)
    path, signature, outcome = parts
    attempt, error = outcome.get("attempt", 1), outcome.get("last_error", "")
    return Result(Wait("", path, attempt, signature, last_error=error), CallOutcome.from_json(outcome), time)


def shown_entry(entry: Message) -> dict[str, Any]:
    """Return an entry of the log as people see it."""
    return {"at": rfc3339(time_of(entry)), "entry": entry.kind, **entry.shown()}


def time_of(entry: Message) -> datetime:
    assert entry.at is not None, "an entry of the log has its time"
    return entry.at


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The parts of the log: the last entries in the header, the earlier ones in chunks.

    Only the first `held` entries of the chunks count: a chunk may be newer than the header that was read with it.
    `text` is the text of the tail, if it is known. Most turns append to this text.
    """

    tail: tuple[Message, ...] = ()
    chunks: int = 0
    held: int = 0
    held_bytes: int = 0
    text: str = field(default="", compare=False, repr=False)

    @property
    def tail_text(self) -> str:
        """The tail as the header's record contains it."""
        return self.text or entries_to_text(self.tail)

    @property
    def length(self) -> int:
        """The number of entries."""
        return self.held + len(self.tail)


NO_ENTRIES = StoredLog()
