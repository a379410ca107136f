"""Write, read and list yokes, and begin their removal. The event of a yoke updates its standings."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from signalbox.core.effects import Decision, name_of
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import AlreadyExists, Delete, Must, Ports, Put, Query, Snapshot
from signalbox.core.problems import NotFound
from signalbox.core.records.queries import Order
from signalbox.core.records.record_values import same
from signalbox.core.surface.paging import read_page_token, write_page_token
from signalbox.standings import machine
from signalbox.standings.model.yokes import COUNTED, Yoke, YokeKey
from signalbox.standings.requests import ListRequest
from signalbox.standings.shown import ListedYokeShown, YokeShown, YokesShown


def put_yoke(ports: Ports, yoke: Yoke) -> bool:
    """Write a yoke unless it is stored already; return whether it is new. Raises `Unavailable`.

    Most yokes are new, so a yoke is created without a read. It is read only if it exists.
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


def get_yoke(ports: Ports, key: YokeKey) -> YokeShown:
    """Return a yoke with its times. Raises `NotFound`."""
    [read] = ports.store.read(key.path)
    yoke = Yoke.from_record(key, read.data)
    if yoke is None or read.create_time is None or read.update_time is None:
        raise NotFound(f"User {key.user!r} has not yoked {key.item!r}.")
    return YokeShown.of(yoke, read.create_time, read.update_time)


def yokes_of_standing(ports: Ports, asked: ListRequest) -> YokesShown:
    """Return the yokes that a standing counts, the newest or the largest value first. Raises `BadQuery`."""
    key, order, limit, token = asked.key, asked.order, asked.limit, asked.page_token
    field = ("values" if order == "value" else "times", key.field)
    mark = name_of("yokes", key.text, order)[:12]
    after = read_page_token(token, mark, 1) if token else ()
    found = ports.store.query(Query(COUNTED, order_by=(Order(field, descending=True),), limit=limit, after=after))
    more = len(found) == limit
    held = [snapshot.data for snapshot in found if snapshot.data is not None]
    next_token = write_page_token(mark, [held[-1][field[0]][field[1]]], found[-1].id) if more else ""
    return YokesShown(tuple(map(_listed, held)), next_token)


def _listed(counted: Mapping[str, Any]) -> ListedYokeShown:
    return ListedYokeShown(counted["user"], counted["item"], counted["value"], counted["since"])


def begin_removal(ports: Ports, run: str, field: str, value: str) -> None:
    """Enqueue the removal of all yokes of a user or an item."""
    ports.queue.create([machine.work_task("remove", run, field=field, value=value, cursor="")])
