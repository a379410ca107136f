"""Events of documents: which tasks each enqueues, and what it costs."""

from dataclasses import replace

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.keys import valid_key
from signalbox.documents.service import single_documents
from signalbox.links.service import refreshes
from tests.unit.links.embedding_world import MISSING, embedding_world, linked, works
from tests.unit.operations_platform import OperationsPlatform


@pytest.fixture
def embedding() -> OperationsPlatform:
    return embedding_world()


def test_the_event_of_a_new_document_reads_its_wanted_note() -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    assert world.deliver() == Cost(reads=1, round_trips=1)
    assert world.tasks == []
    world.put("p", a={"key": "u"})
    world.deliver()
    assert world.ids("wanted") == ["u"]
    world.put("u", n=1)
    world.deliver()
    assert works(world) == [{"key": "u", "cursor": ""}]


def test_the_event_of_a_document_that_no_link_can_name_normalizes_it_and_starts_no_pages(
    embedding: OperationsPlatform,
) -> None:
    embedding.write_past("k" * 1_500, {"n": 1, "a": {"key": "t"}})
    embedding.settle()
    embedding.write_past("k" * 1_500, {"n": 2, "a": {"key": "t"}})
    embedding.deliver()
    embedding.deliver()
    assert embedding.record("documents/" + "k" * 1_500)["a"] == {"key": "t", "n": 1}
    assert embedding.tasks == []


def test_copies_of_a_document_with_the_longest_key_follow() -> None:
    longest = next("k" * length for length in range(1_500, 0, -1) if valid_key("k" * length))
    world = OperationsPlatform()
    world.put(longest, n=1)
    world.put("p", a={"key": longest})
    world.settle()
    world.put(longest, n=2)
    world.settle()
    assert world.shown("p") == {"key": "p", "a": {"key": longest, "n": 2}}


def test_the_first_embedding_marks_the_target_and_the_next_finds_it_marked(embedding: OperationsPlatform) -> None:
    assert (linked(embedding, "t"), linked(embedding, "p")) == (True, False)
    before = embedding.record("documents/t")
    embedding.put("q", a={"key": "t"})
    embedding.settle()
    assert embedding.record("documents/t") == before


def test_an_event_writes_no_copy_but_enqueues_a_task() -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    world.put("p", a={"key": "t"})
    put = world.events[-1]
    world.put("t", n=2)
    before = world.record("documents/p")
    refreshes.fan_out(world.ports, put)
    assert world.record("documents/p") == before
    [task] = world.tasks
    assert (task.queue, task.function, task.task) == ("links", "link_refresh", "copy")
    assert task.payload == {"event": put.id, "work": {"key": "t", "document": "p"}}
    world.work()
    assert world.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_a_put_whose_targets_are_unchanged_enqueues_nothing(embedding: OperationsPlatform) -> None:
    embedding.put("q", a={"key": "t"}, l=[{"key": "nobody"}])
    embedding.deliver()
    assert embedding.tasks == []


def test_a_redelivered_event_enqueues_the_same_task(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    [event] = embedding.events
    for _ in range(3):
        refreshes.fan_out(embedding.ports, event)
    assert works(embedding) == [{"key": "t", "cursor": ""}]


def test_two_events_enqueue_two_tasks(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.put("t", n=3)
    embedding.deliver()
    embedding.deliver()
    assert works(embedding) == [{"key": "t", "cursor": ""}] * 2


def test_an_event_without_data_reads_the_document_and_counts_all_as_changed(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    bare = replace(embedding.events.pop(), before=None, after=None)
    assert embedding.cost_of(lambda: refreshes.fan_out(embedding.ports, bare)) == Cost(reads=1, round_trips=2, tasks=1)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_an_event_without_data_of_a_deleted_document_marks_the_copies(embedding: OperationsPlatform) -> None:
    single_documents.delete(embedding.ports, "t")
    bare = replace(embedding.events.pop(), before=None, after=None)
    refreshes.fan_out(embedding.ports, bare)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": MISSING}


def test_an_event_without_data_verifies_the_copies_of_its_document() -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    world.put("p", a={"key": "t"})
    bare = replace(world.events[-1], before=None, after=None)
    world.put("t", n=2)
    refreshes.fan_out(world.ports, bare)
    assert works(world) == [{"key": "t", "document": "p"}, {"key": "p", "cursor": ""}]


def test_late_events_in_any_order_do_no_harm(embedding: OperationsPlatform) -> None:
    for n in (2, 3, 4):
        embedding.put("t", n=n)
        embedding.put("p", a={"key": "t"}, n=n)
    embedding.events.reverse()
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 4}, "n": 4}
