"""A standing: what has been counted for one id, with the smallest and the largest value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Self

from shared.standings.rules.declarations import Threshold
from shared.standings.rules.recounts import Moves, Recount
from shared.standings.rules.tallies import UNIT, ZERO, Tally, Value, number_of


@dataclass(frozen=True, slots=True)
class Standing:
    """A tally and its extremes.

    `crossed` are the thresholds whose task was enqueued. `folded_at`: every adjustment committed until then is added.
    `recount` is under way. `neutral` counts changes that left the tally as it was: Firestore keeps the update time of a
    record that is written unchanged, and then no guard would notice that something has moved.
    """

    tally: Tally = ZERO
    min: Value = None
    max: Value = None
    crossed: tuple[str, ...] = ()
    folded_at: datetime | None = None
    recount: Recount | None = None
    neutral: int = 0

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self:
        """Return what a record holds; nothing counted, if there is none."""
        if data is None:
            return cls()
        return cls(
            Tally.from_record(data),
            data.get("min"),
            data.get("max"),
            tuple(data["crossed"]),
            data.get("folded_at"),
            Recount.from_record(data.get("recount")),
            data.get("neutral", 0),
        )

    def to_record(self) -> dict[str, Any]:
        """Return the record. One that counts nothing has no field that a leaderboard is ordered by."""
        kept: dict[str, Any] = {"crossed": list(self.crossed), "folded_at": self.folded_at, "neutral": self.neutral}
        if self.recount:
            kept["recount"] = self.recount.to_record()
        shown = {name: value for name, value in self._shown().items() if value is not None}
        return self.tally.to_record() | kept | shown

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a caller gets them."""
        return {"count": 0, "sum": 0, "average": None, "min": None, "max": None} | self._shown()

    def _shown(self) -> dict[str, Any]:
        if self.tally == ZERO:
            return {}
        numbers = {"count": self.tally.count, "sum": number_of(self.tally.units)}
        return numbers | {"average": self.average, "min": self.min, "max": self.max}

    @property
    def average(self) -> float | None:
        """Return the average of the values, or None."""
        return float(Fraction(self.tally.units, UNIT * self.tally.values)) if self.tally.values > 0 else None

    def moved(self, tally: Tally, moves: Moves) -> Self:
        """Return this after a change, and its recount."""
        recount, neutral = self.recount and self.recount.moved(moves), self.neutral + (tally == ZERO)
        return replace(self, tally=self.tally + tally, recount=recount, neutral=neutral)

    def needs_extremes(self, removed: Value) -> bool:
        """Return whether a value that goes may have been the smallest or the largest."""
        if removed is None:
            return False
        return self.min is None or self.max is None or removed <= self.min or removed >= self.max

    def with_extremes(self, values: Iterable[Value]) -> Self:
        """Return this with the extremes of these values."""
        numbers = [value for value in values if value is not None]
        return replace(self, min=min(numbers, default=None), max=max(numbers, default=None))

    def cross(self, thresholds: Iterable[Threshold]) -> tuple[Self, tuple[Threshold, ...]]:
        """Return this with the thresholds that it has reached for the first time, and these."""
        shown = self.to_json()
        reached = tuple(
            each
            for each in thresholds
            if each.name not in self.crossed and shown[each.field] is not None and shown[each.field] >= each.reaches
        )
        return replace(self, crossed=(*self.crossed, *(each.name for each in reached))), reached
