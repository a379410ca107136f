"""A run is watched: what a watcher receives, where it continues, and what a poll costs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Function, flow, flows
from signalbox.adapters import runtime
from signalbox.adapters.cost_meter import measure
from signalbox.flows.http import routes
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.service import reads
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.cost_table import row_cost

Event = tuple[str, dict[str, Any], str]
"""Its name, its data and its id."""

app = Function("shop")


@app.task
def work(n: int) -> int:
    return n


@app.flow
async def chain(count: int, rounds: int = 0) -> Any:
    for n in range(count):
        flow.progress(n)
        await work.call(n=n)
    await flow.event("go")
    if rounds:
        return flow.continue_as_new(count=count, rounds=rounds - 1)
    return count


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as entered, replaced(flow_watch_pause_seconds=0.01, flow_watch_seconds=0.05):
        entered.add(app)
        yield entered


def watched(harness: Harness, last: str = "", path: str = "shop/flows/chain/1/events") -> list[Event]:
    response = harness.get(path, headers={"Last-Event-ID": last} if last else None)
    assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert response.body.startswith(b"retry: 1000\n\n")
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines()) for block in response.body.decode().split("\n\n")
    ]
    return [(each["event"], json.loads(each["data"]), each["id"]) for each in blocks if "event" in each]


def test_a_watcher_gets_each_entry_the_status_and_the_end(harness: Harness) -> None:
    chain.start("1", count=2)
    harness.run()
    events = watched(harness)
    assert [name for name, _, _ in events] == ["entry", "entry", "progress"]
    assert [data for name, data, _ in events if name == "entry"] == harness.get("shop/flows/chain/1/log").json[
        "entries"
    ]
    assert events[-1][1] == harness.get("shop/flows/chain/1").json
    flows("chain", "1").event("go")
    harness.run()
    later = watched(harness, events[-1][2])
    assert [name for name, _, _ in later] == ["entry", "complete"]
    assert (later[-1][1]["state"], later[-1][1]["result"]) == ("completed", 2)
    assert [name for name, _, _ in watched(harness, later[-1][2])] == ["complete"]


def test_a_watcher_that_connects_again_misses_nothing_and_gets_nothing_twice(harness: Harness) -> None:
    with replaced(flow_tail_bytes_max=300, flow_chunk_bytes_max=400):
        chain.start("1", count=12)
        harness.run()
        entries = harness.get("shop/flows/chain/1/log").json["entries"]
        ids = [cursor for name, _, cursor in watched(harness) if name == "entry"]
        assert len(ids) == len(set(ids)) == len(entries) == 12
        for count, cursor in enumerate(ids, 1):
            query = f"shop/flows/chain/1/events?last_event_id={cursor}"
            assert [data for name, data, _ in watched(harness, path=query) if name == "entry"] == entries[count:]


def test_the_entries_of_a_new_log_follow_those_of_the_old_one(harness: Harness) -> None:
    chain.start("1", count=1, rounds=1)
    harness.run()
    *_, (_, _, last) = watched(harness)
    flows("chain", "1").event("go")
    harness.run()
    events = watched(harness, last)
    assert [data["generation"] for name, data, _ in events if name == "progress"] == [1]
    assert len([name for name, _, _ in events if name == "entry"]) == 1


def test_a_run_that_is_not_there_a_wrong_id_and_too_many_watchers_are_refused(harness: Harness) -> None:
    assert harness.get("shop/flows/chain/2/events").status == 404
    chain.start("1", count=1)
    assert harness.get("shop/flows/chain/1/events?last_event_id=x").json["field"] == "last_event_id"
    for _ in range(LIMITS.flow_watch_streams_max):
        routes.STREAMS.take(LIMITS.flow_watch_streams_max)
    try:
        refused = harness.get("shop/flows/chain/1/events")
        assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    finally:
        for _ in range(LIMITS.flow_watch_streams_max):
            routes.STREAMS.leave()
    watched(harness)
    assert routes.STREAMS._taken == 0


def test_an_id_beyond_the_log_hides_no_later_entry(harness: Harness) -> None:
    chain.start("1", count=1)
    harness.run()
    execution = reads.get(harness.ports, FlowAddress("chain", "1")).execution_id
    stream = routes._events(runtime.ports(), FlowAddress("chain", "1"), (execution, 99), is_open=False)
    with replaced(flow_watch_seconds=60):  # it ends with the run, however long the machine takes
        assert [next(stream).split("\n")[0] for _ in range(2)] == ["retry: 1000", "event: progress"]
    flows("chain", "1").event("go")
    harness.run()
    assert [text.split("\n")[0] for text in stream] == ["event: entry", "event: complete"]


def test_a_watched_run_that_is_deleted_ends_the_stream(harness: Harness) -> None:
    chain.start("1", count=0)
    flows("chain", "1").event("go")
    harness.run()
    stream = routes._events(runtime.ports(), FlowAddress("chain", "1"), ("none", 0), is_open=False)
    assert next(stream).startswith("retry")
    assert harness.delete("shop/flows/chain/1").status == 204
    assert list(stream) == []


def test_a_poll_is_one_read_also_of_a_long_log(harness: Harness) -> None:
    with replaced(flow_tail_bytes_max=300, flow_chunk_bytes_max=400):
        chain.start("1", count=12)
        harness.run()
        header = reads.get(harness.ports, FlowAddress("chain", "1"))
        assert header.log.chunks > 1
        events = routes._events(
            runtime.ports(), FlowAddress("chain", "1"), (header.execution_id, header.log.length), is_open=False
        )
        next(events)
        with measure() as cost:
            assert next(events).startswith("event: progress")
        assert cost == row_cost("flows", "watch")
