"""Yokes as people write and read them: the relation itself, at once. Standings follow its event."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Order, Ports, Put, Query, Snapshot
from shared.core.rules import page_tokens
from shared.core.rules.effects import Decision, name_of
from shared.core.rules.problems import NotFound
from shared.core.rules.times import rfc3339
from shared.standings.rules.keys import COUNTED, YokeKey
from shared.standings.rules.requests import ListRequest
from shared.standings.rules.yokes import Yoke


@dataclass(frozen=True, slots=True)
class PutResult:
    """A yoke that was put, and whether it is new."""

    yoke: Yoke
    created: bool


def put(ports: Ports, yoke: Yoke) -> PutResult:
    """Create a yoke, or change its value and attributes; the same again writes nothing. Raises `Unavailable`."""
    record = yoke.to_record()

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, PutResult]:
        result = PutResult(yoke, read[0].data is None)
        return Decision(() if read[0].data == record else (Put(yoke.key.path, record, read[0].guard),), result)

    return perform(ports, [yoke.key.path], decide)[0]


def delete(ports: Ports, key: YokeKey) -> None:
    """Delete a yoke, if there is one."""
    ports.store.commit([Delete(key.path)])


def get(ports: Ports, key: YokeKey) -> dict[str, Any]:
    """Return a yoke as a caller gets it. Raises `NotFound`."""
    [read] = ports.store.read(key.path)
    yoke = Yoke.from_record(key, read.data)
    if yoke is None or read.create_time is None or read.update_time is None:
        raise NotFound(f"User {key.user!r} has not yoked {key.item!r}.")
    times = {"created_at": rfc3339(read.create_time), "updated_at": rfc3339(read.update_time)}
    return to_json(yoke) | times


def to_json(yoke: Yoke) -> dict[str, Any]:
    """Return a yoke's own fields."""
    return {"user": yoke.key.user, "item": yoke.key.item, "value": yoke.value, "attributes": dict(yoke.attributes)}


@dataclass(frozen=True, slots=True)
class YokesPage:
    """A page of the yokes of one standing."""

    yokes: list[dict[str, Any]]
    next_page_token: str | None


def of_standing(ports: Ports, asked: ListRequest) -> YokesPage:
    """Return the yokes that a standing counts, the newest or the largest value first. Raises `BadQuery`."""
    key, order, limit, token = asked.key, asked.order, asked.limit, asked.page_token
    field = ("values" if order == "value" else "times", key.field)
    mark = name_of("yokes", key.text, order)[:12]
    after = page_tokens.read(token, mark, 1) if token else ()
    found = ports.store.query(Query(COUNTED, order_by=(Order(field, descending=True),), limit=limit, after=after))
    more = len(found) == limit
    held = [snapshot.data for snapshot in found if snapshot.data is not None]
    next_token = page_tokens.write(mark, [held[-1][field[0]][field[1]]], found[-1].id) if more else None
    return YokesPage([_listed(one) for one in held], next_token)


def _listed(held: Mapping[str, Any]) -> dict[str, Any]:
    names = {"user": held["user"], "item": held["item"], "value": held["value"]}
    return names | {"created_at": rfc3339(held["since"])}
