"""What callers ask for: pages of yokes and of leaderboards, ranks, removals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from shared.core.rules.keys import valid_id
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, BadQuery
from shared.standings.rules.declarations import ORDERS, check_kind
from shared.standings.rules.keys import StandingKey, encode, fits
from shared.standings.rules.yokes import RESERVED

Query = Mapping[str, str]


def standing_key(kind: str, id_: str) -> StandingKey:
    """Return the key of a standing in a request. Raises `BadStanding` or `BadKey`."""
    check_kind(kind)
    if not valid_id(id_):
        raise BadKey("This is not the id of a standing.", field="id")
    return StandingKey(kind, id_)


@dataclass(frozen=True, slots=True)
class RemoveRequest:
    """All yokes of a user, or of an item: `field` says which, `value` whose."""

    field: str
    value: str

    @classmethod
    def from_request(cls, query: Query) -> Self:
        """Parse the query of a removal or of a list. Raises `BadQuery`."""
        named = [name for name in RESERVED if name in query]
        if len(named) != 1 or not fits(query[named[0]]):
            raise BadQuery("Either `user` or `item` is required.", field=named[0] if named else "item")
        return cls(named[0], query[named[0]])


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A page of the yokes that a standing counts, by `time` or by `value`, the newest or largest first."""

    key: StandingKey
    order: str
    limit: int
    page_token: str

    @classmethod
    def from_request(cls, query: Query) -> Self:
        """Parse the query of a list. Raises `BadQuery`."""
        whose = RemoveRequest.from_request(query)
        key = StandingKey(whose.field, encode(whose.value))
        return cls(key, _order(query, ("time", "value")), _limit(query), query.get("page_token", ""))


@dataclass(frozen=True, slots=True)
class BoardRequest:
    """A page of a leaderboard."""

    kind: str
    order: str
    limit: int
    page_token: str

    @classmethod
    def from_request(cls, kind: str, query: Query) -> Self:
        """Parse the query of a leaderboard. Raises `BadQuery` or `BadStanding`."""
        return cls(check_kind(kind), _order(query, ORDERS), _limit(query), query.get("page_token", ""))


@dataclass(frozen=True, slots=True)
class RankRequest:
    """A standing's rank, with so many neighbours on each side."""

    key: StandingKey
    order: str
    neighbours: int

    @classmethod
    def from_request(cls, key: StandingKey, query: Query) -> Self:
        """Parse the query of a rank. Raises `BadQuery`."""
        neighbours = _number(query, "neighbours", 0, LIMITS.neighbours_max, 0)
        return cls(key, _order(query, ORDERS), neighbours)


def _order(query: Query, orders: tuple[str, ...]) -> str:
    order = query.get("order_by", orders[0])
    if order not in orders:
        raise BadQuery(f"`order_by` must be one of {', '.join(orders)}.", field="order_by")
    return order


def _limit(query: Query) -> int:
    return _number(query, "limit", 1, LIMITS.leaderboard_limit_max, LIMITS.leaderboard_limit_default)


def _number(query: Query, name: str, least: int, most: int, default: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and least <= int(text) <= most):
        raise BadQuery(f"`{name}` must be an integer from {least} to {most}.", field=name)
    return int(text)
