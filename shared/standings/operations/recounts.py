"""Compare standings with what is counted of their yokes, and repair them: one, or all, each night.

A recount goes by turns, each a task that adds up some pages of counted records:

    read the standing ──► read pages ──► read the adjustments ──► commit: the standing, with how far the recount is

A turn rests on one fact: each change of a counted record commits with an adjustment, or with a write of the standing.
So if no adjustment that waits is of a yoke in these pages, and the standing was not written meanwhile, the standing
holds just what the pages say. From then on whoever writes the standing carries these yokes' changes into the recount
(`rules/recounts.py`), which therefore ends exact while yokes keep coming. A turn that finds such an adjustment is
repeated after a fold run.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Condition, Conflict, Order, Ports, Put, Query, Snapshot, Store
from shared.core.operations.record_sizes import is_full
from shared.core.rules.effects import Decision, Effect
from shared.core.rules.limits import LIMITS
from shared.standings.operations.boards import declarations
from shared.standings.operations.counting import extremes
from shared.standings.operations.folding import fold
from shared.standings.rules import tasks
from shared.standings.rules.keys import COUNTED, DECLARED, StandingKey, collection_of
from shared.standings.rules.recounts import Place, Recount
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import ZERO, Tally, Value

ATTEMPTS_MAX = 5
"""Of one turn, if its yokes move."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of a turn: the recount is over, or its next turn has a name; `moved`: its yokes moved, so this one."""

    next_turn: str | None = None
    moved: bool = False


OVER = Turn()


def begin_recount(ports: Ports, run_: str, key: StandingKey) -> None:
    """Enqueue a recount of one standing."""
    ports.queue.create([_task(run_, key, "", ATTEMPTS_MAX)])


def recount(ports: Ports, run_: str, key: StandingKey, turn: str, left: int) -> None:
    """Run a turn of a recount, "": the first, and enqueue the next; if its yokes move, this one again, a bit later."""
    done = take_turn(ports, run_, key, turn)
    if done.moved and not left:
        _give_up(ports, run_, key)
    elif done.moved:
        fold(ports, key)
        ports.queue.create([_later(ports, _task(run_, key, turn, left - 1), ATTEMPTS_MAX - left + 1)])
    elif done.next_turn:
        ports.queue.create([_later(ports, _task(run_, key, done.next_turn, ATTEMPTS_MAX))])


def _task(run_: str, key: StandingKey, turn: str, left: int) -> Effect:
    return tasks.work_task("recount", run_, standing=key.text, turn=turn, left=left)


def _later(ports: Ports, task: Effect, times: int = 1) -> Effect:
    """Return a task that is due after a pause: each turn writes the standing, as fold runs do."""
    [now] = ports.store.read(DECLARED, fields=())
    return replace(task, not_before=now.read_time + timedelta(seconds=times * LIMITS.recount_pause_seconds))


def _give_up(ports: Ports, run_: str, key: StandingKey) -> None:
    """Take a recount out of its standing. Raises `Unavailable`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        standing = Standing.from_record(read[0].data)
        if standing.recount is None or standing.recount.run != run_:
            return Decision((), None)
        return Decision((Put(key.path, replace(standing, recount=None).to_record(), read[0].guard),), None)

    perform(ports, [key.path], decide)
    ports.log.error("standing is busy, not recounted", standing=key.text)


def take_turn(ports: Ports, run_: str, key: StandingKey, turn: str = "") -> Turn:
    """Add up some pages of a standing's yokes; after the last, repair it. Raises `Unavailable`."""
    [read] = ports.store.read(key.path)
    held = Standing.from_record(read.data)
    mine = held.recount if held.recount and held.recount.run == run_ else None
    if turn != (mine.turn if mine else ""):
        return Turn(mine.turn) if mine else OVER
    begun = mine or Recount(run_, read.read_time)
    pages = _walk(ports.store, key, begun)
    walked = begun.walked(pages.cursor, pages.tally)
    values = extremes(ports.store, key) if mine and pages.is_last else pages.values
    waiting = ports.store.query(Query(key.adjustments, limit=LIMITS.recount_waiting_max))
    known = len(waiting) < LIMITS.recount_waiting_max
    if not known or not begun.rests_under(walked, [one.data for one in waiting if one.data is not None]):
        return Turn(turn, moved=True)
    if not pages.is_last:
        return _written(ports, read, replace(held, recount=walked), Turn(walked.turn), turn)
    shown = (held.min, held.max) if waiting else values  # a fold run will look for the extremes
    return _repaired(ports, key, read, replace(held, tally=walked.tally, recount=None).with_extremes(shown), turn)


def _repaired(ports: Ports, key: StandingKey, read: Snapshot, repaired: Standing, turn: str) -> Turn:
    """Write what a recount has found, unless the standing has it."""
    held = Standing.from_record(read.data)
    if repaired == held:
        rests = ports.store.read(key.path)[0].update_time == read.update_time
        return OVER if rests else Turn(turn, moved=True)
    done = _written(ports, read, repaired, OVER, turn)
    if done is OVER and repaired != replace(held, recount=None):
        ports.log.error("standing had drifted, repaired", standing=key.text, was=held.to_json(), now=repaired.to_json())
    return done


def _written(ports: Ports, read: Snapshot, standing: Standing, done: Turn, turn: str) -> Turn:
    """Write a standing under its guard; without it, what was walked over may not be what the standing holds."""
    try:
        ports.store.commit([Put(read.path, standing.to_record(), read.guard)])
    except Conflict:
        return Turn(turn, moved=True)
    return done


@dataclass(frozen=True, slots=True)
class Pages:
    """What some pages of counted records add up to, and their extremes. `cursor` is None behind the last."""

    cursor: Place | None
    tally: Tally = ZERO
    values: tuple[Value, ...] = ()

    @property
    def is_last(self) -> bool:
        return self.cursor is None


def _walk(store: Store, key: StandingKey, begun: Recount) -> Pages:
    """Add up pages of the counted records of a standing, from a recount's cursor on."""
    field = ("times", key.field)
    pages = Pages(begun.cursor)
    for _ in range(LIMITS.recount_pages_max):
        created = (Condition(field, "<=", begun.until),)
        limits = (LIMITS.recount_page_max, pages.cursor or (), LIMITS.read_bytes_max)
        query = Query(COUNTED, created, (Order(field),), *limits)
        page = store.query(query)
        held = [one.data for one in page if one.data is not None]
        cursor = (held[-1]["times"][key.field], page[-1].id) if is_full(query, page) else None
        tally = sum((Tally.of(one["value"]) for one in held), pages.tally)
        pages = Pages(cursor, tally, _extremes((*pages.values, *(one["value"] for one in held))))
        if cursor is None:
            break
    return pages


def _extremes(values: tuple[Value, ...]) -> tuple[Value, ...]:
    numbers = [value for value in values if value is not None]
    return (min(numbers), max(numbers)) if numbers else ()


# --- all of them ---


def begin_all(ports: Ports, run: str) -> None:
    """Enqueue a recount of every standing, kind by kind."""
    _enqueue_next(ports, run, sorted(declarations(ports).kinds))


def recount_page(ports: Ports, run: str, kind: str, cursor: str) -> None:
    """Recount a page of a kind's standings; one of more than a turn by tasks of its own."""
    query = Query(collection_of(kind), limit=LIMITS.recounts_page_max, after=(cursor,) if cursor else ())
    found = ports.store.query(query)
    for each in found:
        _recount_or_enqueue(ports, run, StandingKey(kind, each.id))
    if len(found) == LIMITS.recounts_page_max:
        ports.queue.create([tasks.work_task("recounts", run, kind=kind, cursor=found[-1].id)])
    else:
        _enqueue_next(ports, run, [each for each in sorted(declarations(ports).kinds) if each > kind])


def _recount_or_enqueue(ports: Ports, run: str, key: StandingKey) -> None:
    """Take the first turn of a recount; leave what follows, and a standing that moves, to tasks."""
    done = take_turn(ports, run, key)
    if done.moved or done.next_turn:
        ports.queue.create([_later(ports, _task(run, key, done.next_turn or "", ATTEMPTS_MAX))])


def _enqueue_next(ports: Ports, run: str, kinds: list[str]) -> None:
    if kinds:
        ports.queue.create([tasks.work_task("recounts", run, kind=kinds[0], cursor="")])
