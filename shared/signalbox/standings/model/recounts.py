"""The state of a recount, and the moves that it must follow.

A *recount* walks over the counted records of a standing in the order of their *places*: the time when the yoke was
created, then its id. Its state is stored in the standing's record. `tally` sums the yokes up to `cursor`, and those
created after `until`, the time when the recount began. A process that changes the standing meanwhile also changes
`tally`, if `tally` already includes the place of the change. So the tally and the standing agree at the end, even if
yokes are written all the time, unless the standing was wrong before.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.times import rfc3339
from signalbox.standings.model.exact_sums import ZERO, Tally

Place = tuple[datetime, str]
"""The position of a yoke in the walk of a recount: its create time and its id."""


LAST_ID = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Move:
    """The tally that a standing gains at a place, or loses if it is negative."""

    place: Place
    tally: Tally

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls((record["since"], record["id"]), Tally.from_record(record))

    def to_record(self) -> dict[str, Any]:
        return {"since": self.place[0], "id": self.place[1], **self.tally.to_record()}


Moves = Sequence[Move]


@dataclass(frozen=True, slots=True)
class Recount:
    """The state of a recount between two of its turns."""

    run: str
    until: datetime
    cursor: Place | None = None
    tally: Tally = ZERO

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        if record is None:
            return None
        cursor = (record["since"], record["id"]) if record["id"] else None
        return cls(record["run"], record["until"], cursor, Tally.from_record(record))

    def to_record(self) -> dict[str, Any]:
        since, id_ = self.cursor or (None, "")
        return {"run": self.run, "until": self.until, "since": since, "id": id_, **self.tally.to_record()}

    @property
    def turn(self) -> str:
        """The name of the next turn. It differs between all turns of all recounts."""
        cursor = (rfc3339(self.cursor[0]), self.cursor[1]) if self.cursor else ()
        return name_of(self.run, rfc3339(self.until), *cursor)[:20]

    def covers(self, place: Place) -> bool:
        """Return whether `tally` includes the yoke at a place."""
        return place[0] > self.until or (self.cursor is not None and place <= self.cursor)

    def moved(self, moves: Moves) -> Self:
        """Return the recount after a change of its standing."""
        return replace(self, tally=sum((move.tally for move in moves if self.covers(move.place)), self.tally))

    def walked(self, cursor: Place | None, tally: Tally) -> Self:
        """Return the recount after pages up to a cursor, or up to the end if it is None."""
        return replace(self, cursor=cursor or (self.until, LAST_ID), tally=self.tally + tally)
