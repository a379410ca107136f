"""Read plans of visits, fold runs and recounts.

The order of reads matters. A visit reads the extremes after the standing, and a fold run reads them after the
adjustments: a change that is counted later leaves another adjustment, or writes the standing, so that the guard fails.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Query, Snapshot, Store
from signalbox.core.queries import Condition, Order
from signalbox.core.reads import is_full
from signalbox.standings import machine
from signalbox.standings.limits import LIMITS
from signalbox.standings.machine import Change, LoadedStanding, Visit, WalkedPages
from signalbox.standings.model.standings import Adjustment, Counted, Declarations, Recount, Standing
from signalbox.standings.model.yokes import COUNTED, DECLARED, StandingKey, Tally, Value, Yoke, YokeKey

# --- visits ---


@dataclass(frozen=True, slots=True)
class VisitReads:
    """The read plan of a visit: three records at one instant, then the standings that change.

    Unless it is a walk's, a change is likely: then the standings of the user and of the item are read at that instant.
    """

    key: YokeKey
    by_walk: bool = False

    @property
    def path(self) -> str:
        """The path of the record whose guard may fail."""
        return self.key.counted_path

    def load(self, store: Store, attempt: int) -> Visit:
        """Return the input of a visit. After a lost race, all standings count as busy."""
        likely = () if self.by_walk else self.key.standings
        paths = (self.key.path, self.key.counted_path, DECLARED, *(standing.path for standing in likely))
        yoke, counted, declared, *read = store.read(*paths)
        visit = Visit(
            self.key,
            yoke.read_time,
            Yoke.from_record(self.key, yoke.data),
            yoke.update_time,
            yoke.create_time,
            Counted.from_record(counted.data),
            counted.update_time,
            Declarations.from_record(declared.data),
            contended=attempt > 0,
        )
        if machine.is_done(visit):
            return visit
        return _with_standings(store, visit, dict(zip(likely, read, strict=True)))


def _with_standings(store: Store, visit: Visit, read: Mapping[StandingKey, Snapshot]) -> Visit:
    """Read the standings that change and are not read yet; and then, if an extreme may be removed, the extremes of the
    other yokes.
    """
    changes = visit.changes
    if left := [key for key in changes if key not in read]:
        read = {**read, **dict(zip(left, store.read(*(key.path for key in left)), strict=True))}
    loaded = {key: LoadedStanding(Standing.from_record(read[key].data), read[key].update_time) for key in changes}
    now = max((read[key].read_time for key in changes), default=visit.now)
    visit = replace(visit, now=now, standings=loaded)
    return replace(visit, standings={key: _with_others(store, visit, key, changes[key]) for key in changes})


def _with_others(store: Store, visit: Visit, key: StandingKey, change: Change) -> LoadedStanding:
    loaded = visit.standings[key]
    if visit.is_busy(key) or not loaded.standing.needs_extremes(change.removed_value):
        return loaded
    return replace(loaded, others=extremes(store, key, but=visit.key))


def extremes(store: Store, key: StandingKey, but: YokeKey | None = None) -> tuple[Value, ...]:
    """Return the smallest and the largest counted value of a standing, without one yoke's."""
    found = (*_first_counted(store, key, but, descending=False), *_first_counted(store, key, but, descending=True))
    return tuple(snapshot.data["value"] for snapshot in found if snapshot.data)


def _first_counted(store: Store, key: StandingKey, but: YokeKey | None, *, descending: bool) -> Sequence[Snapshot]:
    order = Order(("values", key.field), descending)
    found = store.query(Query(COUNTED, order_by=(order,), limit=2 if but else 1))
    return [snapshot for snapshot in found if but is None or snapshot.id != but.id][:1]


# --- fold runs ---


@dataclass(frozen=True, slots=True)
class AdjustmentsPage:
    """A page of adjustments, with the standing, the declarations and, if the standing is written, the extremes."""

    adjustments: tuple[Snapshot, ...]
    standing: Snapshot
    declared: Snapshot
    values: tuple[Value, ...] = ()
    is_merged: bool = False

    @property
    def is_last(self) -> bool:
        return len(self.adjustments) < LIMITS.fold_page_max

    @property
    def parsed(self) -> tuple[Adjustment, ...]:
        return parsed(self.adjustments)


def parsed(adjustments: Iterable[Snapshot]) -> tuple[Adjustment, ...]:
    return tuple(Adjustment.from_record(record.data) for record in adjustments if record.data is not None)


@dataclass(frozen=True, slots=True)
class FoldReads:
    """The read plan of one page of a fold run."""

    key: StandingKey
    not_before: datetime | None = None
    may_merge: bool = True

    @property
    def path(self) -> str:
        """The path of the record whose guard may fail."""
        return self.key.path

    def load(self, store: Store, attempt: int) -> AdjustmentsPage | None:  # noqa: ARG002  each attempt reads the same
        """Return a page, or None if no adjustment is left. Raises `Unavailable` before the end of the slot.

        The time is read before the adjustments, so that all adjustments of the slot are committed by then.
        """
        declared, standing = store.read(DECLARED, self.key.path)
        if self.not_before is not None:
            machine.check_due(declared.read_time, self.not_before)
        adjustments = store.query(Query(self.key.adjustments, limit=LIMITS.fold_page_max))
        if not adjustments:
            return None
        page = AdjustmentsPage(adjustments, standing, declared)
        held = Standing.from_record(standing.data)
        if machine.is_replaced_by_its_sum(held, is_full=not page.is_last, may_merge=self.may_merge):
            return replace(page, is_merged=True)
        return replace(page, values=extremes(store, self.key)) if _has_values((standing, *adjustments)) else page


def _has_values(records: Iterable[Snapshot]) -> bool:
    """Return whether a yoke with a value was added or removed. Likes and follows have no values, so no extremes."""
    tallies = (Tally.from_record(record.data) for record in records if record.data is not None)
    return any(tally.values or tally.units for tally in tallies)


def pending(store: Store, key: StandingKey) -> int:
    """Return the number of adjustments of a standing that are committed and not added yet."""
    return store.count(Query(key.adjustments))


# --- recounts ---


def walk_counted(store: Store, key: StandingKey, begun: Recount) -> WalkedPages:
    """Add up the next pages of the counted records of a standing, after a recount's cursor."""
    field = ("times", key.field)
    pages = WalkedPages(begun.cursor)
    for _ in range(LIMITS.recount_pages_max):
        created = (Condition(field, "<=", begun.until),)
        limits = (LIMITS.recount_page_max, pages.cursor or (), CORE_LIMITS.read_bytes_max)
        query = Query(COUNTED, created, (Order(field),), *limits)
        page = store.query(query)
        held = [record.data for record in page if record.data is not None]
        cursor = (held[-1]["times"][key.field], page[-1].id) if is_full(query, page) else None
        tally = sum((Tally.of(data["value"]) for data in held), pages.tally)
        pages = WalkedPages(cursor, tally, _extremes_of((*pages.values, *(data["value"] for data in held))))
        if cursor is None:
            break
    return pages


def _extremes_of(values: tuple[Value, ...]) -> tuple[Value, ...]:
    numbers = [value for value in values if value is not None]
    return (min(numbers), max(numbers)) if numbers else ()
