"""Faults of batch-12: what a watcher of a batch is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from unittest import mock

from shared.batches.operations import watch
from shared.batches.rules import watch as rules
from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.watch import INDEX_MAX, START, Ended, News, Position
from shared.core.operations.ports import Ports, Snapshot
from tests.simulation import watch_world
from tests.simulation.faults import Fault

read_on, read = watch.read_on, watch._read


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
    return replace(news, header=watch._header(ports, run)[0])


def _watch(without: str, target: object, name: str, instead: Any) -> Fault:
    return Fault("batch-12", without, partial(mock.patch.object, target, name, instead), watch_world.run)


FAULTS = (
    _watch("reading the last seconds again", Position, "since", property(_since_its_time)),
    _watch("what is left out of a full page", rules, "end_of", _up_to_the_read),
    _watch("nothing beyond the position that is kept", rules, "between", _whatever_was_found),
    _watch("the order of commits", watch, "_read", _by_the_time_of_the_request),
    _watch("no end while an outcome lies behind it", rules, "any_behind", lambda *_: False),
    _watch("reading the header first", watch, "read_on", _header_last),
)
