"""Runs whose ids the kit draws: one for each start, and the same one when a task or a request repeats the start."""

import pytest

from signalbox import Access, Function, flow, flows
from signalbox.adapters.cost_meter import measure
from signalbox.tasks.requests.signatures import WrongArguments
from signalbox.testing import Faults, Harness, TaskFailed
from signalbox.testing.fixtures import harness as harness

app = Function("shop")
other = Function("other")
started: list[str] = []


@app.flow
async def purchase(order: str, count: int = 1) -> str:
    await flow.event("go")
    return f"{count} of {order}"


@app.task
def begin(order: str) -> None:
    started.append(purchase.start_new(order).id)
    started.append(purchase.start_new(order, count=2).id)
    started.append(purchase.start_new(order).id)


@app.task
def sort_out() -> None:
    orders = ("8", "7") if started else ("7", "8")
    started.extend([purchase.start_new(order).id for order in orders])


@other.task
def begin_there(order: str) -> None:
    started.append(flows("purchase").with_(labels={"by": "other"}).start(order=order).id)


@app.flow
async def inside() -> None:
    purchase.start_new(order="7")


@app.http("POST", "/begin")
def begin_by_request(_: object) -> dict[str, str]:
    return {"id": purchase.with_(labels={"by": "request"}).start_new("7").id}


@pytest.fixture(autouse=True)
def shop(harness: Harness) -> Harness:
    started.clear()
    harness.add(app)
    harness.add(other)
    return harness


def listed(harness: Harness) -> list[str]:
    return [run["id"] for run in harness.get("shop/flows/purchase").json["flows"]]


def test_each_start_has_an_id_of_its_own_and_no_argument_is_taken_for_one(harness: Harness) -> None:
    runs = [purchase.start_new("7"), purchase.start_new("7"), purchase.start_new("8", 3), purchase.start_new(order="8")]
    assert sorted({run.id for run in runs}) == listed(harness)
    runs[2].event("go")
    harness.run()
    assert runs[2].status().result == "3 of 8"
    with pytest.raises(WrongArguments):
        purchase.start_new()  # type: ignore[call-arg]  # the wrong call is what is tested
    with pytest.raises(WrongArguments):
        purchase.start_new(7)  # type: ignore[arg-type]  # as above


def test_labels_time_outs_and_on_complete_are_those_of_any_start(harness: Harness) -> None:
    run = purchase.with_(labels={"tenant": "a"}, timeout_seconds=60).start_new("7")
    assert (run.status().labels, run.status().deadline_at is None) == ({"tenant": "a"}, False)
    assert flows(purchase.name, harness.post("shop/begin").json["id"]).status().labels == {"by": "request"}


@pytest.mark.parametrize("seed", range(4))
def test_a_second_delivery_of_a_task_starts_the_same_runs_and_equal_starts_are_different_runs(
    harness: Harness, seed: int
) -> None:
    begin.call(order="7").enqueue()
    harness.run(Faults(duplicate=0.8, lose_answer=0.8, reorder=True, seed=seed))
    assert (len(started) > 3, len({*started})) == (True, 3)
    assert sorted({*started}) == listed(harness)


def test_a_delivery_that_starts_runs_in_another_order_starts_the_same_runs(harness: Harness) -> None:
    sort_out.call().enqueue()
    harness.run(Faults(lose_answer=1))
    assert (len(started), len({*started})) == (4, 2)
    assert sorted({*started}) == listed(harness)


def test_the_tasks_of_another_function_start_a_run_by_its_name_once(harness: Harness) -> None:
    begin_there.call(order="7").enqueue()
    begin_there.call(order="7").enqueue()
    harness.run(Faults(lose_answer=1))
    assert (len(started), len({*started})) == (4, 2)
    assert sorted({*started}) == listed(harness)


def test_by_http_a_key_is_the_identity_and_not_the_id(harness: Harness) -> None:
    body = {"arguments": {"order": "7"}, "labels": {"tenant": "a"}}
    first = harness.post("shop/flows/purchase", json=body, headers={"Idempotency-Key": "k"})
    again = harness.post("shop/flows/purchase", json=body, headers={"Idempotency-Key": "k"})
    assert (first.status, again.status, first.json) == (201, 200, again.json)
    changed = harness.post("shop/flows/purchase", json=body | {"labels": {}}, headers={"Idempotency-Key": "k"})
    assert changed.status == 409
    assert harness.post("shop/flows/purchase/k", json=body).status == 201
    drawn = [harness.post("shop/flows/purchase", json=body).json["id"] for _ in range(2)]
    assert listed(harness) == sorted([first.json["id"], "k", *drawn])
    assert harness.get(f"shop/flows/purchase/{drawn[0]}").json["state"] == "running"
    assert harness.post("shop/flows/purchase", json={"arguments": {"count": 1}}).status == 400
    assert harness.post("shop/flows/none", json={}).status == 404


def test_the_code_of_a_flow_starts_no_run(harness: Harness) -> None:
    inside.start("1")
    with pytest.raises(TaskFailed, match="must not read or write"):
        harness.run()
    assert listed(harness) == []


def test_a_drawn_id_costs_nothing(harness: Harness) -> None:
    with measure() as cost:
        purchase.start_new("7")
    with measure() as chosen:
        purchase.start("1", "7")
    assert cost == chosen


def test_an_open_function_asks_its_rule_without_an_id() -> None:
    asked = []
    public = Function("public")

    @public.flow
    async def errand() -> None:
        await flow.event("go")

    @public.access("errand")
    def may(access: Access) -> bool:
        asked.append((access.action, access.id))
        return access.action == "start"

    with Harness() as harness:
        harness.add(public, public=True, exposes=["errand"])
        assert harness.post("public/flows/errand").status == 201
        assert asked == [("start", "")]
