"""The store inside the process sends the event bridge what the emulator would."""

import base64
import threading
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cloudevents.http import from_http

from signalbox.adapters.http.event_deliveries import document_event
from signalbox.adapters.settings import Settings, from_environment
from signalbox.core.ports import Delete, DocumentEvent, Put, Store
from signalbox_tools.local.store.embedded_store import embedded_store


class Bridge:
    """An event bridge that a test can make refuse or hang up."""

    def __init__(self) -> None:
        bridge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                bridge.receive(self)

            def log_message(self, *_: object) -> None:
                pass

        self.received: list[tuple[str, Message, bytes]] = []
        self.refuse: list[int] = []
        self.arrived = threading.Semaphore(0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def receive(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        status = self.refuse.pop(0) if self.refuse else 200
        if not status:
            request.close_connection = True
            return
        if status == 200:
            self.received.append((request.path, request.headers, body))
        request.send_response(status)
        request.send_header("Content-Length", "0")
        request.end_headers()
        if status == 200:
            self.arrived.release()

    def events(self, count: int) -> list[DocumentEvent]:
        for _ in range(count):
            assert self.arrived.acquire(timeout=10), f"{len(self.received)} events of {count} arrived"
        return [event_of(headers, body) for _, headers, body in self.received]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def event_of(headers: Message, body: bytes) -> DocumentEvent:
    raw = base64.b64decode(body, validate=True)
    event = from_http(dict(headers.items()), raw)
    return document_event(event.get_attributes(), raw)


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = Bridge()
    yield bridge
    bridge.stop()


def settings(url: str) -> Settings:
    return from_environment(
        {
            "SIGNALBOX_PROJECT": "p",
            "SIGNALBOX_EVENTS_URL": url,
            "SIGNALBOX_TRIGGERS": '{"documents": "documents/{key}", "orders": "orders/{id}"}',
        }
    )


def put(store: Store, path: str, n: int) -> None:
    store.commit([Put(path, {"n": n})])


def test_each_change_becomes_an_event_in_the_order_of_the_commits(bridge: Bridge) -> None:
    store = embedded_store(settings(bridge.url))
    for n in range(50):
        put(store, "documents/a", n)
    store.commit([Delete("documents/a")])
    events = bridge.events(51)
    assert [event.after for event in events] == [*({"n": n} for n in range(50)), None]
    assert [event.before for event in events] == [None, *({"n": n} for n in range(50))]
    assert len({event.id for event in events}) == 51


def test_an_event_has_the_form_in_which_the_emulator_sends_it(bridge: Bridge) -> None:
    store = embedded_store(settings(bridge.url))
    committed = store.commit([Put("documents/é\nb", {"n": 1})])
    [event] = bridge.events(1)
    path, headers, _ = bridge.received[0]
    assert path == "/functions/projects/p/triggers/documents"
    assert headers["Content-Type"] == "application/protobuf"
    assert headers["ce-type"] == "google.cloud.firestore.document.v1.written"
    assert headers["ce-source"] == "//firestore.googleapis.com/projects/projects/p/databases/(default)"
    assert headers["ce-document"].encode("latin-1").decode() == "documents/é%0Ab"
    assert (event.key, event.update_time, event.create_time) == ("é\nb", committed.commit_time, committed.commit_time)


def test_only_records_under_a_triggers_pattern_have_events_and_each_for_its_trigger(bridge: Bridge) -> None:
    store = embedded_store(settings(bridge.url))
    for path in ("semaphores/a", "documents/a/versions/1", "orders/a", "documents/a"):
        put(store, path, 1)
    assert [event.path for event in bridge.events(2)] == ["orders/a", "documents/a"]
    assert [path.rpartition("/")[2] for path, _, _ in bridge.received] == ["orders", "documents"]


def test_a_write_that_changes_nothing_has_no_event(bridge: Bridge) -> None:
    store = embedded_store(settings(bridge.url))
    for n in (1, 1, 2):
        put(store, "documents/a", n)
    assert [event.after for event in bridge.events(2)] == [{"n": 1}, {"n": 2}]


def test_no_event_is_lost_or_overtaken_when_the_bridge_refuses_or_hangs_up(bridge: Bridge) -> None:
    bridge.refuse = [0, 503, 0, 500]
    store = embedded_store(settings(bridge.url))
    for n in range(3):
        put(store, "documents/a", n)
    assert [event.after for event in bridge.events(3)] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_without_an_address_for_events_the_store_works_alone() -> None:
    store = embedded_store(settings(""))
    put(store, "documents/a", 1)
    assert [snapshot.data for snapshot in store.read("documents/a")] == [{"n": 1}]
