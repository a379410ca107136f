"""Standings, their adjustments (changes that are not added yet), and the counted records of yokes."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.standings.model.exact_sums import UNIT, ZERO, Tally, Value, number_of, sortable
from signalbox.standings.model.recounts import Move, Moves, Recount
from signalbox.standings.model.yokes import StandingKey, YokeKey


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A change of a busy standing that no fold run has added yet. `moves` is None for the sum of many changes."""

    tally: Tally
    moves: Moves | None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        moves = tuple(map(Move.from_record, record["moves"])) if "moves" in record else None
        return cls(Tally.from_record(record), moves)

    def to_record(self) -> dict[str, Any]:
        moves = None if self.moves is None else [move.to_record() for move in self.moves]
        return self.tally.to_record() | given(moves=moves)


@dataclass(frozen=True, slots=True)
class Standing:
    """The numbers that are counted for one id: a tally, the smallest and the largest value.

    - `crossed` names the thresholds whose task was enqueued.
    - Every adjustment committed until `folded_at` is included.
    - `recount` is the recount in progress.
    - `neutral` counts changes that did not change the tally: Firestore does not change the update time of a record that
      is written unchanged, so guards would not notice them.
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
        """Parse a record. Without a record, return a standing that counts nothing."""
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
        """Return the record. If nothing is counted, it lacks the fields by which leaderboards are ordered."""
        kept: dict[str, Any] = {"crossed": list(self.crossed), "folded_at": self.folded_at, "neutral": self.neutral}
        if self.recount:
            kept["recount"] = self.recount.to_record()
        shown = {name: value for name, value in self._shown().items() if value is not None}
        if "sum" in shown:
            shown["sum"] = sortable(shown["sum"])
        return self.tally.to_record() | kept | shown

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that callers see."""
        return {"count": 0, "sum": 0, "average": None, "min": None, "max": None} | self._shown()

    def _shown(self) -> dict[str, Any]:
        if self.tally == ZERO:
            return {}
        numbers = {"count": self.tally.count, "sum": number_of(self.tally.units)}
        return numbers | {"average": self.average, "min": self.min, "max": self.max}

    @property
    def average(self) -> float | None:
        """The average of the values, or None without values."""
        return self.tally.units / (UNIT * self.tally.values) if self.tally.values > 0 else None

    def moved(self, tally: Tally, moves: Moves) -> Self:
        """Return the standing, and its recount, after a change."""
        recount, neutral = self.recount and self.recount.moved(moves), self.neutral + (tally == ZERO)
        return replace(self, tally=self.tally + tally, recount=recount, neutral=neutral)

    def with_extremes(self, values: Iterable[Value]) -> Self:
        """Return the standing with the extremes of these values."""
        numbers = [value for value in values if value is not None]
        return replace(self, min=min(numbers, default=None), max=max(numbers, default=None))


Entries = Mapping[StandingKey, Value]


@dataclass(frozen=True, slots=True)
class Counted:
    """The share of a yoke in the standings.

    - `version` is the update time of the yoke when it was counted, or None if it was deleted.
    - `revision` is the revision of the declarations.
    - `keys` are the standings that include the yoke, with `value`.
    - `logged` are the standings with an adjustment of this yoke that may not be added yet.
    - `since` is the create time of the yoke, and `gone_at` the time when a visit found it deleted.
    """

    version: datetime | None = None
    revision: int = 0
    value: Value = None
    keys: tuple[StandingKey, ...] = ()
    logged: tuple[StandingKey, ...] = ()
    since: datetime | None = None
    gone_at: datetime | None = None

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self | None:
        """Parse a record. Return None if the yoke was never counted."""
        if data is None:
            return None
        keys, logged = (tuple(map(StandingKey.from_text, data[name])) for name in ("keys", "logged"))
        since, gone_at = data["since"], data["gone_at"]
        return cls(data["version"], data["revision"], data["value"], keys, logged, since, gone_at)

    def to_record(self, key: YokeKey) -> dict[str, Any]:
        """Return the record. It has `times` and `values` by standing, in fields that Firestore indexes."""
        fields = [standing.field for standing in self.keys]
        return {
            "user": key.user,
            "item": key.item,
            "version": self.version,
            "revision": self.revision,
            "value": self.value,
            "keys": [standing.text for standing in self.keys],
            "logged": [standing.text for standing in self.logged],
            "times": dict.fromkeys(fields, self.since),
            "values": {} if self.value is None else dict.fromkeys(fields, self.value),
            "since": self.since,
            "gone_at": self.gone_at,
        }

    @property
    def entries(self) -> Entries:
        return dict.fromkeys(self.keys, self.value)


NOT_COUNTED = Counted()


@dataclass(frozen=True, slots=True)
class StandingView:
    """A standing, and the number of its adjustments that are committed but not added yet. 0 means exact."""

    key: StandingKey
    standing: Standing
    pending: int
