"""The events of a SQLite store reach functions in the form in which Eventarc delivers them."""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cloudevents.http import from_http

from signalbox.adapters.http.event_deliveries import document_event
from signalbox.adapters.settings import from_environment
from signalbox.adapters.sqlite.events import EventLog
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Delete, DocumentEvent, Put
from signalbox_tools.local.child_processes import free_port
from signalbox_tools.local.event_bridge import stored_events
from signalbox_tools.local.event_bridge.cloudevent import Event
from signalbox_tools.local.event_bridge.deliver import Deliverer
from signalbox_tools.local.event_bridge.stored_events import StoredEvents
from signalbox_tools.local.function_processes import FunctionProcesses, listen
from signalbox_tools.local.functions.channel_threads import DeliveryThreads
from signalbox_tools.local.injected_faults import Chaos

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

SETTINGS = replace(
    from_environment({"SIGNALBOX_PROJECT": "p", "SIGNALBOX_LOCATION": "europe-west1"}),
    triggers={"documents": "documents/{key}", "orders": "orders/{id}"},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(file, SETTINGS.triggers)) as opened:
        yield opened


@pytest.fixture
def events(file: Path, store: SqliteStore) -> StoredEvents:
    return StoredEvents(file, SETTINGS)


def delivered(event: Event) -> DocumentEvent:
    return document_event(from_http(dict(event.headers), event.body).get_attributes(), event.body)


def all_of(events: StoredEvents) -> list[DocumentEvent]:
    return [delivered(events.event(number)[0]) for number, _ in events.after(0)]


def test_each_change_is_an_event_in_the_order_of_the_commits(store: SqliteStore, events: StoredEvents) -> None:
    for n in range(20):
        store.commit([Put("documents/a", {"n": n})])
    store.commit([Delete("documents/a")])
    found = all_of(events)
    assert [event.after for event in found] == [*({"n": n} for n in range(20)), None]
    assert [event.before for event in found] == [None, *({"n": n} for n in range(20))]
    assert len({event.id for event in found}) == 21


def test_an_event_has_the_times_and_the_path_of_its_record(store: SqliteStore, events: StoredEvents) -> None:
    created = store.commit([Put("documents/é\nb", {"n": 1})]).commit_time
    updated = store.commit([Put("documents/é\nb", {"n": 2})]).commit_time
    event, at = events.event(2)
    found = delivered(event)
    assert (found.key, found.create_time, found.before_update_time, found.update_time) == (
        "é\nb",
        created,
        created,
        updated,
    )
    assert at == pytest.approx(updated.timestamp())
    assert event.headers["ce-document"] == "documents/%C3%A9%0Ab"
    assert event.headers["ce-source"] == "//firestore.googleapis.com/projects/p/databases/(default)"
    assert event.headers["ce-location"] == "europe-west1"


def test_only_changes_under_a_triggers_pattern_are_events(store: SqliteStore, events: StoredEvents) -> None:
    for path in ("semaphores/a", "documents/a/versions/1", "orders/a", "documents/a", "documents/a"):
        store.commit([Put(path, {"n": 1})])
    assert events.after(0) == [(1, "orders"), (2, "documents")]
    assert [events.event(number)[0].trigger for number in (1, 2)] == ["orders", "documents"]


def test_events_that_end_in_one_turn_are_deleted_or_marked_together(store: SqliteStore, events: StoredEvents) -> None:
    store.commit([Put(f"documents/{n}", {}) for n in range(4)])

    async def end() -> None:
        await asyncio.gather(events.forget(1), events.give_up(2), events.forget(3))

    asyncio.run(end())
    counts = events.counts()
    assert ([number for number, _ in events.after(0)], counts.received, counts.delivered, counts.given_up) == (
        [4],
        4,
        2,
        1,
    )


def test_an_event_is_delivered_over_the_connections_of_a_process_until_it_is_accepted(
    store: SqliteStore, events: StoredEvents
) -> None:
    statuses, requests = ["500 Broken", "204 No Content"], []

    def function(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        requests.append((environ["PATH_INFO"], environ["HTTP_CE_DOCUMENT"], environ["wsgi.input"].read()))
        start_response(statuses.pop(0), [])
        return []

    async def run() -> None:
        port, processes = free_port(), FunctionProcesses()
        deliverer = Deliverer(events, {"orders": "http://127.0.0.1:9/packed"}, processes, Chaos())
        threads = DeliveryThreads([f"127.0.0.1:{port}"], function, count=1)
        with closing(await listen(processes, port)):
            delivering = asyncio.create_task(deliverer.run())
            threads.start()
            while events.counts().left:
                await asyncio.sleep(0.005)
            threads.leave()
            delivering.cancel()

    store.commit([Put("orders/é", {"n": 1})])
    body = events.event(1)[0].body
    asyncio.run(asyncio.wait_for(run(), 20))
    assert requests == [("/packed", "orders/%C3%A9", body)] * 2


def test_a_commit_of_another_process_is_noticed(file: Path, store: SqliteStore, events: StoredEvents) -> None:
    async def notified() -> bool:
        noticed = asyncio.Event()
        with events.on_notice(noticed.set):
            store.commit([Put("documents/a", {})])
            async with asyncio.timeout(5):
                return await noticed.wait()

    assert asyncio.run(notified())


def test_checkpoints_that_fail_keep_no_file_open(
    file: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: EventLog) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(stored_events, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(EventLog, "checkpoint", fail)
    opened = []
    for _ in range(5):
        with pytest.raises(sqlite3.OperationalError):
            stored_events.checkpoint_for_ever(file)
        opened.append(len(list(Path("/dev/fd").iterdir())))
    assert opened[-1] <= opened[1]  # those of earlier tests may be closed meanwhile
