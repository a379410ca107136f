"""Declare kinds of standings, count all yokes again, delete a user's or an item's yokes.

Each is a chain of tasks, one a page; a page that runs twice does nothing the second time. Each night all yokes are
counted again, since an event may have been lost, and then all standings are recounted.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import (
    Condition,
    Delete,
    Ports,
    Put,
    Query,
    Snapshot,
)
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue
from shared.standings.operations import recounts
from shared.standings.operations.counting import count
from shared.standings.operations.folding import fold
from shared.standings.rules import tasks
from shared.standings.rules.declarations import Declaration, Declarations
from shared.standings.rules.keys import COUNTED, DECLARED, YOKES, StandingKey, YokeKey


def run(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Run a task of the queue `standings`. Raises `Unavailable`, or `BadValue` for an invalid payload."""
    match task, payload:
        case "fold", {"standing": str(text), "at": str(at)}:
            fold(ports, StandingKey.from_text(text), datetime.fromisoformat(at))
        case "walk", {"run": str(run_), "collection": str(collection), "cursor": str(cursor)}:
            walk_page(ports, run_, collection, cursor, whole=bool(payload.get("whole")))
        case "remove", {"run": str(run_), "field": str(field), "value": str(value), "cursor": str(cursor)}:
            remove_page(ports, run_, field, value, cursor)
        case "recount", {"run": str(run_), "standing": str(text), "turn": str(turn), "left": int(left)}:
            recounts.recount(ports, run_, StandingKey.from_text(text), turn, left)
        case "recounts", {"run": str(run_), "kind": str(kind), "cursor": str(cursor)}:
            recounts.recount_page(ports, run_, kind, cursor)
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
    """Enqueue a walk that counts every yoke as it is now, as a lost event would have, and then recounts all standings.

    The same run begins once, however often it is sent.
    """
    ports.queue.create([tasks.work_task("walk", run_, collection=YOKES, cursor="", whole=True)])


def walk_page(ports: Ports, run_: str, collection: str, cursor: str, *, whole: bool = False) -> None:
    """Count a page of yokes; behind the last, of what was counted for yokes that are gone; then recount, if `whole`."""
    query = Query(collection, limit=LIMITS.count_page_max, after=(cursor,) if cursor else ())
    found = ports.store.query(query)
    for key in filter(None, (YokeKey.from_id(one.id) for one in found)):
        count(ports, key, by_walk=True)
    more = {"whole": True} if whole else {}
    if len(found) == LIMITS.count_page_max:
        ports.queue.create([tasks.work_task("walk", run_, collection=collection, cursor=found[-1].id, **more)])
    elif collection == YOKES:
        ports.queue.create([tasks.work_task("walk", run_, collection=COUNTED, cursor="", **more)])
    elif whole:
        recounts.begin_all(ports, run_)


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
