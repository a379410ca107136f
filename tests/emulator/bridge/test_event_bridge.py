"""The event bridge as the emulator and a function see it: real processes, real SIGKILLs, a tiny target."""

import asyncio
import base64
import http.client
import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from signalbox_tools.local import child_processes
from signalbox_tools.local.event_bridge import cloudevent, deliver
from signalbox_tools.local.event_bridge.cloudevent import DOCUMENT_EVENT_DATA
from signalbox_tools.local.event_bridge.inbox import COUNT, SCHEMA, Inbox
from signalbox_tools.local.event_bridge.markers import MARKER_FIELD, MARKER_TRIGGER
from signalbox_tools.local.function_processes import FunctionProcesses, listen
from signalbox_tools.local.functions.channel_threads import DeliveryThreads
from signalbox_tools.local.injected_faults import parse
from tests.emulator.polling_until import eventually

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

SECONDS_MAX = 15.0
HALVES = ("receive", "deliver")
THREADS = 16
URL = "http://127.0.0.1:9/function"
DOCUMENT = "projects/demo/databases/(default)/documents/documents/"
EMULATORS_HEADERS = {
    "ce-specversion": "1.0",
    "ce-type": "google.cloud.firestore.document.v1.written",
    "ce-source": "//firestore.googleapis.com/projects/projects/demo/databases/(default)",
    "ce-id": "event-1",
    "ce-subject": "documents/documents/a",
    "ce-time": "2026-01-02T03:04:05Z",
    "ce-datacontenttype": "application/protobuf",
    "ce-dataschema": "https://example.org/data.proto",
    "ce-location": "us-central1",
    "ce-project": "demo",
    "ce-database": "(default)",
    "ce-namespace": "(default)",
    "ce-document": "documents/a",
    "Content-Type": "application/protobuf",
}


KILLED = """
import os, signal, sys, threading
from signalbox_tools.local.functions.channel_threads import DeliveryThreads

def killed(environ, start_response):
    os.write(1, b".")
    os.kill(os.getpid(), signal.SIGKILL)

DeliveryThreads([sys.argv[1]], killed, int(sys.argv[2])).start()
threading.Event().wait()
"""
"""A function process that is killed in the middle of its first event."""


def message(key: str = "a", before: int | None = None, after: int | None = 1) -> bytes:
    data: Any = DOCUMENT_EVENT_DATA()
    for side, number in (("old_value", before), ("value", after)):
        if number is not None:
            getattr(data, side).name = DOCUMENT + key
            getattr(data, side).fields["n"].integer_value = number
    return bytes(data.SerializeToString())


class Target:
    """A function that keeps what it receives, in order, and answers as the test sets."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.answers: Callable[[str], int] = lambda _: 200
        self.port = child_processes.free_port()
        self.open()

    @property
    def ids(self) -> Counter[str]:
        return Counter(headers["ce-id"] for headers, _ in list(self.calls))

    def open(self) -> None:
        self._threads = DeliveryThreads([f"127.0.0.1:{self.port}"], self._called, THREADS)
        self._threads.start()

    def close(self) -> None:
        self._threads.leave()

    def _called(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        headers = {name.removeprefix("HTTP_").lower().replace("_", "-"): value for name, value in environ.items()}
        self.calls.append((headers, environ["wsgi.input"].read()))
        start_response(f"{self.answers(headers['ce-id'])} So", [])
        return []


@dataclass
class Bridge:
    """Both halves on one database, and a target; each half can be killed and restarted."""

    database: Path
    target: Target
    ports: dict[str, int] = field(default_factory=lambda: dict(zip(HALVES, child_processes.free_ports(2), strict=True)))
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_both(self) -> None:
        for half in HALVES:
            self.launch(half)
        for half in HALVES:
            self.wait(half)

    def start(self, half: str, *more: str) -> None:
        self.launch(half, *more)
        self.wait(half)

    def launch(self, half: str, *more: str) -> None:
        ports = (f"--port={self.ports[half]}", f"--functions-port={self.target.port}")
        where = (*ports, f"--database={self.database}", f"--route=docs={URL}")
        command = [sys.executable, "-m", "signalbox_tools.local.event_bridge", half, *where, *more]
        self.running[half] = child_processes.start(command, output=subprocess.DEVNULL)

    def wait(self, half: str) -> None:
        assert child_processes.wait_until(lambda: self._answers(half), self.running[half], timeout_seconds=SECONDS_MAX)

    def kill(self, half: str) -> None:
        child_processes.kill(self.running[half])

    def close(self) -> None:
        for process in self.running.values():
            child_processes.kill(process)

    def send(self, body: bytes, trigger: str = "docs", **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["receive"], timeout=SECONDS_MAX)
        given = EMULATORS_HEADERS | {f"ce-{name}": value for name, value in headers.items()}
        connection.request("POST", f"/functions/projects/demo/triggers/{trigger}", body, given)
        status = connection.getresponse().status
        connection.close()
        return status

    def send_many(self, ids: list[str]) -> None:
        assert [self.send(base64.b64encode(message(key)), id=key) for key in ids] == [200] * len(ids)

    def stats(self, half: str) -> dict[str, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[half], timeout=SECONDS_MAX)
        connection.request("GET", "/stats")
        numbers: dict[str, int] = json.load(connection.getresponse())
        connection.close()
        return numbers

    def _answers(self, half: str) -> bool:
        try:
            return bool(self.stats(half))
        except OSError:
            return False


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    with ExitStack() as exits:
        target = Target()
        exits.callback(target.close)
        made = Bridge(tmp_path / "events.sqlite", target)
        exits.callback(made.close)
        yield made


def slowly(_: str) -> int:
    time.sleep(0.02)
    return 200


def test_a_function_gets_the_headers_and_the_bytes_that_eventarc_sends(bridge: Bridge) -> None:
    bridge.start_both()
    assert bridge.send(base64.b64encode(message("ü x"))) == 200
    eventually(lambda: len(bridge.target.calls) == 1)
    headers, body = bridge.target.calls[0]
    assert body == message("ü x")
    assert (headers["request-method"], headers["raw-uri"]) == ("POST", "/function")
    assert headers["user-agent"].startswith("APIs-Google")
    assert {name: value for name, value in headers.items() if name.startswith(("ce-", "content-type"))} == {
        "ce-specversion": "1.0",
        "ce-type": "google.cloud.firestore.document.v1.written",
        "ce-source": "//firestore.googleapis.com/projects/demo/databases/(default)",
        "ce-id": "event-1",
        "ce-subject": "documents/documents/%C3%BC%20x",
        "ce-time": "2026-01-02T03:04:05Z",
        "ce-dataschema": "https://example.org/data.proto",
        "ce-location": "us-central1",
        "ce-project": "demo",
        "ce-database": "(default)",
        "ce-namespace": "(default)",
        "ce-document": "documents/%C3%BC%20x",
        "content-type": "application/protobuf",
    }
    eventually(lambda: bridge.stats("deliver")["delivered"] == 1)
    assert bridge.stats("deliver") == {"waiting": 0, "running": 0, "received": 1, "delivered": 1, "given_up": 0}


@pytest.mark.parametrize(
    ("before", "after", "sent"),
    [(None, 1, True), (1, 2, True), (1, None, True), (1, 1, False), (None, None, False)],
    ids=["created", "changed", "deleted", "unchanged", "created and deleted at once"],
)
def test_only_what_changed_something_is_an_event(before: int | None, after: int | None, sent: bool) -> None:
    data = cloudevent.parsed(message("a", before, after))
    assert cloudevent.changed_something(data) is sent


def test_a_request_that_is_not_an_event_is_acknowledged_and_dropped_and_garbage_is_refused(bridge: Bridge) -> None:
    bridge.start("receive")
    assert bridge.send(base64.b64encode(message(before=1, after=1))) == 200
    assert bridge.send(b"*") == 400
    assert bridge.send(base64.b64encode(b"\xff\xff")) == 400
    assert bridge.send(base64.b64encode(message()), trigger="unheard-of") == 404
    assert bridge.stats("receive") == {"received": 0, "marker": 0}


def test_a_connection_is_closed_after_its_event(bridge: Bridge) -> None:
    bridge.start("receive")
    connection = http.client.HTTPConnection("127.0.0.1", bridge.ports["receive"], timeout=SECONDS_MAX)
    connection.request("POST", "/functions/projects/demo/triggers/docs", base64.b64encode(message()), EMULATORS_HEADERS)
    assert connection.getresponse().will_close
    connection.close()


def test_a_marker_is_in_the_counters_and_is_not_an_event(bridge: Bridge) -> None:
    bridge.start("receive")
    data: Any = DOCUMENT_EVENT_DATA()
    data.value.fields[MARKER_FIELD].integer_value = 7
    assert bridge.send(base64.b64encode(data.SerializeToString()), trigger=MARKER_TRIGGER) == 200
    assert bridge.stats("receive") == {"received": 0, "marker": 7}


def test_an_event_that_fails_is_delivered_again_until_it_is_accepted(bridge: Bridge) -> None:
    bridge.target.answers = lambda event_id: 200 if bridge.target.ids[event_id] > 2 else 500
    bridge.start_both()
    bridge.send_many(["a", "b"])
    eventually(lambda: bridge.stats("deliver")["delivered"] == 2)
    assert bridge.target.ids == {"a": 3, "b": 3}


def test_no_acknowledged_event_is_lost_when_either_half_is_killed(bridge: Bridge) -> None:
    first, second, third = ([f"{batch}{number}" for number in range(40)] for batch in "abc")
    bridge.target.answers = slowly
    bridge.start_both()
    bridge.send_many(first)
    bridge.kill("deliver")
    bridge.send_many(second)
    bridge.kill("receive")
    assert set(bridge.target.ids) < {*first, *second}, "some must be left, or nothing is shown here"
    bridge.start_both()
    bridge.send_many(third)
    eventually(lambda: bridge.stats("deliver")["delivered"] == 120)
    assert set(bridge.target.ids) == {*first, *second, *third}


def test_an_event_whose_function_process_is_killed_is_delivered_to_the_next_one(bridge: Bridge) -> None:
    bridge.target.close()
    bridge.start_both()
    command = [sys.executable, "-c", KILLED, f"127.0.0.1:{bridge.target.port}", str(THREADS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
        ids = [f"event-{number}" for number in range(40)]
        bridge.send_many(ids)
        assert killed.stdout
        assert killed.stdout.read(1) == b"."
        assert killed.wait(SECONDS_MAX) == -signal.SIGKILL
    assert bridge.stats("deliver")["delivered"] == 0
    bridge.target.open()
    eventually(lambda: bridge.stats("deliver")["delivered"] == 40)
    assert bridge.target.ids == Counter(ids)


def test_chaos_delivers_every_event_twice(bridge: Bridge) -> None:
    bridge.start("receive")
    bridge.start("deliver", "--chaos=twice=1,reorder=0.5,seed=3")
    bridge.send_many(["a", "b", "c"])
    eventually(lambda: bridge.stats("deliver")["delivered"] == 3)
    assert bridge.target.ids == {"a": 2, "b": 2, "c": 2}


def test_without_chaos_there_are_no_faults_and_a_seed_repeats_them() -> None:
    assert {parse("").delay_seconds() for _ in range(50)} == {0.0}
    assert not any(parse("").delivers_again() for _ in range(50))
    late, again = parse("late=1,seed=5"), parse("late=1,seed=5")
    delays = [late.delay_seconds() for _ in range(5)]
    assert delays == [again.delay_seconds() for _ in range(5)]
    assert all(0 < delay <= 3 for delay in delays)


@pytest.mark.parametrize("text", ["thrice=1", "twice=2", "late=soon"])
def test_chaos_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.partition("=")[0] if text != "late=soon" else "soon"):
        parse(text)


def test_events_given_up_are_counted_and_not_retried(tmp_path: Path) -> None:
    async def run() -> tuple[list[int], tuple[int, int, int, int]]:
        inbox = Inbox(tmp_path / "events.sqlite")
        event = cloudevent.event("docs", EMULATORS_HEADERS, message(), cloudevent.parsed(message()))
        await asyncio.gather(*(inbox.add(event) for _ in range(3)))
        await asyncio.gather(inbox.forget(1), inbox.give_up(2))
        counts = inbox.counts()
        return [each for each, _ in inbox.after(0)], (counts.received, counts.left, counts.given_up, counts.delivered)

    assert asyncio.run(run()) == ([3], (3, 1, 1, 1))


def test_a_count_reads_an_index_and_no_bodies_even_in_a_file_made_without_it(tmp_path: Path) -> None:
    database = tmp_path / "events.sqlite"
    with closing(sqlite3.connect(database)) as earlier:
        earlier.execute(SCHEMA)
    Inbox(database)
    with closing(sqlite3.connect(database)) as file:
        plan = file.execute(f"EXPLAIN QUERY PLAN {COUNT}").fetchall()
    assert any("COVERING INDEX given_up" in detail for *_, detail in plan)


def test_the_newest_event_does_not_wait_behind_a_backlog_nor_does_the_oldest(bridge: Bridge) -> None:
    bridge.start("receive")
    bridge.send_many([f"event-{number}" for number in range(200)])
    bridge.target.answers = slowly
    bridge.start("deliver")
    eventually(lambda: len(bridge.target.ids) == 200)
    first_half = {headers["ce-id"] for headers, _ in bridge.target.calls[:100]}
    assert {"event-199", "event-0"} <= first_half


async def add(inbox: Inbox, name: str) -> None:
    given = EMULATORS_HEADERS | {"ce-id": name}
    await inbox.add(cloudevent.event("docs", given, message(), cloudevent.parsed(message())))


@asynccontextmanager
async def delivering(bridge: Bridge) -> AsyncIterator[Inbox]:
    inbox = Inbox(bridge.database)
    processes = FunctionProcesses()
    with closing(await listen(processes, bridge.target.port)):
        running = asyncio.create_task(deliver.Deliverer(inbox, {"docs": URL}, processes, parse("")).run())
        try:
            yield inbox
        finally:
            running.cancel()


def test_a_slow_function_does_not_block_other_deliveries_while_events_keep_coming(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "CONCURRENT_WHILE_RECEIVING", 1)
    monkeypatch.setattr(deliver, "RECEIVING_SECONDS", 60)
    answered = threading.Event()

    def slow_for_the_first(event_id: str) -> int:
        if event_id == "first":
            answered.wait(SECONDS_MAX)
        return 200

    bridge.target.answers = slow_for_the_first

    async def run() -> None:
        async with delivering(bridge) as inbox:
            for name in ("first", "second"):
                await add(inbox, name)
                while name not in bridge.target.ids:
                    await asyncio.sleep(0.01)
            answered.set()

    asyncio.run(asyncio.wait_for(run(), SECONDS_MAX / 3))


@pytest.mark.parametrize(("always", "while_receiving"), [(16, 2), (2, 8)])
def test_while_events_keep_coming_no_more_than_the_limits_are_delivered_at_once(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, always: int, while_receiving: int
) -> None:
    monkeypatch.setattr(deliver, "CONCURRENT_MAX", always)
    monkeypatch.setattr(deliver, "CONCURRENT_WHILE_RECEIVING", while_receiving)
    monkeypatch.setattr(deliver, "RECEIVING_SECONDS", 60)
    monkeypatch.setattr(deliver, "POLL_SECONDS", 60)  # the next delivery starts when one has ended, not at a poll
    monkeypatch.setattr(deliver, "BUSY_SECONDS", 60)
    inside, most, lock = 0, 0, threading.Lock()

    def counting(_: str) -> int:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.05)
        with lock:
            inside -= 1
        return 200

    bridge.target.answers = counting

    async def run() -> None:
        async with delivering(bridge) as inbox:
            for number in range(8):
                await add(inbox, f"event-{number}")
            while inbox.counts().delivered < 8:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), SECONDS_MAX))
    assert most == 2


def test_a_delivery_that_raises_is_retried(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, failed = deliver.Deliverer._accepted, threading.Event()

    async def raising_once(deliverer: deliver.Deliverer, *what: Any) -> bool:
        if not failed.is_set():
            failed.set()
            raise RuntimeError
        return await accepted(deliverer, *what)

    monkeypatch.setattr(deliver.Deliverer, "_accepted", raising_once)

    async def run() -> None:
        async with delivering(bridge) as inbox:
            await add(inbox, "event-1")
            while inbox.counts().delivered < 1:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), SECONDS_MAX))
    assert failed.is_set()
