"""The outcomes that a watcher of a batch receives next, after its position in the order of their commits.

An outcome's update time is the time of its commit, but no query can order by it. So an outcome also has `ended_at`,
Firestore's time of the request, which is a little before the commit, or, by another server's clock, a little after it.
A read takes the outcomes by `ended_at`, from some time before the position on, and sends those committed after it.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.headers import Header
from signalbox.batches.model.units import UnitRecord
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadQuery

ENDED_AT = "ended_at"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INDEX_MAX = 10**9
"""A number above every unit's index: the position after all commits of one time."""

_CURSOR = re.compile(r"([0-9A-Za-z_-]{1,64})\.([0-9]{1,17})\.([0-9]{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the order of commits: a time, and a unit's index among the outcomes committed at that time."""

    at: datetime = EPOCH
    index: int = -1

    @property
    def since(self) -> datetime | None:
        """The smallest `ended_at` that an outcome committed after this position can have; None means any."""
        return None if self == START else self.at - timedelta(seconds=LIMITS.watch_behind_seconds)


START = Position()
"""The position before every outcome."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a watcher in one run of a batch, as the `id:` of an event contains it."""

    incarnation: str
    position: Position

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a cursor. Raises `BadQuery`."""
        parts = _CURSOR.fullmatch(text)
        if parts is None:
            raise BadQuery("Last-Event-ID is not the id of an event of a batch.", field="Last-Event-ID")
        return cls(parts[1], Position(EPOCH + timedelta(microseconds=int(parts[2])), int(parts[3]) - 1))

    def __str__(self) -> str:
        microseconds = (self.position.at - EPOCH) // timedelta(microseconds=1)
        return f"{self.incarnation}.{microseconds}.{self.position.index + 1}"


def start_of(last_event_id: str | None, header: Header) -> Position:
    """Return the position at which a watcher continues. Raises `BadQuery`.

    A new watcher, and one of an earlier run of this id, begins at the start.
    """
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
    """The result of one read: the outcomes after `start` and up to `end`, in the order of their commits.

    `header` is the batch's header, which was read before the outcomes. `caught_up` is true if no outcome was found
    after `end`.
    """

    start: Position
    end: Position
    header: Header
    outcomes: tuple[Ended, ...]
    caught_up: bool

    @property
    def complete(self) -> bool:
        """Whether the batch has ended and all its outcomes up to its end are sent."""
        return self.caught_up and self.header.ended


def end_of(read_time: datetime, last_ended_at: datetime | None) -> Position:
    """Return the position up to which a read has found every outcome.

    `read_time` is that of a read before the outcomes were read. `last_ended_at` is the `ended_at` of the last outcome
    of a full page, and None if the page was not full. Outcomes committed up to `since_ahead_seconds` before
    `last_ended_at` may be on the next page.
    """
    if last_ended_at is None:
        return Position(read_time, INDEX_MAX)
    return Position(min(read_time, last_ended_at - timedelta(seconds=CORE_LIMITS.since_ahead_seconds)), INDEX_MAX)


def between(start: Position, end: Position, found: Iterable[Ended]) -> tuple[Ended, ...]:
    """Return the outcomes committed after `start` and up to `end`, in the order of their commits."""
    positioned = (ended for ended in found if start < ended.position <= end)
    return tuple(sorted(positioned, key=lambda ended: ended.position))


def any_after(end: Position, found: Iterable[Ended]) -> bool:
    """Return whether an outcome was committed after `end`.

    A retry may have committed it, and so overwritten an earlier outcome of the same unit that was not sent.
    """
    return any(ended.position > end for ended in found)


def after(position: Position, outcomes: Sequence[Ended]) -> Sequence[Ended]:
    """Return the outcomes after a position."""
    return [ended for ended in outcomes if ended.position > position]
