"""Documents that only the kit writes: writes have no events, and each commits the tasks that its event would cause.

Events are never delivered here. The costs are rows of docs/costs.yaml.
"""

from collections.abc import Iterator

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core import outbox
from signalbox.core.kit_names import KIT
from signalbox.core.problems import Unavailable
from signalbox.documents.machine.reactions import WRITERS, Reaction, reaction_tasks
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import WANTED, path_of
from signalbox.documents.requests import BulkPutRequest, PatchRequest
from signalbox.documents.service import bulk, patches, single_documents
from signalbox.documents.service.transactions import Transaction, run_transaction
from signalbox.history.model import HISTORY, HistoryRule, collection_of
from signalbox.links.service import verifications
from tests.unit.cost_table import FIGURES, is_within, row_cost
from tests.unit.operations_platform import OperationsPlatform


@pytest.fixture
def world() -> Iterator[OperationsPlatform]:
    """A world with three documents that no document embeds."""
    with WRITERS.replaced(KIT):
        world = OperationsPlatform()
        for key in ("t", "u", "v"):
            world.put(key, n=1)
        assert (world.tasks, world.ids(outbox.COLLECTION)) == ([], [])
        yield world


def work_off(world: OperationsPlatform) -> int:
    """Deliver all tasks, and no event. Return how many were delivered."""
    delivered = 0
    while world.tasks:
        world.work()
        delivered += 1
    world.events.clear()
    return delivered


def put(world: OperationsPlatform, key: str, **content: object) -> Cost:
    return world.cost_of(lambda: world.put(key, **content))


# --- what is started ---


def test_a_put_with_ten_copies_starts_two_functions(world: OperationsPlatform) -> None:
    for number in range(10):
        world.put(f"p{number}", a={"key": "t"})
    work_off(world)
    requests = 1
    assert put(world, "t", n=2) == row_cost("documents_of_the_kit", "put", "linked")
    requests += work_off(world)
    assert requests == 2
    assert [world.shown(f"p{number}")["a"]["n"] for number in range(10)] == [2] * 10


def test_a_put_of_a_document_that_no_document_embeds_starts_nothing_else(world: OperationsPlatform) -> None:
    assert put(world, "t", n=2) == row_cost("documents_of_the_kit", "put")
    assert put(world, "new", n=2) == row_cost("documents_of_the_kit", "put", "new")
    assert world.tasks == []


def test_a_put_with_copies_compares_them_in_a_task(world: OperationsPlatform) -> None:
    copies = [{"key": key} for key in ("t", "u", "v")]
    world.put("p", n=1)
    assert put(world, "p", l=copies) == Cost(round_trips=4, reads=1 + 3 + 1, writes=2, deletes=1, tasks=1)
    assert world.work() == Cost(round_trips=3, reads=1 + 3 + 1, writes=3)  # marks the targets
    world.put("t", n=2)
    world.put("u", n=2)
    world.tasks.clear()
    put_again = put(world, "p", l=copies)
    assert put_again == Cost(round_trips=4, reads=1 + 3 + 1, writes=2, deletes=1, tasks=1)
    assert world.work() == row_cost("documents_of_the_kit", "compare", k=2, f=1)
    assert put(world, "p", l=copies, n=2) == Cost(round_trips=2, reads=1 + 3 + 1, writes=1)


def test_a_deletion_reads_once_first(world: OperationsPlatform) -> None:
    assert world.cost_of(lambda: single_documents.delete(world.ports, "t")) == row_cost(
        "documents_of_the_kit", "delete"
    )


def test_new_documents_of_one_call_are_committed_in_groups(world: OperationsPlatform) -> None:
    bodies = [{"key": f"new{number}", "n": number} for number in range(500)]
    cost = world.cost_of(lambda: bulk.put_each(world.ports, BulkPutRequest.from_request(bodies)))
    assert cost == row_cost("documents_of_the_kit", "bulk", n=500)
    assert world.shown("new499") == {"key": "new499", "n": 499}


def test_a_page_of_linked_documents_commits_their_tasks_in_groups(world: OperationsPlatform) -> None:
    for number in range(100):
        world.put(f"p{number:03}", a={"key": "t"})
        world.put(f"q{number:03}", a={"key": f"p{number:03}"})
    work_off(world)
    world.put("t", n=2)
    page = world.work()
    alone = Cost(round_trips=4, reads=100 + 2 * (1 + 1), writes=100)  # of documents that no document embeds
    assert page == Cost(round_trips=6, reads=alone.reads, writes=101, deletes=1, tasks=100)
    more = Cost(**{name: getattr(page, name) - getattr(alone, name) for name in FIGURES})
    assert is_within("documents_of_the_kit", "fan_out", more, 100)
    assert work_off(world) == 100
    assert world.shown("q099")["a"]["a"]["n"] == 2


# --- what holds ---


def test_copies_follow_over_several_links(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    world.put("q", a={"key": "p"})
    work_off(world)
    world.put("t", n=2)
    work_off(world)
    assert world.shown("q")["a"]["a"] == {"key": "t", "n": 2}
    single_documents.delete(world.ports, "t")
    work_off(world)
    assert world.shown("q")["a"]["a"] == {"key": "t", "link_missing": True}


@pytest.mark.parametrize("how", ["put", "patch", "write back", "bulk", "transaction"])
def test_a_document_that_is_wanted_before_it_exists_is_shown_once_it_does(how: str, world: OperationsPlatform) -> None:
    world.put("p", a={"key": "wanted"})
    work_off(world)
    assert world.shown("p")["a"] == {"key": "wanted", "link_missing": True}
    create(world, how, "wanted", {"n": 1})
    work_off(world)
    assert world.shown("p")["a"] == {"key": "wanted", "n": 1}
    assert world.record(path_of("wanted"))["_signalbox"]["linked"] is True


def create(world: OperationsPlatform, how: str, key: str, content: Content) -> None:
    if how == "put":
        world.put(key, **content)
    elif how in {"patch", "write back"}:
        request = PatchRequest.from_request(key, content, write_back=how == "write back")
        patches.patch(world.ports, request)
    elif how == "bulk":
        bodies = [{"key": key, **content}, {"key": "other", "n": 1}]
        bulk.put_each(world.ports, BulkPutRequest.from_request(bodies))
        assert world.shown("other")["n"] == 1
    else:
        run_transaction(world.ports, lambda transaction: transaction.put(key, content), kind=Transaction)


@pytest.mark.parametrize("how", ["put", "bulk", "transaction"])
def test_a_put_of_an_existing_document_refreshes_its_copies(how: str, world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    work_off(world)
    create(world, how, "t", {"n": 2})
    work_off(world)
    assert world.shown("p")["a"]["n"] == 2
    create(world, how, "t", {"n": 2})
    assert world.tasks == []


def test_a_deletion_in_a_transaction_refreshes_the_copies(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    work_off(world)
    run_transaction(world.ports, lambda transaction: transaction.delete("t"), kind=Transaction)
    work_off(world)
    assert world.shown("p")["a"] == {"key": "t", "link_missing": True}


def test_the_note_of_a_wanted_document_goes_when_the_document_comes(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "w"})
    for n in range(3):
        work_off(world)
        assert world.ids(WANTED) == ["w"]
        world.put("w", n=n)
        assert world.ids(WANTED) == []
        work_off(world)
        assert world.shown("p")["a"]["n"] == n
        single_documents.delete(world.ports, "w")
    single_documents.delete(world.ports, "p")
    work_off(world)
    assert world.ids(WANTED) == []


def test_a_target_that_changes_while_it_is_embedded_is_shown_as_it_is_now(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    world.put("t", n=2)  # not marked as linked yet: the task of the put of p is late
    work_off(world)
    assert world.shown("p")["a"]["n"] == 2


def test_a_task_compares_all_copies_if_the_keys_are_too_long_to_be_named() -> None:
    long = tuple(f"{number}".zfill(900) for number in range(100))
    [named] = reaction_tasks("e", "p", Reaction(verify_targets=("t",)))
    [unnamed] = reaction_tasks("e", "p", Reaction(verify_targets=long))
    assert (named.payload["targets"], "targets" in unnamed.payload) == (["t"], False)


def test_the_tasks_of_a_commit_are_in_its_outbox_record(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    work_off(world)
    world.refusal = Unavailable("the queue is away")
    world.put("t", n=2)
    assert (len(world.ids(outbox.COLLECTION)), world.tasks) == (1, [])
    world.refusal = None
    world.pass_time(60)
    outbox.sweep(world.ports)
    work_off(world)
    assert world.shown("p")["a"]["n"] == 2


def test_another_clients_write_is_found_by_the_verification(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    work_off(world)
    world.write_past("t", {"n": 7})
    work_off(world)
    assert world.shown("p")["a"]["n"] == 1
    verifications.begin(world.ports, "night")
    work_off(world)
    assert world.shown("p")["a"]["n"] == 7
    assert world.record(path_of("t"))["_signalbox"]["linked"] is True


def test_another_clients_write_over_a_put_is_brought_into_shape_by_the_puts_own_task(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    world.write_past("p", {"a": {"key": "u"}})
    work_off(world)
    assert world.shown("p")["a"] == {"key": "u", "n": 1}
    assert world.record(path_of("u"))["_signalbox"]["linked"] is True


def test_a_bulk_put_over_another_links_compares_its_copies(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    work_off(world)
    bulk.put_each(world.ports, BulkPutRequest.from_request([{"key": "p", "a": {"key": "u"}}]))
    work_off(world)
    assert world.record(path_of("u"))["_signalbox"]["linked"] is True


def test_a_put_over_another_clients_write_refreshes_the_copies(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    work_off(world)
    world.write_past("t", {"n": 7})
    world.put("q", a={"key": "t"})  # shows 7
    work_off(world)
    world.put("t", n=1)  # what the kit wrote before
    work_off(world)
    assert (world.shown("p")["a"]["n"], world.shown("q")["a"]["n"]) == (1, 1)


def test_the_end_of_a_log_that_is_no_longer_kept_is_noted(world: OperationsPlatform) -> None:
    with HISTORY.replaced([HistoryRule(prefix="c-")]):
        world.put("c-1", n=1)
    single_documents.delete(world.ports, "c-1")
    with HISTORY.replaced([HistoryRule(prefix="c-")]):
        world.put("c-1", n=2)
    collection = collection_of("c-1")
    actions = [world.record(f"{collection}/{id_}")["action"] for id_ in world.ids(collection)]
    assert actions == ["put", "delete", "put"]
