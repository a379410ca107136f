"""Events of large documents may not arrive: a write of one commits the task that does their work."""

from typing import Any

import pytest
from google.cloud.firestore_v1 import _helpers
from google.cloud.firestore_v1.types import Document

from signalbox.documents.limits import LIMITS
from signalbox.documents.model import sizes
from signalbox.documents.requests import BulkPutRequest, PatchRequest, Precondition, Tags
from signalbox.documents.service import patches, single_documents, transactions
from signalbox.documents.service.bulk import put_each
from signalbox.testing.replaced_limits import replaced
from tests.unit.cost_table import row_cost
from tests.unit.links.embedding_world import embedding_world, works
from tests.unit.operations_platform import OperationsPlatform

LONG = "x" * LIMITS.event_record_bytes_max
WRITTEN = {"written": "t"}
ANY = Precondition(if_match=Tags(every=True))


@pytest.fixture
def world() -> OperationsPlatform:
    return embedding_world()


def settle_without_events(world: OperationsPlatform) -> None:
    """Run all tasks, and let no event arrive."""
    while world.tasks:
        world.events.clear()
        world.work()
    world.events.clear()


def test_a_put_of_a_large_document_is_followed_without_its_event(world: OperationsPlatform) -> None:
    world.put("t", n=LONG)
    assert works(world) == [WRITTEN]
    settle_without_events(world)
    assert world.shown("p")["a"]["n"] == LONG


def test_a_small_document_that_takes_the_place_of_a_large_one_is_followed(world: OperationsPlatform) -> None:
    world.put("t", n=LONG)
    settle_without_events(world)
    world.put("t", n=2)
    settle_without_events(world)
    assert world.shown("p")["a"]["n"] == 2


def test_a_merge_into_a_large_document_is_followed(world: OperationsPlatform) -> None:
    world.put("t", n=LONG)
    settle_without_events(world)
    patches.patch(world.ports, PatchRequest.from_request("t", {"m": 1}))
    settle_without_events(world)
    assert world.shown("p")["a"]["m"] == 1


@pytest.mark.parametrize("first", [LONG, 1])
def test_a_bulk_put_knows_large_documents_by_their_metadata(world: OperationsPlatform, first: Any) -> None:
    put_each(world.ports, BulkPutRequest.from_request([{"key": "t", "n": first}, {"key": "u", "n": 1}]))
    assert works(world) == ([WRITTEN] if first == LONG else [])
    world.settle()
    put_each(world.ports, BulkPutRequest.from_request([{"key": "t", "n": 2}, {"key": "u", "n": 2}]))
    assert works(world) == ([WRITTEN] if first == LONG else [])
    world.settle()
    assert (world.shown("p")["a"]["n"], world.shown("u")["n"]) == (2, 2)


def test_a_bulk_put_knows_what_another_client_wrote_large_if_it_read_it_whole(world: OperationsPlatform) -> None:
    world.write_past("t", {"n": LONG})
    world.events.clear()
    put_each(world.ports, BulkPutRequest.from_request([{"key": "t"}, {"key": "q", "a": {"key": "t"}}]))
    assert WRITTEN in works(world)


def test_a_conditional_deletion_of_a_large_document_is_followed(world: OperationsPlatform) -> None:
    world.put("t", n=LONG)
    settle_without_events(world)
    single_documents.delete(world.ports, "t", ANY)
    settle_without_events(world)
    assert world.shown("p")["a"] == {"key": "t", "link_missing": True}


def test_a_refresh_that_makes_a_document_large_is_followed_by_those_that_embed_it(world: OperationsPlatform) -> None:
    world.put("o", a={"key": "p"})
    world.settle()
    world.put("t", n=LONG)
    settle_without_events(world)
    assert world.shown("o")["a"]["a"]["n"] == LONG


def test_a_normalization_of_a_large_document_is_followed(world: OperationsPlatform) -> None:
    world.write_past("t", {"n": LONG})
    world.deliver()
    assert WRITTEN in works(world)


@pytest.mark.parametrize("content", [{"n": LONG}, None])
def test_a_transaction_commits_what_follows_its_large_documents(world: OperationsPlatform, content: Any) -> None:
    world.put("t", n=LONG)
    settle_without_events(world)

    def code(transaction: transactions.Transaction) -> None:
        transaction.get("t")
        transaction.put("t", {"n": 3}) if content else transaction.delete("t")

    transactions.run_transaction(world.ports, code, kind=transactions.Transaction)
    assert works(world) == [WRITTEN]


def test_the_task_may_run_at_the_same_time_as_the_event_and_again(world: OperationsPlatform) -> None:
    world.put("t", n=LONG)
    [task] = world.tasks
    world.settle()
    before = world.record("documents/p")
    world.tasks = [task]
    world.settle()
    assert world.record("documents/p") == before


def test_only_a_large_document_costs_more() -> None:
    world = OperationsPlatform()
    small = "x" * (LIMITS.event_record_bytes_max - 1_000)
    assert world.cost_of(lambda: world.put("t", n=small)) == row_cost("documents", "put")
    assert world.cost_of(lambda: single_documents.delete(world.ports, "t")) == row_cost("documents", "delete")
    large = row_cost("documents", "put", "large")
    assert world.cost_of(lambda: world.put("t", n=LONG)) == large
    assert world.cost_of(lambda: world.put("t", n=1)) == large
    assert world.cost_of(lambda: world.put("t", n=2)) == row_cost("documents", "put")


VALUES: list[Any] = [True, None, 0, -1, 1.5, "", "a", "é" * 40, [], {}, [True] * 40, [{"a": True}] * 40]


@pytest.mark.parametrize("value", [*VALUES, {str(at): value for at, value in enumerate(VALUES)}])
def test_no_record_takes_more_in_an_event_than_is_reckoned(value: Any) -> None:
    record = {"n": [{"in": value}] * 200}
    spelled_out = len(Document.serialize(Document(fields=_helpers.encode_dict(record))))
    with replaced(event_record_bytes_max=spelled_out - 1):
        assert sizes.exceeds_events(record)
