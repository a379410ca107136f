"""Walks: the documents with links in a field follow a change of the field's transform."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core import outbox
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Outcome, Put, Write
from signalbox.core.problems import Unavailable
from signalbox.documents.service import single_documents
from signalbox.links import tasks
from signalbox.links.limits import LIMITS as LINKS_LIMITS
from signalbox.links.service import refreshes
from signalbox.transforms import service
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.operations_platform import OperationsPlatform
from tests.unit.transforms.addressed_world import ADDRESS, FULL, SHOWN_FULL
from tests.unit.transforms.addressed_world import world as world


def test_documents_follow_a_transform_that_is_changed_deleted_and_stored_again(world: OperationsPlatform) -> None:
    service.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", "town": "stuffville"}
    service.delete(world.ports, "address")
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", **ADDRESS}
    service.put(world.ports, PutTransformRequest.from_request("address", FULL))
    world.settle()
    assert world.shown("897654")["address"] == SHOWN_FULL
    assert world.ids("outbox") == []


def test_a_change_of_a_transform_reaches_copies_of_its_documents(world: OperationsPlatform) -> None:
    world.put("team", members=[{"key": "897654"}])
    world.settle()
    service.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    world.settle()
    assert world.shown("team")["members"][0]["address"] == {"key": "1234567", "town": "stuffville"}


def test_a_put_of_an_equal_transform_starts_no_walk(world: OperationsPlatform) -> None:
    before = service.get(world.ports, "address")
    cost = world.cost_of(lambda: service.put(world.ports, PutTransformRequest.from_request("address", dict(FULL))))
    assert cost == Cost(round_trips=1, reads=1)
    assert world.tasks == []
    assert service.get(world.ports, "address") == before


def test_a_walk_enqueues_its_cursor_before_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINKS_LIMITS, "walk_documents_max", 2)
    world = OperationsPlatform()
    world.put("t", n=1)
    for number in range(5):
        world.put(f"p{number}", a={"key": "t"}, b={"key": "t"})
    world.settle()
    service.put(world.ports, PutTransformRequest.from_request("a", {"made": "#.n"}))
    [task] = world.tasks
    assert task.payload["work"] == {"transform": "a", "cursor": ""}
    world.work()
    assert [task.payload["work"] for task in world.tasks] == [{"transform": "a", "cursor": "p1"}]
    world.settle()
    made, plain = {"key": "t", "made": 1}, {"key": "t", "n": 1}
    assert [world.shown(f"p{n}") for n in range(5)] == [{"key": f"p{n}", "a": made, "b": plain} for n in range(5)]


def test_the_sweeper_starts_the_walk_of_a_process_that_died(world: OperationsPlatform) -> None:
    world.refusal = Unavailable("the queue is away")
    service.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    assert world.tasks == []
    world.refusal = None
    world.pass_time(11)
    assert outbox.sweep(world.ports) == 1
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", "town": "stuffville"}


def test_every_change_has_a_walk_of_its_own_also_one_that_restores_an_old_transform(world: OperationsPlatform) -> None:
    for change in (FULL | {"n": 1}, FULL, None, FULL):
        if change is None:
            service.delete(world.ports, "address")
        else:
            service.put(world.ports, PutTransformRequest.from_request("address", change))
    assert len({task.name for task in world.tasks}) == len(world.tasks) == 4


def test_a_transform_stored_while_a_document_is_put_is_noticed_by_the_puts_event(world: OperationsPlatform) -> None:
    world.put("p", other={"key": "1234567"})
    service.put(world.ports, PutTransformRequest.from_request("other", {"town": "#.city"}))
    world.tasks.clear()  # the walk came before the document was there
    world.settle()
    assert world.shown("p")["other"] == {"key": "1234567", "town": "stuffville"}


def test_a_walk_marks_a_target_before_it_copies_it() -> None:
    world = OperationsPlatform()
    world.put("p", address={"key": "t"})
    put = world.events.pop()
    world.put("t", **ADDRESS)
    world.settle()
    service.put(world.ports, PutTransformRequest.from_request("address", FULL))
    world.settle()
    single_documents.delete(world.ports, "t")
    refreshes.fan_out(world.ports, put)
    world.settle()
    assert world.shown("p")["address"] == {"key": "t", "link_missing": True}


class Changing:
    """A transform changes while copies are written."""

    def __init__(self, world: OperationsPlatform, transform: Any) -> None:
        self._store, self._transform = world.store, transform
        self.read, self.read_some = self._store.read, self._store.read_some
        self.query, self.count = self._store.query, self._store.count
        self.commit, self.new_id = self._store.commit, self._store.new_id

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        outcomes = self._store.write_each(writes)
        self._store.commit([Put("transforms/address", self._transform)])
        return outcomes


@pytest.mark.parametrize(
    ("task", "work"),
    [("walk", {"transform": "address", "cursor": ""}), ("page", {"key": "1234567", "cursor": ""})],
)
def test_a_page_whose_transform_changed_starts_over(world: OperationsPlatform, task: str, work: dict[str, str]) -> None:
    service.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    latest = world.record("transforms/address") | {"botl": '{"code": "#.zipcode"}'}
    tasks.run_link_task(replace(world.ports, store=Changing(world, latest)), task, {"event": "e", "work": work})
    assert world.shown("897654")["address"] == {"key": "1234567", "code": 54321}


def test_a_walk_reads_the_targets_of_many_links_in_parts(world: OperationsPlatform) -> None:
    half = LIMITS.links_max // 2 + 1
    for name in "pqr":
        world.put(name, address=[{"key": f"{name}{number}"} for number in range(half)])
    world.put("q7", **ADDRESS)
    world.settle()
    service.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    world.tasks, [walk] = [], world.tasks
    cost = world.cost_of(lambda: tasks.run_link_task(world.ports, walk.task, walk.payload))
    made_known, written, looked_at_again = (
        3 * 3,
        2,
        3,
    )  # most targets are missing: a note is tried, and they are read again
    assert cost.round_trips == 1 + made_known + written + looked_at_again
    assert world.shown("q")["address"][7] == {"key": "q7", "town": "stuffville"}
    assert world.shown("897654")["address"] == {"key": "1234567", "town": "stuffville"}


def test_a_walk_ends_over_documents_that_embed_each_other_when_one_is_written_meanwhile() -> None:
    world = OperationsPlatform()
    for _ in range(2):
        world.put("p", x={"key": "q"}, n=1)
        world.put("q", x={"key": "p"}, n=2)
    world.settle()
    service.put(world.ports, PutTransformRequest.from_request("x", {"made": "#.n"}))
    world.tasks, [walk] = [], world.tasks
    ports = replace(world.ports, store=WrittenMeanwhile(world))
    cost = world.cost_of(lambda: tasks.run_link_task(ports, walk.task, walk.payload))
    assert cost.round_trips < 20
    assert world.shown("p")["x"] == {"key": "q", "made": 2}
    assert world.shown("q")["x"] == {"key": "p", "made": 1}


class WrittenMeanwhile:
    """A document is written by another client right before the first copies are."""

    def __init__(self, world: OperationsPlatform) -> None:
        self._world, self._store = world, world.ports.store
        self.read, self.read_some = self._store.read, self._store.read_some
        self.query, self.count = self._store.query, self._store.count
        self.commit, self.new_id = self._store.commit, self._store.new_id
        self._written = False

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        if not self._written and any(write.path == "documents/p" for write in writes):
            self._written = True
            self._world.write_past("p", self._world.record("documents/p") | {"m": 3})
        return self._store.write_each(writes)


def test_documents_that_never_fit_with_the_inputs_are_given_up_after_some_attempts(
    world: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    [walk] = world.tasks
    monkeypatch.setattr(refreshes, "_refresh", lambda _, __, linking, *___: [record.path for record in linking])
    with pytest.raises(Unavailable):
        tasks.run_link_task(world.ports, walk.task, walk.payload)
