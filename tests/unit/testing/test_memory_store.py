"""What is the memory store's own: nothing aliased, events of real changes, a clock that may be coarse, threads."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from signalbox.core.ports import (
    SERVER_TIME,
    AlreadyExists,
    Change,
    Conflict,
    Delete,
    Increment,
    Must,
    Put,
    Query,
    Snapshot,
)
from signalbox.testing.memory_store import MemoryStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stopped() -> datetime:
    return NOON


class Observed:
    """A store, and the changes it reports."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any, Any]] = []
        self.store = MemoryStore(stopped, self._observe)

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        self.seen.append((path, before.data, after.data))


def test_what_was_put_does_not_change_with_the_callers_data() -> None:
    store = MemoryStore(stopped)
    data = {"m": {"x": 1}, "l": [{"y": 1}]}
    store.commit([Put("d/a", data), Put("d/b", {"l": [data]})])
    store.commit([Change("d/a", {("n",): data})])
    data["m"]["x"] = 2  # type: ignore[index]  # a map, as it was put
    data["l"].append(3)  # type: ignore[attr-defined]  # a list, as it was put
    first = {"m": {"x": 1}, "l": [{"y": 1}]}
    assert [snapshot.data for snapshot in store.read("d/a", "d/b")] == [{**first, "n": first}, {"l": [first]}]


def test_a_servers_time_is_in_milliseconds_and_may_stray_from_the_commits() -> None:
    strays = iter([timedelta(milliseconds=7), timedelta(milliseconds=-7)])
    store = MemoryStore(stopped, stray=lambda: next(strays))
    ahead, behind = (store.commit([Put(f"d/{id_}", {"at": SERVER_TIME})]).commit_time for id_ in "ab")
    values = [snapshot.data["at"] for snapshot in store.read("d/a", "d/b") if snapshot.data]
    earlier = behind - timedelta(milliseconds=7)
    assert values == [ahead.replace(microsecond=7_000), earlier.replace(microsecond=993_000)]


def test_what_was_read_can_be_changed_without_changing_the_record() -> None:
    store = MemoryStore(stopped)
    store.commit([Put("d/a", {"m": {"l": [{"x": 1}]}})])
    for snapshot in (*store.read("d/a", "d/a"), *store.query(Query("d"))):
        data: Any = snapshot.data
        assert data == {"m": {"l": [{"x": 1}]}}
        data["m"]["l"][0]["x"] = 2
        data["m"]["l"].append(1)


def test_commit_times_differ_and_grow_though_the_clock_stops_or_goes_back() -> None:
    ticks = iter([NOON, NOON, NOON - timedelta(hours=1), NOON + timedelta(microseconds=1), NOON + timedelta(seconds=1)])
    store = MemoryStore(lambda: next(ticks))
    times = [store.commit([Put("d/a", {"n": n})]).commit_time for n in range(5)]
    microsecond = timedelta(microseconds=1)
    assert times == [NOON + microsecond * n for n in range(4)] + [NOON + timedelta(seconds=1)]


def test_a_clock_in_another_zone_yields_times_in_utc() -> None:
    store = MemoryStore(lambda: NOON.astimezone(timezone(timedelta(hours=5))))
    committed = store.commit([Put("d/a", {})]).commit_time
    assert (committed, committed.tzinfo) == (NOON, UTC)


def test_the_observer_is_called_for_each_real_change_in_commit_order() -> None:
    observed = Observed()
    observed.store.commit([Put("d/a", {"n": 1}), Put("d/b", {"n": Increment(2)})])
    observed.store.write_each([Change("d/a", {("n",): 5}), Delete("d/b")])
    assert observed.seen == [
        ("d/a", None, {"n": 1}),
        ("d/b", None, {"n": 2}),
        ("d/a", {"n": 1}, {"n": 5}),
        ("d/b", {"n": 2}, None),
    ]


def test_the_observer_is_not_called_for_a_write_that_changes_nothing() -> None:
    observed = Observed()
    observed.store.commit([Put("d/a", {"n": 1})])
    observed.store.commit([Put("d/a", {"n": 1})])
    observed.store.commit([Change("d/a", {("n",): Increment(0)}), Delete("d/none")])
    with pytest.raises(Conflict):
        observed.store.commit([Put("d/b", {}), Put("d/a", {}, guard=Must.NOT_EXIST)])
    assert observed.seen == [("d/a", None, {"n": 1})]


def test_the_observer_may_read_and_finds_the_change() -> None:
    found: list[Any] = []
    store = MemoryStore(stopped, lambda path, _before, _after: found.append(store.read(path)[0].data))
    store.commit([Put("d/a", {"n": 1})])
    assert found == [{"n": 1}]


def test_an_observed_snapshot_carries_the_records_times() -> None:
    seen: list[Snapshot] = []
    store = MemoryStore(stopped, lambda _path, before, after: seen.extend((before, after)))
    first = store.commit([Put("d/a", {"n": 1})]).commit_time
    second = store.commit([Put("d/a", {"n": 2})]).commit_time
    assert [(s.update_time, s.create_time, s.read_time) for s in seen] == [
        (None, None, first),
        (first, first, first),
        (first, first, second),
        (second, first, second),
    ]


def test_what_the_observer_was_shown_is_its_own() -> None:
    seen: list[Any] = []
    store = MemoryStore(stopped, lambda _path, _before, after: seen.append(after.data))
    store.commit([Put("d/a", {"l": [1]})])
    seen[0]["l"].append(2)
    assert store.read("d/a")[0].data == {"l": [1]}


def test_ids_come_from_the_source_that_the_caller_sets() -> None:
    numbers = iter(range(10))
    store = MemoryStore(stopped, new_id=lambda: f"id-{next(numbers)}")
    assert [store.new_id(), store.new_id()] == ["id-0", "id-1"]


def test_threads_lose_no_increment_and_one_creation_wins() -> None:
    store = MemoryStore(stopped)
    store.commit([Put("d/n", {"n": 0})])

    def once(thread: int) -> int:
        for _ in range(200):
            store.commit([Change("d/n", {("n",): Increment(1)})])
        try:
            store.commit([Put("d/one", {"thread": thread}, guard=Must.NOT_EXIST)])
        except AlreadyExists:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        winners = sum(pool.map(once, range(8)))
    assert ((store.read("d/n")[0].data or {})["n"], winners) == (1_600, 1)
