"""The examples, run to their end in this process."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters import runtime
from shared.core.operations.ports import Query
from shared.kit import Function, semaphore
from tests.unit.kit.kit_town import Town, entry_of


@pytest.fixture
def town() -> Iterator[Town]:
    created = Town()
    Function("any").bind(created.store, created, created)
    yield created
    runtime.bind(None)


@pytest.mark.parametrize(("twice", "seed"), [(0, 0), (0.1, 1), (0.1, 2), (0.3, 3)])
def test_philosophers_eat_all_their_meals_and_put_every_fork_back(town: Town, twice: float, seed: int) -> None:
    entry = entry_of("philosophers")
    asked = {"table": "t", "seats": 5, "rounds": 5}
    assert town.ask(entry, "/", json=asked) == (202, {"table": "t", "meals": 25})
    assert town.ask(entry, "/", json=asked)[0] == 202
    town.run(twice, seed)
    assert len([key for key in town.documents() if key.endswith("-ends")]) == 25
    assert all(semaphore(f"t-fork-{number}").acquire() for number in range(5))


def test_nobody_waits_for_a_lease_to_end(town: Town) -> None:
    """In the naive order everybody would hold one fork and wait for the other."""
    begun_at = town.time
    town.ask(entry_of("philosophers"), "/", json={"table": "t", "seats": 5, "rounds": 5})
    town.run()
    meals = [each for each in town.store.query(Query("documents", limit=100)) if each.id.endswith("-ends")]
    assert len(meals) == 25
    assert max(each.update_time for each in meals if each.update_time) - begun_at < timedelta(seconds=20)


def test_a_philosopher_who_lost_the_first_fork_does_not_eat_before_both_are_in_hand_again(town: Town) -> None:
    town.ask(entry_of("philosophers"), "/", json={"table": "t", "seats": 2, "rounds": 1})
    town.deliver(town.take("take_the_other"))
    eat = town.take("eat")
    assert semaphore("t-fork-0").signal(str(eat.payload["first"]))
    town.deliver(eat)
    assert town.documents() == {}
    town.run()
    assert len(town.documents()) == 4


@pytest.mark.parametrize(
    "wrong", [{}, {"table": "t", "seats": 1, "rounds": 1}, {"table": "t", "seats": 2, "rounds": 0}]
)
def test_a_table_that_cannot_be_laid_is_refused(town: Town, wrong: Any) -> None:
    assert town.ask(entry_of("philosophers"), "/", json=wrong)[0] == 400
    assert town.waiting == {}


@pytest.mark.parametrize("side", [0, 1, 8])
def test_a_quilt_is_sewn_and_said_to_be_complete_once(town: Town, side: int) -> None:
    entry = entry_of("quilt")
    assert town.ask(entry, "/", json={"quilt": "q", "side": side})[0] == 202
    assert town.ask(entry, "/", json={"quilt": "q", "side": side})[0] == 202
    town.run()
    said = [each for each in town.documents().values() if each["kind"] == "announcement"]
    assert [each["squares"] for each in said] == [side * side]


def test_a_quilt_without_a_name_is_refused(town: Town) -> None:
    assert town.ask(entry_of("quilt"), "/", json={"quilt": "", "side": 2})[0] == 400
