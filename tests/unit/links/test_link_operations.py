"""Copies follow their sources: what each event does, what each task does, and what is so once all is quiet."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.adapters.meter import Cost
from shared.core.operations.ports import Change, Field, Outcome, Put, Snapshot, Write
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue, TooLarge, Unavailable
from shared.documents.operations import documents
from shared.documents.rules.documents import RESERVED, path_of
from shared.documents.rules.queries import FindRequest
from shared.links.operations import fan_out as links
from shared.links.operations import pages
from tests.unit.quiet_world import QuietWorld

MISSING = {"key": "t", "link_missing": True}
NO_CONTENT: Field = (RESERVED, "other")
"""A field that is no part of a document's content: writing it makes guards lose and changes nothing else."""


SOME_TASK = Effect("name", "links", "link_refresh", "refresh", {})


def linked(world: QuietWorld, key: str) -> Any:
    return world.record(path_of(key))[RESERVED]["linked"]


def works(world: QuietWorld) -> list[Any]:
    """List what the waiting tasks are to do."""
    return [task.payload["work"] for task in world.tasks]


@pytest.fixture
def embedding() -> QuietWorld:
    """A world at rest in which `p` embeds `t`."""
    world = QuietWorld()
    world.put("t", n=1)
    world.put("p", a={"key": "t"})
    world.settle()
    return world


# --- what is so once all is quiet ---


def test_a_person_lives_at_an_address_that_moves() -> None:
    world = QuietWorld()
    address = {
        "type": "Address",
        "addr1": "1 thing st",
        "city": "stuffville",
        "zipcode": 54321,
        "tags": ["some", "tags"],
    }
    world.put("1234567", **address)
    world.put("897654", type="Person", name="Fred", address={"key": "1234567"})
    world.settle()
    fred = {"key": "897654", "type": "Person", "name": "Fred"}
    assert world.shown("897654") == {**fred, "address": {"key": "1234567", **address}}
    world.put("1234567", type="Address", addr1="2 thing st", zipcode=12345)
    world.settle()
    moved = {"key": "1234567", "type": "Address", "addr1": "2 thing st", "zipcode": 12345}
    assert world.shown("897654") == {**fred, "address": moved}
    assert documents.find(world.ports, FindRequest.from_request(["address.zipcode==54321"], [], "", "")).documents == []
    assert documents.find(world.ports, FindRequest.from_request(["address.zipcode==12345"], [], "", "")).documents == [
        world.shown("897654")
    ]


def test_a_copy_of_what_is_deleted_says_so_and_is_filled_again(embedding: QuietWorld) -> None:
    documents.delete(embedding.ports, "t")
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": MISSING}
    embedding.put("t", n=2)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_a_link_may_come_before_what_it_links_to() -> None:
    world = QuietWorld()
    world.put("p", a={"key": "t"}, l=[{"key": "u"}, 1])
    world.settle()
    assert world.shown("p") == {"key": "p", "a": MISSING, "l": [{"key": "u", "link_missing": True}, 1]}
    world.put("t", n=1)
    world.put("u", n=2)
    world.settle()
    assert world.shown("p") == {"key": "p", "a": {"key": "t", "n": 1}, "l": [{"key": "u", "n": 2}, 1]}


def test_a_change_travels_over_two_links() -> None:
    world = QuietWorld()
    world.put("c", n=1)
    world.put("b", c={"key": "c"})
    world.put("a", b={"key": "b"})
    world.settle()
    world.put("c", n=2)
    world.settle()
    assert world.shown("a") == {"key": "a", "b": {"key": "b", "c": {"key": "c", "n": 2}}}
    assert world.record("documents/a")[RESERVED]["hops"] == 2


def test_documents_that_embed_each_other_come_to_rest() -> None:
    world = QuietWorld()
    world.put("a", n=1, b={"key": "b"}, me={"key": "a"})
    world.put("b", n=1, a={"key": "a"})
    world.settle()
    world.put("a", n=2, b={"key": "b"}, me={"key": "a"})
    world.settle()
    cycle = {"key": "a", "link_cycle": True}
    assert world.shown("a") == {"key": "a", "n": 2, "b": {"key": "b", "n": 1, "a": cycle}, "me": cycle}
    back = {"key": "b", "link_cycle": True}
    assert world.shown("b") == {"key": "b", "n": 1, "a": {"key": "a", "n": 2, "b": back, "me": cycle}}


def test_a_fan_out_over_several_pages_reaches_every_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "page_copies_max", 3)
    world = QuietWorld()
    world.put("t", n=1)
    for number in range(10):
        world.put(f"p{number}", a={"key": "t"}, l=[{"key": "t"}])
    world.put("other", n=1)
    world.settle()
    other = world.record("documents/other")
    world.put("t", n=2)
    world.settle()
    copy = {"key": "t", "n": 2}
    assert [world.shown(f"p{n}") for n in range(10)] == [{"key": f"p{n}", "a": copy, "l": [copy]} for n in range(10)]
    assert world.record("documents/other") == other


def test_a_copy_that_no_longer_fits_is_marked_and_placed_again_when_it_fits() -> None:
    world = QuietWorld()
    world.put("t", x="x" * 10)
    world.put("p", a={"key": "t"}, n="x" * 600_000)
    world.settle()
    world.put("t", x="x" * 500_000)
    world.settle()
    assert world.shown("p")["a"] == {"key": "t", "link_too_large": True}
    world.put("t", x="small")
    world.settle()
    assert world.shown("p")["a"] == {"key": "t", "x": "small"}


def test_a_refresh_changes_no_word_of_the_users_and_counts_as_no_put(embedding: QuietWorld) -> None:
    embedding.put("p", a={"key": "t"}, n=[1, [2.0]])
    embedding.settle()
    embedding.put("t", n=2)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}, "n": [1, [2.0]]}
    stamp = embedding.record("documents/p")[RESERVED]
    assert (stamp["author"], stamp["linked"]) == ("refresh", False)


# --- another client ---


def test_what_another_client_writes_is_brought_into_shape_and_followed(embedding: QuietWorld) -> None:
    embedding.write_past("t", {"n": 5})
    embedding.write_past("q", {"a": {"key": "t", "n": 0}})
    embedding.settle()
    copy = {"key": "t", "n": 5}
    assert embedding.shown("p") == {"key": "p", "a": copy}
    assert embedding.shown("q") == {"key": "q", "a": copy}
    embedding.put("t", n=6)
    embedding.settle()
    assert embedding.shown("q") == {"key": "q", "a": {"key": "t", "n": 6}}


def test_a_field_key_of_another_client_does_not_take_the_place_of_a_links_key(embedding: QuietWorld) -> None:
    embedding.write_past("t", {"key": "elsewhere", "n": 5})
    embedding.settle()
    assert embedding.shown("t") == {"key": "t", "n": 5}
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 5}}
    assert embedding.record("documents/p")[RESERVED]["link_keys"] == ["t"]


@pytest.mark.parametrize("also_older", [False, True], ids=["of the same version", "of an older version"])
def test_a_restored_record_that_says_nobody_embeds_it_is_still_followed(also_older: bool) -> None:
    world = QuietWorld()
    world.put("t", n=1)
    old = world.record("documents/t")
    if also_older:
        world.put("t", n=1)
    world.put("p", a={"key": "t"})
    world.settle()
    world.write_past("t", old)
    world.settle()
    assert linked(world, "t") is True
    world.put("t", n=2)
    world.settle()
    assert world.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_what_another_client_writes_that_no_put_would_take_is_reported_and_left(embedding: QuietWorld) -> None:
    embedding.write_past("q", {"l": [{"key": "t"}] * 501})
    embedding.settle()
    assert embedding.record("documents/q") == {"l": [{"key": "t"}] * 501}
    assert embedding.reported == [
        (
            "document normalization rejected",
            {"document": "q", "reason": "A document has at most 500 links."},
        )
    ]


# --- events ---


def test_the_event_of_a_new_document_looks_whether_it_is_wanted() -> None:
    world = QuietWorld()
    world.put("t", n=1)
    assert world.deliver() == Cost(reads=1, round_trips=1)
    assert world.tasks == []
    world.put("p", a={"key": "u"})
    world.deliver()
    assert world.ids("wanted") == ["u"]
    world.put("u", n=1)
    world.deliver()
    assert works(world) == [{"key": "u", "cursor": ""}]


def test_the_first_embedding_marks_the_target_and_the_next_finds_it_marked(embedding: QuietWorld) -> None:
    assert (linked(embedding, "t"), linked(embedding, "p")) == (True, False)
    before = embedding.record("documents/t")
    embedding.put("q", a={"key": "t"})
    embedding.settle()
    assert embedding.record("documents/t") == before


def test_a_verification_writes_no_copy_itself_but_leaves_it_to_a_task() -> None:
    world = QuietWorld()
    world.put("t", n=1)
    world.put("p", a={"key": "t"})
    put = world.events[-1]
    world.put("t", n=2)
    before = world.record("documents/p")
    links.fan_out(world.ports, put)
    assert world.record("documents/p") == before
    [task] = world.tasks
    assert (task.queue, task.function, task.task) == ("links", "link_refresh", "refresh")
    assert task.payload == {"event": put.id, "work": {"key": "t", "document": "p"}}
    world.work()
    assert world.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_a_verification_that_finds_all_as_it_was_put_asks_for_nothing(embedding: QuietWorld) -> None:
    embedding.put("q", a={"key": "t"}, l=[{"key": "nobody"}])
    embedding.deliver()
    assert embedding.tasks == []


def test_an_event_that_comes_twice_asks_for_the_same_task(embedding: QuietWorld) -> None:
    embedding.put("t", n=2)
    [event] = embedding.events
    for _ in range(3):
        links.fan_out(embedding.ports, event)
    assert works(embedding) == [{"key": "t", "cursor": ""}]


def test_two_events_ask_for_two_tasks(embedding: QuietWorld) -> None:
    embedding.put("t", n=2)
    embedding.put("t", n=3)
    embedding.deliver()
    embedding.deliver()
    assert works(embedding) == [{"key": "t", "cursor": ""}] * 2


def test_an_event_without_its_data_reads_the_document_and_takes_all_as_changed(embedding: QuietWorld) -> None:
    embedding.put("t", n=2)
    bare = replace(embedding.events.pop(), before=None, after=None)
    assert embedding.cost_of(lambda: links.fan_out(embedding.ports, bare)) == Cost(reads=1, round_trips=2, tasks=1)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}


def test_an_event_without_its_data_of_what_is_gone_marks_the_copies(embedding: QuietWorld) -> None:
    documents.delete(embedding.ports, "t")
    bare = replace(embedding.events.pop(), before=None, after=None)
    links.fan_out(embedding.ports, bare)
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": MISSING}


def test_an_event_without_its_data_of_a_document_that_embeds_verifies_its_copies() -> None:
    world = QuietWorld()
    world.put("t", n=1)
    world.put("p", a={"key": "t"})
    bare = replace(world.events[-1], before=None, after=None)
    world.put("t", n=2)
    links.fan_out(world.ports, bare)
    assert works(world) == [{"key": "t", "document": "p"}, {"key": "p", "cursor": ""}]


def test_late_events_in_any_order_do_no_harm(embedding: QuietWorld) -> None:
    for n in (2, 3, 4):
        embedding.put("t", n=n)
        embedding.put("p", a={"key": "t"}, n=n)
    embedding.events.reverse()
    embedding.settle()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 4}, "n": 4}


# --- tasks ---


class Through:
    """The world's store, as a base for one in which something happens while copies are written."""

    def __init__(self, world: QuietWorld) -> None:
        self._world, self._store = world, world.store
        self.read, self.query, self.count = self._store.read, self._store.query, self._store.count
        self.commit, self.new_id = self._store.commit, self._store.new_id

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        return self._store.write_each(writes)


class Recording(QuietWorld):
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


def test_a_page_hands_on_its_cursor_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(("letters", "copies"), [(10, 1_500), (20_000, 419), (900_000, 9)])
def test_a_page_is_as_long_as_its_documents_are_small(letters: int, copies: int) -> None:
    found = [Snapshot(f"documents/{n}", {"text": "x" * letters}, datetime.now(UTC)) for n in range(3)]
    assert pages.next_limit(found) == copies


def test_the_next_page_runs_though_this_one_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "page_copies_max", 1)
    world = QuietWorld()
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

    def __init__(self, world: QuietWorld, times: int, field: Field) -> None:
        super().__init__(world)
        self._left, self._field = times, field

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        if self._left:
            self._left -= 1
            for write in writes:
                self._store.commit([Change(write.path, {self._field: self._left})])
        return super().write_each(writes)


def test_a_refresh_never_loses_a_concurrent_write(embedding: QuietWorld) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    links.run_link_task(replace(embedding.ports, store=Overtaking(embedding, 1, ("mine",))), page.payload)
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}, "mine": 0}


def test_a_page_that_keeps_losing_gives_its_turn_back(embedding: QuietWorld) -> None:
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

    def __init__(self, world: QuietWorld, times: int) -> None:
        super().__init__(world)
        self._left = times

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        outcomes = super().write_each(writes)
        if self._left:
            self._left -= 1
            self._world.put("t", n=100 - self._left)
        return outcomes


def test_a_page_whose_source_moved_starts_anew_before_it_is_done(embedding: QuietWorld) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    links.run_link_task(replace(embedding.ports, store=Moving(embedding, 2)), page.payload)
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 100}}


class Refusing(Through):
    """Some document can never be held again."""

    def __init__(self, world: QuietWorld, path: str) -> None:
        super().__init__(world)
        self._path = path

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        refusal = TooLarge("too many index entries")
        return tuple(refusal if write.path == self._path else self._store.write_each([write])[0] for write in writes)


def test_what_can_never_be_written_is_reported_and_the_others_follow(embedding: QuietWorld) -> None:
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


def test_a_page_that_runs_twice_writes_once(embedding: QuietWorld) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    [page] = embedding.tasks
    embedding.work()
    record = embedding.store.read("documents/p")[0]
    assert embedding.cost_of(lambda: links.run_link_task(embedding.ports, page.payload)).writes == 0
    assert embedding.store.read("documents/p")[0].update_time == record.update_time


def test_a_page_of_an_older_change_brings_the_newest_content(embedding: QuietWorld) -> None:
    embedding.put("t", n=2)
    embedding.deliver()
    embedding.put("t", n=3)
    embedding.work()
    assert embedding.shown("p") == {"key": "p", "a": {"key": "t", "n": 3}}


def test_a_task_for_what_is_gone_or_links_no_more_does_nothing(embedding: QuietWorld) -> None:
    embedding.put("p", n=1)
    for document in ("p", "nobody"):
        embedding.tasks = [replace(SOME_TASK, payload={"event": "e", "work": {"key": "t", "document": document}})]
        assert embedding.work().writes == 0
    assert embedding.shown("p") == {"key": "p", "n": 1}


def test_a_refresh_of_a_document_that_another_client_wrote_brings_it_into_shape(embedding: QuietWorld) -> None:
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
def test_a_payload_that_is_no_work_is_refused_for_good(payload: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        links.run_link_task(QuietWorld().ports, payload)


def test_a_mark_that_keeps_losing_gives_the_turn_back(embedding: QuietWorld) -> None:
    embedding.put("u", n=1)
    embedding.put("p", a={"key": "u"})
    event = embedding.events[-1]
    with pytest.raises(Unavailable):
        links.fan_out(replace(embedding.ports, store=Overtaking(embedding, 1_000, NO_CONTENT)), event)
    assert linked(embedding, "u") is False
    links.fan_out(embedding.ports, event)
    assert linked(embedding, "u") is True
