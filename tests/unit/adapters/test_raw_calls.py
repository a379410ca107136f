"""What Google's services receive of calls that pass the generated clients' methods by."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.types import firestore as types
from google.cloud.tasks_v2 import CloudTasksClient

from signalbox.adapters.cloud_tasks import TaskCreator
from signalbox.adapters.firestore import store as adapters_store
from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.core.ports import AlreadyExists, Must, Put, Query
from signalbox.core.problems import Unavailable

DATABASE = "projects/p/databases/(default)"


class Firestore:
    """A server of Firestore's calls: it notes their headers, and answers nothing, or a refusal."""

    def __init__(self) -> None:
        self.headers: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, int] = {}
        self.refusal: grpc.StatusCode | None = None
        self._pool = ThreadPoolExecutor(2)
        self._server = grpc.server(self._pool)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(adapters_store.SERVICE, self._methods()),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _methods(self) -> dict[str, Any]:
        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        return {
            "Commit": one(self._commit, None, lambda answer: answer.SerializeToString()),
            "BatchGetDocuments": many(self._none("BatchGetDocuments"), None, None),
            "RunQuery": many(self._none("RunQuery"), None, None),
        }

    def _note(self, name: str, context: grpc.ServicerContext) -> None:
        self.headers[name] = dict(context.invocation_metadata())
        self.requests[name] = self.requests.get(name, 0) + 1
        if self.refusal is not None:
            context.abort(self.refusal, "no")

    def _commit(self, _: bytes, context: grpc.ServicerContext) -> Any:
        self._note("Commit", context)
        answer = types.CommitResponse.pb()()
        answer.write_results.add().update_time.seconds = 1
        return answer

    def _none(self, name: str) -> Any:
        def answer(_: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            self._note(name, context)
            yield from ()

        return answer

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
    assert service.requests == {"Commit": 1, "BatchGetDocuments": 2}


def test_a_refusal_is_the_conflict_that_a_guard_could_have_caused(service: Firestore, store: FirestoreStore) -> None:
    service.refusal = grpc.StatusCode.ALREADY_EXISTS
    with pytest.raises(AlreadyExists):
        store.commit([Put("documents/a", {}, Must.NOT_EXIST)])


def test_in_the_cloud_the_generated_clients_channels_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody: Any = AnonymousCredentials
    monkeypatch.setattr(adapters_store, "FirestoreClient", lambda: FirestoreClient(credentials=nobody()))
    monkeypatch.setattr("google.cloud.tasks_v2.CloudTasksClient", lambda: CloudTasksClient(credentials=nobody()))
    FirestoreStore("p", "(default)").close()
    TaskCreator("")
