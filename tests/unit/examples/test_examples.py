"""The examples, run to their end in this process."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from examples.philosophers.main import LEASE_SECONDS, THINK_SECONDS
from signalbox import documents, semaphore
from signalbox.core.ports import Query
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness


@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(duplicate=0.1, seed=1),
        Faults(duplicate=0.1, seed=2),
        Faults(duplicate=0.3, seed=3),
        Faults(lose_answer=0.2, unavailable=0.2, reorder=True, seed=4),
    ],
    ids=lambda faults: f"seed {faults.seed}",
)
def test_philosophers_eat_all_their_meals_and_put_every_fork_back(harness: Harness, faults: Faults) -> None:
    body = {"table": "t", "seats": 5, "rounds": 5}
    answer = harness.post("philosophers", json=body)
    assert (answer.status, answer.json) == (202, {"table": "t", "meals": 25})
    assert harness.post("philosophers", json=body).status == 202
    harness.run(faults)
    assert len([key for key in harness.ids("documents") if key.endswith("-ends")]) == 25
    assert all(semaphore(f"t-fork-{number}").acquire() for number in range(5))


def test_naive_philosophers_deadlock_and_the_leases_end_it(harness: Harness) -> None:
    harness.post("philosophers", json={"table": "t", "seats": 5, "rounds": 2, "mode": "naive"})
    harness.advance(THINK_SECONDS + 1)
    harness.run(due_only=True)
    assert harness.ids("documents") == []
    [cycle] = harness.get("semaphores?deadlocks=true").json["deadlocks"]
    assert [step["holder"] for step in cycle] == [f"t seat {seat}" for seat in range(5)]
    assert [step["waits_for"] for step in cycle] == [f"t-fork-{(seat + 1) % 5}" for seat in range(5)]
    assert not [task for task in harness.tasks if task.function == "philosophers"]
    harness.advance(LEASE_SECONDS)
    harness.run(due_only=True)
    assert harness.get("semaphores?deadlocks=true").json["deadlocks"] == []


def test_an_unknown_mode_is_refused(harness: Harness) -> None:
    body = {"table": "t", "seats": 2, "rounds": 1, "mode": "polite"}
    assert harness.post("philosophers", json=body).status == 400


def test_no_waiter_waits_for_a_lease_to_expire(harness: Harness) -> None:
    """In the naive order, each philosopher would hold one fork and wait for the other."""
    begun_at = harness.clock.now
    harness.post("philosophers", json={"table": "t", "seats": 5, "rounds": 5})
    harness.run()
    meals = [each for each in harness.store.query(Query("documents", limit=100)) if each.id.endswith("-ends")]
    assert len(meals) == 25
    assert max(each.update_time for each in meals if each.update_time) - begun_at < timedelta(seconds=20)


def test_a_philosopher_who_lost_the_first_fork_does_not_eat_before_both_are_in_hand_again(harness: Harness) -> None:
    harness.post("philosophers", json={"table": "t", "seats": 2, "rounds": 1})
    harness.deliver_task(harness.take("wait_for_second_fork"))
    eat = harness.take("eat")
    assert semaphore("t-fork-0").signal(str(eat.payload["first"]))
    harness.deliver_task(eat)
    assert harness.ids("documents") == []
    harness.run()
    assert len(harness.ids("documents")) == 4


@pytest.mark.parametrize(
    "wrong", [{}, {"table": "t", "seats": 1, "rounds": 1}, {"table": "t", "seats": 2, "rounds": 0}]
)
def test_a_table_with_invalid_fields_is_refused(harness: Harness, wrong: Any) -> None:
    assert harness.post("philosophers", json=wrong).status == 400
    assert harness.tasks == []


@pytest.mark.parametrize("side", [0, 1, 8])
def test_a_quilt_is_painted_and_announced_as_complete_once(harness: Harness, side: int) -> None:
    assert harness.post("quilt", json={"quilt": "q", "side": side}).status == 202
    assert harness.post("quilt", json={"quilt": "q", "side": side}).status == 202
    harness.run()
    stored = [documents.get(key) for key in harness.ids("documents")]
    announced = [each for each in stored if each["kind"] == "announcement"]
    assert [each["squares"] for each in announced] == [side * side]


def test_a_quilt_is_announced_by_one_task_however_often_it_is_delivered(harness: Harness) -> None:
    harness.post("quilt", json={"quilt": "q", "side": 3})
    harness.run(Faults(duplicate=1.0, seed=1))
    announced = [each for each in map(documents.get, harness.ids("documents")) if each["kind"] == "announcement"]
    assert len(announced) > 1
    assert len({each["task"] for each in announced}) == 1


def test_torn_squares_fail_and_the_quilt_is_complete_all_the_same(harness: Harness) -> None:
    assert harness.post("quilt", json={"quilt": "q", "side": 3, "torn": 2}).status == 202
    harness.run(raise_errors=False)
    assert [harness.get("batches/q").json[name] for name in ("state", "succeeded", "failed")] == ["completed", 7, 2]
    assert harness.post("quilt", json={"quilt": "r", "side": 3, "torn": -1}).status == 400


def test_a_quilts_page_is_html(harness: Harness) -> None:
    page = harness.get("quilt/q")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"EventSource" in page.body


def test_a_quilt_without_a_name_is_refused(harness: Harness) -> None:
    assert harness.post("quilt", json={"quilt": "", "side": 2}).status == 400


@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(duplicate=0.3, seed=1), Faults(lose_answer=0.2, unavailable=0.2, reorder=True, seed=2)],
    ids=lambda faults: f"seed {faults.seed}",
)
def test_transfers_make_no_money_and_lose_none(harness: Harness, faults: Faults) -> None:
    body = {"bank": "b", "accounts": 5, "amount": 100}
    for _ in range(2):
        assert harness.post("accounts/opening", json=body).json == {"bank": "b", "sum": 500}
    draw = Random(1)
    for number in range(40):
        first, other = draw.sample(range(5), 2)
        answer = harness.post(
            f"accounts/objects/Account/b-{first}/transfer?wait_seconds={draw.choice((0, 1))}",
            json={"to": f"b-{other}", "amount": draw.randint(1, 60)},
            headers={"Idempotency-Key": f"t{number}"},
        )
        assert answer.status in (200, 202, 402)
    harness.run(faults)
    bank = harness.get("accounts/banks/b?accounts=5").json
    assert bank["sum"] == 500
    assert min(bank["balances"]) >= 0


def test_a_transfer_above_the_balance_is_refused(harness: Harness) -> None:
    harness.post("accounts/opening", json={"bank": "b", "accounts": 2, "amount": 10})
    harness.run()
    answer = harness.post("accounts/objects/Account/b-0/transfer", json={"to": "b-1", "amount": 11})
    assert (answer.status, answer.json["detail"]) == (402, "b-0 has 10.")
    assert harness.get("accounts/banks/b?accounts=2").json["balances"] == [10, 10]


@pytest.mark.parametrize("body", [{"bank": "", "accounts": 2, "amount": 1}, {"bank": "b", "accounts": 0, "amount": 1}])
def test_a_bank_that_cannot_be_is_refused(harness: Harness, body: dict[str, Any]) -> None:
    assert harness.post("accounts/opening", json=body).status == 400
    assert harness.get("accounts/banks/b?accounts=101").status == 400
