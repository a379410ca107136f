"""The event of a yoke and the tasks of the queue `standings`: fold runs, walks, removals, recounts.

    event ──► read yoke, counted record, declarations ──► read the standings that change ──► commit ──► fold tasks

The event is acknowledged only after the fold tasks are enqueued; until then Eventarc delivers it again. A repeated
visit finds the work committed, and enqueues the fold tasks that the counted record names. Events that a process
receives while it counts others are counted in one commit.

    fold run ──► read the time and the standing ──► read a page of adjustments
        a full page   ──► commit: one adjustment with their sum, and the page deleted; repeat
        the last page ──► query the extremes ──► commit: the standing, and the page deleted

So a run writes the standing once, however many adjustments there are: Firestore sustains about one write a second on a
record, and the slots of a standing's runs are a second apart.

    recount turn ──► read the standing ──► read pages ──► read the adjustments ──► commit: the standing and its recount

A turn depends on one fact: each change of a counted record is committed with an adjustment or a write of the standing.
So if no waiting adjustment is for a yoke in these pages, and the standing is not written meanwhile, the standing
contains exactly the sum of the pages. A turn that finds such an adjustment is repeated after a fold run.

Walks, removals and recounts of a kind are chains of tasks, one for each page; a repeated page changes nothing. Each
night a walk counts all yokes again, since an event may have been lost, and then recounts all standings.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.given import given
from signalbox.core.kit_names import STANDING_FOLD
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Conflict, Delete, DocumentEvent, Must, Ports, Put, Query, Snapshot
from signalbox.core.problems import BadValue, Problem, Unavailable
from signalbox.core.records.formats import check_known
from signalbox.core.records.queries import Condition
from signalbox.standings import machine
from signalbox.standings.limits import LIMITS
from signalbox.standings.machine import RECOUNT_ATTEMPTS_MAX, Visits, recount_task
from signalbox.standings.model.aggregates import Standing
from signalbox.standings.model.declarations import Declarations
from signalbox.standings.model.recounts import Recount
from signalbox.standings.model.yokes import COUNTED, DECLARED, YOKES, StandingKey, YokeKey, collection_of
from signalbox.standings.service.declarations import read_declarations
from signalbox.standings.storage import AdjustmentsPage, FoldReads, VisitReads, extremes, parsed, walk_counted

Logged = tuple[StandingKey, ...]
"""The standings to which a visit left adjustments."""


TASKS = ("fold", "walk", "remove", "recount", "recounts")


def run_task(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Run a task of the queue `standings`. Raises `Unavailable`, or `BadValue` for an invalid payload."""
    check_known(STANDING_FOLD, task, TASKS)
    match task, payload:
        case "fold", {"standing": str(text), "at": str(at)}:
            fold(ports, StandingKey.from_text(text), datetime.fromisoformat(at))
        case "walk", {"run": str(run_), "collection": str(collection), "cursor": str(cursor)}:
            walk_page(ports, run_, collection, cursor, whole=bool(payload.get("whole")))
        case "remove", {"run": str(run_), "field": str(field), "value": str(value), "cursor": str(cursor)}:
            remove_page(ports, run_, field, value, cursor)
        case "recount", {"run": str(run_), "standing": str(text), "turn": str(turn), "left": int(left)}:
            recount(ports, run_, StandingKey.from_text(text), turn, left)
        case "recounts", {"run": str(run_), "kind": str(kind), "cursor": str(cursor)}:
            recount_page(ports, run_, kind, cursor)
        case _:
            raise BadValue("Invalid payload of a task of standings.")


# --- visits ---


def count_events(ports: Ports, events: Mapping[str, DocumentEvent]) -> Mapping[str, bool | Exception]:
    """Count the yokes of events that one process handles together.

    The result has, for each event, whether its yoke was counted, or the error.
    """
    keys = {id_: key for id_, event in events.items() if (key := _yoke_of(ports, event))}
    errors = count_together(ports, tuple(keys.values()))
    return {id_: errors.get(keys[id_], True) if id_ in keys else True for id_ in events}


def count_event(ports: Ports, event: DocumentEvent) -> None:
    """Count the yoke of an event. Raises `Unavailable`."""
    if key := _yoke_of(ports, event):
        count(ports, [key])


def _yoke_of(ports: Ports, event: DocumentEvent) -> YokeKey | None:
    """Return the key of an event's yoke; log an id that the kit would not have made."""
    key = YokeKey.from_id(event.key)
    if key is None:
        ports.log.error("yoke with an invalid id, not counted", yoke=event.key)
    return key


def count_together(ports: Ports, keys: Sequence[YokeKey], *, by_walk: bool = False) -> Mapping[YokeKey, Exception]:
    """Count different yokes in one commit.

    Return the errors of the yokes that are not counted. If one yoke may have caused the error, each yoke is counted
    alone (`machine.uncounted`). Raises errors that no yoke can cause.
    """
    if not keys:
        return {}
    try:
        count(ports, keys, by_walk=by_walk)
    except (*machine.OF_ONE_YOKE, Unavailable) as error:
        uncounted = machine.uncounted(keys, error)
        if uncounted is not None:
            return uncounted
        alone = (count_together(ports, [key], by_walk=by_walk) for key in keys)
        return {key: error for errors in alone for key, error in errors.items()}
    return {}


def count(ports: Ports, keys: Sequence[YokeKey], *, by_walk: bool = False) -> None:
    """Count different yokes in their current state, in one commit.

    Raises `Unavailable`, also if a fold task may not be enqueued.
    """
    logged, committed = perform(ports, VisitReads(keys, by_walk), counting_writes)
    if logged:
        moment = committed.commit_time if committed else ports.store.read(DECLARED, fields=())[0].read_time
        ports.queue.create([machine.fold_task(standing, moment) for standing in logged])


def counting_writes(visits: Visits) -> Decision[Writes, Logged]:
    """Return the writes that count yokes, and the standings that need a fold run."""
    writes: list[Put] = []
    effects: list[Effect] = []
    for key, change in visits.changes.items():
        if visits.is_busy(key):
            path = f"{key.adjustments}/{machine.adjustment_id(visits, key)}"
            writes.append(Put(path, change.adjustment.to_record(), Must.NOT_EXIST))
            continue
        loaded = visits.standings[key]
        standing, reached = machine.cross(
            machine.standing_after(loaded, change), visits.declarations.thresholds_of(key)
        )
        writes.append(Put(key.path, standing.to_record(), loaded.update_time or Must.NOT_EXIST))
        effects += machine.threshold_tasks(key, standing, reached, visits.now)
    counted = [(visit, machine.counted_after(visits, visit)) for visit in visits.of_yokes]
    records = [
        Put(visit.key.counted_path, record.to_record(visit.key), visit.counted_at or Must.NOT_EXIST)
        for visit, record in counted
    ]
    logged = visits.logged.union(*(record.logged for _, record in counted))
    return Decision((*records, *writes), tuple(sorted(logged)), tuple(effects))


# --- fold runs ---


def fold(ports: Ports, key: StandingKey, not_before: datetime | None = None) -> None:
    """Add the adjustments of a standing. Raises `Unavailable` before the end of the slot, or under contention."""
    for pages_left in reversed(range(LIMITS.fold_pages_max)):
        reads = FoldReads(key, not_before, may_merge=pages_left > 0)
        if perform(ports, reads, lambda page: _added(key, page))[0]:
            return
    [now] = ports.store.read(DECLARED, fields=())
    ports.queue.create([machine.fold_task(key, now.read_time)])


def _added(key: StandingKey, page: AdjustmentsPage | None) -> Decision[Writes, bool]:
    """Return the writes that add or merge a page, and whether the page is the last one."""
    if page is None:
        return Decision((), True)
    return merging_writes(key, page) if page.is_merged else folding_writes(key, page)


def merging_writes(key: StandingKey, page: AdjustmentsPage) -> Decision[Writes, bool]:
    """Return the writes that replace a page by one adjustment.

    The id of that adjustment is derived from the ids in the page, so a repeat writes the same id.
    """
    path = f"{key.adjustments}/{name_of('merged', *(record.id for record in page.adjustments))}"
    return Decision((Put(path, machine.merged(page.parsed).to_record(), Must.NOT_EXIST), *_deletes(page)), False)


def folding_writes(key: StandingKey, page: AdjustmentsPage) -> Decision[Writes, bool]:
    """Return the writes that add a page to the standing, and whether the page is the last one."""
    standing = Standing.from_record(page.standing.data)
    read_at = page.adjustments[0].read_time
    folded_at = read_at if page.is_last else standing.folded_at
    standing = replace(machine.folded(standing, page.parsed, read_at), folded_at=folded_at).with_extremes(page.values)
    thresholds = Declarations.from_record(page.declared.data).thresholds_of(key)
    standing, reached = machine.cross(standing, thresholds) if page.is_last else (standing, ())
    effects = machine.threshold_tasks(key, standing, reached, page.standing.read_time)
    put = Put(key.path, standing.to_record(), page.standing.guard)
    return Decision((put, *_deletes(page)), page.is_last, tuple(effects))


def _deletes(page: AdjustmentsPage) -> tuple[Delete, ...]:
    """Return the deletes of a page. They fail if another run has added one of the adjustments."""
    return tuple(Delete(record.path, Must.EXIST) for record in page.adjustments)


# --- recounts ---


@dataclass(frozen=True, slots=True)
class Turn:
    """The outcome of a turn. `next_turn` is None at the end of the recount; `moved` is whether to repeat the turn."""

    next_turn: str | None = None
    moved: bool = False


OVER = Turn()


def recount(ports: Ports, run_: str, key: StandingKey, turn: str, left: int) -> None:
    """Run a turn of a recount (the first is "") and enqueue the next one.

    If yokes of the turn's pages are written meanwhile, the turn is repeated later.
    """
    done = take_turn(ports, run_, key, turn)
    if done.moved and not left:
        _give_up(ports, run_, key)
    elif done.moved:
        fold(ports, key)
        ports.queue.create([_later(ports, recount_task(run_, key, turn, left - 1), RECOUNT_ATTEMPTS_MAX - left + 1)])
    elif done.next_turn:
        ports.queue.create([_later(ports, recount_task(run_, key, done.next_turn, RECOUNT_ATTEMPTS_MAX))])


def _later(ports: Ports, task: Effect, times: int = 1) -> Effect:
    """Return a task that is due after a pause.

    A pause is needed because each turn writes the standing, as fold runs do.
    """
    [now] = ports.store.read(DECLARED, fields=())
    return replace(task, not_before=now.read_time + timedelta(seconds=times * LIMITS.recount_pause_seconds))


def _give_up(ports: Ports, run_: str, key: StandingKey) -> None:
    """Remove a recount from its standing. Raises `Unavailable`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        standing = Standing.from_record(read[0].data)
        if standing.recount is None or standing.recount.run != run_:
            return Decision((), None)
        return Decision((Put(key.path, replace(standing, recount=None).to_record(), read[0].guard),), None)

    perform(ports, [key.path], decide)
    ports.log.error("standing is busy, not recounted", standing=key.text)


def take_turn(ports: Ports, run_: str, key: StandingKey, turn: str = "") -> Turn:
    """Add up the next pages of a standing's yokes, and repair the standing after the last. Raises `Unavailable`.

    A record that cannot be read is first replaced by an empty standing: neither visits nor fold runs can change it.
    """
    [read] = ports.store.read(key.path)
    try:
        held = Standing.from_record(read.data)
    except machine.OF_A_RECORD as error:
        ports.log.error("standing cannot be read, emptied", standing=key.text, reason=str(error))
        return write_recounted(ports, read, Standing(), Turn(turn, moved=True), turn)
    mine = held.recount if held.recount and held.recount.run == run_ else None
    if turn != (mine.turn if mine else ""):
        return Turn(mine.turn) if mine else OVER
    begun = mine or Recount(run_, read.read_time)
    pages = walk_counted(ports.store, key, begun)
    values = extremes(ports.store, key) if mine and pages.is_last else pages.values
    waiting = parsed(ports.store.query(Query(key.adjustments, limit=LIMITS.recount_waiting_max)))
    recounted = machine.recounted(held, begun, pages, waiting, values)
    if recounted is None:
        return Turn(turn, moved=True)
    if recounted.recount:
        return write_recounted(ports, read, recounted, Turn(recounted.recount.turn), turn)
    return _repaired(ports, key, read, recounted, turn)


def _repaired(ports: Ports, key: StandingKey, read: Snapshot, repaired: Standing, turn: str) -> Turn:
    """Write the result of a recount, unless the standing has it already."""
    held = Standing.from_record(read.data)
    if repaired == held:
        is_unchanged = ports.store.read(key.path)[0].update_time == read.update_time
        return OVER if is_unchanged else Turn(turn, moved=True)
    done = write_recounted(ports, read, repaired, OVER, turn)
    if done is OVER and repaired != replace(held, recount=None):
        ports.log.error("standing had drifted, repaired", standing=key.text, was=held.numbers(), now=repaired.numbers())
    return done


def write_recounted(ports: Ports, read: Snapshot, standing: Standing, done: Turn, turn: str) -> Turn:
    """Write a standing under its guard. If another process has written it meanwhile, the turn must be repeated."""
    try:
        ports.store.commit([Put(read.path, standing.to_record(), read.guard)])
    except Conflict:
        return Turn(turn, moved=True)
    return done


def begin_recounts(ports: Ports, run: str) -> None:
    """Enqueue a recount of all standings, kind by kind."""
    enqueue_next_kind(ports, run, sorted(read_declarations(ports).kinds))


def recount_page(ports: Ports, run: str, kind: str, cursor: str) -> None:
    """Recount a page of a kind's standings. A recount of more than one turn continues in separate tasks."""
    query = Query(collection_of(kind), limit=LIMITS.recounts_page_max, after=(cursor,) if cursor else ())
    found = ports.store.query(query)
    for record in found:
        key = StandingKey(kind, record.id)
        try:
            recount_or_enqueue(ports, run, key)
        except machine.OF_A_RECORD as error:
            ports.log.error("standing refused, not recounted", standing=key.text, reason=str(error))
    if len(found) == LIMITS.recounts_page_max:
        ports.queue.create([machine.work_task("recounts", run, kind=kind, cursor=found[-1].id)])
    else:
        enqueue_next_kind(ports, run, [other for other in sorted(read_declarations(ports).kinds) if other > kind])


def recount_or_enqueue(ports: Ports, run: str, key: StandingKey) -> None:
    """Run the first turn of a recount, and enqueue a task for the next turn or the repeated one."""
    done = take_turn(ports, run, key)
    if done.moved or done.next_turn:
        ports.queue.create([_later(ports, recount_task(run, key, done.next_turn or "", RECOUNT_ATTEMPTS_MAX))])


def enqueue_next_kind(ports: Ports, run: str, kinds: list[str]) -> None:
    """Enqueue the task that recounts the first of the remaining kinds, if there is one."""
    if kinds:
        ports.queue.create([machine.work_task("recounts", run, kind=kinds[0], cursor="")])


# --- walks and removals ---


def walk_page(ports: Ports, run_: str, collection: str, cursor: str, *, whole: bool = False) -> None:
    """Count a page of a walk. A walk visits all yokes, and then the counted records to find deleted yokes.

    If `whole`, all standings are recounted after the walk.
    """
    query = Query(collection, limit=LIMITS.count_page_max, after=(cursor,) if cursor else ())
    found = ports.store.query(query)
    keys = list(filter(None, (YokeKey.from_id(record.id) for record in found)))
    for first in range(0, len(keys), LIMITS.visits_together_max):
        together = keys[first : first + LIMITS.visits_together_max]
        for key, error in count_together(ports, together, by_walk=True).items():
            if isinstance(error, Unavailable):
                raise error
            ports.log.error("yoke refused, not counted", yoke=key.id, reason=str(error))
    more = given(whole=whole or None)
    if len(found) == LIMITS.count_page_max:
        ports.queue.create([machine.work_task("walk", run_, collection=collection, cursor=found[-1].id, **more)])
    elif collection == YOKES:
        ports.queue.create([machine.work_task("walk", run_, collection=COUNTED, cursor="", **more)])
    elif whole:
        begin_recounts(ports, run_)


def remove_page(ports: Ports, run_: str, field: str, value: str, cursor: str) -> None:
    """Delete a page of the yokes of a user or an item. Their events change the standings."""
    after = (cursor,) if cursor else ()
    where = (Condition((field,), "==", value),)
    found = ports.store.query(Query(YOKES, where, limit=LIMITS.remove_page_max, after=after))
    outcomes = ports.store.write_each([Delete(record.path) for record in found]) if found else ()
    for record, outcome in zip(found, outcomes, strict=True):
        if isinstance(outcome, Problem):
            ports.log.error("yoke refused, not removed", yoke=record.id, reason=outcome.detail)
        elif isinstance(outcome, Exception):
            raise outcome
    if len(found) == LIMITS.remove_page_max:
        ports.queue.create([machine.work_task("remove", run_, field=field, value=value, cursor=found[-1].id)])
