"""The checkout: every order ends with all of it done, or with all of it undone."""

from typing import Any

import pytest

from examples.checkout.main import APPROVAL_AMOUNT, APPROVAL_SECONDS, DOCKS
from signalbox import flows, semaphore
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness


def order(harness: Harness, number: str, *, count: int = 1, amount: int = 30) -> None:
    arguments = {"order": number, "item": "tea", "count": count, "amount": amount}
    assert harness.post(f"shop/flows/checkout/{number}", json={"arguments": arguments}).status == 201


def stock(harness: Harness) -> dict[str, Any]:
    shown: dict[str, Any] = harness.post("shop/objects/Stock/tea/show", json={}).json["result"]
    return shown


def open_shop(harness: Harness, count: int = 10) -> None:
    for _ in range(2):
        assert harness.post("shop/stock", json={"item": "tea", "count": count}).status == 202


@pytest.mark.parametrize(
    "faults",
    [Faults(), *(Faults(duplicate=0.3, lose_answer=0.2, unavailable=0.1, reorder=True, seed=seed) for seed in (1, 2))],
    ids=lambda faults: f"seed {faults.seed}",
)
def test_orders_end_well_or_are_undone_and_what_is_left_and_reserved_adds_up(harness: Harness, faults: Faults) -> None:
    open_shop(harness)
    for number in range(12):
        order(harness, str(number), amount=0 if number == 3 else 30)
    flows("checkout", "5").cancel("changed my mind")
    harness.run(faults)
    ended = {str(number): check(harness, str(number)) for number in range(12)}
    assert ended["3"] == "undone"
    assert list(ended.values()).count("shipped") in (9, 10)
    assert stock(harness)["left"] + sum(stock(harness)["reserved"].values()) == 10
    assert stock(harness)["reserved"].keys() == {number for number, state in ended.items() if state == "shipped"}
    assert all(semaphore("dock").acquire(id=f"free {number}") for number in range(DOCKS))


def check(harness: Harness, number: str) -> str:
    """Return how an order ended: shipped, or undone. One whose parcel has left is not cancelled any more."""
    ended = flows("checkout", number).status().state
    state = harness.get(f"shop/orders/{number}").json["state"]
    expected = {"completed": {"shipped"}, "failed": {"undone"}, "cancelled": {"undone"}}
    assert state in expected[ended]
    return str(state)


def test_a_large_order_waits_for_a_person_and_is_undone_after_a_day(harness: Harness) -> None:
    open_shop(harness)
    answers = {"1": {"by": "ann", "approved": True}, "2": {"by": "bob", "approved": False}, "3": None}
    for number, answer in answers.items():
        order(harness, number, amount=APPROVAL_AMOUNT)
        harness.travel(60)
        looked = harness.get(f"shop/flows/checkout/{number}").json
        assert (looked["state"], looked["progress"]) == ("running", {"waits_for": "approval"})
        if answer:
            sent = harness.post(f"shop/flows/checkout/{number}/events/approval", json={"value": answer})
            assert sent.status == 202
    harness.travel(APPROVAL_SECONDS - 600)
    assert check(harness, "1") == "shipped"
    assert flows("checkout", "2").status().error["detail"] == "bob declined."
    assert flows("checkout", "3").status().state == "running"
    harness.run()
    assert [check(harness, number) for number in "123"] == ["shipped", "undone", "undone"]
    assert stock(harness) == {"left": 9, "reserved": {"1": 1}}


def test_a_cancel_that_comes_while_an_order_is_undone_leaves_nothing_reserved(harness: Harness) -> None:
    open_shop(harness)
    order(harness, "1", amount=APPROVAL_AMOUNT)
    harness.travel(60)
    declined = {"value": {"by": "bob", "approved": False}}
    assert harness.post("shop/flows/checkout/1/events/approval", json=declined).status == 202
    flows("checkout", "1").cancel("too late")
    harness.run()
    assert check(harness, "1") == "undone"
    assert stock(harness) == {"left": 10, "reserved": {}}


@pytest.mark.parametrize("body", [{"item": "", "count": 1}, {"item": "tea", "count": 0}, {"item": "tea"}])
def test_a_delivery_with_invalid_fields_is_refused(harness: Harness, body: Any) -> None:
    assert harness.post("shop/stock", json=body).status == 400


def test_an_order_that_a_page_writes_to_firestore_is_checked_out_once(harness: Harness) -> None:
    open_shop(harness)
    harness.write_record("orders/7", {"item": "tea", "count": 2, "amount": 30})
    harness.write_record("orders/8", {"item": "tea"})
    events = list(harness.events)
    for _ in range(2):
        harness.run()
        harness.events += events
    assert check(harness, "7") == "shipped"
    assert stock(harness) == {"left": 8, "reserved": {"7": 2}}
    [failure] = harness.get("failures").json["failures"]
    assert (failure["task"], failure["detail"]) == ("ordered", "An order has item, count and amount.")
