"""Failures of the server: it is down, slow, or answers with an error."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import closing, contextmanager
from typing import Any

import grpc
import pytest

from signalbox.adapters.firestore import store as adapters_store
from signalbox.adapters.firestore.messages import of_read, of_write
from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.core.ports import AlreadyExists, Change, Must, Put, Query, RecordMissing, Stale
from signalbox.core.problems import BadQuery, BadValue, TooLarge, Unavailable
from signalbox.core.records.queries import Condition

CALLS: dict[str, Callable[[FirestoreStore], object]] = {
    "read": lambda store: store.read("d/a"),
    "query": lambda store: store.query(Query("d")),
    "count": lambda store: store.count(Query("d")),
    "commit": lambda store: store.commit([Put("d/a", {}, guard=Must.NOT_EXIST)]),
    "write each": lambda store: _raise(store.write_each([Put("d/a", {}), Put("d/b", {})])),
}
SERVICE = "google.firestore.v1.Firestore"


def _raise(outcomes: Any) -> None:
    assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
    raise outcomes[1]


@contextmanager
def answering(answer: Callable[[Any], None]) -> Iterator[tuple[FirestoreStore, list[str]]]:
    """Serve calls by `answer`, which aborts the one it is given. Gives a store on it, and the calls so far."""
    calls: list[str] = []

    class Refusing(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
        def service(self, details: Any) -> Any:
            calls.append(details.method.rpartition("/")[2])

            def handle(_request: bytes, context: Any) -> bytes:
                answer(context)
                return b""

            return grpc.unary_unary_rpc_method_handler(handle)

    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with closing(FirestoreStore("demo-none", "(default)", f"127.0.0.1:{port}")) as store:
        yield store, calls
    server.stop(None).wait()


def refusing(code: grpc.StatusCode, message: str = "said so") -> Callable[[Any], None]:
    def answer(context: Any) -> None:
        context.abort(code, message)

    return answer


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_server_that_is_down_is_unavailable_within_seconds(call: Callable[[FirestoreStore], object]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: no process can take the port, and connecting fails
        store = FirestoreStore("demo-none", "(default)", f"127.0.0.1:{unused.getsockname()[1]}")
        begun = time.monotonic()
        with closing(store), pytest.raises(Unavailable):
            call(store)
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_server_that_never_answers_is_unavailable(
    call: Callable[[FirestoreStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in ("READ_SECONDS", "QUERY_SECONDS", "COMMIT_SECONDS"):
        monkeypatch.setattr(adapters_store, seconds, 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        store = FirestoreStore("demo-none", "(default)", f"127.0.0.1:{silent.getsockname()[1]}")
        with closing(store), pytest.raises(Unavailable):
            call(store)


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
    ],
)
def test_a_failed_commit_is_sent_once_and_a_failed_read_twice(code: grpc.StatusCode) -> None:
    with answering(refusing(code)) as (store, calls):
        for call in CALLS.values():
            with pytest.raises(Unavailable) as failure:
                call(store)
    assert code.name in str(failure.value)
    assert calls == [
        *["BatchGetDocuments"] * 2,
        *["RunQuery"] * 2,
        *["RunAggregationQuery"] * 2,
        "Commit",
        "BatchWrite",
    ]


def test_a_query_without_its_index_is_a_bad_query() -> None:
    query = Query("d", where=(Condition(("a",), "==", 1),))
    with answering(refusing(grpc.StatusCode.FAILED_PRECONDITION, "The query requires an index.")) as (store, calls):
        for send in (store.query, store.count):
            with pytest.raises(BadQuery, match="index"):
                send(query)
    assert calls == ["RunQuery", "RunAggregationQuery"]


def test_a_query_that_the_server_finds_wrong_is_a_bad_query() -> None:
    with (
        answering(refusing(grpc.StatusCode.INVALID_ARGUMENT, "no such operator")) as (store, _),
        pytest.raises(BadQuery, match="no such operator"),
    ):
        store.query(Query("d"))


@pytest.mark.parametrize(
    ("code", "message", "guard", "problem"),
    [
        (grpc.StatusCode.ALREADY_EXISTS, "there", Must.NOT_EXIST, AlreadyExists),
        (grpc.StatusCode.NOT_FOUND, "not there", Must.EXIST, RecordMissing),
        (grpc.StatusCode.INVALID_ARGUMENT, "a document must be smaller than that", None, BadValue),
        (grpc.StatusCode.INVALID_ARGUMENT, "its size (1,049,131 bytes) exceeds 1,048,576 bytes", None, TooLarge),
    ],
)
def test_a_definite_error_of_a_commit_is_translated(
    code: grpc.StatusCode, message: str, guard: Must | None, problem: type[Exception]
) -> None:
    with answering(refusing(code, message)) as (store, _), pytest.raises(problem) as refusal:
        store.commit([Put("d/a", {}, guard=guard)])
    assert refusal.value.__cause__ is not None


@pytest.mark.parametrize("code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED])
def test_an_error_of_the_deployment_is_raised_as_it_is(code: grpc.StatusCode) -> None:
    assert (of_read(code, ""), of_write(code, "", [Must.EXIST])) == (None, None)


def test_a_missing_database_is_not_mistaken_for_a_missing_record() -> None:
    with answering(refusing(grpc.StatusCode.NOT_FOUND, "no database")) as (store, _):
        with pytest.raises(Exception, match="no database") as failure:
            store.commit([Put("d/a", {})])
        assert not isinstance(failure.value, RecordMissing | Unavailable)


def test_only_a_guard_by_update_time_can_be_stale(firestore: FirestoreStore) -> None:
    read = firestore.commit([Put("d/a", {"n": 1})]).commit_time
    firestore.commit([Put("d/a", {"n": 2})])
    with pytest.raises(Stale):
        firestore.commit([Change("d/a", {("n",): 3}, guard=read)])
    assert of_write(grpc.StatusCode.FAILED_PRECONDITION, "", [Must.EXIST, None]) is None
