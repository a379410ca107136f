"""Requests for pages of yokes and of leaderboards, for ranks and for removals."""

from collections.abc import Mapping
from typing import Self

from signalbox.core.keys import valid_id
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadKey, BadQuery
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.declarations import ORDERS, check_kind
from signalbox.standings.model.yokes import RESERVED, StandingKey, encode, fits

Query = Mapping[str, str]


def standing_key(kind: str, id_: str) -> StandingKey:
    """Return the key of the requested standing. Raises `BadStanding` or `BadKey`."""
    check_kind(kind)
    if not valid_id(id_):
        raise BadKey("`id` is not a valid id of a standing: join its parts by `~`, and write `/` as %2F.", field="id")
    return StandingKey(kind, id_)


@dataclass(frozen=True, slots=True)
class RemoveRequest:
    """All yokes of a user or an item: `field` is "user" or "item", and `value` its name."""

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
    """A page of the yokes that a standing counts, ordered by "time" or "value", the newest or largest first."""

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
    """The rank of a standing, with up to `neighbours` standings on each side."""

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
