"""A recount as a value: how far it has come, and what it holds. It is kept in the record of its standing.

It walks over what is counted for the standing, in the order of *places*: when a yoke was created, then its id. `tally`
is what the standing holds of yokes up to `cursor`, and of those created after `until`, when the recount began. Whoever
changes the standing meanwhile changes `tally` too, if the place of the change lies there. So the two agree at the end,
though yokes come and go all the time, unless the standing had drifted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from shared.core.rules.effects import name_of
from shared.core.rules.times import rfc3339
from shared.standings.rules.tallies import ZERO, Tally

Place = tuple[datetime, str]
"""Of a yoke in the walk of a recount: when it was created, and its id."""

LAST_ID = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Move:
    """What a standing gains at a place; negative: loses."""

    place: Place
    tally: Tally

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Undo `to_record`."""
        return cls((record["since"], record["id"]), Tally.from_record(record))

    def to_record(self) -> dict[str, Any]:
        """Return the move as an adjustment holds it."""
        return {"since": self.place[0], "id": self.place[1], **self.tally.to_record()}


Moves = Sequence[Move]


def moves_in(adjustment: Mapping[str, Any]) -> Moves | None:
    """Return the moves of an adjustment; None if it is the sum of many."""
    return tuple(map(Move.from_record, adjustment["moves"])) if "moves" in adjustment else None


@dataclass(frozen=True, slots=True)
class Recount:
    """What a recount holds."""

    run: str
    until: datetime
    cursor: Place | None = None
    tally: Tally = ZERO

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        """Return what the record of a standing holds of its recount, if there is one."""
        if record is None:
            return None
        cursor = (record["since"], record["id"]) if record["id"] else None
        return cls(record["run"], record["until"], cursor, Tally.from_record(record))

    def to_record(self) -> dict[str, Any]:
        """Return the record."""
        since, id_ = self.cursor or (None, "")
        return {"run": self.run, "until": self.until, "since": since, "id": id_, **self.tally.to_record()}

    @property
    def turn(self) -> str:
        """Return the name of the next turn: another one after each turn, and in each recount."""
        cursor = (rfc3339(self.cursor[0]), self.cursor[1]) if self.cursor else ()
        return name_of(self.run, rfc3339(self.until), *cursor)[:20]

    def covers(self, place: Place) -> bool:
        """Return whether `tally` holds the yoke at a place."""
        return place[0] > self.until or (self.cursor is not None and place <= self.cursor)

    def moved(self, moves: Moves) -> Self:
        """Return this after a change of the standing."""
        return replace(self, tally=sum((each.tally for each in moves if self.covers(each.place)), self.tally))

    def walked(self, cursor: Place | None, tally: Tally) -> Self:
        """Return this after pages up to a cursor, None: up to the end."""
        return replace(self, cursor=cursor or (self.until, LAST_ID), tally=self.tally + tally)

    def rests_under(self, walked: "Recount", adjustments: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether no adjustment belongs to what was walked over: the standing holds all of that."""
        moves = [moves_in(each) for each in adjustments]
        return all(each is not None and not self._are_new(walked, each) for each in moves)

    def _are_new(self, walked: "Recount", moves: Moves) -> bool:
        return any(walked.covers(each.place) and not self.covers(each.place) for each in moves)
