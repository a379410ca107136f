"""What callers do: write and read yokes, read standings and leaderboards, declare kinds, start walks and recounts.

A yoke is written at once, and its standings follow its event. Ties in a leaderboard are ordered by id, the greater
first. A rank is computed by two count aggregations, which are billed one read for each thousand entries above it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from signalbox.core.effects import Decision, name_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.paging import read_page_token, write_page_token
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import AlreadyExists, Delete, Must, Ports, Put, Query, Snapshot
from signalbox.core.problems import NotFound
from signalbox.core.queries import ID, Condition, Order
from signalbox.core.record_values import same
from signalbox.core.times import rfc3339
from signalbox.standings import machine
from signalbox.standings.machine import RECOUNT_ATTEMPTS_MAX, recount_task
from signalbox.standings.model.standings import Declaration, Declarations, Standing
from signalbox.standings.model.yokes import COUNTED, DECLARED, YOKES, StandingKey, Yoke, YokeKey, collection_of
from signalbox.standings.problems import NoStanding
from signalbox.standings.requests import BoardRequest, ListRequest, RankRequest
from signalbox.standings.storage import pending


@dataclass(frozen=True, slots=True)
class Page:
    """A page of yokes or of standings, as callers get them; `next_page_token` is None on the last page."""

    items: list[dict[str, Any]]
    next_page_token: str | None


# --- yokes ---


def put_yoke(ports: Ports, yoke: Yoke) -> bool:
    """Write a yoke unless it is stored already; return whether it is new. Raises `Unavailable`.

    Most are new, so a yoke is created without a read, and read if it exists.
    """
    record = yoke.to_record()
    with suppress(AlreadyExists):
        ports.store.commit([Put(yoke.key.path, record, Must.NOT_EXIST)])
        return True

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, bool]:
        is_new = read[0].data is None
        unchanged = same(read[0].data, record)
        return Decision(() if unchanged else (Put(yoke.key.path, record, read[0].guard),), is_new)

    return perform(ports, [yoke.key.path], decide)[0]


def delete_yoke(ports: Ports, key: YokeKey) -> None:
    """Delete a yoke; do nothing if it does not exist."""
    ports.store.commit([Delete(key.path)])


def get_yoke(ports: Ports, key: YokeKey) -> dict[str, Any]:
    """Return a yoke with its times. Raises `NotFound`."""
    [read] = ports.store.read(key.path)
    yoke = Yoke.from_record(key, read.data)
    if yoke is None or read.create_time is None or read.update_time is None:
        raise NotFound(f"User {key.user!r} has not yoked {key.item!r}.")
    times = {"created_at": rfc3339(read.create_time), "updated_at": rfc3339(read.update_time)}
    return yoke.to_json() | times


def yokes_of_standing(ports: Ports, asked: ListRequest) -> Page:
    """Return the yokes that a standing counts, the newest or the largest value first. Raises `BadQuery`."""
    key, order, limit, token = asked.key, asked.order, asked.limit, asked.page_token
    field = ("values" if order == "value" else "times", key.field)
    mark = name_of("yokes", key.text, order)[:12]
    after = read_page_token(token, mark, 1) if token else ()
    found = ports.store.query(Query(COUNTED, order_by=(Order(field, descending=True),), limit=limit, after=after))
    more = len(found) == limit
    held = [snapshot.data for snapshot in found if snapshot.data is not None]
    next_token = write_page_token(mark, [held[-1][field[0]][field[1]]], found[-1].id) if more else None
    return Page([_listed(counted) for counted in held], next_token)


def _listed(counted: Mapping[str, Any]) -> dict[str, Any]:
    names = {"user": counted["user"], "item": counted["item"], "value": counted["value"]}
    return names | {"created_at": rfc3339(counted["since"])}


def begin_removal(ports: Ports, run: str, field: str, value: str) -> None:
    """Enqueue the removal of all yokes of a user or an item."""
    ports.queue.create([machine.work_task("remove", run, field=field, value=value, cursor="")])


# --- standings ---


@dataclass(frozen=True, slots=True)
class ShownStanding:
    """A standing, and the number of its adjustments that are committed but not added yet. 0 means exact."""

    key: StandingKey
    standing: Standing
    pending: int

    def to_json(self) -> dict[str, Any]:
        """Return the standing as callers get it."""
        return self.standing.shown(self.key) | {"pending": self.pending}


def get_standing(ports: Ports, key: StandingKey) -> ShownStanding:
    """Return a standing, which is zero if nothing was counted. Raises `NoStanding` for an unknown kind.

    Adjustments are counted before the standing is read, so those that are not pending are included in it.
    """
    behind = pending(ports.store, key)
    declared, read = ports.store.read(DECLARED, key.path)
    Declarations.from_record(declared.data).check(key.kind)
    return ShownStanding(key, Standing.from_record(read.data), behind)


def leaderboard(ports: Ports, asked: BoardRequest) -> Page:
    """Return a page of a kind's standings, the largest first. Raises `NoStanding` or `BadQuery`."""
    read_declarations(ports).check(asked.kind)
    kind, order, limit, token = asked.kind, asked.order, asked.limit, asked.page_token
    mark = name_of("leaderboard", kind, order)[:12]
    after = read_page_token(token, mark, 1) if token else ()
    query = Query(collection_of(kind), order_by=(Order((order,), descending=True),), limit=limit, after=after)
    found = ports.store.query(query)
    last = found[-1].data if len(found) == limit else None
    next_token = write_page_token(mark, [last[order]], found[-1].id) if last else None
    return Page([_entry(kind, read) for read in found], next_token)


def _entry(kind: str, read: Snapshot) -> dict[str, Any]:
    return Standing.from_record(read.data).shown(StandingKey(kind, read.id))


def rank(ports: Ports, asked: RankRequest) -> dict[str, Any]:
    """Return a standing's rank from 1, and its neighbours on both sides. Raises `NoStanding`."""
    key, order, neighbours = asked.key, asked.order, asked.neighbours
    declared, read = ports.store.read(DECLARED, key.path)
    Declarations.from_record(declared.data).check(key.kind)
    value = (read.data or {}).get(order)
    if value is None:
        raise NoStanding(f"{key.kind} {key.id!r} has no {order}, so it has no rank.", field="id")
    collection, field = collection_of(key.kind), (order,)
    above = ports.store.count(Query(collection, (Condition(field, ">", value),)))
    ties = (Condition(field, "==", value), Condition(ID, ">", key.id))
    ranked = {"rank": 1 + above + ports.store.count(Query(collection, ties)), "standing": _entry(key.kind, read)}
    if not neighbours:
        return ranked
    sides = {
        name: ports.store.query(
            Query(collection, order_by=(Order(field, descending),), limit=neighbours, after=(value, key.id))
        )
        for name, descending in (("above", False), ("below", True))
    }
    return ranked | {
        "above": [_entry(key.kind, other) for other in reversed(sides["above"])],
        "below": [_entry(key.kind, other) for other in sides["below"]],
    }


def begin_walk(ports: Ports, run: str) -> None:
    """Enqueue a walk that counts all yokes, in case an event was lost, and then recounts all standings.

    A repeated call with the same run enqueues nothing.
    """
    ports.queue.create([machine.work_task("walk", run, collection=YOKES, cursor="", whole=True)])


def begin_recount(ports: Ports, run: str, key: StandingKey) -> None:
    """Enqueue a recount of one standing."""
    ports.queue.create([recount_task(run, key, "", RECOUNT_ATTEMPTS_MAX)])


# --- kinds ---


def read_declarations(ports: Ports) -> Declarations:
    return Declarations.from_record(ports.store.read(DECLARED)[0].data)


def declare(ports: Ports, kind: str, declaration: Declaration) -> Declarations:
    """Declare a kind of standing, and count all yokes again if the declaration is new. Raises `BadStanding`."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Declarations]:
        current = Declarations.from_record(read[0].data)
        held = current.kinds.get(kind)
        if held is not None and same(held.to_record(), declaration.to_record()):
            return Decision((), current)
        return _redeclared(read[0], current.declare(kind, declaration))

    return perform(ports, [DECLARED], decide)[0]


def remove_kind(ports: Ports, kind: str) -> Declarations:
    """Remove a kind; a walk subtracts all yokes from its standings. Raises `NoStanding` or `BadStanding`."""
    return perform(
        ports,
        [DECLARED],
        lambda read: _redeclared(read[0], Declarations.from_record(read[0].data).remove(kind)),
    )[0]


def _redeclared(read: Snapshot, changed: Declarations) -> Decision[Writes, Declarations]:
    """Return the commit of changed declarations, with the walk that counts all yokes by them."""
    walk = machine.work_task("walk", f"revision {changed.revision}", collection=YOKES, cursor="")
    return Decision((Put(DECLARED, changed.to_record(), read.guard),), changed, (walk,))
