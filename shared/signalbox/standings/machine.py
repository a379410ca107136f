"""Every decision about standings, and the tasks that it enqueues, as pure functions of the records that were read.

A *visit* of a yoke compares the yoke with its counted record (its present share in the standings), and adds the
difference to the standings. The record is written in the same commit, under its guard. So a visit may be repeated,
late, out of order or interrupted: once the work is done there is no difference, and of two concurrent visits one fails.

    yoke     counted record  event  walk
    -------  --------------  -----  -----
    exists   none            count  count
    exists   current         done   done
    exists   outdated        count  count
    exists   of its absence  count  count
    deleted  none            count  done
    deleted  current         count  count
    deleted  outdated        count  count
    deleted  of its absence  count  done

An event of a deleted yoke writes the record even if it is there already, so that the commit of a concurrent visit that
has read the yoke fails. A walk follows no event, so it leaves that record alone.

Several yokes may be counted in one commit, which guards each of their records. Their changes are added up by standing.
Each standing that changes is written in one of two ways. An adjustment is a separate record, which cannot conflict; a
fold run adds it later.

    standing                               written     task
    -------------------------------------  ----------  ---------
    not written for 1.5 seconds            standing    -
    not written for 1.5 seconds, crossing  standing    threshold
    written a second ago                   adjustment  fold
    any, after two lost races              adjustment  fold

A *fold run* adds the adjustments of a standing page by page, and deletes them in the same commit. Full pages are first
replaced by one adjustment with their sum, so that a run writes the standing once.

    page   if                            written     next
    -----  ----------------------------  ----------  -----
    empty  -                             -           done
    full   -                             adjustment  again
    full   a recount is in progress      standing    again
    full   it is the last of the run     standing    again
    other  -                             standing    done

A *recount* adds up the counted records of a standing in turns of a few pages, and then repairs the standing. A turn is
valid only if no waiting adjustment is for a yoke in its pages, and the standing is not written meanwhile.

    pages  waiting adjustments  written                   next
    -----  -------------------  ------------------------  --------------
    more   none                 standing and its recount  the next turn
    more   of other yokes       standing and its recount  the next turn
    last   none                 standing, repaired        done
    last   of other yokes       standing, repaired        done
    any    of these yokes       -                         the same turn
    any    of unknown yokes     -                         the same turn
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self

from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import STANDING_FOLD, STANDINGS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import Contended, NewerFormat, Problem, Unavailable
from signalbox.core.times import microseconds, slot_end
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.aggregates import NOT_COUNTED, Adjustment, Counted, Entries, Standing
from signalbox.standings.model.declarations import Declarations, Threshold
from signalbox.standings.model.exact_sums import ZERO, Tally, Value
from signalbox.standings.model.recounts import Move, Moves, Place, Recount
from signalbox.standings.model.yokes import StandingKey, Yoke, YokeKey

RECOUNT_ATTEMPTS_MAX = 5
"""Attempts of one turn of a recount while its yokes are written."""


# --- visits ---


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a standing in a commit: a tally at each place, and the values removed and added."""

    moves: Moves
    removed: tuple[Value, ...] = ()
    added: tuple[Value, ...] = ()

    @classmethod
    def of_yoke(cls, lost: Move | None, gained: Move | None, removed: Value, added: Value) -> Self:
        """Return the change that one yoke makes.

        The standing loses the yoke, gains it, or has it with another value or place.
        """
        losses = [Move(lost.place, ZERO - lost.tally)] if lost else []
        return cls((*losses, *([gained] if gained else [])), (removed,), (added,))

    def __add__(self, other: "Change") -> "Change":
        return Change((*self.moves, *other.moves), (*self.removed, *other.removed), (*self.added, *other.added))

    @property
    def tally(self) -> Tally:
        return sum((move.tally for move in self.moves), ZERO)

    @property
    def yokes(self) -> frozenset[str]:
        """The ids of the yokes that change the standing."""
        return frozenset(move.place[1] for move in self.moves)

    @property
    def adjustment(self) -> Adjustment:
        return Adjustment(self.tally, self.moves)


Changes = Mapping[StandingKey, Change]


@dataclass(frozen=True)  # without slots: its changes are computed once
class Visit:
    """The records that a visit of a yoke has read at one instant: the yoke, its counted record and the declarations.

    `version` and `since` are the update time and create time of the yoke, `counted_at` is the update time of the
    counted record.
    """

    key: YokeKey
    now: datetime
    yoke: Yoke | None
    version: datetime | None
    since: datetime | None
    counted: Counted | None
    counted_at: datetime | None
    declarations: Declarations

    @property
    def before(self) -> Entries:
        return (self.counted or NOT_COUNTED).entries

    @cached_property
    def after(self) -> Entries:
        if self.yoke is None:
            return {}
        return dict.fromkeys(self.declarations.keys_of(self.yoke), self.yoke.value)

    @cached_property
    def changes(self) -> Changes:
        """The standings that change.

        If a yoke was deleted and created again, its place has changed, so its standings change.
        """
        before, after = self.before, self.after
        counted_since = (self.counted or NOT_COUNTED).since
        changes: dict[StandingKey, Change] = {}
        for key in sorted(before.keys() | after.keys()):
            lost, gained = self._move(before, key, counted_since), self._move(after, key, self.since)
            if lost != gained:
                changes[key] = Change.of_yoke(lost, gained, before.get(key), after.get(key))
        return changes

    def _move(self, entries: Entries, key: StandingKey, since: datetime | None) -> Move | None:
        return Move((since, self.key.id), Tally.of(entries[key])) if since and key in entries else None


@dataclass(frozen=True, slots=True)
class LoadedStanding:
    """A standing and its update time. `others` has the extremes of the other yokes if the change needs these."""

    standing: Standing
    update_time: datetime | None
    others: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Visits:
    """Visits of different yokes that are counted in one commit, without visits that have nothing to write.

    - `logged` are the standings to which earlier visits of these yokes left adjustments.
    - `changes` are the changes by all yokes together, by standing.
    - `standings` are the standings that change, which are read afterwards.
    - `contended` is true after two lost races.
    """

    of_yokes: tuple[Visit, ...]
    now: datetime
    declarations: Declarations
    logged: frozenset[StandingKey] = frozenset()
    contended: bool = False
    changes: Changes = field(default_factory=dict)
    standings: Mapping[StandingKey, LoadedStanding] = field(default_factory=dict)

    def is_busy(self, key: StandingKey) -> bool:
        """Return whether a standing must not be written now: it was written recently, or two races were lost."""
        update_time = self.standings[key].update_time if key in self.standings else None
        if self.contended or update_time is None:
            return self.contended
        return self.now - update_time < timedelta(seconds=LIMITS.standing_quiet_seconds)


def combined(visits: Iterable[Visit]) -> Changes:
    """Return the changes of several yokes, added up by standing."""
    changes: dict[StandingKey, Change] = {}
    for key, change in (found for visit in visits for found in visit.changes.items()):
        changes[key] = changes[key] + change if key in changes else change
    return changes


def is_done(visit: Visit) -> bool:
    """Return whether an event has nothing to write: this version of the yoke was counted by these declarations."""
    counted = visit.counted
    if counted is None or visit.yoke is None:
        return False
    return (counted.version, counted.revision) == (visit.version, visit.declarations.revision)


def is_done_on_walk(visit: Visit) -> bool:
    """Return whether a walk has nothing to write."""
    if visit.yoke is None:
        return visit.counted is None or visit.counted.gone_at is not None
    return is_done(visit)


OF_A_RECORD = (Problem, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of a record that cannot be read or handled."""

OF_ONE_YOKE = (*OF_A_RECORD, Contended, NewerFormat)
"""Errors that one yoke may cause for all yokes of its commit.

The error with which functions-framework ends a request at its time-out is not among them: it ends the group.
"""


def uncounted(keys: Sequence[YokeKey], error: Exception) -> Mapping[YokeKey, Exception] | None:
    """Return the yokes that an error of their commit leaves uncounted, or None to count each of them alone.

    If each yoke is counted alone, only a damaged record fails. `Unavailable` is the error of all yokes.
    """
    if len(keys) > 1 and isinstance(error, OF_ONE_YOKE):
        return None
    return dict.fromkeys(keys, error)


def counted_after(visits: Visits, visit: Visit) -> Counted:
    """Return the counted record after one of the visits.

    It names the standings to which the visit leaves adjustments.
    """
    yoke = visit.yoke
    logged = filter(visits.is_busy, visit.changes)
    return Counted(
        version=visit.version,
        revision=visit.declarations.revision,
        value=yoke.value if yoke else None,
        keys=tuple(visit.after),
        logged=tuple(sorted({*logged, *unfolded(visits, visit)})),
        since=visit.since,
        gone_at=visit.now if yoke is None else None,
    )


def unfolded(visits: Visits, visit: Visit) -> list[StandingKey]:
    """Return the standings with an earlier adjustment of this yoke that may not be added yet."""
    assert visit.counted is None or visit.counted_at is not None, "a record that was read has its time"
    loaded = visits.standings
    return [
        key
        for key in (visit.counted or NOT_COUNTED).logged
        if not (key in loaded and _is_folded(loaded[key].standing, visit.counted_at))
    ]


def _is_folded(standing: Standing, counted_at: datetime | None) -> bool:
    return standing.folded_at is not None and counted_at is not None and standing.folded_at >= counted_at


def needs_extremes(standing: Standing, change: Change) -> bool:
    """Return whether a change may remove the smallest or the largest value of a standing."""
    return any(_may_be_an_extreme(standing, value) for value in change.removed)


def _may_be_an_extreme(standing: Standing, value: Value) -> bool:
    if value is None:
        return False
    return standing.min is None or standing.max is None or value <= standing.min or value >= standing.max


def standing_after(loaded: LoadedStanding, change: Change) -> Standing:
    """Return a standing after a change that is written directly."""
    standing = loaded.standing.moved(change.tally, change.moves)
    kept = loaded.others if needs_extremes(loaded.standing, change) else (standing.min, standing.max)
    return standing.with_extremes((*kept, *change.added))


def adjustment_id(visits: Visits, key: StandingKey) -> str:
    """Return the id of an adjustment.

    It is a hash, so ids are spread, and no other visit that commits has the same id.
    """
    return name_of("adjustment", min(visits.changes[key].yokes), key.text, microseconds(visits.now))


# --- fold runs ---


def is_replaced_by_its_sum(standing: Standing, *, is_full: bool, may_merge: bool) -> bool:
    """Return whether a page of adjustments is replaced by one adjustment with their sum, and not added to the standing.

    A recount in progress needs the places of the changes, which a sum does not have.
    """
    return is_full and may_merge and standing.recount is None


def merged(adjustments: Sequence[Adjustment]) -> Adjustment:
    """Return one adjustment with the sum of a page."""
    return Adjustment(_sum(adjustments), None)


def folded(standing: Standing, adjustments: Sequence[Adjustment], read_at: datetime) -> Standing:
    """Return a standing after a page of adjustments that was read at a time.

    A recount in progress begins again if the page contains a sum, since the places of its changes are unknown.
    """
    tally = _sum(adjustments)
    if standing.recount and any(adjustment.moves is None for adjustment in adjustments):
        return replace(standing, tally=standing.tally + tally, recount=Recount(standing.recount.run, read_at))
    return standing.moved(tally, [move for adjustment in adjustments for move in adjustment.moves or ()])


def _sum(adjustments: Iterable[Adjustment]) -> Tally:
    return sum((adjustment.tally for adjustment in adjustments), ZERO)


# --- recounts ---


@dataclass(frozen=True, slots=True)
class WalkedPages:
    """The sum of a few pages of counted records, and their extremes. `cursor` is None after the last page."""

    cursor: Place | None
    tally: Tally = ZERO
    values: tuple[Value, ...] = ()

    @property
    def is_last(self) -> bool:
        return self.cursor is None


def recounted(
    standing: Standing, begun: Recount, pages: WalkedPages, waiting: Sequence[Adjustment], values: Sequence[Value]
) -> Standing | None:
    """Return a standing after a turn of its recount, or None if a waiting adjustment is for a yoke in these pages.

    After the last page the standing is repaired. `values` are its extremes by the counted records. If adjustments wait,
    a fold run reads the extremes instead.
    """
    walked = begun.walked(pages.cursor, pages.tally)
    if len(waiting) >= LIMITS.recount_waiting_max or not is_at_rest(begun, walked, waiting):
        return None
    if not pages.is_last:
        return replace(standing, recount=walked)
    extremes = (standing.min, standing.max) if waiting else values
    return replace(standing, tally=walked.tally, recount=None).with_extremes(extremes)


def is_at_rest(begun: Recount, walked: Recount, waiting: Iterable[Adjustment]) -> bool:
    """Return whether the standing includes all of the walked pages: no waiting adjustment is for a yoke in them."""
    return not any(
        adjustment.moves is None or _are_newly_covered(begun, walked, adjustment.moves) for adjustment in waiting
    )


def _are_newly_covered(begun: Recount, walked: Recount, moves: Moves) -> bool:
    return any(walked.covers(move.place) and not begun.covers(move.place) for move in moves)


# --- thresholds ---


def cross(standing: Standing, thresholds: Iterable[Threshold]) -> tuple[Standing, tuple[Threshold, ...]]:
    """Return the standing with its newly reached thresholds noted, and these thresholds."""
    awaited = [threshold for threshold in thresholds if threshold.name not in standing.crossed]
    if not awaited:
        return standing, ()
    shown = standing.numbers()
    reached = tuple(
        threshold
        for threshold in awaited
        if shown[threshold.field] is not None and shown[threshold.field] >= threshold.reaches
    )
    crossed = (*standing.crossed, *(threshold.name for threshold in reached))
    return replace(standing, crossed=crossed), reached


# --- tasks ---


def fold_task(key: StandingKey, moment: datetime) -> Effect:
    """Return the fold run that reads adjustments committed at `moment`. All adjustments of one slot share a run."""
    ends_at = slot_end(moment, LIMITS.fold_slot_seconds)
    payload: Mapping[str, Any] = {"standing": key.text, "at": ends_at.isoformat()}
    due_at = ends_at + timedelta(seconds=LIMITS.fold_margin_seconds)
    return Effect(
        name_of(key.path, "fold", microseconds(ends_at)),
        STANDINGS_QUEUE,
        STANDING_FOLD,
        "fold",
        payload,
        not_before=due_at,
    )


def check_due(now: datetime, not_before: datetime) -> None:
    """Raise `Unavailable` for a fold run that arrives before its slot has ended."""
    if now < not_before:
        raise Unavailable("the commits that this run should see may not have been made yet")


def work_task(task: str, run: str, **work: Any) -> Effect:
    """Return the task of one page of a walk, a removal or a recount, named after its run and its work."""
    name = name_of("standings", task, run, *sorted(work.items()))
    return Effect(name, STANDINGS_QUEUE, STANDING_FOLD, task, {"run": run, **work})


def recount_task(run: str, key: StandingKey, turn: str, left: int) -> Effect:
    """Return the task of one turn of a recount. After this attempt, the turn may be attempted `left` more times."""
    return work_task("recount", run, standing=key.text, turn=turn, left=left)


def threshold_tasks(key: StandingKey, standing: Standing, reached: Iterable[Threshold], now: datetime) -> list[Effect]:
    """Return the tasks of the thresholds that a standing has reached; the name of each task never changes."""
    shown = {"kind": key.kind, "id": key.id, **standing.numbers()}
    return [
        threshold.call_with(shown).effect(name_of(key.path, "threshold", threshold.name), now) for threshold in reached
    ]
