"""Tasks that exist if and only if a commit landed, and a sweeper for what a process left behind."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest

from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Delete, Must, Put, Query, Snapshot, Stale
from signalbox.core.problems import BadValue, EnqueueUnconfirmed, Problem, TooLarge, Unavailable
from signalbox.testing.replaced_limits import replaced
from tests.sweeper_budgets import budget_of
from tests.unit.operations_platform import OperationsPlatform


def effect(name: str, **payload: Any) -> Effect:
    return Effect(name, "links", "link_refresh", "follow", payload)


TWO = (effect("one", n=1), effect("two", n=2))


class Watching(OperationsPlatform):
    """A world that looks at what is stored whenever tasks are enqueued."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, list[str]]] = []

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        self.seen.append((self.record("counters/a"), [task["name"] for task in self._waiting()]))
        return super().create(effects)

    def _waiting(self) -> list[dict[str, Any]]:
        snapshots: Sequence[Snapshot] = self.store.query(Query("outbox"))
        return [task for snapshot in snapshots for task in (snapshot.data or {})["tasks"]]


def left_behind(world: OperationsPlatform, *effects: Effect) -> None:
    """Commit, with a queue that is away, so that the effects stay in the outbox."""
    world.refusal = Unavailable("away")
    outbox.commit(world.ports, [Put("counters/a", {"n": 1})], effects)
    world.refusal = None


def test_a_commit_without_effects_leaves_nothing_in_the_outbox() -> None:
    world = OperationsPlatform()
    outbox.commit(world.ports, [Put("counters/a", {"n": 1})])
    assert (world.record("counters/a"), world.ids("outbox"), world.tasks) == ({"n": 1}, [], [])


def test_effects_are_committed_with_the_state_then_enqueued_then_deleted() -> None:
    world = Watching()
    committed = outbox.commit(world.ports, [Put("counters/a", {"n": 1})], TWO)
    assert world.seen == [({"n": 1}, ["one", "two"])]
    assert world.tasks == list(TWO)
    assert world.ids("outbox") == []
    assert committed.results[0].update_time == committed.commit_time


def test_a_commit_that_loses_its_guard_has_no_effects() -> None:
    world = OperationsPlatform()
    guard = datetime(2025, 1, 1, tzinfo=UTC)
    with pytest.raises(Stale):
        outbox.commit(world.ports, [Put("counters/a", {"n": 1}, guard)], TWO)
    assert (world.record("counters/a"), world.ids("outbox"), world.tasks) == (None, [], [])


@pytest.mark.parametrize("refusal", [Unavailable("away"), BadValue("never"), RuntimeError("a bug")])
def test_a_commit_that_landed_does_not_fail_because_the_queue_does(refusal: Exception) -> None:
    world = OperationsPlatform()
    world.refusal = refusal
    outbox.commit(world.ports, [Put("counters/a", {"n": 1})], TWO)
    [record] = world.ids("outbox")
    assert world.record("counters/a") == {"n": 1}
    assert world.told == [("tasks left to the sweeper", {"outbox": f"outbox/{record}", "tasks": 2})]


def test_the_sweeper_enqueues_what_was_left_behind_under_the_same_names() -> None:
    world = OperationsPlatform()
    left_behind(world, *TWO)
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert outbox.sweep(world.ports) == 1
    assert (world.tasks, world.ids("outbox")) == (list(TWO), [])
    assert outbox.sweep(world.ports) == 0


def test_a_record_that_cannot_be_read_does_not_keep_the_sweeper_from_the_others() -> None:
    world = OperationsPlatform()
    left_behind(world, *TWO)
    [good] = world.ids("outbox")
    unreadable = {"tasks": [{"name": "of another release", "unknown": 1}]}
    world.ports.store.commit([Put("outbox/!first", unreadable)])
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert outbox.sweep(world.ports) == 1
    assert (world.tasks, world.ids("outbox")) == (list(TWO), ["!first"])
    assert good not in world.ids("outbox")


def test_the_sweeper_leaves_records_whose_operation_may_still_run() -> None:
    world = OperationsPlatform()
    left_behind(world, *TWO)
    world.pass_time(LIMITS.outbox_patience_seconds - 1)
    assert outbox.sweep(world.ports) == 0
    assert (world.tasks, len(world.ids("outbox"))) == ([], 1)


def test_tasks_that_were_enqueued_before_are_not_there_twice() -> None:
    world = OperationsPlatform()
    left_behind(world, *TWO)
    world.create(TWO[:1])  # the process died in the middle of it
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    outbox.sweep(world.ports)
    assert world.tasks == list(TWO)


class Picky(OperationsPlatform):
    """A queue that will never take one of the tasks."""

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        if self.refusal is None and any(one.name == "poison" for one in effects):
            raise BadValue("never")
        return super().create(effects)


def test_a_record_that_the_queue_refuses_stays_and_does_not_hold_up_the_others() -> None:
    world = Picky()
    for name in ("one", "poison", "two"):
        left_behind(world, effect(name))
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert outbox.sweep(world.ports) == 2
    assert sorted(task.name for task in world.tasks) == ["one", "two"]
    [stays] = world.ids("outbox")
    assert world.record(f"outbox/{stays}")["tasks"][0]["name"] == "poison"
    [(message, values)] = world.reported
    assert (message, values["outbox"]) == ("outbox tasks refused by the queue", f"outbox/{stays}")


class Partial(OperationsPlatform):
    """A queue that takes all tasks but those it refuses by name, and says so."""

    refused = frozenset({"two"})

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        taken = [one for one in effects if one.name not in self.refused]
        super().create(taken)
        if len(taken) < len(effects):
            raise EnqueueUnconfirmed("paused", (one.name for one in taken))
        return ()


def test_a_task_that_the_queue_took_is_not_enqueued_again_when_its_name_is_free() -> None:
    world = Partial()
    outbox.commit(world.ports, [Put("counters/a", {"n": 1})], TWO)
    assert world.tasks == [TWO[0]]
    world.queue.names.clear()
    world.refused = frozenset()
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert outbox.sweep(world.ports) == 1
    assert (world.tasks, world.ids("outbox")) == (list(TWO), [])


def test_marking_what_the_queue_took_does_not_bring_back_a_record_that_a_sweep_deleted() -> None:
    world = Partial()
    outbox.commit(world.ports, [Put("counters/a", {"n": 1})], TWO)
    [record] = world.ids("outbox")
    world.store.commit([Delete(f"outbox/{record}")])
    with pytest.raises(EnqueueUnconfirmed):
        outbox.enqueue(world.ports, f"outbox/{record}", TWO)
    assert world.ids("outbox") == []


def test_the_sweeper_goes_through_as_many_pages_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "sweep_page", 2)
    world = OperationsPlatform()
    for number in range(5):
        left_behind(world, effect(f"task-{number}"))
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert outbox.sweep(world.ports) == 5
    assert (len(world.tasks), world.ids("outbox")) == (5, [])


def test_one_sweep_is_bounded_and_the_next_one_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "sweep_page", 2)
    monkeypatch.setattr(LIMITS, "sweep_pages_max", 2)
    world = OperationsPlatform()
    for number in range(5):
        left_behind(world, effect(f"task-{number}"))
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert [outbox.sweep(world.ports), outbox.sweep(world.ports)] == [4, 1]


def test_records_that_the_queue_refuses_do_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "sweep_page", 2)
    monkeypatch.setattr(LIMITS, "sweep_pages_max", 2)
    world = Picky()
    ids = [f"{number:x}" for number in range(16)]
    for id_ in ids:
        name = "poison" if id_ < "c" else id_
        world.store.commit([Put(f"outbox/{id_}", outbox.to_record([effect(name)]))])
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    begins = iter(["f0", "b0", "30"])
    monkeypatch.setattr(world.store, "new_id", lambda: next(begins))
    assert [outbox.sweep(world.ports) for _ in range(3)] == [0, 4, 0]
    assert sorted(task.name for task in world.tasks) == ["c", "d", "e", "f"]


def test_a_sweep_that_begins_near_the_end_wraps_around_and_looks_at_no_record_twice() -> None:
    world = Picky()
    with replaced(sweep_page=2, sweep_pages_max=9):
        for id_ in "abcde":
            world.store.commit([Put(f"outbox/{id_}", outbox.to_record([effect("poison")]))])
        world.pass_time(LIMITS.outbox_patience_seconds + 1)
        for begin in ("0", "a", "c5", "e", "f"):
            with mock.patch.object(world.store, "new_id", lambda begin=begin: begin):
                outbox.sweep(world.ports)
    looked_at = [values["outbox"] for _, values in world.reported]
    orders = ["abcde", "bcdea", "deabc", "abcde", "abcde"]
    assert looked_at == [f"outbox/{id_}" for order in orders for id_ in order]


def test_a_sweep_of_the_outbox_ends_with_its_budget() -> None:
    world = OperationsPlatform()
    for name in ("one", "two", "three"):
        left_behind(world, effect(name))
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    assert outbox.sweep(world.ports, budget_of(2)) == 2


def test_every_part_of_an_effect_comes_back_from_the_outbox() -> None:
    world = OperationsPlatform()
    odd = Effect(
        "name",
        "queue",
        "function",
        "task",
        {"l": [[1, [2.0]], {}], "__x__": None, "n": 2**70, "t": "é\ud800"},
        path="/tasks/eat",
        not_before=datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC),
        trace=f"00-{'a' * 32}-{'b' * 16}-01",
    )
    left_behind(world, odd)
    [record] = world.ids("outbox")
    [read] = outbox.from_record(world.record(f"outbox/{record}"))
    assert (read, read.trace) == (odd, odd.trace)


@pytest.mark.parametrize(
    ("effects", "records"),
    [
        ([effect(f"n{n}") for n in range(2 * LIMITS.outbox_tasks_max)], 2),
        ([effect(f"n{n}") for n in range(2 * LIMITS.outbox_tasks_max + 1)], 3),
        ([effect(f"n{n}", t="x" * 100_000) for n in range(9)], 2),
    ],
    ids=["200 tasks", "201 tasks", "more than 900,000 bytes"],
)
def test_the_tasks_of_a_commit_have_as_many_records_as_they_need(effects: list[Effect], records: int) -> None:
    world = OperationsPlatform()
    left_behind(world, *effects)
    assert (len(world.ids("outbox")), world.tasks) == (records, [])
    world.pass_time(LIMITS.outbox_patience_seconds + 1)
    outbox.sweep(world.ports)
    assert sorted(task.name for task in world.tasks) == sorted(task.name for task in effects)
    outbox.commit(world.ports, [Put("counters/a", {"n": 2})], [replace(task, name=f"{task.name}+") for task in effects])
    assert (len(world.tasks), world.ids("outbox")) == (2 * len(effects), [])


def test_a_task_that_does_not_fit_into_a_record_is_refused_with_its_commit() -> None:
    world = OperationsPlatform()
    with pytest.raises(TooLarge) as refused:
        outbox.commit(world.ports, [Put("counters/a", {"n": 1}, Must.NOT_EXIST)], [*TWO, effect("n", t="x" * 900_000)])
    assert isinstance(refused.value, Problem)
    assert refused.value.status == 413
    assert (world.record("counters/a"), world.ids("outbox"), world.tasks) == (None, [], [])


def test_100_tasks_of_one_commit_are_taken() -> None:
    world = OperationsPlatform()
    outbox.commit(world.ports, [Put("counters/a", {"n": 1})], [effect(f"n{n}") for n in range(LIMITS.outbox_tasks_max)])
    assert len(world.tasks) == 100
