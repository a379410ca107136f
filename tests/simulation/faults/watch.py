"""Faults of batch-12: what a watcher of a batch receives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.batches import storage
from signalbox.batches.machine.watch import INDEX_MAX, START, Ended, News, Position
from signalbox.batches.model.tree import BatchRun
from signalbox.core.ports import Ports, Snapshot
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import watch as watch_world

read_on = original("batches.read_news")
read = original("batches.ended_unit")


def _since_its_time(position: Position) -> datetime | None:
    return None if position == START else position.at


def _up_to_the_read(read_time: datetime, last_ended_at: datetime | None) -> Position:
    del last_ended_at
    return Position(read_time, INDEX_MAX)


def _whatever_was_found(start: Position, end: Position, found: Iterable[Ended]) -> tuple[Ended, ...]:
    del end
    return tuple(sorted((one for one in found if start < one.position), key=lambda one: one.position))


def _by_the_time_of_the_request(one: Snapshot) -> Ended:
    ended = read(one)
    return replace(ended, position=replace(ended.position, at=ended.ended_at))


def _header_last(ports: Ports, run: BatchRun, start: Position) -> News:
    news = read_on(ports, run, start)
    return replace(news, header=storage._read_header_first(ports, run)[0])


def _watch(without: str, point: str, instead: Any) -> Fault:
    return Fault("batch-12", without, always((point, instead)), watch_world.run)


FAULTS = (
    _watch("reading the last seconds again", "batches.Position.since", property(_since_its_time)),
    _watch("what is left out of a full page", "batches.end_of", _up_to_the_read),
    _watch("nothing beyond the position that is kept", "batches.between", _whatever_was_found),
    _watch("the order of commits", "batches.ended_unit", _by_the_time_of_the_request),
    _watch("no end while an outcome is after it", "batches.any_after", lambda *_: False),
    _watch("reading the header first", "batches.read_news", _header_last),
)
