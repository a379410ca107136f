"""A batch is watched: what a watcher receives, where it continues, and what it costs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signalbox.adapters.cost_meter import measure
from signalbox.batches import storage
from signalbox.batches.http import watch_feeds
from signalbox.batches.http.watch_feeds import Feed
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.watch import START, Cursor, Position
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import succeeded
from signalbox.batches.service.units import complete_by_index
from signalbox.batches.storage import read_header
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery
from signalbox.testing.memory_store import MemoryStore
from signalbox.testing.replaced_limits import replaced
from tests.unit.batches.batch_harness import BatchHarness, batch, broken_at
from tests.unit.cost_table import row_cost

Event = tuple[str, dict[str, Any], str]
"""Its name, its data and its id."""


@pytest.fixture
def harness() -> Iterator[BatchHarness]:
    with replaced(watch_pause_seconds=0.01, watch_stream_seconds=0.2):
        yield BatchHarness()


def parsed(text: str) -> list[Event]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"]), fields["id"]))
    return found


def watched(harness: BatchHarness, last: str | None = None, address: str = "/b/events") -> list[Event]:
    response = harness.call("batches", address, method="GET", headers={"Last-Event-ID": last} if last else None)
    assert response.status_code == 200
    assert response.content_type == "text/event-stream; charset=utf-8"
    return parsed(response.get_data(as_text=True))


def run_of(harness: BatchHarness) -> BatchRun:
    return read_header(harness.ports, "b")[0]


def indexes(events: list[Event]) -> list[int]:
    return sorted(data["index"] for name, data, _ in events if name == "unit")


def test_a_batch_that_has_ended_is_sent_whole_and_its_end_comes_last(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(5))
    harness.run_tasks(broken_at(3))
    events = watched(harness)
    assert [name for name, _, _ in events] == ["unit"] * 5 + ["complete"]
    units = {data["index"]: data for _, data, _ in events[:5]}
    assert units[3] == {"index": 3, "attempt": 0, "state": "failed", "error": "dry brush"}
    assert units[4] == {"index": 4, "attempt": 0, "state": "succeeded", "result": None}
    assert events[-1][1] == harness.request("GET", "/b")[1]


def test_a_watcher_continues_after_any_event_without_missing_or_repeating_one(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(7))
    harness.run_tasks()
    events = watched(harness)
    for at, (_, _, last) in enumerate(events):
        assert watched(harness, last) == [*events[at + 1 : -1], events[-1]]
        assert watched(harness, None, f"/b/events?last_event_id={last}") == watched(harness, last)


def test_a_batch_that_runs_shows_its_progress_and_its_stream_ends_in_time(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3, task=None))
    first = watched(harness)
    assert [(name, data["remaining"]) for name, data, _ in first] == [("progress", 3)]
    harness.request("POST", "/b/1", {"result": "red"}, function="batch_complete")
    later = watched(harness, first[-1][2])
    assert [name for name, _, _ in later] == ["unit", "progress"]
    assert (later[0][1]["result"], later[1][1]["remaining"]) == ("red", 2)


def test_a_retried_unit_is_sent_again_with_its_next_attempt(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2))
    harness.run_tasks(broken_at(1))
    last = watched(harness)[-1][2]
    harness.request("POST", "/b/retry", {})
    harness.run_tasks()
    events = watched(harness, last)
    assert [(name, data.get("attempt")) for name, data, _ in events] == [("unit", 1), ("complete", None)]


def test_a_cancelled_batch_ends_its_streams_too(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2))
    harness.request("DELETE", "/b")
    assert [(name, data["state"]) for name, data, _ in watched(harness)] == [("complete", "cancelled")]


def test_the_id_of_an_earlier_run_begins_again(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(2))
    harness.run_tasks()
    other = str(Cursor("another", Position(run_time(harness) + timedelta(days=1), 0)))
    assert indexes(watched(harness, other)) == [0, 1]


def run_time(harness: BatchHarness) -> Any:
    return harness.ports.store.read("batches/b")[0].read_time


@pytest.mark.parametrize("text", ["", "a", "a.1", "a.1.1.1", "a.-1.1", "a.1.99999999999", "é.1.1", "a.1.1\n"])
def test_an_invalid_event_id_is_refused(text: str) -> None:
    with pytest.raises(BadQuery):
        Cursor.parse(text)


def test_the_largest_id_is_a_position_all_the_same(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, task=None))
    assert watched(harness, f"{run_of(harness).incarnation}.{'9' * 17}.{'9' * 10}") != []


def test_a_missing_batch_has_no_stream(harness: BatchHarness) -> None:
    assert harness.request("GET", "/b/events")[0] == 404
    harness.request("POST", "/", batch(1))
    status, problem = harness.request("GET", "/b/events", headers={"Last-Event-ID": "x"})
    assert (status, problem["field"]) == (400, "Last-Event-ID")


def test_head_begins_no_stream_and_frees_its_place(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, task=None))
    for _ in range(LIMITS.watch_streams_max + 1):
        response = harness.call("batches", "/b/events", method="HEAD")
        assert response.status_code == 200
        response.close()
    assert watch_feeds.FEEDS._watchers.total() == 0


def test_beyond_its_streams_an_instance_answers_503_and_serves_other_requests(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(1, task=None))
    run = run_of(harness)
    for _ in range(LIMITS.watch_streams_max):
        watch_feeds.FEEDS.join(harness.ports, run)
    response = harness.call("batches", "/b/events", method="GET")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert harness.request("GET", "/b")[0] == 200
    for _ in range(LIMITS.watch_streams_max):
        watch_feeds.FEEDS.leave(run)
    assert [name for name, _, _ in watched(harness)] == ["progress"]


class Late:
    """A batch whose times of requests differ from those of their commits by `strays`."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.strays: Iterator[float] = iter(())
        store = MemoryStore(self._tick, stray=lambda: timedelta(seconds=next(self.strays, 0)))
        self.harness = BatchHarness(store)
        self.harness.request("POST", "/", batch(6, task=None))

    def _tick(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def complete(self, index: int, stray: float) -> None:
        self.strays = iter([stray])
        complete_by_index(self.harness.ports, "b", index, succeeded(index))

    def read(self, start: Position) -> tuple[list[int], Position]:
        news = storage.read_news(self.harness.ports, run_of(self.harness), start)
        return [one.record.unit.index for one in news.outcomes], news.end


def test_an_outcome_committed_seconds_after_its_request_is_sent() -> None:
    late = Late()
    late.complete(0, 0)
    found, end = late.read(START)
    assert found == [0]
    late.complete(1, -4.9)
    assert late.read(end)[0] == [1]


def test_after_a_full_page_nothing_is_left_out() -> None:
    late = Late()
    late.complete(0, 0.049)
    late.complete(1, 0.049)
    with replaced(watch_page=1):
        found, end = late.read(START)
        assert found + late.read(end)[0] == [0, 1]


# --- what it costs ---


class Counted:
    """A metered store shared by threads: it counts the calls that read."""

    def __init__(self, harness: BatchHarness) -> None:
        self.calls = 0
        self._lock = threading.Lock()
        self._store = harness.ports.store
        for name in ("read", "query", "count"):
            setattr(self, name, self._counting(getattr(self._store, name)))

    def _counting(self, call: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self.calls += 1
            return call(*arguments, **named)

        return counted


@pytest.mark.parametrize("watchers", [1, 100])
def test_a_hundred_watchers_cost_the_calls_of_one(harness: BatchHarness, watchers: int) -> None:
    harness.request("POST", "/", batch(9))
    harness.run_tasks()
    store = Counted(harness)
    feed = Feed(Ports(store, harness.queue, harness.clock, harness.log), run_of(harness))  # type: ignore[arg-type]  # a store that only reads
    with ThreadPoolExecutor(watchers) as pool:
        chunks = list(pool.map(lambda _: feed.next(START), range(watchers)))
    assert all(len(chunk.news.outcomes) == 9 and chunk.news.complete for chunk in chunks)
    assert store.calls == 2


def test_a_quiet_read_costs_two_reads(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(3, task=None))
    feed = Feed(harness.ports, run_of(harness))
    harness.request("POST", "/b/0", {"result": 0}, function="batch_complete")
    end = feed.next(START).news.end
    harness.clock.advance(LIMITS.watch_behind_seconds + 1)
    end = feed.next(end).news.end
    with measure() as cost:
        feed.next(end)
    assert cost == row_cost("batches", "watch")


def test_a_read_with_news_also_counts(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(9, task=None))
    feed = Feed(harness.ports, run_of(harness))
    for index in range(5):
        harness.request("POST", f"/b/{index}", {"result": 0}, function="batch_complete")
    with measure() as cost:
        feed.next(START)
    assert cost == row_cost("batches", "watch_news", n=5)


def test_a_watcher_far_behind_reads_by_itself_what_the_feed_no_longer_keeps(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(6))
    harness.run_tasks()
    with replaced(watch_page=2, watch_kept_bytes_max=1):
        feed = Feed(harness.ports, run_of(harness))
        assert whole(feed) == list(range(6))
        assert whole(feed) == list(range(6))


def whole(feed: Feed) -> list[int]:
    position, found = START, []
    while True:
        chunk = feed.next(position)
        found += [one.record.unit.index for one in chunk.news.outcomes if one.position > position]
        position = max(position, chunk.news.end)
        if chunk.news.complete:
            return sorted(found)


def test_a_batch_without_units_ends_its_stream_at_once(harness: BatchHarness) -> None:
    harness.request("POST", "/", batch(0))
    assert [name for name, _, _ in watched(harness)] == ["complete"]
