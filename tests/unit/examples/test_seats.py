"""The seats of a show: each is sold once, to the guest whose reservation was answered."""

from random import Random
from typing import Any

import pytest

from examples.seats.main import ANSWERS_MAX, HOLD_SECONDS, PRICE
from signalbox import documents, flows
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness

START = {"arguments": {"rows": 2}}
NOW = Faults()


def send(harness: Harness, name: str, value: Any, key: str = "", **others: Any) -> str:
    """Send an update that may start the show, and return its id."""
    headers = {"Idempotency-Key": key} if key else {}
    body = {"value": value, "start": START, **others}
    sent = harness.post(f"seats/flows/show/friday/updates/{name}", json=body, headers=headers)
    assert sent.status in (200, 202)
    return str(sent.json["update"])


def reserve(harness: Harness, guest: str, *seats: str, **others: Any) -> str:
    return send(harness, "reserve", {"guest": guest, "seats": list(seats)}, **others)


def answer(harness: Harness, id_: str, faults: Faults = NOW) -> tuple[int, Any]:
    harness.run(faults)
    read = harness.get(f"seats/flows/show/friday/answers/{id_}")
    assert read.status == 200
    problem = read.json.get("error")
    return (problem["status"], problem["detail"]) if problem else (200, read.json["result"])


def test_the_first_reservation_starts_the_show_and_a_second_for_its_seat_is_refused(harness: Harness) -> None:
    first, second = reserve(harness, "ann", "a1", "a2"), reserve(harness, "bob", "a2", "b1")
    assert answer(harness, first)[1]["price"] == 2 * PRICE
    assert answer(harness, second) == (409, "a2 cannot be reserved. 14 seats are free.")
    assert "b1" in harness.get("seats/flows/show/friday/queries/free").json["result"]


def test_a_repeat_receives_the_same_answer_and_reserves_nothing(harness: Harness) -> None:
    first = answer(harness, reserve(harness, "ann", "a1", key="k"))
    harness.travel(60)
    assert answer(harness, reserve(harness, "ann", "a1", key="k")) == first
    assert flows("show", "friday").status().progress == {"free": 15, "sold": 0}


def test_a_seat_that_is_not_paid_in_time_is_free_again(harness: Harness) -> None:
    reserve(harness, "ann", "a1")
    harness.travel(HOLD_SECONDS)
    assert answer(harness, reserve(harness, "bob", "a1"))[0] == 200
    assert answer(harness, send(harness, "pay", {"guest": "ann"})) == (400, "No seat is held for ann.")
    assert answer(harness, send(harness, "pay", {"guest": "bob"}))[1] == {
        "receipt": f"receipt of bob for {PRICE}",
        "sold": ["a1"],
    }


@pytest.mark.parametrize("seed", range(3))
def test_each_seat_is_sold_once_and_paid_once(harness: Harness, seed: int) -> None:
    rng = Random(seed)
    faults = Faults(duplicate=0.3, lose_answer=0.2, unavailable=0.1, late=0.1, reorder=True, seed=seed)
    sent: dict[str, tuple[str, list[str]]] = {}
    for _ in range(30):
        guest, seats = f"guest {rng.randint(1, 9)}", rng.sample(["a1", "a2", "a3", "b1", "b2", "b3", "b8"], 2)
        sent[reserve(harness, guest, *seats)] = guest, seats
        if rng.random() < 0.4:
            send(harness, "pay", {"guest": guest})
        if rng.random() < 0.3:
            harness.run(faults)
    harness.run(faults)
    held = [sent[id_] for id_ in sent if answer(harness, id_)[0] == 200]
    assert sum(len(seats) for _, seats in held) == len({seat for _, seats in held for seat in seats})
    harness.post("seats/flows/show/friday/events/closed", json={})
    harness.run(faults)
    sold = flows("show", "friday").status().result
    assert sold.items() <= {(seat, guest) for guest, seats in held for seat in seats}
    payments = documents.query(("amount", ">", 0), limit=200).documents
    assert sum(int(each["amount"]) for each in payments) == PRICE * len(sold)


def test_a_long_show_keeps_its_seats_when_it_continues_as_new(harness: Harness) -> None:
    reserve(harness, "ann", "a1")
    for number in range(ANSWERS_MAX):
        send(harness, "pay", {"guest": f"nobody {number}"})
    assert answer(harness, send(harness, "pay", {"guest": "ann"}))[0] == 200
    assert answer(harness, reserve(harness, "bob", "a1")) == (409, "a1 cannot be reserved. 15 seats are free.")
    assert flows("show", "friday").status().log_length < ANSWERS_MAX


def test_the_next_show_under_an_id_begins_with_free_seats(harness: Harness) -> None:
    reserve(harness, "ann", "a1")
    harness.run()
    harness.post("seats/flows/show/friday/events/closed", json={})
    harness.run()
    body = {"value": {"guest": "bob", "seats": ["a1"]}, "start": START}
    closed = harness.post("seats/flows/show/friday/updates/reserve", json=body)
    assert (closed.status, closed.json["type"]) == (409, "urn:signalbox:problem:flow-ended")
    assert answer(harness, reserve(harness, "bob", "a1", if_exists="replace_ended"))[0] == 200
