"""Deadlocks in the wait-for graph: found if no holder of a circle can continue, and only then."""

from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox import Function, Lease, semaphore
from signalbox.semaphores.machine.deadlocks import HeldPermits, WaitForGraph, WantedPermits, cycles, stuck_holders
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

END = datetime(2026, 1, 1, tzinfo=UTC)
Pairs = list[tuple[str, str, int]]


def graph(permits: dict[str, int], held: Pairs, wanted: Pairs) -> WaitForGraph:
    return WaitForGraph(
        permits,
        tuple(HeldPermits(name, holder, count, END) for holder, name, count in held),
        tuple(WantedPermits(name, holder, count) for holder, name, count in wanted),
    )


def ring(size: int) -> WaitForGraph:
    held = [(f"p{i}", f"f{i}", 1) for i in range(size)]
    return graph({f"f{i}": 1 for i in range(size)}, held, [(f"p{i}", f"f{(i + 1) % size}", 1) for i in range(size)])


@pytest.mark.parametrize("size", [2, 5, 50])
def test_a_ring_of_holders_is_one_deadlock(size: int) -> None:
    [cycle] = cycles(ring(size))
    assert {step.holder for step in cycle} == {f"p{i}" for i in range(size)}
    for step, next_ in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        assert step.held_by == next_.holder
        assert step.waits_for in [one.semaphore for one in next_.holds]


def test_a_chain_to_a_holder_that_waits_for_nothing_is_not_a_deadlock() -> None:
    chain = graph({"f0": 1, "f1": 1}, [("p0", "f0", 1), ("p1", "f1", 1)], [("p0", "f1", 1)])
    assert stuck_holders(chain) == frozenset()


def test_a_holder_that_waits_for_a_deadlock_is_stuck_but_not_in_the_cycle() -> None:
    two = ring(2)
    outside = WaitForGraph(two.permits, two.held, (*two.wanted, WantedPermits("f0", "x", 1)))
    assert stuck_holders(outside) == {"p0", "p1", "x"}
    [cycle] = cycles(outside)
    assert {step.holder for step in cycle} == {"p0", "p1"}


def test_a_second_permit_that_is_free_or_without_a_holder_breaks_the_circle() -> None:
    two = ring(2)
    assert cycles(WaitForGraph({"f0": 2, "f1": 1}, two.held, two.wanted)) == ()


def test_several_permits_are_waited_for_together() -> None:
    held = [("a", "s", 1), ("b", "s", 1)]
    assert stuck_holders(graph({"s": 3}, held, [("a", "s", 1), ("b", "s", 1)])) == frozenset()
    assert stuck_holders(graph({"s": 3}, held, [("a", "s", 2), ("b", "s", 2)])) == {"a", "b"}


def test_a_holder_that_waits_for_itself_is_stuck() -> None:
    [cycle] = cycles(graph({"s": 1}, [("a", "s", 1)], [("a", "s", 1)]))
    assert [(step.holder, step.waits_for, step.held_by) for step in cycle] == [("a", "s", "a")]


def test_two_separate_deadlocks_are_listed_as_two() -> None:
    held = [(f"{table}{i}", f"{table}f{i}", 1) for table in "ab" for i in range(2)]
    wanted = [(f"{table}{i}", f"{table}f{1 - i}", 1) for table in "ab" for i in range(2)]
    found = cycles(graph({name: 1 for _, name, _ in held}, held, wanted))
    assert [{step.holder for step in cycle} for cycle in found] == [{"a0", "a1"}, {"b0", "b1"}]


# --- with the kit ---


@pytest.fixture
def table(harness: Harness) -> Any:
    app = Function("table")

    @app.task
    def first(lease: Lease, seat: int) -> None:
        semaphore(f"fork {1 - seat}").wait(second.call(seat=seat), holder=f"seat {seat}")

    @app.task
    def second(lease: Lease, seat: int) -> None: ...

    harness.add(app)
    for fork in range(2):
        semaphore(f"fork {fork}").ensure(permits=1, lease_seconds=20)
    return first


def test_a_deadlock_of_continuations_is_shown_until_a_lease_expires(harness: Harness, table: Any) -> None:
    for seat in range(2):
        semaphore(f"fork {seat}").wait(table.call(seat=seat), holder=f"seat {seat}")
    assert harness.get("semaphores?deadlocks=true").json == {"deadlocks": [], "complete": True}
    harness.run(due_only=True)
    shown = harness.get("semaphores?deadlocks=true").json
    [cycle] = shown["deadlocks"]
    assert [(step["holder"], step["waits_for"], step["held_by"]) for step in cycle] == [
        ("seat 0", "fork 1", "seat 1"),
        ("seat 1", "fork 0", "seat 0"),
    ]
    assert [one["semaphore"] for step in cycle for one in step["holds"]] == ["fork 0", "fork 1"]
    assert harness.get("semaphores/fork 0").json["waiters"][0]["holder"] == "seat 1"
    harness.advance(21)
    assert harness.get("semaphores?deadlocks=true").json["deadlocks"] == []


def test_a_deadlock_is_not_asked_for_together_with_waiting(harness: Harness) -> None:
    refused = harness.get("semaphores?deadlocks=true&waiting=true")
    assert (refused.status, refused.json["field"]) == (400, "deadlocks")


def test_a_holder_is_a_short_text_and_needs_a_continuation(harness: Harness) -> None:
    semaphore("s").ensure(permits=1)
    for body in ({"holder": "a"}, {"holder": "a" * 129}, {"holder": 1}, {"holder": "\ud800"}):
        assert harness.post("semaphore-wait/s", json=body).status == 400
