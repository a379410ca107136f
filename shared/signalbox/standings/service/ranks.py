"""Leaderboards and ranks. Ties are in descending order of their ids.

A rank is computed by two count aggregations, which are billed one read for each thousand entries above it.
"""

from collections.abc import Iterable

from signalbox.core.effects import name_of
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.records.queries import ID, Condition, Order
from signalbox.core.surface.paging import read_page_token, write_page_token
from signalbox.standings.model.aggregates import Standing
from signalbox.standings.model.declarations import Declarations
from signalbox.standings.model.yokes import DECLARED, StandingKey, collection_of
from signalbox.standings.problems import NoStanding
from signalbox.standings.requests import BoardRequest, RankRequest
from signalbox.standings.service.declarations import read_declarations
from signalbox.standings.shown import LeaderboardShown, RankShown, StandingShown


def leaderboard(ports: Ports, asked: BoardRequest) -> LeaderboardShown:
    """Return a page of a kind's standings, the largest first. Raises `NoStanding` or `BadQuery`."""
    read_declarations(ports).check(asked.kind)
    kind, order, limit, token = asked.kind, asked.order, asked.limit, asked.page_token
    mark = name_of("leaderboard", kind, order)[:12]
    after = read_page_token(token, mark, 1) if token else ()
    query = Query(collection_of(kind), order_by=(Order((order,), descending=True),), limit=limit, after=after)
    found = ports.store.query(query)
    last = found[-1].data if len(found) == limit else None
    next_token = write_page_token(mark, [last[order]], found[-1].id) if last else ""
    return LeaderboardShown(_entries(kind, found), next_token)


def _entries(kind: str, found: Iterable[Snapshot]) -> tuple[StandingShown, ...]:
    return tuple(StandingShown.of(StandingKey(kind, read.id), Standing.from_record(read.data)) for read in found)


def rank(ports: Ports, asked: RankRequest) -> RankShown:
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
    place = 1 + above + ports.store.count(Query(collection, ties))
    [standing] = _entries(key.kind, [read])
    if not neighbours:
        return RankShown(place, standing)
    sides = {
        name: ports.store.query(
            Query(collection, order_by=(Order(field, descending),), limit=neighbours, after=(value, key.id))
        )
        for name, descending in (("above", False), ("below", True))
    }
    return RankShown(place, standing, _entries(key.kind, reversed(sides["above"])), _entries(key.kind, sides["below"]))
