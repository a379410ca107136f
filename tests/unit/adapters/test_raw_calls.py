"""What Google's services receive from calls that bypass the generated clients' methods."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event, Timer, main_thread
from time import monotonic, sleep
from typing import Any

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.types import firestore as types
from google.cloud.tasks_v2 import CloudTasksClient

from signalbox.adapters.cloud_tasks import TaskCreator
from signalbox.adapters.firestore import store as adapters_store
from signalbox.adapters.firestore.store import CHANNEL_OPTIONS, READ_SECONDS, FirestoreCalls, FirestoreStore
from signalbox.core.ports import AlreadyExists, Must, Put, Query
from signalbox.core.problems import Unavailable
from signalbox_tools.local import child_processes

DATABASE = "projects/p/databases/(default)"

SOCKETS = Path("/proc/net")
needs_sockets = pytest.mark.skipif(not SOCKETS.exists(), reason="only Linux lists connections in files")


class Firestore:
    """A fake of Firestore's server. It records the headers of each call, streams `answers`, and then calls `then`."""

    def __init__(self, port: int = 0) -> None:
        self.headers: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, int] = {}
        self.refusal: grpc.StatusCode | None = None
        self.ended = Event()
        self.answers: tuple[bytes, ...] = ()
        self.then: Callable[[grpc.ServicerContext], object] = lambda _: None
        self._pool = ThreadPoolExecutor(2)
        self._server = grpc.server(self._pool)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(adapters_store.SERVICE, self._methods()),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port(f'127.0.0.1:{port}')}"
        self._server.start()

    def _methods(self) -> dict[str, Any]:
        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        return {
            "Commit": one(self._commit, None, lambda answer: answer.SerializeToString()),
            "BatchGetDocuments": many(self._many("BatchGetDocuments"), None, None),
            "RunQuery": many(self._many("RunQuery"), None, None),
            "RunAggregationQuery": many(self._many("RunAggregationQuery"), None, None),
        }

    def _note(self, name: str, context: grpc.ServicerContext) -> None:
        self.headers[name] = dict(context.invocation_metadata())
        self.requests[name] = self.requests.get(name, 0) + 1
        context.add_callback(self.ended.set)
        if self.refusal is not None:
            context.abort(self.refusal, "no")

    def _commit(self, _: bytes, context: grpc.ServicerContext) -> Any:
        self._note("Commit", context)
        answer = types.CommitResponse.pb()()
        answer.write_results.add().update_time.seconds = 1
        return answer

    def _many(self, name: str) -> Any:
        def answer(_: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            self._note(name, context)
            yield from self.answers
            self.then(context)

        return answer

    @property
    def connections(self) -> int:
        """The connections that clients hold open."""
        port, established = f":{int(self.address.rpartition(':')[2]):04X}", "01"
        files = [(SOCKETS / name).read_text("ascii") for name in ("tcp", "tcp6")]
        rows = [line.split() for file in files for line in file.splitlines()]
        return sum(remote.endswith(port) and state == established for _, _, remote, state, *_ in rows)

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._pool.shutdown()


@pytest.fixture
def service() -> Iterator[Firestore]:
    service = Firestore()
    yield service
    service.stop()


@pytest.fixture
def store(service: Firestore) -> Iterator[FirestoreStore]:
    store = FirestoreStore("p", "(default)", service.address)
    yield store
    store.close()


def test_calls_are_routed_by_the_database_or_the_parent(service: Firestore, store: FirestoreStore) -> None:
    store.commit([Put("documents/a", {})])
    store.query(Query("documents", limit=1))
    with pytest.raises(KeyError):
        store.read("documents/a")  # the answer names no document
    routes = {name: headers["x-goog-request-params"].replace("%2F", "/") for name, headers in service.headers.items()}
    assert {name: route.partition("=")[0] for name, route in routes.items()} == {
        "Commit": "database",
        "BatchGetDocuments": "database",
        "RunQuery": "parent",
    }
    assert {headers["google-cloud-resource-prefix"] for headers in service.headers.values()} == {DATABASE}


def test_a_commit_is_sent_once_and_a_read_twice(service: Firestore, store: FirestoreStore) -> None:
    service.refusal = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(Unavailable):
        store.commit([Put("documents/a", {})])
    with pytest.raises(Unavailable):
        store.read("documents/a")
    with pytest.raises(Unavailable):
        store.query(Query("documents", limit=1))
    with pytest.raises(Unavailable):
        store.count(Query("documents", limit=1))
    assert service.requests == {"Commit": 1, "BatchGetDocuments": 2, "RunQuery": 2, "RunAggregationQuery": 2}


def test_a_refusal_is_the_conflict_that_a_guard_could_have_caused(service: Firestore, store: FirestoreStore) -> None:
    service.refusal = grpc.StatusCode.ALREADY_EXISTS
    with pytest.raises(AlreadyExists):
        store.commit([Put("documents/a", {}, Must.NOT_EXIST)])


def test_the_rest_of_an_answer_is_cancelled_if_reading_stops_early(service: Firestore) -> None:
    calls = FirestoreCalls(DATABASE, service.address)
    service.answers = (_found("a"),)
    service.then = _wait_until_cancelled
    kept: list[Any] = []  # gRPC cancels a stream that nothing refers to
    calls.batch_get(types.BatchGetDocumentsRequest.pb()(database=DATABASE), kept.append)
    assert service.ended.wait(1)
    calls.close()


@needs_sockets
@pytest.mark.parametrize("stops", [0, 1, 50])
def test_a_closed_store_has_no_connection_even_if_reads_stopped_early(service: Firestore, stops: int) -> None:
    store = FirestoreStore("p", "(default)", service.address)
    service.answers = (_found("a"), _found("b"))
    for _ in range(stops):
        store.read_some((), ["documents/a", "documents/b"], 1)
    store.read("documents/a", "documents/b")
    assert service.connections == 1
    store.close()
    assert _waited(lambda: not service.connections)


@needs_sockets
def test_a_closed_store_has_no_connection_even_if_an_answer_was_unreadable(service: Firestore) -> None:
    store = FirestoreStore("p", "(default)", service.address)
    service.answers = (_found("a"), b"\xff")
    with pytest.raises(Unavailable, match="INTERNAL"):
        store.read("documents/a", "documents/b")
    store.close()
    assert _waited(lambda: not service.connections)


@needs_sockets
def test_a_closed_store_has_no_connection_even_if_its_first_read_came_before_its_server_started() -> None:
    port = child_processes.free_port()
    service = None

    def answers(store: FirestoreStore) -> bool:
        try:
            return bool(store.read("documents/a"))
        except Unavailable:
            return False

    try:
        with closing(FirestoreStore("p", "(default)", f"127.0.0.1:{port}")) as store:
            assert not answers(store)
            service = Firestore(port)
            service.answers = (_found("a"),)
            assert _waited(partial(answers, store))
            assert service.connections == 1
        assert _waited(lambda: not service.connections)
    finally:
        if service:
            service.stop()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise `KeyboardInterrupt`. A shell makes tests ignore it that it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@needs_sockets
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("answers", [0, 1])
def test_an_interrupted_read_raises_at_once_and_its_closed_store_has_no_connection(
    service: Firestore, answers: int
) -> None:
    interrupt = Timer(0.2, signal.pthread_kill, (main_thread().ident, signal.SIGINT))

    def interrupt_and_wait(context: grpc.ServicerContext) -> None:
        interrupt.start()
        _wait_until_cancelled(context, seconds=2 * READ_SECONDS)

    service.answers = (_found("a"),) * answers
    service.then = interrupt_and_wait
    with closing(FirestoreStore("p", "(default)", service.address)) as store:
        began = monotonic()
        try:
            with pytest.raises(KeyboardInterrupt):
                store.read("documents/a", "documents/b")
        finally:
            interrupt.cancel()
        assert monotonic() - began < READ_SECONDS / 2
    assert service.requests == {"BatchGetDocuments": 1}
    assert _waited(lambda: not service.connections)


def test_an_answer_that_breaks_off_is_not_returned(service: Firestore, store: FirestoreStore) -> None:
    service.answers = (_matching("a"),)
    service.then = lambda context: context.abort(grpc.StatusCode.UNAVAILABLE, "no more")
    with pytest.raises(Unavailable):
        store.query(Query("documents", limit=2))
    assert service.requests == {"RunQuery": 2}


@pytest.mark.parametrize("answers", [0, 1])
def test_a_server_that_stalls_is_asked_twice(
    service: Firestore, store: FirestoreStore, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    monkeypatch.setattr(adapters_store, "READ_SECONDS", 0.2)
    monkeypatch.setattr(adapters_store, "QUERY_SECONDS", 0.2)
    service.answers = (_found("a"),) * answers
    service.then = _wait_until_cancelled
    with pytest.raises(Unavailable, match="DEADLINE_EXCEEDED"):
        store.read("documents/a", "documents/b")
    service.answers = (_matching("a"),) * answers
    with pytest.raises(Unavailable, match="DEADLINE_EXCEEDED"):
        store.query(Query("documents", limit=2))
    assert service.requests == {"BatchGetDocuments": 2, "RunQuery": 2}


def test_the_emulators_channel_has_our_options(monkeypatch: pytest.MonkeyPatch) -> None:
    channels: list[Any] = []
    create = grpc.insecure_channel

    def noted(target: str, options: Any) -> grpc.Channel:
        channels.append((target, set(options)))
        return create(target, options)

    monkeypatch.setattr(grpc, "insecure_channel", noted)
    FirestoreStore("p", "(default)", "127.0.0.1:1").close()
    assert channels == [("127.0.0.1:1", set(CHANNEL_OPTIONS))]


def test_in_the_cloud_the_channels_are_those_that_the_generated_clients_open(monkeypatch: pytest.MonkeyPatch) -> None:
    new_credentials: Any = AnonymousCredentials  # it has no type hints
    credentials = new_credentials()
    monkeypatch.setattr("google.auth.default", lambda **_: (credentials, None))
    opened: list[tuple[str, object, object]] = []
    create = grpc.secure_channel

    def noted(target: str, channel_credentials: Any, compression: Any = None, *, options: Any) -> grpc.Channel:
        opened.append((target, compression, tuple(options)))
        return create(target, channel_credentials, options, compression)

    monkeypatch.setattr(grpc, "secure_channel", noted)
    FirestoreStore("p", "(default)", credentials=credentials).close()
    TaskCreator("")
    ours = opened.copy()
    opened.clear()
    clients: list[Any] = [FirestoreClient, CloudTasksClient]
    for client in clients:
        client(credentials=credentials)
    assert ours == opened
    assert [target for target, *_ in ours] == ["firestore.googleapis.com:443", "cloudtasks.googleapis.com:443"]


def _found(id_: str) -> bytes:
    """Return the response to a read that contains a document."""
    answer = types.BatchGetDocumentsResponse.pb()()
    answer.found.name = f"{DATABASE}/documents/documents/{id_}"
    answer.found.fields["x"].string_value = "x"
    answer.found.create_time.seconds = answer.found.update_time.seconds = answer.read_time.seconds = 1
    return bytes(answer.SerializeToString())


def _matching(id_: str) -> bytes:
    """Return the response to a query that contains a document."""
    answer = types.RunQueryResponse.pb()()
    answer.document.name = f"{DATABASE}/documents/documents/{id_}"
    answer.document.create_time.seconds = answer.document.update_time.seconds = answer.read_time.seconds = 1
    return bytes(answer.SerializeToString())


def _wait_until_cancelled(context: grpc.ServicerContext, seconds: float = 3) -> None:
    """Wait until the client has cancelled its call, for at most `seconds`."""
    _waited(lambda: not context.is_active(), seconds)


def _waited(condition: Callable[[], bool], seconds: float = 3) -> bool:
    """Wait until the condition holds; return whether it does."""
    end = monotonic() + seconds
    while not condition() and monotonic() < end:
        sleep(0.01)
    return condition()
