"""Queries: what the code of a run answers about itself, from a replay that changes nothing anywhere."""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from signalbox import Function, Problem, documents, flow, flows, objects, semaphore
from signalbox.core.problems import BadArgument, Unavailable
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.problems import CannotQuery, NoFlow, NoQuery
from signalbox.flows.service import queries, reads, starts
from signalbox.testing import Harness, TaskFailed
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.cost_table import row_cost
from tests.unit.flows.shops import Shop, flows_of, raising, step

app = Function("shop")
other = Function("other")


class SoldOut(Problem):
    status = 410
    title = "There is none"


@dataclass
class Line:
    item: str
    count: int


@app.object
class Stock:
    left: int = 3

    def take(self) -> int:
        self.left -= 1
        return self.left


@app.task
def charge(item: str) -> str:
    return f"{item} paid"


@app.flow
async def purchase(order: str) -> list[str]:
    basket: list[Line] = []
    paid: list[str] = []

    def of(item: str, least: int = 0) -> list[Line]:
        return [line for line in basket if line.item == item and line.count >= least]

    def change() -> int:
        basket.append(Line("stolen", 1))
        return len(basket)

    def sold_out() -> None:
        raise SoldOut("We have no tea.")

    flow.answer("basket", lambda: basket)
    flow.answer("of", of)
    flow.answer("change", change)
    flow.answer("named", lambda name: [line for line in basket if line.item == name])
    flow.answer("sold_out", sold_out)
    flow.answer("buggy", lambda: total)
    flow.answer("who", lambda: [flow.context().id, flow.now().isoformat()[:4], order])
    flow.answer("large", lambda: "x" * 200_000)
    flow.answer("weird", lambda: {"it": object()})
    flow.answer("command", lambda: charge.call(item="tea"))
    flow.answer("sleep", lambda: flow.sleep(3))
    flow.answer("send", lambda: flow.send(charge.call(item="tea")))
    flow.answer("progress", lambda: flow.progress("half"))
    flow.answer("draws", flow.uuid)
    flow.answer("logs", lambda: flow.log.warning("asked"))
    flow.answer("object", lambda: objects("Stock", "tea").take())
    flow.answer("document", lambda: documents.get("d"))
    flow.answer("start", lambda: purchase.start("2", order="2"))
    while True:
        line = await flow.event("add", Line)
        if not line.count:
            break
        basket = [*basket, line]
    for line in basket:
        paid.append(await charge.call(item=line.item))
        flow.answer("paid", lambda: paid)
    total = len(paid)
    return paid


@app.flow
async def guarded(items: list[str]) -> None:
    closed: list[str] = []
    flow.answer("closed", lambda: closed)
    async with flow.lock("till"):
        try:
            await flow.event("go")
        finally:
            closed.append("closed")
            flow.send(charge.call(item="at the end"))
            await charge.call(item="cleaned")


@other.http("GET", "/ask")
def ask(_: Any) -> Any:
    return flows("purchase", "1").query("basket")


@app.http("GET", "/ask")
def ask_here(_: Any) -> Any:
    return {"basket": flows("purchase", "1").query("basket")}


@pytest.fixture(autouse=True)
def shop(harness: Harness) -> Harness:
    harness.add(app)
    harness.add(other)
    semaphore("till").ensure(permits=1)
    return harness


def begun(harness: Harness, *items: str) -> None:
    purchase.start("1", order="o")
    harness.run()
    for item in items:
        flows("purchase", "1").event("add", {"item": item, "count": 2})
    harness.run()


TEA, NUTS = {"item": "tea", "count": 2}, {"item": "nuts", "count": 2}


def test_a_query_sees_the_variables_of_the_code_at_its_place(harness: Harness) -> None:
    begun(harness)
    run = flows("purchase", "1")
    assert run.query("basket") == []
    begun(harness, "tea", "nuts")
    assert run.query("basket") == [TEA, NUTS]
    assert run.query("of", item="nuts") == [NUTS]
    assert run.query("of", item="nuts", least=3) == []
    assert run.query("named", name="tea") == [TEA]
    assert run.query("who") == ["1", "2026", "o"]


def test_a_query_by_http_has_json_arguments_and_says_from_how_many_entries_it_is(harness: Harness) -> None:
    begun(harness, "tea", "nuts")
    path = "shop/flows/purchase/1/queries"
    arguments = quote(json.dumps({"item": "tea"}))
    assert harness.get(f"{path}/of?arguments={arguments}").json == {
        "flow": "purchase",
        "id": "1",
        "query": "of",
        "result": [TEA],
        "entries": 2,
    }
    assert "basket" in harness.get(path).json["queries"]
    assert "paid" not in harness.get(path).json["queries"]
    for wrong in ("[]", "{", "1", "{" * 4_000):
        refused = harness.get(f"{path}/of?arguments={quote(wrong)}")
        assert (refused.status, refused.json["field"]) == (400, "arguments")
    assert harness.get(f"{path}/of?arguments={quote('{}')}").json["type"].endswith(":bad-argument")
    assert harness.get(f"{path}/of?limit=3").status == 400


def test_a_query_of_a_run_that_has_ended_sees_what_the_code_has_left(harness: Harness) -> None:
    begun(harness, "tea")
    flows("purchase", "1").event("add", {"item": "end", "count": 0})
    harness.run()
    run = flows("purchase", "1")
    assert run.status().state == "completed"
    assert (run.query("basket"), run.query("paid"), run.query("buggy")) == ([TEA], ["tea paid"], 1)


def test_a_run_that_is_suspended_is_queried_without_what_waits(harness: Harness) -> None:
    begun(harness, "tea")
    run = flows("purchase", "1")
    run.suspend()
    run.event("add", {"item": "nuts", "count": 2})
    harness.run()
    assert run.query("basket") == [TEA]
    run.resume()
    harness.run()
    assert run.query("basket") == [TEA, NUTS]


def test_a_run_that_was_terminated_is_queried_where_its_code_was(harness: Harness) -> None:
    begun(harness, "tea")
    flows("purchase", "1").terminate()
    assert flows("purchase", "1").query("basket") == [TEA]


def records(harness: Harness) -> dict[str, Any]:
    store: Any = harness.store
    return {name: dict(collection) for name, collection in store._collections.items()}


@pytest.mark.parametrize(
    "name", ["command", "sleep", "send", "progress", "draws", "logs", "object", "document", "start"]
)
def test_a_query_that_acts_is_refused_with_what_to_do_and_has_no_effect(
    harness: Harness, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun(harness, "tea")
    before, tasks = records(harness), list(harness.tasks)
    with caplog.at_level(logging.INFO), pytest.raises(CannotQuery, match="Send the run an event") as refused:
        flows("purchase", "1").query(name)
    assert repr(name) in refused.value.detail
    assert (records(harness), list(harness.tasks)) == (before, tasks)
    assert "asked" not in caplog.text
    assert harness.get(f"shop/flows/purchase/1/queries/{name}").status == 409


def test_what_a_query_changes_is_dropped_with_the_code(harness: Harness) -> None:
    begun(harness, "tea")
    before, tasks = records(harness), list(harness.tasks)
    run = flows("purchase", "1")
    assert [run.query("change"), run.query("change")] == [2, 2]
    assert run.query("basket") == [TEA]
    assert (records(harness), list(harness.tasks)) == (before, tasks)


def test_the_clean_up_of_code_that_is_dropped_has_no_effect_and_a_lock_stays_held(harness: Harness) -> None:
    guarded.start("1", items=[])
    harness.run()
    before, tasks = records(harness), list(harness.tasks)
    assert flows("guarded", "1").query("closed") == []
    assert (records(harness), list(harness.tasks)) == (before, tasks)
    flows("guarded", "1").event("go")
    harness.run()
    assert flows("guarded", "1").status().state == "completed"


def test_answers_that_cannot_be_given(harness: Harness) -> None:
    begun(harness, "tea")
    run = flows("purchase", "1")
    with pytest.raises(SoldOut):
        run.query("sold_out")
    assert harness.get("shop/flows/purchase/1/queries/sold_out").status == 410
    with pytest.raises(CannotQuery, match=r"NameError: cannot access free variable 'total'.*test_queries.py"):
        run.query("buggy")
    assert len(str(run.query("large"))) == 200_000
    with replaced(payload_bytes_max=200_000), pytest.raises(CannotQuery, match=r"200,002 bytes; the limit is 200,000"):
        run.query("large")
    with pytest.raises(CannotQuery, match="object"):
        run.query("weird")
    with pytest.raises(NoQuery, match="It answers: basket, buggy"):
        run.query("baskets")
    with pytest.raises(BadArgument, match="the query of takes no argument 'items'"):
        run.query("of", items="tea")
    with pytest.raises(NoFlow):
        flows("purchase", "none").query("basket")


def test_only_the_function_that_has_the_code_can_answer(harness: Harness) -> None:
    begun(harness, "tea")
    assert harness.get("shop/ask").json == {"basket": [TEA]}
    refused = harness.get("other/ask")
    assert (refused.status, refused.json["type"].rpartition(":")[2]) == (409, "cannot-query")
    assert "GET {base}shop/flows/purchase/1/queries/" in refused.json["detail"]
    assert harness.get("other/flows/purchase/1/queries/basket").status == 404


def test_an_open_function_asks_its_rule() -> None:
    seen = []
    public = Function("public")

    @public.flow
    async def errand() -> str:
        flow.answer("place", lambda: "here")
        return await flow.event("go", str)

    @public.access("errand")
    def may(access: Any) -> bool:
        seen.append((access.action, access.id, access.member))
        return bool(access.member == "place" or access.action == "start")

    with Harness() as harness:
        harness.add(public, public=True, exposes=["errand"])
        harness.post("public/flows/errand/1")
        harness.run()
        assert harness.get("public/flows/errand/1/queries/place").json["result"] == "here"
        assert harness.get("public/flows/errand/1/queries").status == 403
        assert seen[1:] == [("query", "1", "place"), ("query", "1", "")]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise TypeError("it has no text")


def unspeakable() -> None:
    raise Unspeakable


def of_a_class_that_is_not_there(line: "Lines") -> None:  # type: ignore[name-defined]  # noqa: F821  what is tested
    ...


def by_position(item: str, /) -> str:
    return item


@pytest.mark.parametrize(
    ("function", "detail"),
    [
        (lambda: 10**5_000, "cannot be written as JSON"),
        (lambda: [{"count": 10**5_000}], "cannot be written as JSON"),
        (unspeakable, "Unspeakable: its text cannot be shown"),
        (by_position, "the parameter 'item' cannot be passed by name"),
        (lambda *items: len(items), "the parameter 'items' cannot be passed by name"),
        (lambda **items: len(items), "the parameter 'items' cannot be passed by name"),
        (max, "no signature found for builtin"),
        ({"tea": 1}.get, "the parameter 'key' cannot be passed by name"),
        (of_a_class_that_is_not_there, "'Lines' is not defined"),
        (lambda: flow.continue_as_new(a=1), r"calls `flow.continue_as_new\(\)`\."),
    ],
)
def test_an_answer_that_cannot_be_given_is_refused_and_the_run_continues(function: Any, detail: str) -> None:
    async def order() -> None:
        flow.answer("done", function)
        await flow.event("end")

    shop = Shop(flows_of(order))
    shop.start("order")
    with pytest.raises(CannotQuery, match=detail):
        asked(shop, shop.flows)
    shop.event("order", "end")
    shop.settle()
    assert shop.status("order")["state"] == "completed"


# --- code that does not fit its log ---


async def order() -> str:
    done: list[str] = []
    flow.answer("done", lambda: done)
    for name in ("a", "b", "c"):
        done += [await step(name)]
    return "all"


def changed() -> Callable[..., Any]:
    async def order() -> str:
        done: list[str] = []
        flow.answer("done", lambda: done)
        for name in ("a", "other"):
            done += [f"{await step(name)}!"]
        return "all"

    return order


def raises_behind() -> Callable[..., Any]:
    async def order() -> str:
        done: list[str] = []
        flow.answer("done", lambda: done)
        for name in ("a", "b", "c"):
            done.append(await step(name))
            if name == "b":
                raise ZeroDivisionError
        return "all"

    return order


def raises_at_once() -> Callable[..., Any]:
    async def order() -> str:
        raise ZeroDivisionError("at once")

    return order


def at_c() -> Shop:
    """Return a shop with a run that waits for the end of its third step."""
    shop = Shop(flows_of(order))
    shop.start("order")
    for name in "ab":
        shop.deliver(shop.take(name))
    return shop


def asked(shop: Shop, flows: Flows, name: str = "done") -> tuple[Any, int]:
    answer = queries.query(shop.ports, flows, FlowAddress("order", "1"), name, {})
    return answer.result, answer.entries


def test_code_that_fails_at_an_entry_answers_from_those_before_it() -> None:
    shop = at_c()
    assert asked(shop, shop.flows) == (["a", "b"], 2)
    assert asked(shop, flows_of(changed())) == (["a!"], 1)
    assert asked(shop, flows_of(raises_behind())) == (["a"], 1)


def test_code_that_fails_at_its_start_answers_nothing() -> None:
    shop = at_c()
    with pytest.raises(CannotQuery, match="fails at its start: ZeroDivisionError: at once"):
        asked(shop, flows_of(raises_at_once()))


def test_a_run_that_is_stuck_at_a_new_entry_answers_from_the_log() -> None:
    shop = at_c()
    shop.flows = flows_of(changed())
    shop.deliver(shop.take("c"))
    assert shop.status("order")["state"] == "stuck"
    assert asked(shop, flows_of(order)) == (["a", "b"], 2)


def test_older_code_does_not_answer_for_newer() -> None:
    shop = at_c()
    shop.flows = flows_of(order, revision=2)
    shop.deliver(shop.take("c"))
    assert asked(shop, shop.flows)[0] == ["a", "b", "c"]
    with pytest.raises(Unavailable):
        asked(shop, flows_of(order, revision=1))


def test_a_run_whose_code_has_not_begun_is_asked_again_later() -> None:
    shop = Shop(flows_of(order))
    starts.start(shop.ports, Flows("elsewhere"), "shop", FlowAddress("order", "1"), {})
    with pytest.raises(Unavailable):
        asked(shop, shop.flows)
    shop.settle()
    assert asked(shop, shop.flows)[1] == 3


def test_a_run_that_is_stuck_at_its_start_says_so() -> None:
    shop = Shop(flows_of(raises_at_once()))
    shop.start("order")
    shop.settle()
    assert shop.status("order")["state"] == "stuck"
    with pytest.raises(CannotQuery, match="The run is stuck"):
        asked(shop, shop.flows)


def test_a_long_log_is_not_replayed() -> None:
    shop = at_c()
    with (
        replaced(flow_query_entries_max=1),
        pytest.raises(CannotQuery, match="2 entries, and a query replays at most 1"),
    ):
        asked(shop, shop.flows)


def test_code_that_never_ends_answers() -> None:
    over: list[bool] = []

    async def order() -> None:
        flow.answer("done", lambda: "yes")
        while not over:  # the interpreter drops it too, at its end
            with suppress(BaseException):
                await flow.event("never")

    shop = at_c()
    assert asked(shop, flows_of(order)) == ("yes", 0)
    over.append(True)


def test_a_shared_coroutine_and_a_later_answer_of_a_name() -> None:
    async def approval() -> str:
        asked_for = "Ann"
        flow.answer("who", lambda: asked_for)
        return await flow.event("yes", str)

    async def order() -> Any:
        flow.answer("done", lambda: 1)
        answer = await approval()
        flow.answer("done", lambda: answer)
        await flow.event("end")

    shop = Shop(flows_of(order))
    shop.start("order")
    assert (asked(shop, shop.flows)[0], asked(shop, shop.flows, "who")[0]) == (1, "Ann")
    shop.event("order", "yes", "fine")
    shop.settle()
    assert (asked(shop, shop.flows)[0], asked(shop, shop.flows, "who")[0]) == ("fine", "Ann")


@pytest.mark.parametrize(
    ("name", "function", "detail"),
    [
        ("not a name", lambda: 1, "must match"),
        ("a", 3, "needs a function"),
        ("", lambda: 1, "must match"),
    ],
)
def test_an_answer_that_cannot_be_is_an_error_of_the_code(name: str, function: Any, detail: str) -> None:
    async def order() -> None:
        flow.answer(name, function)
        await flow.event("e")

    shop = Shop(flows_of(order))
    shop.start("order")
    shop.settle()
    assert detail in shop.status("order")["problem"]["detail"]


def test_async_functions_and_too_many_queries_are_errors_of_the_code() -> None:
    async def late() -> None: ...

    async def order(count: int) -> None:
        for number in range(count):
            flow.answer(f"q{number}", late if count == 1 else len)
        await flow.event("e")

    for count, detail in ((1, "is `async def`"), (LIMITS.flow_answers_max + 1, "at most 100 queries")):
        shop = Shop(flows_of(order))
        shop.start("order", count=count)
        shop.settle()
        assert detail in shop.status("order")["problem"]["detail"]


def test_outside_of_a_flow_there_is_nothing_to_answer_and_a_flow_cannot_query(harness: Harness) -> None:
    with pytest.raises(Problem, match="works only inside the code of a flow"):
        flow.answer("a", lambda: 1)

    @app.flow
    async def asks() -> None:
        flows("purchase", "1").query("basket")

    harness.add(app)
    asks.start("1")
    with pytest.raises(TaskFailed, match="must not read or write"):
        harness.run()


def test_the_cost_of_a_query_is_that_of_a_look_and_a_read_for_each_part_of_the_log() -> None:
    with replaced(flow_tail_bytes_max=100, flow_chunk_bytes_max=150):
        shop = at_c()
        chunks = reads.get(shop.ports, FlowAddress("order", "1")).log.chunks
        assert chunks
        cost = shop.world.cost_of(lambda: asked(shop, shop.flows))
        assert cost == row_cost("flows", "query", "query_long", n=chunks)
    shop = at_c()
    assert shop.world.cost_of(lambda: asked(shop, shop.flows)) == row_cost("flows", "query")


def test_a_step_that_fails_is_seen_as_the_code_has_handled_it() -> None:
    async def order() -> None:
        seen: list[str] = []
        flow.answer("done", lambda: seen)
        try:
            await step("charge")
        except Problem as problem:
            seen.append(problem.detail)
        await flow.event("end")

    shop = Shop(flows_of(order), {"charge": raising("declined")})
    shop.start("order")
    shop.settle()
    assert asked(shop, shop.flows)[0] == ["declined"]
