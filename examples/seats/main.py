"""The seats of a show: a run of a flow that answers each reservation, so that no seat is sold twice.

The first reservation starts the run. Reservations are answered one after another, in one order for all callers.

    POST {base}seats/flows/show/friday/updates/reserve?wait_seconds=30 {"value": {"guest": "ann", "seats": ["a1"]}, "start": {"arguments": {"rows": 3}}}  200
    POST {base}seats/flows/show/friday/updates/pay?wait_seconds=30 {"value": {"guest": "ann"}}                  200
    GET  {base}seats/flows/show/friday/queries/free                                                           200
    POST {base}seats/flows/show/friday/events/closed {}                                                       202
"""  # noqa: E501  a request on one line

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from signalbox import Function, Problem, Transaction, flow, transaction

SEATS_IN_A_ROW = 8
PRICE = 20
HOLD_SECONDS = 600
"""A seat that is not paid by then is free again."""

ANSWERS_MAX = 50
"""After so many answers the run continues as new, with an empty log."""

app = Function("seats")


class Taken(Problem):
    status = 409
    title = "A seat is not free"


@dataclass
class Reservation:
    """The value of the update `reserve`."""

    guest: str
    seats: list[str]


@dataclass
class Payment:
    """The value of the update `pay`."""

    guest: str


@dataclass
class Held:
    """A seat that a guest has reserved and not paid."""

    guest: str
    until: datetime


@app.flow
async def show(rows: int, held: dict[str, Held] | None = None, sold: dict[str, str] | None = None) -> Any:
    """Answer reservations and payments until the show is closed. Return the guests by their seats."""
    held, sold = held or {}, sold or {}
    hall = [f"{chr(ord('a') + row)}{seat}" for row in range(rows) for seat in range(1, SEATS_IN_A_ROW + 1)]

    def free() -> list[str]:
        return [seat for seat in hall if seat not in sold and (seat not in held or held[seat].until <= flow.now())]

    flow.answer("free", free)
    for _ in range(ANSWERS_MAX):
        ways: dict[str, Any] = {"reserve": flow.update("reserve", Reservation), "pay": flow.update("pay", Payment)}
        which, got = await flow.first(**ways, closed=flow.event("closed"))
        if which == "closed":
            return sold
        try:
            if which == "reserve":
                got.answer(reserve(got.value, free(), held))
            else:
                got.answer(await pay(got.value.guest, held, sold))
        except Problem as problem:
            got.refuse(problem)
        flow.progress({"free": len(free()), "sold": len(sold)})
    return flow.continue_as_new(rows=rows, held=held, sold=sold)


def reserve(wanted: Reservation, free: list[str], held: dict[str, Held]) -> dict[str, object]:
    """Hold all seats of a reservation, or none."""
    if not wanted.seats:
        raise Problem("Name the seats.", field="seats")
    if missing := sorted({*wanted.seats} - {*free}):
        raise Taken(f"{', '.join(missing)} cannot be reserved. {len(free)} seats are free.", field="seats")
    until = flow.now() + timedelta(seconds=HOLD_SECONDS)
    held |= {seat: Held(wanted.guest, until) for seat in wanted.seats}
    return {"held": wanted.seats, "until": until.isoformat(), "price": PRICE * len(wanted.seats)}


async def pay(guest: str, held: dict[str, Held], sold: dict[str, str]) -> dict[str, object]:
    """Charge a guest for the seats that are held. Updates that arrive meanwhile wait."""
    seats = [seat for seat, one in held.items() if one.guest == guest and one.until > flow.now()]
    if not seats:
        raise Problem(f"No seat is held for {guest}.", field="guest")
    receipt = await charge.call(guest, PRICE * len(seats), str(flow.uuid()))
    for seat in seats:
        sold[seat] = held.pop(seat).guest
    return {"sold": seats, "receipt": receipt}


@app.task
def charge(guest: str, amount: int, payment: str) -> str:
    """Charge a guest once for a payment, however often this runs."""

    def code(t: Transaction) -> None:
        if t.get(f"payment-{payment}") is None:
            t.put(f"payment-{payment}", {"guest": guest, "amount": amount})

    transaction(code)
    return f"receipt of {guest} for {amount}"


seats = app.entry_point()
