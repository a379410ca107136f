"""The cost of a request: billed operations and round trips."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import pytest

from signalbox.adapters.cost_meter import Cost, measure, metered
from signalbox.adapters.logs import JsonLog
from signalbox.adapters.system_clock import SystemClock
from signalbox.core.effects import Effect
from signalbox.core.ports import (
    Change,
    Committed,
    Delete,
    Outcome,
    Ports,
    Put,
    Query,
    Snapshot,
    Stale,
    Write,
    WriteResult,
)
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Field

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Shelf:
    """A store and queue that does what the test sets."""

    def __init__(self, found: int = 0, counted: int = 0, error: Exception | None = None) -> None:
        self.found, self.counted, self.error = found, counted, error

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:  # noqa: ARG002  as the port names it
        return tuple(Snapshot(path, None, NOW) for path in paths)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        return self.read(*needed, *others[:bytes_max])

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        return tuple(Snapshot(f"{query.collection}/{n}", {}, NOW) for n in range(self.found))

    def count(self, query: Query) -> int:  # noqa: ARG002  as the port names it
        return self.counted

    def commit(self, writes: Sequence[Write]) -> Committed:
        if self.error:
            raise self.error
        return Committed(NOW, tuple(WriteResult(NOW) for _ in writes))

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        return tuple(Stale("x") for _ in writes)

    def new_id(self) -> str:
        return "id"

    def create(self, effects: Sequence[Effect]) -> Collection[str]:  # noqa: ARG002  as the port names it
        if self.error:
            raise self.error
        return ()


def ports(shelf: Shelf) -> Ports:
    return metered(Ports(shelf, shelf, SystemClock(), JsonLog("p")))


def effect(name: str) -> Effect:
    return Effect(name, "q", "f", "t", {})


WRITES = (Put("a/1", {}), Change("a/2", {("x",): 1}), Delete("a/3"))


def test_a_read_costs_each_record_once_also_a_missing_one() -> None:
    with measure() as cost:
        assert [snapshot.path for snapshot in ports(Shelf()).store.read("a/1", "a/2", "a/1")] == ["a/1", "a/2", "a/1"]
    assert cost == Cost(reads=2, round_trips=1)


def test_a_read_of_some_costs_what_it_read() -> None:
    with measure() as cost:
        assert len(ports(Shelf()).store.read_some(["a/1"], ["a/2", "a/3"], 1)) == 2
    assert cost == Cost(reads=2, round_trips=1)


@pytest.mark.parametrize(("found", "reads"), [(0, 1), (1, 1), (7, 7)])
def test_a_query_costs_what_it_finds_and_at_least_one(found: int, reads: int) -> None:
    with measure() as cost:
        assert len(ports(Shelf(found=found)).store.query(Query("a"))) == found
    assert cost == Cost(reads=reads, round_trips=1)


@pytest.mark.parametrize(("counted", "reads"), [(0, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_a_count_costs_one_read_a_thousand(counted: int, reads: int) -> None:
    with measure() as cost:
        assert ports(Shelf(counted=counted)).store.count(Query("a")) == counted
    assert cost == Cost(reads=reads, round_trips=1)


def test_a_commit_costs_its_writes_and_deletes_in_one_round_trip() -> None:
    with measure() as cost:
        ports(Shelf()).store.commit(WRITES)
    assert cost == Cost(writes=2, deletes=1, round_trips=1)


def test_a_commit_that_fails_costs_as_much() -> None:
    with measure() as cost, pytest.raises(Stale):
        ports(Shelf(error=Stale("x"))).store.commit(WRITES)
    assert cost == Cost(writes=2, deletes=1, round_trips=1)


def test_write_each_costs_each_write_also_those_that_fail() -> None:
    with measure() as cost:
        ports(Shelf()).store.write_each(WRITES)
    assert cost == Cost(writes=2, deletes=1, round_trips=1)


def test_tasks_enqueued_together_are_one_round_trip_and_none_is_none() -> None:
    with measure() as cost:
        ports(Shelf()).queue.create([effect("a"), effect("b")])
        ports(Shelf()).queue.create([])
    assert cost == Cost(tasks=2, round_trips=1)


def test_tasks_that_may_not_have_arrived_count() -> None:
    with measure() as cost, pytest.raises(Unavailable):
        ports(Shelf(error=Unavailable("x"))).queue.create([effect("a")])
    assert cost == Cost(tasks=1, round_trips=1)


def test_drawing_an_id_costs_nothing_and_nothing_is_counted_outside_a_measurement() -> None:
    ports(Shelf()).store.read("a/1")
    with measure() as cost:
        assert ports(Shelf()).store.new_id() == "id"
    assert cost == Cost()


def test_ports_metered_twice_count_once() -> None:
    twice = metered(ports(Shelf()))
    with measure() as cost:
        twice.store.read("a/1")
        twice.queue.create([effect("a")])
    assert cost == Cost(reads=1, tasks=1, round_trips=2)


def test_an_inner_measurement_takes_its_counts_to_itself() -> None:
    with measure() as outer:
        ports(Shelf()).store.read("a/1")
        with measure() as inner:
            ports(Shelf()).store.read("a/1", "a/2")
        ports(Shelf()).store.read("a/1")
    assert (outer.reads, inner.reads) == (2, 2)
