"""Standings as people read them: one, the leaderboard of a kind, a rank and its neighbours.

Ties are ordered by id, the greater first in a leaderboard. A rank is counted by two count aggregations, which are
billed one read for each thousand entries above it.
"""

from dataclasses import dataclass
from typing import Any

from shared.core.operations.ports import ID, Condition, Order, Ports, Query, Snapshot
from shared.core.rules import page_tokens
from shared.core.rules.effects import name_of
from shared.core.rules.problems import NoStanding
from shared.standings.operations.folding import pending
from shared.standings.rules.declarations import Declarations
from shared.standings.rules.keys import DECLARED, StandingKey, collection_of
from shared.standings.rules.requests import BoardRequest, RankRequest
from shared.standings.rules.standings import Standing


@dataclass(frozen=True, slots=True)
class Shown:
    """A standing as it is known now; `pending` adjustments are committed and not added yet: 0 means exact."""

    key: StandingKey
    standing: Standing
    pending: int

    def to_json(self) -> dict[str, Any]:
        """Return the standing as a caller gets it."""
        return shown(self.key, self.standing) | {"pending": self.pending}


def shown(key: StandingKey, standing: Standing) -> dict[str, Any]:
    """Return a standing's name and numbers."""
    return {"kind": key.kind, "id": key.id, **standing.to_json()}


def declarations(ports: Ports) -> Declarations:
    """Return all kinds."""
    return Declarations.from_record(ports.store.read(DECLARED)[0].data)


def get(ports: Ports, key: StandingKey) -> Shown:
    """Return a standing. One that nothing was counted for is zero. Raises `NoStanding` for an unknown kind."""
    behind = pending(ports.store, key)  # before the standing: what is not pending now is in what is read next
    declared, read = ports.store.read(DECLARED, key.path)
    Declarations.from_record(declared.data).check(key.kind)
    return Shown(key, Standing.from_record(read.data), behind)


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """A page of a leaderboard."""

    standings: list[dict[str, Any]]
    next_page_token: str | None


def top(ports: Ports, asked: BoardRequest) -> Leaderboard:
    """Return a page of a kind's standings, the largest first. Raises `NoStanding` or `BadQuery`."""
    declarations(ports).check(asked.kind)
    kind, order, limit, token = asked.kind, asked.order, asked.limit, asked.page_token
    mark = name_of("leaderboard", kind, order)[:12]
    after = page_tokens.read(token, mark, 1) if token else ()
    query = Query(collection_of(kind), order_by=(Order((order,), descending=True),), limit=limit, after=after)
    found = ports.store.query(query)
    last = found[-1].data if len(found) == limit else None
    next_token = page_tokens.write(mark, [last[order]], found[-1].id) if last else None
    return Leaderboard([_shown(kind, one) for one in found], next_token)


def _shown(kind: str, read: Snapshot) -> dict[str, Any]:
    return shown(StandingKey(kind, read.id), Standing.from_record(read.data))


def rank(ports: Ports, asked: RankRequest) -> dict[str, Any]:
    """Return a standing's rank from 1, and its neighbours on both sides. Raises `NoStanding`."""
    key, order, neighbours = asked.key, asked.order, asked.neighbours
    declared, read = ports.store.read(DECLARED, key.path)
    Declarations.from_record(declared.data).check(key.kind)
    value = (read.data or {}).get(order)
    if value is None:
        raise NoStanding(f"{key.kind} {key.id!r} has no {order}, and so no rank.", field="id")
    collection, field = collection_of(key.kind), (order,)
    above = ports.store.count(Query(collection, (Condition(field, ">", value),)))
    ties = (Condition(field, "==", value), Condition(ID, ">", key.id))
    ranked = {"rank": 1 + above + ports.store.count(Query(collection, ties)), "standing": _shown(key.kind, read)}
    if not neighbours:
        return ranked
    sides = {
        name: ports.store.query(
            Query(collection, order_by=(Order(field, descending),), limit=neighbours, after=(value, key.id))
        )
        for name, descending in (("above", False), ("below", True))
    }
    return ranked | {
        "above": [_shown(key.kind, one) for one in reversed(sides["above"])],
        "below": [_shown(key.kind, one) for one in sides["below"]],
    }
