"""Count a yoke after its event, or on a walk: read, decide, commit, and announce what a fold run must add.

    read yoke, counted, declarations ──► read the standings that change ──► commit ──► fold tasks ──► acknowledge

The event of the yoke is the outbox of all this: it is acknowledged only after the fold tasks are enqueued, and until
then delivered again. A visit that finds the work committed enqueues the fold tasks that the counted record names.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import DocumentEvent, Must, Order, Ports, Put, Query, Snapshot, Store
from shared.core.rules.effects import Decision, Effect
from shared.standings.rules import counting as rules
from shared.standings.rules import tasks
from shared.standings.rules.counting import Change, Counted, LoadedStanding, Visit
from shared.standings.rules.declarations import Declarations
from shared.standings.rules.keys import COUNTED, DECLARED, StandingKey, YokeKey
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import Value
from shared.standings.rules.yokes import Yoke

Logged = tuple[StandingKey, ...]


def count_event(ports: Ports, event: DocumentEvent) -> None:
    """Count the yoke of an event. Raises `Unavailable`."""
    key = YokeKey.from_id(event.key)
    if key is None:
        ports.log.error("yoke with an invalid id, not counted", yoke=event.key)
        return
    count(ports, key)


def count(ports: Ports, key: YokeKey, *, by_walk: bool = False) -> None:
    """Count a yoke as it is now. Raises `Unavailable`, also when a fold task is not known to be enqueued."""
    reads = VisitReads(key)
    over = rules.is_over if by_walk else rules.is_done

    def decide(visit: Visit) -> Decision[Writes, Logged]:
        if over(visit):
            return Decision((), visit.counted.logged if visit.counted else ())
        return _counted(visit)

    logged, committed = perform(ports, reads, decide)
    if logged:
        moment = committed.commit_time if committed else ports.store.read(key.counted_path, fields=())[0].read_time
        ports.queue.create([tasks.fold_task(each, moment) for each in logged])


@dataclass(frozen=True, slots=True)
class VisitReads:
    """The read plan of a visit: three records at one instant, then the standings that change."""

    key: YokeKey

    @property
    def path(self) -> str:
        """Return the path of the record whose guard may fail."""
        return self.key.counted_path

    def load(self, store: Store, attempt: int) -> Visit:
        """Return what a visit rests on. After a lost race, every standing counts as busy."""
        yoke, counted, declared = store.read(self.key.path, self.key.counted_path, DECLARED)
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
        return visit if rules.is_done(visit) else _with_standings(store, visit)


def _with_standings(store: Store, visit: Visit) -> Visit:
    """Read the standings that change; and where an extreme may go, the extremes of the other yokes, after that."""
    changes = visit.changes
    if not changes:
        return visit
    read = dict(zip(changes, store.read(*(key.path for key in changes)), strict=True))
    loaded = {key: LoadedStanding(Standing.from_record(one.data), one.update_time) for key, one in read.items()}
    now = next(iter(read.values())).read_time
    visit = replace(visit, now=now, standings=loaded)
    return replace(visit, standings={key: _with_others(store, visit, key, changes[key]) for key in changes})


def _with_others(store: Store, visit: Visit, key: StandingKey, change: Change) -> LoadedStanding:
    loaded = visit.standings[key]
    if visit.is_busy(key) or not loaded.standing.needs_extremes(change.removed_value):
        return loaded
    return replace(loaded, others=extremes(store, key, but=visit.key))


def extremes(store: Store, key: StandingKey, but: YokeKey | None = None) -> tuple[Value, ...]:
    """Return the smallest and the largest counted value of a standing, but for one yoke's."""
    found = (*_first(store, key, but, descending=False), *_first(store, key, but, descending=True))
    return tuple(snapshot.data["value"] for snapshot in found if snapshot.data)


def _first(store: Store, key: StandingKey, but: YokeKey | None, *, descending: bool) -> Sequence[Snapshot]:
    order = Order(("values", key.field), descending)
    found = store.query(Query(COUNTED, order_by=(order,), limit=2 if but else 1))
    return [snapshot for snapshot in found if but is None or snapshot.id != but.id][:1]


def _counted(visit: Visit) -> Decision[Writes, Logged]:
    """Return the writes that count a yoke, and the standings that a fold run must look at."""
    writes: list[Put] = []
    effects: list[Effect] = []
    logged: list[StandingKey] = []
    for key, change in visit.changes.items():
        if visit.is_busy(key):
            logged.append(key)
            path = f"{key.adjustments}/{rules.adjustment_id(visit, key)}"
            writes.append(Put(path, change.to_record(), Must.NOT_EXIST))
            continue
        loaded = visit.standings[key]
        standing, reached = rules.changed(loaded, change).cross(visit.declarations.thresholds_of(key))
        writes.append(Put(key.path, standing.to_record(), loaded.update_time or Must.NOT_EXIST))
        effects += tasks.threshold_tasks(key, standing, reached, visit.now)
    counted = rules.counted_after(visit, tuple(logged))
    record = Put(visit.key.counted_path, counted.to_record(visit.key), visit.counted_at or Must.NOT_EXIST)
    return Decision((record, *writes), counted.logged, tuple(effects))
