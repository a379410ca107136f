"""Documents on Google's emulator: any JSON is returned unchanged, and concurrent merges lose no field."""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.core.effects import Effect, RecordedSpan
from signalbox.core.json_values import canonical
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem, Unavailable
from signalbox.documents.model.stamped_contents import StoredDocument, path_of
from signalbox.documents.problems import PreconditionFailed
from signalbox.documents.requests import BulkPutRequest, PatchRequest, Precondition, PutRequest, Tags
from signalbox.documents.service import bulk, patches, single_documents
from signalbox.links.service import refreshes
from signalbox.transforms import model
from tests.unit.documents.test_any_json import linkless, objects

log = logging.getLogger(__name__)

THREADS = 8
MERGES = 5


class Aside:
    """A queue, a clock and a log for real threads: nothing is enqueued, and pauses are real."""

    def create(self, effects: list[Effect]) -> Collection[str]:
        raise AssertionError(f"unexpected effects: {effects}")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def jitter(self) -> float:
        return random.random()

    def steady(self) -> float:
        return time.monotonic()

    def note(self, **seconds: float) -> None: ...

    def span(self, recorded: RecordedSpan) -> None: ...

    def info(self, message: str, /, **values: object) -> None:
        log.info("%s %s", message, values)

    error = info


@pytest.fixture
def ports(firestore_emulator: str) -> Iterator[Ports]:
    store = FirestoreStore(f"documents-{uuid.uuid4().hex[:8]}", "(default)", firestore_emulator)
    aside = Aside()
    yield Ports(store, aside, aside, aside)  # type: ignore[arg-type]  # only the store is used
    store.close()


def until_it_lands(call: Callable[[], object]) -> None:
    """Retry as a caller does, on transient errors."""
    while True:
        try:
            call()
        except Unavailable:
            time.sleep(0.05 * random.random())
        else:
            return


def at_once(*works: Callable[[], object]) -> None:
    """Run each in a separate thread; all start together."""
    gate = threading.Barrier(len(works))

    def begin(work: Callable[[], object]) -> None:
        gate.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(begin, work) for work in works]:
            done.result()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent=objects)
def test_any_object_comes_back_equal_or_is_refused_with_a_reason(ports: Ports, sent: dict[str, Any]) -> None:
    """On Firestore, one by one and in a call of many."""
    [loaded] = bulk.put_each(ports, BulkPutRequest.from_request([sent | {"key": "b"}]))
    if isinstance(loaded.outcome, StoredDocument):
        found = single_documents.get(ports, "b")
        document = found.document
        assert (canonical(document), found.etag) == (canonical(loaded.outcome.document), loaded.outcome.etag)
        if linkless({name: value for name, value in sent.items() if name != "key"}):
            assert canonical(document) == canonical({**sent, "key": "b"})
    else:
        assert isinstance(loaded.outcome, Problem)
        assert loaded.outcome.detail


def test_merges_of_eight_threads_into_one_document_are_all_there(ports: Ports) -> None:
    """Whoever loses the guard merges into what the winner left."""

    def merge(thread: int) -> None:
        for n in range(MERGES):
            patch = {f"t{thread}": {f"n{n}": n}}
            until_it_lands(lambda patch=patch: patches.patch(ports, PatchRequest.from_request("hot", patch)))  # type: ignore[misc]  # mypy infers no type for a lambda with a default

    at_once(*(lambda thread=thread: merge(thread) for thread in range(THREADS)))
    expected = {f"t{thread}": {f"n{n}": n for n in range(MERGES)} for thread in range(THREADS)}
    assert single_documents.get(ports, "hot").document == {"key": "hot", **expected}


def test_a_merge_that_races_refreshes_loses_no_field_and_shows_the_newest_copy(ports: Ports) -> None:
    single_documents.put(ports, PutRequest.from_request("t", {"n": 0}))
    single_documents.put(ports, PutRequest.from_request("p", {"t": {"key": "t"}}))

    def refresh() -> None:
        embedding, *around = ports.store.read(path_of("p"), path_of("t"), model.transform_path("t"))
        refreshes.refresh(ports, "t", [embedding], around)

    def merge() -> None:
        for n in range(20):
            until_it_lands(lambda n=n: patches.patch(ports, PatchRequest.from_request("p", {f"m{n}": n})))  # type: ignore[misc]  # mypy infers no type for a lambda with a default

    def change_and_refresh() -> None:
        for n in range(1, 21):
            single_documents.put(ports, PutRequest.from_request("t", {"n": n}))
            until_it_lands(refresh)

    at_once(merge, change_and_refresh)
    refresh()
    merged = {f"m{n}": n for n in range(20)}
    assert single_documents.get(ports, "p").document == {"key": "p", "t": {"key": "t", "n": 20}, **merged}


def test_one_of_eight_threads_that_put_under_the_same_condition_succeeds(ports: Ports) -> None:
    tag = single_documents.put(ports, PutRequest.from_request("a", {"n": 0})).etag
    won: list[int] = []

    def put(thread: int) -> None:
        condition = Precondition(if_match=Tags(frozenset([tag])))
        try:
            single_documents.put(ports, PutRequest.from_request("a", {"n": thread}, condition))
        except PreconditionFailed:
            return
        won.append(thread)

    at_once(*(lambda thread=thread: put(thread) for thread in range(1, THREADS + 1)))
    assert len(won) == 1
    assert single_documents.get(ports, "a").document == {"key": "a", "n": won[0]}


def test_500_documents_of_eight_megabytes_are_all_stored_and_resolve_their_links(ports: Ports) -> None:
    bodies = [{"key": f"p{n}", "t": {"key": "town"}, "text": "x" * 15_000} for n in range(499)]
    loaded = bulk.put_each(ports, BulkPutRequest.from_request([*bodies, {"key": "town", "name": "stuffville"}]))
    assert {type(each.outcome) for each in loaded} == {StoredDocument}
    town = {"key": "town", "name": "stuffville"}
    assert single_documents.get(ports, "p498").document == {"key": "p498", "t": town, "text": "x" * 15_000}
