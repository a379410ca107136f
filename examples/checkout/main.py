"""An order as a flow: charge, reserve, wait for a person's approval or a day, ship; and undo all of it if one fails.

The flow is one coroutine. If a process dies, the flow continues where it was. A day of waiting costs nothing.

    POST {base}shop/stock {"item": "tea", "count": 10}                                             202
    POST {base}shop/flows/checkout/7 {"arguments": {"order": "7", "item": "tea", "count": 1, "amount": 3000}}  201
    POST {base}shop/flows/checkout/7/events/approval {"value": {"by": "ann", "approved": true}}      202
    GET  {base}shop/flows/checkout/7/queries/receipt                                                 200
    GET  {base}shop/flows/checkout/7?wait_seconds=30                                               200

A page that writes to Firestore itself starts an order by creating the record ``orders/7``, with the same arguments.
"""

from dataclasses import dataclass
from typing import Any

from signalbox import (
    DocumentEvent,
    Function,
    Problem,
    Request,
    Response,
    Transaction,
    documents,
    flow,
    objects,
    read_only,
    semaphore,
    transaction,
)

APPROVAL_AMOUNT = 1_000
"""From this amount on, a person has to approve."""

APPROVAL_SECONDS = 86_400
DOCKS = 2
"""Parcels that are packed at once."""

app = Function("shop")


class InvalidOrder(Problem):
    title = "`item`, `count` or `amount` is missing or out of range"


class SoldOut(Problem):
    status = 409
    title = "There is too little of it in stock"


class NotApproved(Problem):
    status = 403
    title = "Nobody approved the order"


@dataclass
class Approval:
    """A person's answer: the value of the event `approval`."""

    by: str
    approved: bool


@dataclass
class Delivery:
    """Items for the stock. A repeated delivery of the same name is added once."""

    item: str
    count: int
    delivery: str = "first"


@app.object
class Stock:
    """The stock of an item, and the reserved counts by order."""

    key: str
    left: int = 0
    reserved: dict[str, int] = {}  # noqa: RUF012  each object starts with a copy

    def put(self, count: int) -> int:
        self.left += count
        return self.left

    def reserve(self, order: str, count: int) -> int:
        if count > self.left:
            raise SoldOut(f"{self.left} of {self.key} are left.")
        self.left -= count
        self.reserved[order] = count
        return self.left

    def release(self, order: str) -> int:
        """Undo a reservation, if there is one."""
        self.left += self.reserved.pop(order, 0)
        return self.left

    @read_only
    def show(self) -> dict[str, Any]:
        return {"left": self.left, "reserved": self.reserved}


@app.flow
async def checkout(order: str, item: str, count: int, amount: int) -> dict[str, str]:
    """Sell `count` of an item.

    If anything fails, or the flow is cancelled, the earlier steps are undone. A cancel does not interrupt shielded
    steps: a charge is not refunded before it has ended, and no parcel is forgotten.
    """
    paid = parcel = ""
    flow.answer("receipt", lambda: {"order": order, "amount": amount, "paid": paid, "parcel": parcel})
    try:
        paid = await flow.shield(flow.step(charge.call(order, amount), attempts_max=5, pause_seconds=2))
        await objects("Stock", item).reserve(order=order, count=count)
        await approval(amount)
        flow.progress({"paid": paid, "shipping": True})
        parcel = await flow.shield(ship.call(order, item))
    except (Problem, flow.Cancelled):
        await flow.shield(flow.all(undo.call(order), objects("Stock", item).release(order=order)))
        raise
    return {"paid": paid, "parcel": parcel}


async def approval(amount: int) -> None:
    """Wait for a person, for a day at most."""
    if amount < APPROVAL_AMOUNT:
        return
    flow.progress({"waits_for": "approval"})
    answer = flow.event("approval", Approval)
    match await flow.first(said=answer, late=flow.sleep(APPROVAL_SECONDS)):
        case ("late", _):
            raise NotApproved("There was no answer in a day.")
        case ("said", Approval(approved=False, by=who)):
            raise NotApproved(f"{who} declined.")


@app.flow
async def ship(order: str, item: str) -> str:
    """Pack a parcel at one of the docks, with a label that is printed meanwhile, and hand it over."""
    async with flow.lock("dock", lease_seconds=600):
        label, _ = await flow.all(print_label.call(order), pack.call(order, item))
    return await hand_over.call(order, label)


@app.task
def charge(order: str, amount: int) -> str:
    """Charge an order once, whenever and however often this runs."""
    if amount <= 0:
        raise InvalidOrder("An amount is positive.")

    def code(t: Transaction) -> None:
        if t.get(f"order-{order}") is None:
            t.put(f"order-{order}", {"order": order, "state": "charged"})

    transaction(code)
    return f"receipt of {order}"


@app.task
def undo(order: str) -> None:
    """Refund the charge. A charge that arrives later finds the order undone."""
    documents.put(f"order-{order}", {"order": order, "state": "undone"})


@app.task
def print_label(order: str) -> str:
    return f"label of {order}"


@app.task
def pack(order: str, item: str) -> str:
    return f"{item} for {order}"


@app.task
def hand_over(order: str, label: str) -> str:
    """Record that the parcel has left."""
    documents.put(f"order-{order}", {"order": order, "state": "shipped"})
    return f"parcel of {order}, {label}"


@app.http("POST", "/stock")
def deliver(_: Request, body: Delivery) -> Response:
    """Put an item into stock, once under a delivery's name, and open the docks."""
    if not body.item or body.count < 1:
        raise InvalidOrder("Send an item and a count above 0.")
    semaphore("dock").ensure(permits=DOCKS, lease_seconds=600)
    objects("Stock", body.item).with_(id=body.delivery).put(count=body.count)
    return Response(202, {"item": body.item})


@app.on_document("orders/{order}", on="created")
def ordered(event: DocumentEvent, order: str) -> None:
    """Start the checkout of an order that a page has written to Firestore. A second event starts nothing."""
    match event.after:
        case {"item": str(item), "count": int(count), "amount": int(amount)}:
            checkout.start(order, order=order, item=item, count=count, amount=amount)
        case _:
            raise InvalidOrder("An order has item, count and amount.")


@app.http("GET", "/orders/{order}")
def show_order(_: Request, order: str) -> dict[str, Any]:
    """Return the state of an order: charged, shipped or undone."""
    return documents.get(f"order-{order}")


shop = app.entry_point()
