"""Dataclasses, enums, times and the like as arguments, results, events and state: through the real framework."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from threading import Thread
from typing import Any, TypedDict

import pytest

from signalbox import Function, Outcome, Problem, Request, Unit, batch, flow, flows, objects, parse
from signalbox.core.problems import BadArgument
from signalbox.flows.api.runs import FlowStatus
from signalbox.flows.problems import BadFlow
from signalbox.objects.problems import BadObjectCall
from signalbox.tasks.api import Call
from signalbox.tasks.requests.signatures import WrongArguments
from signalbox.testing import Harness, replay

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Line:
    item: str
    price: Decimal
    size: Size = Size.SMALL


@dataclass
class Order:
    id: str
    lines: list[Line]
    due: datetime | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class Receipt:
    order: Order
    paid_at: datetime


class Approval(TypedDict):
    by: str
    at: datetime


ORDER = Order("7", [Line("tea", Decimal("2.50"), Size.LARGE)], NOON)
ORDER_JSON: dict[str, Any] = {
    "id": "7",
    "lines": [{"item": "tea", "price": "2.50", "size": "l"}],
    "due": "2026-01-31T12:00:00Z",
    "notes": [],
}
RECEIPT_JSON = {"order": ORDER_JSON, "paid_at": "2026-01-31T12:00:00Z"}

app = Function("typed")
seen: list[Any] = []


@app.task
def charge(order: Order, tip: Decimal = Decimal(0)) -> Receipt:
    seen.append((order, tip))
    if order.id == "bad":
        return order  # type: ignore[return-value] # the mistake
    return Receipt(order, NOON)


@app.task
def press(unit: Unit, line: Line) -> Size:
    seen.append((unit.index, line))
    return line.size


@app.task
def spoil(order: Order, names: list[str]) -> None:
    order.notes.append("spoilt")
    names.append("spoilt")
    raise Problem("It failed.")


@app.task
def note(outcome: Outcome) -> None:
    seen.append(parse(outcome.result, Receipt))


def weigh(order: Order) -> tuple[Size, float]:
    return order.lines[0].size, 2.5


@app.flow
async def purchase(order: Order) -> Receipt:
    order.notes.append("begun")
    receipt = await charge.call(order, Decimal("0.10"))
    receipt.order.notes.append("charged")
    size, weight = await flow.run(weigh, order)
    approval = await flow.event("approved", Approval)
    receipt.order.notes.append(f"{size.name} {weight} {approval['by']} {approval['at']:%H}")
    return replace(receipt, paid_at=approval["at"])


@app.flow
async def resale(order: Order, rounds: int = 0) -> str:
    if rounds:
        return flow.continue_as_new(order=replace(order, due=None), rounds=rounds - 1)  # type: ignore[return-value] # of a new run
    receipt = await purchase.call(order)
    return f"{receipt.order.due} {receipt.paid_at:%H} {receipt.order.notes}"


@app.object
class Till:
    orders: dict[str, Order] = {}  # noqa: RUF012  each object starts with a copy
    last: datetime | None = None

    def add(self, order: Order, at: datetime) -> Receipt | str:
        if order.id in self.orders:
            return "It is there."
        self.orders[order.id] = order
        self.last = at
        return Receipt(order, at)


@pytest.fixture
def harness() -> Iterator[Harness]:
    seen.clear()
    with Harness() as entered:
        entered.add(app)
        yield entered


def test_the_arguments_of_a_task_arrive_as_they_were_sent(harness: Harness) -> None:
    call = charge.call(ORDER, tip=Decimal("0.10"))
    assert call.payload == {"order": ORDER_JSON, "tip": "0.10"}
    call.enqueue()
    harness.run()
    assert seen == [(ORDER, Decimal("0.10"))]


def test_a_wrong_argument_is_refused_where_the_call_is_made_and_where_it_arrives(harness: Harness) -> None:
    with pytest.raises(WrongArguments, match=r"charge: order\.lines\[0\]\.price must be Decimal, not float") as refused:
        charge.call(Order("7", [Line("tea", 2.5)]))  # type: ignore[arg-type] # the mistake
    assert refused.value.argument == "order"
    Call("typed", "charge", {"order": {**ORDER_JSON, "coupon": 1}}).enqueue()
    harness.run(raise_errors=False)
    [failure] = kept(harness)
    assert failure["detail"] == "charge: order.coupon is not a field of Order."


def test_units_and_their_results_are_typed(harness: Harness) -> None:
    batch("menu").populate(press.call(line) for line in ORDER.lines)
    harness.run()
    assert seen == [(0, ORDER.lines[0])]
    assert [result["result"] for result in batch("menu").results()] == ["l"]


def test_a_flow_receives_what_its_steps_sub_flows_and_events_were_sent(harness: Harness) -> None:
    run = resale.start("r", ORDER, rounds=1)
    harness.run()
    [(charged, tip)] = seen
    assert (charged.notes, charged.due, tip) == (["begun"], None, Decimal("0.10"))
    [listed_run] = harness.get("typed/flows/purchase").json["flows"]
    inner = flows("purchase", listed_run["id"])
    inner.event("approved", {"by": "ann", "at": NOON})
    harness.run()
    assert run.status().result == "None 12 ['begun', 'charged', 'LARGE 2.5 ann 12']"
    assert inner.status().result == {
        "order": {**ORDER_JSON, "due": None, "notes": ["begun", "charged", "LARGE 2.5 ann 12"]},
        "paid_at": "2026-01-31T12:00:00Z",
    }
    replay(purchase, inner.log())
    replay(resale, run.log())


def test_code_that_changes_what_it_received_does_not_change_the_log(harness: Harness) -> None:
    run = purchase.start("p", ORDER)
    harness.run()
    log = run.log()
    assert log["arguments"] == {"order": ORDER_JSON}
    assert log["entries"][0]["result"] == {**RECEIPT_JSON, "order": {**ORDER_JSON, "notes": ["begun"]}}
    assert log["entries"][1]["result"] == ["l", 2.5]
    replay(purchase, log)


def test_an_event_of_another_type_is_raised_where_it_is_awaited(harness: Harness) -> None:
    run = purchase.start("p", ORDER)
    run.event("approved", {"by": "ann", "at": "noon"})
    harness.run()
    assert run.status().error["detail"].startswith("the event approved.at must be a time such as")


def test_a_result_of_another_type_is_the_error_of_the_step(harness: Harness) -> None:
    run = purchase.start("p", replace(ORDER, id="bad"))
    harness.run()
    detail = "The result of charge cannot be stored: the result must be Receipt, not Order."
    assert run.status().error["detail"] == detail


def test_a_continuation_reads_the_result_of_a_flow(harness: Harness) -> None:
    purchase.with_(on_complete=note.call()).start("p", ORDER).event("approved", Approval(by="ann", at=NOON))
    harness.run()
    [_, receipt] = seen
    assert receipt.paid_at == NOON


def test_a_run_is_started_by_name_with_values_of_their_own_types(harness: Harness) -> None:
    by_name = flows("purchase", "p").start(order=ORDER)
    assert by_name.log()["arguments"] == purchase.start("q", ORDER).log()["arguments"]
    with pytest.raises(BadFlow, match="order is a Thread, which JSON does not have: write a dataclass"):
        flows("purchase", "r").start(order=Thread())
    with pytest.raises(BadFlow, match="value is a Thread"):
        by_name.event("approved", Thread())
    assert harness.post("typed/flows/purchase/s", json={"order": {"id": 7, "lines": []}}).status == 400


def test_an_object_has_typed_state_arguments_and_results(harness: Harness) -> None:
    till = objects("Till", "a")
    calls = [till.add(order=ORDER, at=NOON), till.add(order=replace(ORDER, id="8"), at=NOON)]
    calls.append(till.add(order=ORDER, at=NOON))
    wrong = till.add(order={"id": "9", "lines": [{"item": 1, "price": "1"}]}, at=NOON)
    harness.run()
    assert calls[0].result() == RECEIPT_JSON
    assert parse(calls[1].result(), Receipt).order.id == "8"
    assert calls[2].result() == "It is there."
    with pytest.raises(BadArgument, match=r"order\.lines\[0\]\.item must be str, not int"):
        wrong.result()
    with pytest.raises(BadObjectCall, match=r"An argument cannot be sent: at is a Thread"):
        till.add(order=ORDER, at=Thread())


def test_a_failure_is_kept_with_the_arguments_that_were_sent(harness: Harness) -> None:
    spoil.call(ORDER, ["a"]).enqueue()
    harness.run(raise_errors=False)
    [failure] = kept(harness)
    assert failure["payload"] == {"order": ORDER_JSON, "names": ["a"]}


def kept(harness: Harness) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = harness.get("failures").json["failures"]
    return found


# --- plain values that the code of a flow changes ---


@app.task
def listed(names: list[str]) -> list[str]:
    return [*names, "listed"]


@app.flow
async def changing(names: list[str]) -> list[str]:
    names.append("changed")
    result = await listed.call(names)
    result.append("changed")
    told = await flow.event("told", list[str])
    told.append("changed")
    flow.progress(told)
    told.append("again")
    await flow.sleep(60)
    return [*result, *told]


def test_lists_that_a_flow_changes_are_its_own(harness: Harness) -> None:
    run = changing.start("c", ["a"])
    run.event("told", ["b"])
    harness.run(due_only=True)
    log, status = run.log(), run.status()
    assert log["arguments"] == {"names": ["a"]}
    assert log["entries"][0] | {"at": ""} == {"at": "", "entry": "event", "name": "told", "value": ["b"]}
    assert log["entries"][1]["result"] == ["a", "changed", "listed"]
    assert status.progress == ["b", "changed"]
    harness.travel(61)
    assert ended(run.status()) == ["a", "changed", "listed", "changed", "b", "changed", "again"]


def ended(status: FlowStatus) -> Any:
    assert status.ended, status
    return status.result


# --- what is refused when a function is loaded ---


def takes_a_thread(thread: Thread) -> None: ...


def returns_a_thread() -> Thread:
    return Thread()


def returns_lines() -> set[Line]:
    return set()


@pytest.mark.parametrize("code", [takes_a_thread, returns_a_thread, returns_lines])
def test_a_task_a_flow_and_a_method_without_a_codec_are_refused_when_they_are_loaded(code: Any) -> None:
    app = Function("refused")
    with pytest.raises(TypeError, match="write a"):
        app.task(code)

    async def run(thread: Thread) -> None: ...

    with pytest.raises(TypeError, match="run: the parameter 'thread' is a Thread, which JSON does not have"):
        app.flow(run)

    class Held:
        thread: Thread = Thread()

    with pytest.raises(TypeError, match=r"Held\.thread is a Thread"):
        app.object(Held)


# --- bodies of routes ---


def routed(harness: Harness) -> None:
    app = Function("orders")

    @app.http("PUT", "/{number}")
    def store(_: Request, number: str, body: Order) -> dict[str, Any]:
        return {"number": number, "is_same": body == ORDER}

    @app.http("POST")
    def count(_: Request, body: list[Line]) -> int:
        return len(body)

    @app.http("POST", "/parts/{body}")
    def of_part(request: Request, body: str) -> list[Any]:
        return [body, request.json()]

    harness.add(app)


def test_a_parameter_body_receives_the_body_as_a_value_of_its_type(harness: Harness) -> None:
    routed(harness)
    assert harness.put("orders/7", json=ORDER_JSON).json == {"number": "7", "is_same": True}
    assert harness.post("orders", json=ORDER_JSON["lines"] * 2).json == 2


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({**ORDER_JSON, "due": "noon"}, "body.due"),
        ({**ORDER_JSON, "lines": [{"item": "tea", "price": 2.5}]}, "body.lines[0].price"),
        ({**ORDER_JSON, "another": 1}, "body.another is not a field of Order."),
        ({}, "body.id"),
        ([ORDER_JSON], "body must be an object with the fields of Order, not list."),
    ],
)
def test_a_body_without_its_type_is_answered_with_400_and_the_place(harness: Harness, body: Any, detail: str) -> None:
    routed(harness)
    refused = harness.put("orders/7", json=body)
    assert (refused.status, refused.json["type"]) == (400, "urn:signalbox:problem:bad-body")
    assert refused.json["detail"].startswith(detail)


def test_a_body_that_is_not_json_has_the_problem_of_json(harness: Harness) -> None:
    routed(harness)
    assert harness.put("orders/7").json["type"] == "urn:signalbox:problem:not-json"


def test_a_part_of_the_address_may_be_called_body(harness: Harness) -> None:
    routed(harness)
    assert harness.post("orders/parts/wheel", json=[1]).json == ["wheel", [1]]


def test_a_parameter_body_needs_a_type_that_is_json_and_a_method_with_a_body() -> None:
    app = Function("orders")

    def untyped(_: Request, body) -> None: ...  # type: ignore[no-untyped-def]  # such code is refused

    def with_default(_: Request, body: int = 1) -> None: ...

    def timed(_: Request, body: complex) -> None: ...

    def typed(_: Request, body: int) -> None: ...

    for handler in (untyped, with_default):
        with pytest.raises(TypeError, match="annotate it with a type, and leave out its default"):
            app.http("POST")(handler)
    with pytest.raises(TypeError, match=r"timed: the parameter 'body'.*two `float`"):
        app.http("POST")(timed)
    for method in ("GET", "DELETE"):
        with pytest.raises(TypeError, match=f"a {method} has none"):
            app.http(method)(typed)
