"""Tasks of a fan-out: pages and single documents, while others write."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.core.operations.ports import Change, Field, Outcome, Put, Snapshot, Write
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue, TooLarge, Unavailable
from shared.documents.rules.documents import RESERVED
from shared.links.operations import fan_out as links
from shared.links.operations import fan_out_pages
from tests.unit.links.embedding_world import embedding_world, linked, works
from tests.unit.operations_platform import OperationsPlatform

NO_CONTENT: Field = (RESERVED, "other")
"""A field that is no part of a document's content: writing it makes guards lose and changes nothing else."""


SOME_TASK = Effect("name", "links", "link_refresh", "refresh", {})


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
    """A world that tells in which order its queue and its store were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[Any] = []
        self.ports = replace(self.ports, store=Told(self))

    def create(self, effects: Sequence[Effect]) -> None:
        self.order += [effect.payload["work"] for effect in effects]
        super().create(effects)


class Told(Through):
    """A store that tells which copies are written in it."""

    def __init__(self, world: Recording) -> None:
        super().__init__(world)
        self._order = world.order

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        self._order += [write.path for write in writes]
        return super().write_each(writes)


def test_a_page_enqueues_its_cursor_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "page_copies_max", 2)
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
    assert fan_out_pages.next_limit(found) == copies


def test_the_next_page_runs_though_this_one_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "page_copies_max", 1)
    world = OperationsPlatform()
    world.put("t", n=1)
    for key in ("p", "q"):
        world.put(key, a={"key": "t"})
    world.settle()
    world.put("t", n=2)
    world.deliver()
    [first] = world.tasks
    with pytest.raises(Unavailable):
        links.run_link_task(replace(world.ports, store=Overtaking(world, 1_000, NO_CONTENT)), first.payload)
    assert works(world) == [{"key": "t", "cursor": ""}, {"key": "t", "cursor": "p"}]


class Overtaking(Through):
    """Somebody else writes a field of a document just before its copy is written, so many times."""

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
    links.run_link_task(replace(embedding.ports, store=Overtaking(embedding, 1, ("mine",))), page.payload)
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}, "mine": 0}


def test_a_page_that_keeps_losing_its_guards_is_unavailable(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    with pytest.raises(Unavailable):
        links.run_link_task(replace(embedding.ports, store=Overtaking(embedding, 1_000, NO_CONTENT)), page.payload)
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
    links.run_link_task(replace(embedding.ports, store=Moving(embedding, 2)), page.payload)
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 100}}


class Refusing(Through):
    """Some document can never be held again."""

    def __init__(self, world: OperationsPlatform, path: str) -> None:
        super().__init__(world)
        self._path = path

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        refusal = TooLarge("too many index entries")
        return tuple(refusal if write.path == self._path else self._store.write_each([write])[0] for write in writes)


def test_a_permanent_error_is_logged_and_the_others_are_refreshed(embedding: OperationsPlatform) -> None:
    embedding.put("o", a={"key": "t"})
    embedding.put("q", a={"key": "t"})
    embedding.settle()
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    links.run_link_task(replace(embedding.ports, store=Refusing(embedding, "documents/p")), page.payload)
    assert [embedding.shown(key)["a"]["n"] for key in ("o", "p", "q")] == [2, 1, 2]
    assert embedding.reported == [
        ("copy refresh rejected", {"document": "p", "source": "t", "reason": "too many index entries"})
    ]


def test_a_redelivered_page_writes_once(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    embedding.work()
    record = embedding.store.read("documents/p")[0]
    assert embedding.cost_of(lambda: links.run_link_task(embedding.ports, page.payload)).writes == 0
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
    links.run_link_task(embedding.ports, {"event": "e", "work": {"key": "t", "document": "p"}})
    nobody = {"key": "nobody", "link_missing": True}
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 1}, "b": nobody}
    assert linked(embedding, "p") is True


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"work": {"key": "t"}},
        {"work": {"key": "t", "cursor": ""}},
        {"event": "e", "work": {"key": 1, "cursor": ""}},
        {"event": "e", "work": [1]},
    ],
)
def test_an_invalid_payload_is_a_permanent_error(payload: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        links.run_link_task(OperationsPlatform().ports, payload)


def test_a_mark_that_keeps_losing_its_guard_is_unavailable(embedding: OperationsPlatform) -> None:
    embedding.put("u", n=1)
    embedding.put("p", a={"key": "u"})
    event = embedding.events[-1]
    with pytest.raises(Unavailable):
        links.fan_out(replace(embedding.ports, store=Overtaking(embedding, 1_000, NO_CONTENT)), event)
    assert linked(embedding, "u") is False
    links.fan_out(embedding.ports, event)
    assert linked(embedding, "u") is True
