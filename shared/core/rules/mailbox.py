"""A mailbox: a header record, and the messages that wait for it, in one collection.

    {base}/mailbox/!      the header: the state that messages change, and `since` = 1970
    {base}/mailbox/{id}   a message; `since` while it waits, `outcome` and `expires_at` when it is done

A query ordered by `since` finds the header first, then what waits, and nothing that is done: one call of the store, one
instant. What the user gave is text, so that any JSON fits and nothing of it is indexed.

Messages are applied in the order of their records' create times, which are commit times. `since` cannot order them: the
server sets it when it begins a commit, in milliseconds. It only pages, so the end of a full page is not settled.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from shared.core.rules.limits import LIMITS
from shared.core.rules.times import EPOCH, microseconds

MAILBOX = "mailbox"
HEADER = "!"
HEADER_SINCE = EPOCH


def collection_of(base: str) -> str:
    """Return the collection of a mailbox's records."""
    return f"{base}/{MAILBOX}"


def message_path(base: str, id_: str) -> str:
    """Return the path of a message."""
    return f"{base}/{MAILBOX}/{id_}"


def header_path(base: str) -> str:
    """Return the path of a mailbox's header."""
    return message_path(base, HEADER)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that waits. `due_at` is None for one that is due by its kind, the time of one for later."""

    id: str
    data: Mapping[str, Any]
    since: datetime
    created_at: datetime
    version: datetime

    @classmethod
    def from_record(cls, id_: str, data: Mapping[str, Any], created_at: datetime, version: datetime) -> Self:
        """Return the message of a record; `version` is the record's update time."""
        return cls(id_, data, data["since"], created_at, version)

    @property
    def due_at(self) -> datetime | None:
        """Return the time of a message for later."""
        return self.since if self.data.get("later") else None

    @property
    def place(self) -> tuple[datetime, str]:
        """Return what orders messages: the commit's time, or the time that one for later is for."""
        return self.due_at or self.created_at, self.id


def due_messages(page: Iterable[Waiting], now: datetime) -> list[Waiting]:
    """Return what is to be applied at `now`, in order."""
    return sorted((each for each in page if each.due_at is None or each.due_at <= now), key=lambda each: each.place)


def settled(page: Sequence[Waiting]) -> list[Waiting]:
    """Return a full page without its end, where a message that landed before may be missing.

    What the page does not hold has a later `since`, which lies so little ahead of its commit.
    """
    complete_until = max(each.since for each in page) - timedelta(seconds=LIMITS.since_ahead_seconds)
    return [each for each in page if each.place[0] < complete_until]


def blocks(message: Waiting, now: datetime) -> bool:
    """Return whether a call that begins at `now` must not be applied before this message, the first by `since`.

    One for later that is due in a moment may hide one that has come: its `since` lies so little ahead of its commit.
    """
    return message.due_at is None or message.due_at <= now + timedelta(seconds=LIMITS.since_ahead_seconds)


def next_revision(before: int, read_time: datetime) -> int:
    """Return the revision that a turn writes: it grows with every turn, also after a deletion, so it can fence."""
    return max(before + 1, microseconds(read_time))


def has_read(revision: int, moment: datetime) -> bool:
    """Return whether the turn that wrote this revision read its mailbox at `moment` or later."""
    return revision >= microseconds(moment)
