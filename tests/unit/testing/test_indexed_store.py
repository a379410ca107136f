"""A query without its index is refused before it is sent, and the kit's own queries all have theirs."""

import json
import re
from datetime import UTC, datetime
from unittest import mock

import pytest

from signalbox.adapters.firestore.messages import refused_query
from signalbox.catalogue import reading
from signalbox.core.ports import Put, Query, Snapshot
from signalbox.core.problems import BadQuery, NeedsIndex, Unavailable
from signalbox.core.query_checks import full_order
from signalbox.core.records import composite_indexes
from signalbox.core.records.queries import Condition, Order
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
        assert refusal.value.detail == f"Add to `indexes` of infra/catalogue.yaml and deploy: {ENTRY}"


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
def test_the_kits_own_queries_need_no_index_that_the_catalogue_does_not_declare(asked: list[Query]) -> None:
    declared = [index.parsed for index in reading.load().indexes.values()]
    assert {query.collection.rpartition("/")[2] for query in asked} >= ASKED_BY_THE_KIT
    lacking = {composite_indexes.lacking(each.collection, each.where, full_order(each), declared) for each in asked}
    assert lacking == {None}


SEARCHED = re.compile(r"  searched = \{(.*?)\n  \}", re.DOTALL)
SEARCHED_FIELDS = re.compile(r"^ +(\w+) += \[(.*?)\]$", re.MULTILINE)
SEARCHED_EVERYWHERE = re.compile(r'\{ collection = "(\w+)", field = "(\w+)" \}')


def searched() -> dict[str, set[str]]:
    """Read the fields with an index in the cloud, of the collections whose other fields have none."""
    text = (reading.CATALOGUE.parent / "indexes.tf").read_text("utf-8")
    [block] = SEARCHED.findall(text)
    found = {collection: set(json.loads(f"[{names}]")) for collection, names in SEARCHED_FIELDS.findall(block)}
    for collection, field in SEARCHED_EVERYWHERE.findall(text):
        found[collection] = found.get(collection, set()) | {field}
    return found


@pytest.mark.slow
def test_the_kits_own_queries_name_no_field_that_the_cloud_keeps_no_index_of(asked: list[Query]) -> None:
    fields = [(each, [*(one.field for one in each.where), *(one.field for one in each.order_by)]) for each in asked]
    named = {(each.collection.rpartition("/")[2], field[0]) for each, names in fields for field in names}
    kept = searched()
    assert kept["batches"] == {"due_at", "parent_run", "state"}
    assert {each for each in named if each[0] in kept and each[1] not in kept[each[0]] | {"__name__"}} == set()
