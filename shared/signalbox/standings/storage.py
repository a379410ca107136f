"""Read plans of visits, fold runs and recounts.

The order of reads matters. A visit reads the extremes after the standing, and a fold run reads them after the
adjustments: a change that is counted later leaves another adjustment, or writes the standing, so that the guard fails.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Query, Snapshot, Store, is_full
from signalbox.core.records.queries import Condition, Order
from signalbox.standings import machine
from signalbox.standings.limits import LIMITS
from signalbox.standings.machine import LoadedStanding, Visit, Visits, WalkedPages
from signalbox.standings.model.aggregates import Adjustment, Counted, Standing
from signalbox.standings.model.declarations import Declarations
from signalbox.standings.model.exact_sums import Tally, Value
from signalbox.standings.model.recounts import Recount
from signalbox.standings.model.yokes import COUNTED, DECLARED, StandingKey, Yoke, YokeKey

# --- visits ---


@dataclass(frozen=True, slots=True)
class VisitReads:
    """The read plan of visits.

    The plan reads two records of each yoke and the declarations at one instant, then the standings that change. Except
    in a walk, changes are likely, so the standings of the users and items are read at the same instant.
    """

    keys: Sequence[YokeKey]
    by_walk: bool = False

    @property
    def path(self) -> str:
        """The path of the first record whose guard may fail."""
        return self.keys[0].counted_path

    def load(self, store: Store, attempt: int) -> Visits:
        """Return the input of the visits. After two lost races, all standings count as busy."""
        likely = () if self.by_walk else tuple(dict.fromkeys(key for yoke in self.keys for key in yoke.standings))
        own = [path for key in self.keys for path in (key.path, key.counted_path)]
        declared, *read = store.read(DECLARED, *own, *(standing.path for standing in likely))
        declarations = Declarations.from_record(declared.data)
        records = zip(self.keys, read[: len(own) : 2], read[1 : len(own) : 2], strict=True)
        visits = [_visit(key, yoke, counted, declarations) for key, yoke, counted in records]
        done = [visit for visit in visits if self._is_done(visit)]
        left = tuple(visit for visit in visits if not self._is_done(visit))
        logged = frozenset(key for visit in done if visit.counted for key in visit.counted.logged)
        loaded = Visits(left, declared.read_time, declarations, logged, attempt > 1, machine.combined(left))
        return _with_standings(store, loaded, dict(zip(likely, read[len(own) :], strict=True)))

    def _is_done(self, visit: Visit) -> bool:
        return machine.is_done_on_walk(visit) if self.by_walk else machine.is_done(visit)


def _visit(key: YokeKey, yoke: Snapshot, counted: Snapshot, declarations: Declarations) -> Visit:
    return Visit(
        key,
        yoke.read_time,
        Yoke.from_record(key, yoke.data),
        yoke.update_time,
        yoke.create_time,
        Counted.from_record(counted.data),
        counted.update_time,
        declarations,
    )


def _with_standings(store: Store, visits: Visits, read: Mapping[StandingKey, Snapshot]) -> Visits:
    """Read the standings that change and have not been read yet.

    If an extreme may be removed, then also read the extremes of the other yokes.
    """
    if left := [key for key in visits.changes if key not in read]:
        read = {**read, **dict(zip(left, store.read(*(key.path for key in left)), strict=True))}
    found = {key: read[key] for key in visits.changes}
    loaded = {key: LoadedStanding(Standing.from_record(one.data), one.update_time) for key, one in found.items()}
    now = max((one.read_time for one in found.values()), default=visits.now)
    visits = replace(visits, now=now, standings=loaded)
    return replace(visits, standings={key: _with_others(store, visits, key) for key in found})


def _with_others(store: Store, visits: Visits, key: StandingKey) -> LoadedStanding:
    loaded, change = visits.standings[key], visits.changes[key]
    if visits.is_busy(key) or not machine.needs_extremes(loaded.standing, change):
        return loaded
    return replace(loaded, others=extremes(store, key, but=change.yokes))


def extremes(store: Store, key: StandingKey, but: Collection[str] = ()) -> tuple[Value, ...]:
    """Return the smallest and the largest counted value of a standing, without the yokes whose ids are in `but`."""
    found = (*_first_counted(store, key, but, descending=False), *_first_counted(store, key, but, descending=True))
    return tuple(snapshot.data["value"] for snapshot in found if snapshot.data)


def _first_counted(store: Store, key: StandingKey, but: Collection[str], *, descending: bool) -> Sequence[Snapshot]:
    order = Order(("values", key.field), descending)
    found = store.query(Query(COUNTED, order_by=(order,), limit=1 + len(but)))
    return [snapshot for snapshot in found if snapshot.id not in but][:1]


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
        return replace(page, values=extremes(store, self.key)) if has_values((standing, *adjustments)) else page


def has_values(records: Iterable[Snapshot]) -> bool:
    """Return whether a yoke with a value was added or removed. Likes and follows have no values, and so no extremes."""
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
