"""Tasks of a fan-out: pages and single documents, while others write."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Change, Outcome, Put, Snapshot, Write
from signalbox.core.problems import BadValue, TooLarge, Unavailable
from signalbox.core.records.queries import Field
from signalbox.documents.machine import reactions
from signalbox.documents.model.stamped_contents import RESERVED
from signalbox.documents.service.dependents import dependents_task
from signalbox.documents.storage.writes import follow_up
from signalbox.history.machine.kept_versions import Recorded, compaction_task
from signalbox.history.model import Entry
from signalbox.links import machine, storage, tasks
from signalbox.links.limits import LIMITS as LINKS_LIMITS
from signalbox.links.service import refreshes
from signalbox.transforms.machine import walk_task
from tests.unit.links.embedding_world import embedding_world, linked, works
from tests.unit.operations_platform import OperationsPlatform

NO_CONTENT: Field = (RESERVED, "other")
"""A field that is not part of a document's content: a write of it makes guards fail and changes nothing else."""


SOME_TASK = Effect("name", "links", "link_refresh", "copy", {})


@pytest.fixture
def embedding() -> OperationsPlatform:
    return embedding_world()


class Through:
    """The world's store, as a base for one in which something happens while copies are written."""

    def __init__(self, world: OperationsPlatform) -> None:
        self._world, self._store = world, world.store
        self.read, self.read_some = self._store.read, self._store.read_some
        self.query, self.count = self._store.query, self._store.count
        self.commit, self.new_id = self._store.commit, self._store.new_id

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        return self._store.write_each(writes)


class Recording(OperationsPlatform):
    """A world that records the order of the calls of its queue and its store."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[Any] = []
        self.ports = replace(self.ports, store=RecordingStore(self))

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        self.order += [effect.payload["work"] for effect in effects]
        return super().create(effects)


class RecordingStore(Through):
    """A store that records which copies are written in it."""

    def __init__(self, world: Recording) -> None:
        super().__init__(world)
        self._order = world.order

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        self._order += [write.path for write in writes]
        return super().write_each(writes)


def test_a_page_enqueues_its_cursor_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINKS_LIMITS, "page_copies_max", 2)
    world = Recording()
    world.put("t", n=1)
    for key in ("p", "q", "r"):
        world.put(key, a={"key": "t"})
    world.settle()
    world.put("t", n=2)
    world.deliver()
    world.order.clear()
    world.work()
    assert world.order == [{"key": "t", "cursor": "q"}, "documents/p", "documents/q"]
    world.work()
    assert world.order[3:] == ["documents/r"]
    assert world.tasks == []


@pytest.mark.parametrize(("letters", "copies"), [(10, 1_500), (20_000, 209), (900_000, 4)])
def test_a_page_is_as_long_as_its_documents_are_small(letters: int, copies: int) -> None:
    found = [Snapshot(f"documents/{n}", {"text": "x" * letters}, datetime.now(UTC)) for n in range(3)]
    assert storage.next_limit(found) == copies


def test_the_next_page_runs_though_this_one_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINKS_LIMITS, "page_copies_max", 1)
    world = OperationsPlatform()
    world.put("t", n=1)
    for key in ("p", "q"):
        world.put(key, a={"key": "t"})
    world.settle()
    world.put("t", n=2)
    world.deliver()
    [first] = world.tasks
    with pytest.raises(Unavailable):
        tasks.run_link_task(replace(world.ports, store=Overtaking(world, 1_000, NO_CONTENT)), first.task, first.payload)
    assert works(world) == [{"key": "t", "cursor": ""}, {"key": "t", "cursor": "p"}]


class Overtaking(Through):
    """A store in which another client writes a field of a document just before its copy is written, `times` times."""

    def __init__(self, world: OperationsPlatform, times: int, field: Field) -> None:
        super().__init__(world)
        self._left, self._field = times, field

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        if self._left:
            self._left -= 1
            for write in writes:
                self._store.commit([Change(write.path, {self._field: self._left})])
        return super().write_each(writes)


def test_a_refresh_never_loses_a_concurrent_write(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    tasks.run_link_task(replace(embedding.ports, store=Overtaking(embedding, 1, ("mine",))), page.task, page.payload)
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}, "mine": 0}


def test_a_page_that_keeps_losing_its_guards_is_unavailable(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    with pytest.raises(Unavailable):
        tasks.run_link_task(
            replace(embedding.ports, store=Overtaking(embedding, 1_000, NO_CONTENT)), page.task, page.payload
        )
    assert len(embedding.slept_seconds) == LIMITS.rounds_max
    embedding.settle()
    assert embedding.shown("p")["a"] == {"key": "t", "n": 2}


class Moving(Through):
    """The source of copies moves on while they are written, so many times."""

    def __init__(self, world: OperationsPlatform, times: int) -> None:
        super().__init__(world)
        self._left = times

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        outcomes = super().write_each(writes)
        if self._left:
            self._left -= 1
            self._world.put("t", n=100 - self._left)
        return outcomes


def test_a_page_whose_source_changed_starts_over_before_it_is_acknowledged(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    tasks.run_link_task(replace(embedding.ports, store=Moving(embedding, 2)), page.task, page.payload)
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 100}}


class Refusing(Through):
    """A copy of the source can never be stored in some document; a mark can."""

    def __init__(self, world: OperationsPlatform, path: str) -> None:
        super().__init__(world)
        self._path = path

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        refusal = TooLarge("too many index entries")
        return tuple(refusal if self._refuses(write) else self._store.write_each([write])[0] for write in writes)

    def _refuses(self, write: Write) -> bool:
        return write.path == self._path and isinstance(write, Put) and "n" in write.data["a"]


def test_a_copy_that_the_store_refuses_becomes_a_mark_and_others_are_refreshed(
    embedding: OperationsPlatform,
) -> None:
    embedding.put("o", a={"key": "t"})
    embedding.put("q", a={"key": "t"})
    embedding.settle()
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    tasks.run_link_task(replace(embedding.ports, store=Refusing(embedding, "documents/p")), page.task, page.payload)
    copy = {"key": "t", "n": 2}
    mark = {"key": "t", "link_too_large": True}
    assert [embedding.shown(key)["a"] for key in ("o", "p", "q")] == [copy, mark, copy]
    assert embedding.reported == [
        ("copy refresh rejected", {"document": "p", "source": "t", "reason": "too many index entries"})
    ]


def test_a_redelivered_page_writes_once(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    embedding.work()
    record = embedding.store.read("documents/p")[0]
    assert embedding.cost_of(lambda: tasks.run_link_task(embedding.ports, page.task, page.payload)).writes == 0
    assert embedding.store.read("documents/p")[0].update_time == record.update_time


def test_a_page_of_an_older_change_copies_the_newest_content(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    embedding.put("t", n=3)
    embedding.work()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 3}}


def test_a_task_for_a_deleted_or_unlinked_document_is_a_no_op(embedding: OperationsPlatform) -> None:
    embedding.put("p", n=1)
    for document in ("p", "nobody"):
        embedding.tasks = [replace(SOME_TASK, payload={"event": "e", "work": {"key": "t", "document": document}})]
        assert embedding.work().writes == 0
    assert embedding.shown("p") == {"key": "p", "n": 1}


def test_a_refresh_normalizes_a_document_that_another_client_wrote(embedding: OperationsPlatform) -> None:
    embedding.store.commit([Put("documents/p", {"a": {"key": "t"}, "b": {"key": "nobody"}})])
    tasks.run_link_task(embedding.ports, "copy", {"event": "e", "work": {"key": "t", "document": "p"}})
    nobody = {"key": "nobody", "link_missing": True}
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 1}, "b": nobody}
    assert linked(embedding, "p") is True


@pytest.mark.parametrize("task", tasks.TASKS)
@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"work": {"key": "t"}},
        {"work": {"key": "t", "cursor": ""}},
        {"event": "e", "work": {"key": 1, "cursor": ""}},
        {"event": "e", "work": [1]},
        {"work": {"compact": "t"}},
    ],
)
def test_an_invalid_payload_is_a_permanent_error(task: str, payload: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        tasks.run_link_task(OperationsPlatform().ports, task, payload)


def test_a_task_that_a_newer_release_may_have_is_retried() -> None:
    with pytest.raises(Unavailable):
        tasks.run_link_task(OperationsPlatform().ports, "no such task", BUILT["page"].payload)


BUILT = {
    "page": reactions.page_task("e", "t", "p", 7),
    "copy": machine.copy_task("e", "t", "p"),
    "walk": machine.next_walk_task("e", "x", "p"),
    "written": follow_up(Snapshot("documents/t", {RESERVED: {"large": True}}, datetime.now(UTC)), None)[0],
    "compact": compaction_task("t", Recorded((Entry(9, "put", "", [], whole=True),), None, obsolete_before=5))[0],
    "dependents": dependents_task("e", "t"),
}


def test_each_task_has_a_handler_and_is_built_under_its_name() -> None:
    assert {name: effect.task for name, effect in BUILT.items()} == {name: name for name in tasks.TASKS}
    assert walk_task("x", "e").task == "walk"


def test_a_mark_that_keeps_losing_its_guard_is_unavailable(embedding: OperationsPlatform) -> None:
    embedding.put("u", n=1)
    embedding.put("p", a={"key": "u"})
    event = embedding.events[-1]
    with pytest.raises(Unavailable):
        refreshes.fan_out(replace(embedding.ports, store=Overtaking(embedding, 1_000, NO_CONTENT)), event)
    assert linked(embedding, "u") is False
    refreshes.fan_out(embedding.ports, event)
    assert linked(embedding, "u") is True


def test_a_page_notes_how_old_the_change_is_when_its_last_copy_is_written(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.pass_time(40)
    embedding.settle()
    assert [round(note["copy_seconds"]) for note in embedding.log.notes] == [40]


def test_a_page_that_finds_nothing_to_write_notes_nothing(embedding: OperationsPlatform) -> None:
    embedding.pass_time(600)
    refreshes.refresh_page(embedding.ports, "again", "t", "")
    assert embedding.log.notes == []


def test_a_refresh_that_never_ends_in_time_is_given_up_and_an_outage_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Exception] = [TimeoutError("the time of a request"), Unavailable("an outage")]
    payload = {"work": {"key": "t", "document": "p"}}

    def fail(*_: Any) -> None:
        raise raised[0]

    monkeypatch.setattr(tasks, "TASKS", {"copy": fail})
    world = OperationsPlatform()
    with pytest.raises(TimeoutError):
        tasks.run_link_task(world.ports, "copy", payload, 19)
    with pytest.raises(tasks.RefreshGivenUp, match="'document': 'p'"):
        tasks.run_link_task(world.ports, "copy", payload, 20)
    raised.pop(0)
    with pytest.raises(Unavailable):
        tasks.run_link_task(world.ports, "copy", payload, 1_000)
