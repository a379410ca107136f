"""Users' flows: registered by a decorator, started and sent events by HTTP and by tasks, through the real framework."""

import contextlib
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from signalbox import Function, Outcome, Problem, documents, flow, flows, objects, semaphore
from signalbox.core.problems import NotFound, OtherBody
from signalbox.flows.api.warnings import FlowWarning
from signalbox.flows.machine.effects import release_effect
from signalbox.flows.problems import BadFlow, FlowEnded, NoFlow
from signalbox.tasks.requests.signatures import WrongArguments
from signalbox.testing import Faults, Harness, TaskFailed, replay

app = Function("shop")
ran: list[Any] = []


class TornBox(Problem):
    status = 422
    title = "The box is torn"


@app.object
class Rack:
    left: int = 3

    def take(self, count: int) -> int:
        if count > self.left:
            raise TornBox("Nothing is left.")
        self.left -= count
        return self.left


@app.task
def pack(item: str) -> str:
    ran.append(item)
    if item == "torn":
        raise TornBox("Take another one.")
    return f"packed {item}"


@app.task
def noted(outcome: Outcome) -> None:
    ran.append((outcome.called["id"], outcome.result, outcome.error and outcome.error["type"]))


@app.task
def tell(id: str) -> None:  # noqa: A002  as a caller names it
    flows("parcel", id).event("signed", "by the task")
    raise_first(id)


@app.flow
async def parcel(item: str, count: int = 1) -> Any:
    flow.progress({"item": item})
    packed = await pack.call(item=item)
    left = await objects("Rack", "a").take(count=count)
    signed = await flow.event("signed")
    return {"packed": packed, "left": left, "signed": signed}


@app.flow
async def month(days: int) -> Any:
    begun = flow.now()
    await flow.sleep(days * 86_400)
    return (flow.now() - begun).days


@app.flow
async def family(items: list[str]) -> Any:
    results: list[Any] = await flow.settled(*[child.call(item=item) for item in items])
    return [each.result if each.ok else each.error.detail for each in results]


@app.flow
async def child(item: str) -> Any:
    return await pack.call(item=item)


@app.flow
async def acts_by_itself() -> Any:
    documents.put("d", {})
    await flow.sleep(1)


@app.flow
async def cleans_up(item: str) -> Any:
    """Do in its clean-up whatever the kit offers, as code may by mistake."""
    try:
        await flow.event("signed")
    finally:
        for act in (
            lambda: objects("Rack", "a").take(count=1),
            lambda: objects("Rack", "a").with_(delay_seconds=5).take(count=1),
            lambda: documents.put("d", {}),
            lambda: pack.call(item=item).enqueue(),
            lambda: flows("parcel", "p").event("signed"),
            lambda: parcel.start("other", item=item),
            lambda: semaphore("till").ensure(permits=1),
            lambda: flow.send(pack.call(item=item)),
        ):
            with contextlib.suppress(BaseException):
                act()
        with contextlib.suppress(BaseException):
            await objects("Rack", "a").take(count=1)


@app.flow
async def forgets() -> Any:
    forgotten()
    await flow.sleep(1)


def forgotten() -> None:
    """Create a command for nothing, where a look at the flow's source does not see it."""
    (lambda: pack.call(item="tea"))()


failures: set[str] = set()


def raise_first(name: str) -> None:
    """Raise at the first call for a name."""
    if name not in failures:
        failures.add(name)
        raise RuntimeError("the first time")


@pytest.fixture
def harness() -> Iterator[Harness]:
    ran.clear()
    failures.clear()
    with Harness() as entered:
        entered.add(app)
        yield entered


def test_a_flow_is_started_read_and_sent_events_by_http(harness: Harness) -> None:
    run = "shop/flows/parcel/p1"
    started = harness.post(run, json={"arguments": {"item": "tea"}})
    assert (started.status, started.json) == (201, {"flow": "parcel", "id": "p1"})
    assert harness.post(run, json={"arguments": {"item": "tea"}}).status == 200
    looked = harness.get(run).json
    assert (looked["state"], looked["progress"]) == ("running", {"item": "tea"})
    assert [each["command"] for each in looked["waiting_for"]] == ["step shop.pack"]
    harness.run()
    assert harness.post(f"{run}/events/signed", json={"value": "ann"}, headers={"Idempotency-Key": "e"}).status == 202
    assert harness.post(f"{run}/events/signed", json={"value": "ann"}, headers={"Idempotency-Key": "e"}).status == 202
    harness.run()
    ended = harness.get(f"{run}?wait_seconds=1").json
    assert (ended["state"], ended["result"]) == ("completed", {"packed": "packed tea", "left": 2, "signed": "ann"})
    log = harness.get(f"{run}/log").json
    assert [each["entry"] for each in log["entries"]] == ["done", "done", "event"]
    assert harness.get("shop/flows/parcel").json["flows"][0]["id"] == "p1"
    assert harness.get("shop/flows/parcel?state=running").json["flows"] == []
    assert harness.delete(run).status == 204
    assert harness.get(run).status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "problem"),
    [
        ("POST", "flows/nothing/x", {}, 404, "not-found"),
        ("GET", "flows/nothing", None, 404, "not-found"),
        ("GET", "flows/parcel/none", None, 404, "no-flow"),
        ("GET", "flows/parcel/none/log", None, 404, "no-flow"),
        ("POST", "flows/parcel/none/events/signed", {"value": 1}, 404, "no-flow"),
        ("POST", "flows/parcel/none/cancel", {}, 404, "no-flow"),
        ("POST", "flows/parcel/none/resume", {}, 404, "no-flow"),
        ("DELETE", "flows/parcel/none", None, 404, "no-flow"),
        ("POST", "flows/parcel/x", {"arguments": {"item": 7}}, 400, "bad-argument"),
        ("POST", "flows/parcel/x", {"arguments": {"item": "a", "other": 1}}, 400, "bad-argument"),
        ("POST", "flows/parcel/x", {"arguments": []}, 400, "bad-flow"),
        ("POST", "flows/parcel/x", {"argument": {}}, 400, "bad-flow"),
        ("POST", "flows/parcel/x", {"arguments": {"item": "a"}, "on_complete": {"function": "no"}}, 400, "bad-call"),
        ("POST", "flows/parcel/p1", {"arguments": {"item": "other"}}, 409, "other-body"),
        ("POST", "flows/parcel/ended/events/signed", {"value": 1}, 409, "flow-ended"),
        ("DELETE", "flows/parcel/p1", None, 409, "flow-running"),
        ("POST", "flows/parcel/p1/cancel", {"reason": 7}, 400, "bad-flow"),
        ("POST", "flows/parcel/p1/events/signed", {"values": 1}, 400, "bad-flow"),
        ("GET", "flows/parcel/p1/log?page_token=x", None, 400, "bad-query"),
        ("GET", "flows/parcel/p1?wait_seconds=31", None, 400, "bad-query"),
        ("GET", "flows/parcel?state=dead", None, 400, "bad-query"),
    ],
)
def test_bad_requests_are_refused_with_the_problem(
    harness: Harness, method: str, path: str, body: Any, status: int, problem: str
) -> None:
    parcel.start("p1", item="tea")
    parcel.start("ended", item="torn")
    harness.run()
    refused = harness.request(method, f"shop/{path}", json=body)
    assert (refused.status, refused.json["type"].rpartition(":")[2]) == (status, problem)
    assert refused.json["detail"]


def test_a_step_that_fails_ends_the_flow_with_its_problem_which_the_continuation_receives(harness: Harness) -> None:
    parcel.with_(on_complete=noted.call()).start("p1", item="torn")
    harness.run()
    status = flows("parcel", "p1").status()
    assert (status.state, status.error["status"], status.error["detail"]) == ("failed", 422, "Take another one.")
    assert ran == ["torn", ("p1", None, "torn-box")]
    with pytest.raises(FlowEnded):
        flows("parcel", "p1").event("signed")
    flows("parcel", "p1").cancel()
    assert flows("parcel", "p1").status().state == "failed"


def test_thirty_days_pass_in_a_test(harness: Harness) -> None:
    begun = harness.clock.now
    run = month.start("m", days=30)
    harness.travel(29 * 86_400)
    assert run.status().state == "running"
    harness.travel(86_400 + 60)
    assert run.status().result == 30
    assert harness.clock.now - begun == timedelta(days=30, seconds=60)


def test_flows_run_sub_flows_concurrently(harness: Harness) -> None:
    run = family.start("f", items=["tea", "torn", "cup"])
    harness.run(Faults(duplicate=0.3, reorder=True, seed=1))
    assert run.status().result == ["packed tea", "Take another one.", "packed cup"]


def test_a_cancel_ends_a_flow_where_it_waits(harness: Harness) -> None:
    run = parcel.start("p1", item="tea")
    harness.run()
    answer = harness.post("shop/flows/parcel/p1/cancel", json={"reason": "too late"})
    assert answer.status == 202
    harness.run()
    assert run.status().state == "cancelled"
    assert ran == ["tea"]


def test_an_event_of_a_task_is_applied_once_although_the_task_is_delivered_twice(harness: Harness) -> None:
    run = parcel.start("p1", item="tea")
    tell.call(id="p1").enqueue()
    harness.run(raise_errors=False)
    assert run.status().result["signed"] == "by the task"
    assert [each["entry"] for each in run.log()["entries"]].count("event") == 1


def test_the_clean_up_of_a_flow_that_only_waits_changes_nothing(harness: Harness) -> None:
    parcel.start("p", item="x")
    harness.run()
    ran.clear()
    run = cleans_up.start("c", item="tea")
    harness.run()
    run.event("other")
    harness.run()
    replay(cleans_up, run.log())
    left = objects("Rack", "a").take(count=0)
    harness.run()
    assert (ran, left.result()) == ([], 2)
    with pytest.raises(NotFound):
        documents.get("d")
    assert (flows("parcel", "p").status().state, run.status().state) == ("running", "running")


@pytest.mark.parametrize("code", [acts_by_itself, forgets])
def test_code_that_a_replay_breaks_is_stuck_with_its_place(harness: Harness, code: Any) -> None:
    run = code.start("s")
    with pytest.raises(TaskFailed, match=rf"{code.name}/s is stuck: .*test_flows_api.py:\d+ in {code.name}"):
        harness.run()
    status = run.status()
    assert status.state == "stuck"
    assert f"in {code.name}" in status.problem["place"] or f"in {code.name}" in status.problem["detail"]
    assert harness.ids("documents") == []
    assert ran == []


def test_calls_that_cannot_be_are_refused_when_they_are_made(harness: Harness) -> None:
    with pytest.raises(WrongArguments, match="needs the argument 'item'"):
        parcel.start("p")  # type: ignore[call-arg]  # refused also when it runs
    with pytest.raises(BadFlow, match="works only inside the code of a flow"):
        child.call(item="tea")
    with pytest.raises(BadFlow, match="has no flow 'nothing'"):
        flows("nothing", "x").start()
    with pytest.raises(NoFlow):
        flows("parcel", "none").status()
    parcel.start("p", item="tea")
    with pytest.raises(OtherBody):
        flows("parcel", "p").start(item="cup")


def test_a_flow_is_started_by_its_name_from_anywhere(harness: Harness) -> None:
    flows("child", "c").start(item="tea", on_complete=noted.call())
    harness.run()
    assert ran == ["tea", ("c", "packed tea", None)]


def test_an_object_s_call_in_a_flow_takes_no_options(harness: Harness) -> None:
    @app.flow
    async def optioned() -> Any:
        await objects("Rack", "a").with_(delay_seconds=5).take(count=1)

    run = optioned.start("o")
    harness.run(raise_errors=False)
    assert (run.status().state, "without options" in run.status().problem["detail"]) == ("stuck", True)


def test_two_flows_of_one_name_and_functions_that_are_not_flows_are_refused() -> None:
    other = Function("other")
    other.flow(month.definition.code)
    with pytest.raises(ValueError, match="two flows of the name month"):
        other.flow(month.definition.code)
    with pytest.raises(TypeError, match="is not `async def`"):
        other.flow(lambda: None)  # type: ignore[arg-type,return-value]  # no generator: what must be refused
    with pytest.raises(ValueError, match="the kit's own"):

        @other.task
        def flow_command() -> None: ...

    with pytest.raises(ValueError, match="the kit's own"):
        other.http("GET", "/flows/x")


def test_a_flow_that_takes_the_time_by_itself_is_warned_about_with_the_place() -> None:
    async def clock() -> Any:
        datetime.now()  # noqa: DTZ005  what a flow must not call

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Function("clocks").flow(clock)
    [warning] = caught
    assert (warning.category, warning.filename) == (FlowWarning, __file__)
    assert warning.lineno == clock.__code__.co_firstlineno + 1


def test_new_code_replays_the_log_of_a_running_flow(harness: Harness) -> None:
    run = parcel.start("p1", item="tea")
    harness.run()
    log = run.log()
    replay(parcel, log)
    newer = Function("newer")

    @newer.flow
    async def same_until_there(item: str, count: int = 1) -> Any:
        flow.progress("other")
        await pack.call(item=item)
        await objects("Rack", "a").take(count=count)
        await flow.event("signed")
        return await flow.sleep(5)

    @newer.flow
    async def asks_for_less(item: str, count: int = 1) -> Any:
        await pack.call(item=item)
        await flow.event("signed")

    @newer.flow
    async def waits_for_another(item: str, count: int = 1) -> Any:
        await pack.call(item=item)
        await objects("Rack", "a").take(count=count)
        await flow.event("delivered")

    replay(same_until_there, log)
    for code, text in ((asks_for_less, "object Rack.take"), (waits_for_another, "event delivered")):
        with pytest.raises(AssertionError, match=text) as failed:
            replay(code, log)
        assert code.name in str(failed.value)


def test_the_log_of_a_sub_flow_that_knows_its_parent_can_be_replayed(harness: Harness) -> None:
    own = Function("own")

    @own.flow
    async def inner() -> str:
        around = flow.context().parent
        await flow.event("alone" if around is None else around.key)
        return "done"

    @own.flow
    async def outer() -> str:
        return await inner.call_as("inside")

    harness.add(own)
    outer.start("around")
    harness.run()
    replay(inner, flows("inner", "inside").log())
    flows("inner", "inside").event("around")
    harness.run()
    replay(inner, flows("inner", "inside").log())
    assert "parent" not in flows("outer", "around").log()


def test_the_log_of_a_generation_that_has_not_begun_can_be_replayed(harness: Harness) -> None:
    second = Function("generations")

    @second.flow
    async def counted(number: int) -> Any:
        if number == 0:
            return flow.continue_as_new(number=1)
        assert not flow.patched("twice") or number < 2
        return await flow.event("go", int)

    harness.add(second)
    run = counted.start("c", number=0)
    run.suspend("before its second generation begins")
    log = harness.get("generations/flows/counted/c/log").json
    assert (log["state"], log["begins"], log["waiting_for"]) == ("suspended", True, {})
    replay(counted, log)
    with pytest.raises(AssertionError, match="AssertionError"):
        replay(counted, log | {"arguments": {"number": 2}})  # `patched` holds, as in its first turn


def test_the_log_of_a_run_that_was_terminated_can_be_replayed(harness: Harness) -> None:
    run = parcel.start("p1", item="tea")
    harness.run()
    run.terminate()
    log = run.log()
    replay(parcel, log)

    @Function("newer").flow
    async def parcels(item: str, count: int = 1) -> Any:
        await objects("Rack", "a").take(count=count)

    with pytest.raises(AssertionError, match=r"pack"):
        replay(parcels, log)


def test_locks_are_semaphores(harness: Harness) -> None:
    semaphore("till").ensure(permits=1)

    @app.flow
    async def till(item: str) -> Any:
        with await flow.lock("till", lease_seconds=600) as lease:
            return await pack.call(item=f"{item} under {lease.semaphore}")

    for number in range(3):
        till.start(str(number), item=str(number))
    queues = set()
    while harness.tasks:
        queues |= {each.queue for each in harness.tasks if each.task == "flow_result"}
        harness.queue.advance_to_next()
        harness.deliver_task(harness.queue.due()[0])
    assert queues == {"tasks"}  # the functions that grant permits may enqueue there
    assert sorted(ran) == [f"{number} under till" for number in range(3)]
    assert semaphore("till").acquire() is not None


def test_a_parameter_of_a_flow_may_be_named_id_but_not_as_an_option_of_start(harness: Harness) -> None:
    @app.flow
    async def ticket(id: int) -> Any:  # noqa: A002  a user's own name
        await pack.call(item=f"ticket {id}")
        return id

    run = ticket.start("t1", id=7)
    harness.run()
    assert run.status().result == 7
    with pytest.raises(TypeError, match="rename the parameter `on_complete`"):

        @app.flow
        async def follows(on_complete: int) -> Any:
            await pack.call(item=str(on_complete))


def test_the_status_of_a_run_names_a_stuck_sub_flow_at_any_depth(harness: Harness) -> None:
    @app.flow
    async def grandchild() -> Any:
        await flow.sleep(1)
        raise KeyError("a bug")

    @app.flow
    async def middle() -> Any:
        await grandchild.call()

    @app.flow
    async def top() -> Any:
        await flow.all(flow.event("x"), middle.call())

    run = top.start("t")
    harness.run(raise_errors=False)
    [event, sub_flow] = run.status().waiting_for
    assert (run.status().state, "stuck" in event) == ("running", False)
    assert (sub_flow["stuck"]["flow"], sub_flow["stuck"]["type"]) == ("grandchild", "flow-failed")
    shown = harness.get("shop/flows/top/t").json["waiting_for"]
    assert [each.get("stuck", {}).get("detail", "")[:8] for each in shown] == ["", "KeyError"]


def test_a_function_without_flows_runs_no_command_of_a_flow(harness: Harness) -> None:
    semaphore("till").ensure(permits=1)
    lease = semaphore("till").acquire(id="one")
    assert lease
    harness.add(Function("other"))
    granted = {"semaphore": "till", "id": lease.id, "token": lease.token}
    for function, status in (("other", 503), ("shop", 204)):
        assert harness.deliver_task(release_effect("flows/parcel~1", function, granted)).status == status
        assert bool(semaphore("till").acquire(id=function)) == (status == 204)
