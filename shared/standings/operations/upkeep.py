"""Declare kinds of standings, count all yokes again, recount one standing, delete a user's or an item's yokes.

Each is a chain of tasks, one a page; a page that runs twice does nothing the second time.

A recount rests on one fact: each change of a counted record commits with an adjustment, or with a write of the
standing. If the standing was not written while its counted records were added up, and no adjustment waits at the end,
the sum is that of one moment. Otherwise it begins anew; a standing that never rests is not recounted.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import (
    Condition,
    Conflict,
    Delete,
    Order,
    Ports,
    Put,
    Query,
    Snapshot,
)
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue
from shared.standings.operations.counting import count
from shared.standings.operations.folding import fold, pending
from shared.standings.rules import tasks
from shared.standings.rules.declarations import Declaration, Declarations
from shared.standings.rules.keys import COUNTED, DECLARED, YOKES, StandingKey, YokeKey
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import ZERO, Tally

RECOUNTS_MAX = 5
"""Times that a recount begins anew."""


def run(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Run a task of the queue `standings`. Raises `Unavailable`, or `BadValue` for an invalid payload."""
    match task, payload:
        case "fold", {"standing": str(text), "at": str(at)}:
            fold(ports, StandingKey.from_text(text), datetime.fromisoformat(at))
        case "walk", {"run": str(run_), "collection": str(collection), "cursor": str(cursor)}:
            walk_page(ports, run_, collection, cursor)
        case "remove", {"run": str(run_), "field": str(field), "value": str(value), "cursor": str(cursor)}:
            remove_page(ports, run_, field, value, cursor)
        case "recount", {"run": str(run_), "standing": str(text), "left": int(left)}:
            recount(ports, run_, StandingKey.from_text(text), left)
        case _:
            raise BadValue("Invalid payload of a task of standings.")


# --- declarations ---


def declare(ports: Ports, kind: str, declaration: Declaration) -> Declarations:
    """Declare a kind of standing; if that is new, all yokes are counted anew. Raises `BadStanding`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Declarations]:
        now = Declarations.from_record(read[0].data)
        if now.kinds.get(kind) == declaration:
            return Decision((), now)
        return _redeclared(read[0], now.declare(kind, declaration))

    return perform(ports, [DECLARED], decide)[0]


def remove_kind(ports: Ports, kind: str) -> Declarations:
    """Remove a kind: its standings are counted down. Raises `NoStanding` or `BadStanding`."""
    return perform(
        ports,
        [DECLARED],
        lambda read: _redeclared(read[0], Declarations.from_record(read[0].data).remove(kind)),
    )[0]


def _redeclared(read: Snapshot, changed: Declarations) -> Decision[Writes, Declarations]:
    """Return the commit of a change, with the walk that counts all yokes by it."""
    walk = tasks.work_task("walk", f"revision {changed.revision}", collection=YOKES, cursor="")
    return Decision((Put(DECLARED, changed.to_record(), read.guard),), changed, (walk,))


# --- walks ---


def begin_walk(ports: Ports, run_: str) -> None:
    """Enqueue a walk that counts every yoke as it is now: what an event that was lost would have."""
    ports.queue.create([tasks.work_task("walk", run_, collection=YOKES, cursor="")])


def walk_page(ports: Ports, run_: str, collection: str, cursor: str) -> None:
    """Count a page of yokes; behind the last, of what was counted for yokes that are gone."""
    query = Query(collection, limit=LIMITS.count_page_max, after=(cursor,) if cursor else ())
    found = ports.store.query(query)
    for key in filter(None, (YokeKey.from_id(one.id) for one in found)):
        count(ports, key, by_walk=True)
    if len(found) == LIMITS.count_page_max:
        ports.queue.create([tasks.work_task("walk", run_, collection=collection, cursor=found[-1].id)])
    elif collection == YOKES:
        ports.queue.create([tasks.work_task("walk", run_, collection=COUNTED, cursor="")])


# --- removal ---


def begin_removal(ports: Ports, run_: str, field: str, value: str) -> None:
    """Enqueue the removal of all yokes of a user or an item."""
    ports.queue.create([tasks.work_task("remove", run_, field=field, value=value, cursor="")])


def remove_page(ports: Ports, run_: str, field: str, value: str, cursor: str) -> None:
    """Delete a page of the yokes of a user or an item; their events do the rest."""
    after = (cursor,) if cursor else ()
    where = (Condition((field,), "==", value),)
    found = ports.store.query(Query(YOKES, where, limit=LIMITS.remove_page_max, after=after))
    for outcome in ports.store.write_each([Delete(one.path) for one in found]) if found else ():
        if isinstance(outcome, Exception):
            raise outcome
    if len(found) == LIMITS.remove_page_max:
        ports.queue.create([tasks.work_task("remove", run_, field=field, value=value, cursor=found[-1].id)])


# --- recounts ---


def begin_recount(ports: Ports, run_: str, key: StandingKey) -> None:
    """Enqueue a recount of one standing."""
    ports.queue.create([tasks.work_task("recount", run_, standing=key.text, left=RECOUNTS_MAX)])


def recount(ports: Ports, run_: str, key: StandingKey, left: int) -> None:
    """Compare a standing with what its yokes add up to, and repair it; if it moves meanwhile, begin anew later."""
    if recounted(ports, key):
        return
    if left > 0:
        ports.queue.create([tasks.work_task("recount", run_, standing=key.text, left=left - 1)])
    else:
        ports.log.error("standing is busy, not recounted", standing=key.text)


def recounted(ports: Ports, key: StandingKey) -> bool:
    """Recount a standing at rest; return whether it was at rest. Raises `Unavailable`."""
    fold(ports, key)
    [before] = ports.store.read(key.path)
    if pending(ports.store, key):
        return False
    total, values = _counted(ports, key)
    if pending(ports.store, key):
        return False
    held = Standing.from_record(before.data)
    repaired = Standing(total, crossed=held.crossed, folded_at=held.folded_at).with_extremes(values)
    if repaired == held:
        return ports.store.read(key.path)[0].update_time == before.update_time
    try:
        ports.store.commit([Put(key.path, repaired.to_record(), before.guard)])
    except Conflict:
        return False
    ports.log.error("standing had drifted, repaired", standing=key.text, was=held.to_json(), now=repaired.to_json())
    return True


def _counted(ports: Ports, key: StandingKey) -> tuple[Tally, list[Any]]:
    """Add up the counted records of a standing, page by page."""
    total, values, after = ZERO, list[Any](), tuple[Any, ...]()
    order = (Order(("times", key.field)),)
    while True:
        page = ports.store.query(Query(COUNTED, order_by=order, limit=LIMITS.recount_page_max, after=after))
        held = [one.data for one in page if one.data is not None]
        total = sum((Tally.of(one["value"]) for one in held), total)
        values = _extremes([*values, *(one["value"] for one in held)])
        if len(page) < LIMITS.recount_page_max:
            return total, values
        after = (held[-1]["times"][key.field], page[-1].id)


def _extremes(values: list[Any]) -> list[Any]:
    numbers = [value for value in values if value is not None]
    return [min(numbers), max(numbers)] if numbers else []
