"""Count a yoke: bring what the standings hold of it from what was counted to what the yoke is now.

What was counted is a record of its own, written in the commit that counts. So a visit may run twice, late, out of order
or stop anywhere: it adds the difference between the two records, and that is nothing when the work is done. A visit
that is not the first to finish loses its guard.

    quiet standing   guarded write of the standing itself, in the same commit
    busy standing    a blind record under `adjustments`, in the same commit; a fold run adds up to some hundred of them
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from shared.core.rules.effects import name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.times import microseconds
from shared.standings.rules.declarations import Declarations
from shared.standings.rules.keys import StandingKey, YokeKey
from shared.standings.rules.recounts import Move, Moves, Place
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import ZERO, Tally, Value
from shared.standings.rules.yokes import Yoke

Entries = Mapping[StandingKey, Value]


@dataclass(frozen=True, slots=True)
class Counted:
    """What the standings hold of a yoke.

    `version` is the update time of the yoke that was counted, None: it was gone; `revision` that of the declarations.
    `entries` are the standings that hold it, with its value; `logged` those that hold it by an adjustment, and may
    still have to be told. `since` is when the yoke was created, `gone_at` when it was found deleted.
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
        """Return what a record holds, or None if there is none."""
        if data is None:
            return None
        keys, logged = (tuple(map(StandingKey.from_text, data[name])) for name in ("keys", "logged"))
        since, gone_at = data["since"], data["gone_at"]
        return cls(data["version"], data["revision"], data["value"], keys, logged, since, gone_at)

    def to_record(self, key: YokeKey) -> dict[str, Any]:
        """Return the record: `times` and `values` by standing, so that one index of a field serves each standing."""
        return {
            "user": key.user,
            "item": key.item,
            "version": self.version,
            "revision": self.revision,
            "value": self.value,
            "keys": [one.text for one in self.keys],
            "logged": [one.text for one in self.logged],
            "times": {one.field: self.since for one in self.keys},
            "values": {one.field: self.value for one in self.keys if self.value is not None},
            "since": self.since,
            "gone_at": self.gone_at,
        }

    @property
    def entries(self) -> Entries:
        return dict.fromkeys(self.keys, self.value)


NOT_COUNTED = Counted()


@dataclass(frozen=True, slots=True)
class Change:
    """What one standing gains and loses: a yoke, none, or one with another value. None: no yoke."""

    removed: Move | None
    added: Move | None
    removed_value: Value = None
    added_value: Value = None

    @property
    def tally(self) -> Tally:
        return sum((each.tally for each in self.moves), ZERO)

    @property
    def moves(self) -> Moves:
        """Return what the standing gains and loses, each at its place."""
        lost = [Move(self.removed.place, ZERO - self.removed.tally)] if self.removed else []
        return (*lost, *([self.added] if self.added else []))

    def to_record(self) -> dict[str, Any]:
        """Return the change as an adjustment."""
        return {**self.tally.to_record(), "moves": [each.to_record() for each in self.moves]}


@dataclass(frozen=True, slots=True)
class Held:
    """A yoke as standings hold it: with its value, at its place in the walk of a recount."""

    entries: Entries
    place: Place | None

    def move(self, key: StandingKey) -> Move | None:
        """Return what a standing holds of the yoke, if it holds it."""
        return Move(self.place, Tally.of(self.entries[key])) if key in self.entries and self.place else None


def change_of(key: StandingKey, before: Held, after: Held) -> Change:
    """Return what a standing gains and loses."""
    return Change(before.move(key), after.move(key), before.entries.get(key), after.entries.get(key))


@dataclass(frozen=True, slots=True)
class LoadedStanding:
    """A standing, when it was last written, and the extremes of the other yokes where these are needed."""

    standing: Standing
    update_time: datetime | None
    others: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """What a visit of a yoke has read: the yoke, what was counted, and the declarations at one instant.

    `version` is the yoke's update time. `standings` are those that change, read afterwards.
    """

    key: YokeKey
    now: datetime
    yoke: Yoke | None
    version: datetime | None
    since: datetime | None
    counted: Counted | None
    counted_at: datetime | None
    declarations: Declarations
    contended: bool = False
    standings: Mapping[StandingKey, LoadedStanding] = field(default_factory=dict)

    @property
    def before(self) -> Entries:
        return (self.counted or NOT_COUNTED).entries

    def _place(self, since: datetime | None) -> Place | None:
        return (since, self.key.id) if since else None

    @property
    def after(self) -> Entries:
        if self.yoke is None:
            return {}
        return dict.fromkeys(self.declarations.keys_of(self.yoke), self.yoke.value)

    @property
    def changes(self) -> Mapping[StandingKey, Change]:
        """Return the standings that change; a yoke that was created anew has another place."""
        before = Held(self.before, self._place((self.counted or NOT_COUNTED).since))
        after = Held(self.after, self._place(self.since))
        keys = sorted(before.entries.keys() | after.entries.keys())
        changes = {key: change_of(key, before, after) for key in keys}
        return {key: change for key, change in changes.items() if change.removed != change.added}

    def is_busy(self, key: StandingKey) -> bool:
        """Return whether a standing must not be written now: it was a moment ago, or somebody has just come first."""
        update_time = self.standings[key].update_time if key in self.standings else None
        quiet = timedelta(seconds=LIMITS.standing_quiet_seconds)
        return self.contended or (update_time is not None and self.now - update_time < quiet)


def is_done(visit: Visit) -> bool:
    """Return whether nothing is left to write: the yoke's version and the declarations are those that were counted.

    A yoke that is gone has no version, so its record is written again, which fails visits that still see the yoke.
    """
    counted = visit.counted
    if counted is None or visit.yoke is None:
        return False
    return (counted.version, counted.revision) == (visit.version, visit.declarations.revision)


def is_over(visit: Visit) -> bool:
    """Return whether a walk, which follows no event, has nothing to do here."""
    if visit.yoke is None:
        return visit.counted is None or visit.counted.gone_at is not None
    return is_done(visit)


def counted_after(visit: Visit, logged: tuple[StandingKey, ...]) -> Counted:
    """Return the record of what is counted after this visit."""
    yoke = visit.yoke
    return Counted(
        version=visit.version,
        revision=visit.declarations.revision,
        value=yoke.value if yoke else None,
        keys=tuple(visit.after),
        logged=tuple(sorted({*logged, *_unfolded(visit)})),
        since=visit.since,
        gone_at=visit.now if yoke is None else None,
    )


def _unfolded(visit: Visit) -> list[StandingKey]:
    """Return standings with an earlier adjustment of this yoke that no fold run is known to have added."""
    assert visit.counted is None or visit.counted_at is not None, "a record that was read has its time"
    loaded = visit.standings
    return [
        key
        for key in (visit.counted or NOT_COUNTED).logged
        if not (key in loaded and _is_folded(loaded[key].standing, visit.counted_at))
    ]


def _is_folded(standing: Standing, counted_at: datetime | None) -> bool:
    return standing.folded_at is not None and counted_at is not None and standing.folded_at >= counted_at


def changed(loaded: LoadedStanding, change: Change) -> Standing:
    """Return a quiet standing after a change."""
    standing = loaded.standing.moved(change.tally, change.moves)
    if loaded.standing.needs_extremes(change.removed_value):
        return standing.with_extremes((*loaded.others, change.added_value))
    return standing.with_extremes((standing.min, standing.max, change.added_value))


def adjustment_id(visit: Visit, key: StandingKey) -> str:
    """Return the id of an adjustment: spread, and used once, since the guarded commit of this visit lands once."""
    return name_of("adjustment", visit.key.id, key.text, microseconds(visit.now))
