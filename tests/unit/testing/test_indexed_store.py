"""A query without its index is refused before it is sent, and the kit's own queries all have theirs."""

from datetime import UTC, datetime
from unittest import mock

import pytest

from signalbox.adapters.firestore.messages import refused_query
from signalbox.catalogue import reading
from signalbox.core.ports import Put, Query, Snapshot
from signalbox.core.problems import BadQuery, NeedsIndex, Unavailable
from signalbox.core.records import composite_indexes
from signalbox.core.records.queries import ID, Condition, Order
from signalbox.flows.storage.listings import INDEXES
from signalbox.testing.indexed_store import IndexedStore
from signalbox.testing.memory_store import MemoryStore
from tests.simulation.__main__ import WORLDS
from tests.simulation.half_commits import HalfCommitStore

QUERY = Query("documents", (Condition(("a", "zip"), "==", 1),), (Order(("n",), descending=True),))
ENTRY = 'documents-a-zip-n: {collection: documents, fields: ["a.zip", "-n"]}'


def store(*declared: composite_indexes.Index) -> IndexedStore:
    inner = MemoryStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    inner.commit([Put(f"documents/{n}", {"a": {"zip": 1}, "n": n}) for n in (1, 2)])
    return IndexedStore(inner, declared)


def test_a_query_without_its_index_is_refused_with_the_entry_to_add() -> None:
    for ask in (store().query, store().count):
        with pytest.raises(NeedsIndex) as refusal:
            ask(QUERY)
        assert (refusal.value.status, refusal.value.slug()) == (400, "needs-index")
        assert refusal.value.detail == f"Add to `indexes` of the catalogue and deploy: {ENTRY}"


def test_a_query_with_its_index_is_answered() -> None:
    declared = store(composite_indexes.parse("documents", ("a.zip", "-n")))
    assert [each.id for each in declared.query(QUERY)] == ["2", "1"]
    assert declared.count(QUERY) == 2


def test_a_query_that_is_none_is_a_bad_query_before_it_needs_an_index() -> None:
    with pytest.raises(BadQuery) as refusal:
        store().query(Query("documents", QUERY.where, (*QUERY.order_by, *QUERY.order_by)))
    assert refusal.value.slug() == "bad-query"


def test_the_clouds_own_refusal_names_the_same_entry() -> None:
    answer = refused_query(QUERY, "The query requires an index. You can create it here: https://…")
    assert isinstance(answer, NeedsIndex)
    assert ENTRY in answer.detail


def test_an_index_that_is_still_being_built_is_unavailable() -> None:
    building = "The query requires an index. That index is currently building and cannot be used yet."
    assert isinstance(refused_query(QUERY, building), Unavailable)


def test_a_missing_index_that_no_rule_explains_keeps_firestores_message() -> None:
    answer = refused_query(Query("documents", (Condition(("a",), "==", 1),)), "exempted")
    assert isinstance(answer, BadQuery)
    assert "exempted" in answer.detail


REFUSED = {
    "a field of a collection that has few indexes": Query("batches", (Condition(("size",), "==", 1),)),
    "an order by such a field": Query("flows/a/log", (), (Order(("at",)),)),
    "a member of a list that is indexed as a whole": Query("batches", (Condition(("state",), "array_contains", 1),)),
    "a field of the kit in a document": Query("documents", (Condition(("_signalbox", "author"), "==", "x"),)),
    "a list of the kit as a whole": Query("documents", (Condition(("_signalbox", "link_keys"), "==", ["x"]),)),
    "a time of a resource": Query("documents", (), (Order(("_resource", "created")),)),
    "a group by a field that is indexed for each collection": Query(
        "mailbox", (Condition(("since",), ">", 1),), (Order(("since",)),), group=True
    ),
}
ANSWERED = {
    "a field that is searched": Query("batches", (Condition(("state",), "==", "open"),)),
    "a field in a map that is searched": Query("counted", (), (Order(("values", "a")),)),
    "any field of a document": Query("documents", (Condition(("anything",), ">", 1),)),
    "a document's links": Query("documents", (Condition(("_signalbox", "link_keys"), "array_contains", "x"),)),
    "ids": Query("releases", (Condition(ID, ">", "a"),)),
    "all of a collection": Query("outbox"),
    "all of a group": Query("outbox", group=True),
    "a group by a field that is indexed for it": Query("mailbox", (Condition(("swept_by",), ">", 1),), group=True),
    "a composite index of a field that has no other": Query(
        "flows", (Condition(("flow",), "==", "order"),), (Order(("created_at",), descending=True),)
    ),
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED)
def test_a_query_of_a_field_that_the_cloud_does_not_index_is_refused(query: Query) -> None:
    for ask in (store().query, store().count):
        with pytest.raises(BadQuery, match="Firestore keeps no index of this field"):
            ask(query)


@pytest.mark.parametrize("query", ANSWERED.values(), ids=ANSWERED)
def test_a_query_that_the_clouds_indexes_serve_is_answered(query: Query) -> None:
    assert store(*INDEXES).count(query) == 0


ASKED_BY_THE_KIT = {"documents", "outbox", "semaphores", "waiters", "releases", "batches", "counters", "units"}


@pytest.fixture(scope="module")
def asked() -> list[Query]:
    """The queries that the kit makes in some worlds of each kind."""
    queries: list[Query] = []

    class Listening(HalfCommitStore):
        def query(self, query: Query) -> tuple[Snapshot, ...]:
            queries.append(query)
            return super().query(query)

        def count(self, query: Query) -> int:
            queries.append(query)
            return super().count(query)

    with mock.patch("tests.simulation.world.HalfCommitStore", Listening):
        for run in WORLDS.values():
            for seed in range(6):
                run(seed)
    return queries


@pytest.mark.slow
def test_the_kits_own_queries_are_served_by_the_indexes_of_the_cloud(asked: list[Query]) -> None:
    assert {query.collection.rpartition("/")[2] for query in asked} >= ASKED_BY_THE_KIT
    indexed = store(*(index.parsed for index in reading.load().indexes.values()), *INDEXES)
    for query in asked:
        indexed.count(query)
