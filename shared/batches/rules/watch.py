"""What a watcher of a batch has been sent: a position in the order of the outcomes' commits.

An outcome's update time is the time of its commit, but no query can order by it. So an outcome has `ended_at` too:
Firestore's time of the request, which lies a little before the commit, or by another server's clock a little after it.
A read takes the outcomes by `ended_at`, from some time before the position on, and sends those committed after it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from shared.batches.rules.header import Header
from shared.batches.rules.outcomes import UnitRecord
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadQuery

ENDED_AT = "ended_at"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INDEX_MAX = 10**9
"""Above every index of a unit: the position behind all commits of its time."""

_CURSOR = re.compile(r"([0-9A-Za-z_-]{1,64})\.([0-9]{1,17})\.([0-9]{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the order of commits: a time, and an index among the outcomes committed at that time."""

    at: datetime = EPOCH
    index: int = -1

    @property
    def since(self) -> datetime | None:
        """Return the least `ended_at` that an outcome committed after this can have; None: any."""
        return None if self == START else self.at - timedelta(seconds=LIMITS.watch_behind_seconds)


START = Position()
"""Before every outcome."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a watcher in one run of a batch, as the `id:` of an event holds it."""

    incarnation: str
    position: Position

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse what `str` returned. Raises `BadQuery`."""
        parts = _CURSOR.fullmatch(text)
        if parts is None:
            raise BadQuery("Last-Event-ID is not the id of an event of a batch.", field="Last-Event-ID")
        return cls(parts[1], Position(EPOCH + timedelta(microseconds=int(parts[2])), int(parts[3]) - 1))

    def __str__(self) -> str:
        microseconds = (self.position.at - EPOCH) // timedelta(microseconds=1)
        return f"{self.incarnation}.{microseconds}.{self.position.index + 1}"


def start_of(last_event_id: str | None, header: Header) -> Position:
    """Return where a watcher goes on: at the start for a new one, and for one of an earlier run. Raises `BadQuery`."""
    if not last_event_id:
        return START
    cursor = Cursor.parse(last_event_id)
    return cursor.position if cursor.incarnation == header.incarnation else START


@dataclass(frozen=True, slots=True)
class Ended:
    """An outcome as it was read: its position, its `ended_at` and its record."""

    position: Position
    ended_at: datetime
    record: UnitRecord


@dataclass(frozen=True, slots=True)
class News:
    """What follows `start`: the outcomes up to `end` in the order of their commits, and the batch's header before.

    `caught_up`: nothing was found behind `end`, neither before the header was read nor since.
    """

    start: Position
    end: Position
    header: Header
    outcomes: tuple[Ended, ...]
    caught_up: bool

    @property
    def complete(self) -> bool:
        """Return whether the batch has ended and all its outcomes up to its end are sent."""
        return self.caught_up and self.header.ended


def end_of(read_time: datetime, last_ended_at: datetime | None) -> Position:
    """Return up to where what was read is all there is.

    `read_time` is that of a read before the outcomes'; `last_ended_at` the end of a full page, None without one: behind
    it may be what was committed up to `since_ahead_seconds` before that.
    """
    if last_ended_at is None:
        return Position(read_time, INDEX_MAX)
    return Position(min(read_time, last_ended_at - timedelta(seconds=LIMITS.since_ahead_seconds)), INDEX_MAX)


def between(start: Position, end: Position, found: Iterable[Ended]) -> tuple[Ended, ...]:
    """Return the outcomes committed after `start` and up to `end`, in the order of their commits."""
    return tuple(sorted((one for one in found if start < one.position <= end), key=lambda one: one.position))


def any_behind(end: Position, found: Iterable[Ended]) -> bool:
    """Return whether an outcome was committed after `end`: one that was overwritten then is not sent before."""
    return any(one.position > end for one in found)


def after(position: Position, outcomes: Sequence[Ended]) -> Sequence[Ended]:
    """Return the outcomes behind a position."""
    return [one for one in outcomes if one.position > position]
