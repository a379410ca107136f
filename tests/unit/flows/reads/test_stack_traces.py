"""Stack traces in the status of a run that has failed or is stuck: the frames of the user's code."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Function, Problem, flow, objects, read_only
from signalbox.adapters.http.routes import Request
from signalbox.core.problems import GaveUp
from signalbox.flows.http.open_answers import outcome_for_anyone
from signalbox.flows.limits import LIMITS
from signalbox.flows.service.turns import NOT_CONTINUED
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.testing import Harness

shop = Function("shop")


@shop.task
def decline() -> None:
    raise Problem("The card was declined.")


async def pay() -> None:
    await decline.call()


async def deeper(levels: int) -> None:
    if levels == 0:
        raise KeyError("missing")
    await deeper(levels - 1)


@shop.flow
async def order() -> None:
    await flow.all(pay(), flow.sleep(60))


@shop.flow
async def broken(levels: int) -> None:
    await flow.sleep(1)
    await deeper(levels)


@shop.flow
async def cancelled() -> None:
    await flow.event("never")


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(shop)
        yield harness


def shown(harness: Harness, path: str) -> Any:
    return harness.call("shop", path).json


def test_a_failed_run_shows_where_its_code_received_the_problem(harness: Harness) -> None:
    run = order.start("1")
    harness.run()
    lines = run.status().trace.splitlines()
    assert [line.partition(" in ")[2] for line in lines[::2]] == ["order", "pay"]
    assert lines[1::2] == ["    await flow.all(pay(), flow.sleep(60))", "    await decline.call()"]
    assert shown(harness, "/flows/order/1")["trace"] == run.status().trace


def test_a_stuck_run_shows_the_frames_of_its_error(harness: Harness) -> None:
    run = broken.start("1", 2)
    harness.run(raise_errors=False)
    trace = run.status().problem["trace"]
    assert [line.partition(" in ")[2] for line in trace.splitlines()[::2]] == ["broken", "deeper", "deeper", "deeper"]
    assert trace.splitlines()[-1] == '    raise KeyError("missing")'
    assert "signalbox/" not in trace


def test_of_a_long_stack_trace_the_innermost_frames_are_kept(harness: Harness) -> None:
    run = broken.start("1", 200)
    harness.run(raise_errors=False)
    trace = run.status().problem["trace"]
    assert LIMITS.flow_trace_bytes_max / 2 < len(trace.encode()) <= LIMITS.flow_trace_bytes_max + 10
    assert (trace[0], trace.splitlines()[-1]) == ("…", '    raise KeyError("missing")')


def test_a_cancelled_run_and_one_that_goes_on_have_none(harness: Harness) -> None:
    run = cancelled.start("1")
    harness.run()
    assert "trace" not in shown(harness, "/flows/cancelled/1")
    run.cancel()
    harness.run()
    assert (run.status().state, run.status().trace) == ("cancelled", "")


@shop.flow
async def around() -> None:
    await broken.call(2)


def test_an_open_function_and_the_wait_for_a_stuck_sub_flow_show_none(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    order.start("1")
    stuck = broken.start("1", 2)
    around.start("1")
    harness.run(raise_errors=False)
    assert "deeper" in stuck.status().problem["trace"]
    waits = shown(harness, "/flows/around/1")["waiting_for"]
    assert ("detail" in waits[0]["stuck"], "trace" in waits[0]["stuck"]) == (True, False)
    monkeypatch.setattr(Request, "is_open", property(lambda _: True))
    assert "trace" not in shown(harness, "/flows/order/1")
    assert shown(harness, "/flows/broken/1")["problem"].keys() == {"type", "detail", "place", "at"}


VALUE = "42-17"


@shop.task(attempts_max=1)
def charge() -> None:
    raise KeyError(VALUE)


@shop.flow
async def sale() -> None:
    await charge.call()


def wrap() -> None:
    raise KeyError(VALUE)


@shop.flow
async def inlined() -> None:
    with pytest.raises(GaveUp):
        await flow.step(flow.run(wrap), attempts_max=1)
    raise KeyError(VALUE)


@shop.flow
async def above() -> None:
    await inlined.call()


@shop.flow
async def choice() -> None:
    await flow.first_success(charge.call(), charge.call())


@shop.object
class Till:
    total: int = 0

    def add(self) -> int:
        raise KeyError(VALUE)

    @read_only
    def show(self) -> int:
        raise KeyError(VALUE)


@shop.flow
async def refusing() -> None:
    asked = await flow.update("pay")
    try:
        await charge.call()
    except GaveUp as error:
        asked.refuse(error)
    await flow.event("never")


@shop.flow
async def counting() -> None:
    await objects("Till", "1").add()


def test_an_open_function_shows_no_text_of_an_exception(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in (sale, above):
        code.start("1")
    harness.run(raise_errors=False)
    failed = harness.get("/shop/flows/sale/1").body.decode()
    assert (VALUE in failed, "Traceback" in failed) == (True, False)
    monkeypatch.setattr(Request, "is_open", property(lambda _: True))
    for path in ("sale/1", "sale/1/log", "sale/1/log?spans=true", "sale/1/events", "above/1", "above/1/log"):
        answer = harness.get(f"/shop/flows/{path}")
        assert (answer.status, VALUE in answer.body.decode()) == (200, False), path
    assert shown(harness, "/flows/sale/1")["error"]["detail"] == "Gave up after 1 attempts."
    below = shown(harness, "/flows/above/1")["waiting_for"][0]["stuck"]
    assert (below["type"], below["detail"]) == ("flow-failed", "The code of the flow has failed.")


def test_an_open_function_shows_no_text_that_another_error_quotes(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in (choice, counting):
        code.start("1")
    harness.run(raise_errors=False)
    assert all(VALUE in harness.get(f"/shop/flows/{name}/1").body.decode() for name in ("choice", "counting"))
    monkeypatch.setattr(Request, "is_open", property(lambda _: True))
    for name in ("choice", "counting"):
        for path in ("", "/log", "/events"):
            assert VALUE not in harness.get(f"/shop/flows/{name}/1{path}").body.decode(), (name, path)
    assert shown(harness, "/flows/choice/1")["error"]["detail"] == "None of 2 commands succeeded."
    assert shown(harness, "/flows/counting/1")["error"]["detail"] == "The code of the method has failed."


def test_an_open_function_shows_no_text_of_an_exception_in_the_answer_to_an_update(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing.start("1")
    harness.run()
    path, key = "/shop/flows/refusing/1", {"Idempotency-Key": "p"}
    monkeypatch.setattr(Request, "is_open", property(lambda _: True))
    update = harness.post(f"{path}/updates/pay?wait_seconds=0", json={}, headers=key).json["update"]
    harness.run(raise_errors=False)
    assert harness.get(f"{path}/answers/{update}").json["error"]["detail"] == "Gave up after 1 attempts."
    repeated = harness.post(f"{path}/updates/pay", json={}, headers=key)
    assert (repeated.status, repeated.json["detail"]) == (500, "Gave up after 1 attempts.")
    monkeypatch.setattr(Request, "is_open", property(lambda _: False))
    assert VALUE in harness.get(f"{path}/answers/{update}").json["error"]["detail"]


def test_an_open_function_shows_no_reason_why_a_retry_could_not_continue() -> None:
    quoting = CallOutcome.from_problem(Problem(f"The paper is out.{NOT_CONTINUED}KeyError: {VALUE}"))
    assert (outcome_for_anyone(quoting).error or {})["detail"] == "The paper is out. The retry could not continue."


def test_an_open_function_shows_no_text_of_an_exception_of_a_method(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/shop/objects/Till/1"
    assert VALUE in harness.post(f"{path}/add", json={}).json["detail"]
    monkeypatch.setattr(Request, "is_open", property(lambda _: True))
    for method in ("add", "show"):
        answer = harness.post(f"{path}/{method}", json={})
        assert (answer.status, answer.json["detail"]) == (500, "The code of the method has failed.")
    waiting = harness.post(f"{path}/add?wait_seconds=0", json={}).json["call"]
    harness.run(raise_errors=False)
    ended = harness.get(f"{path}/calls/{waiting}")
    assert (ended.status, ended.json["error"]["detail"]) == (200, "The code of the method has failed.")
