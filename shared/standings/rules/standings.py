"""A standing: what has been counted for one id, with the smallest and the largest value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Self

from shared.standings.rules.declarations import Threshold
from shared.standings.rules.tallies import UNIT, ZERO, Tally, Value, number_of


@dataclass(frozen=True, slots=True)
class Standing:
    """A tally and its extremes.

    `crossed` are the thresholds whose task was enqueued. `folded_at`: every adjustment committed until then is added.
    """

    tally: Tally = ZERO
    min: Value = None
    max: Value = None
    crossed: tuple[str, ...] = ()
    folded_at: datetime | None = None

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self:
        """Return what a record holds; nothing counted, if there is none."""
        if data is None:
            return cls()
        return cls(
            Tally.from_record(data), data.get("min"), data.get("max"), tuple(data["crossed"]), data.get("folded_at")
        )

    def to_record(self) -> dict[str, Any]:
        """Return the record. One that counts nothing has no field that a leaderboard is ordered by."""
        kept = {"crossed": list(self.crossed), "folded_at": self.folded_at}
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
