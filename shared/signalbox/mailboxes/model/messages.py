"""A mailbox: a header record, and the messages that wait for it, in one collection.

    {base}                 the listing record of the mailbox's owner, an object or a flow
    {base}/mailbox/!       the header: the state that messages change; `since` is 1970
    {base}/mailbox/{id}    a message; it has `since` while it waits, an object's also `swept_by`, and `expires_at` once
                           it is done

A query ordered by `since` returns the header first, then the waiting messages, and none that are done: one call of the
store, one instant. Values from users are stored as text, so any JSON value fits and none is indexed.

`machine.py` orders the messages and decides the steps of a run, `storage.py` reads a mailbox and builds its writes, and
`service.py` has the one run loop. Objects and flows decide the meaning of a message.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.times import EPOCH
from signalbox.core.wake_ups import WakeUp

MAILBOX = "mailbox"
HEADER = "!"
HEADER_SINCE = EPOCH


# --- addresses and paths ---


def collection_of(base: str) -> str:
    """Return the collection of a mailbox's records."""
    return f"{base}/{MAILBOX}"


def message_path(base: str, id_: str) -> str:
    """Return the path of a message."""
    return f"{base}/{MAILBOX}/{id_}"


def header_path(base: str) -> str:
    """Return the path of a mailbox's header."""
    return message_path(base, HEADER)


# --- messages, outcomes, deliveries ---


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A waiting message; `version` is its record's update time."""

    id: str
    data: Mapping[str, Any]
    since: datetime
    created_at: datetime
    version: datetime

    @classmethod
    def from_record(cls, id_: str, data: Mapping[str, Any], created_at: datetime, version: datetime) -> Self:
        return cls(id_, data, data["since"], created_at, version)

    @property
    def due_at(self) -> datetime | None:
        """The time that a delayed message is for; None for any other message."""
        return self.since if self.data.get("later") else None

    @property
    def place(self) -> tuple[datetime, str]:
        """The position of the message: the time of its commit, or the time that a delayed message is for."""
        return self.due_at or self.created_at, self.id


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a wake-up, the task `id`; `deliveries` counts the earlier deliveries."""

    wake: WakeUp
    id: str
    deliveries: int = 0
