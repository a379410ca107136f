"""One action on all runs that match: which they are, once for each, and the batch that shows how far it is."""

from typing import Any

import pytest

from signalbox import Function, Problem, batch, flow, flows, semaphore
from signalbox.adapters import runtime
from signalbox.batches.service import pages
from signalbox.core.ports import Query
from signalbox.core.problems import Unavailable
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.service import lists, retries
from signalbox.flows.tasks import bulk
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced

URN = "urn:signalbox:problem:"
app = Function("mills")


@app.flow
async def grinding(sacks: int = 1) -> int:
    await flow.event("wind")
    return sacks


@app.flow
async def other() -> None:
    await flow.event("wind")


def begin(harness: Harness, count: int = 4) -> None:
    harness.add(app)
    for number in range(count):
        labels = {"tenant": "ab"[number % 2]}
        grinding.with_(labels=labels).start(f"g{number}", sacks=number)
    other.start("o1")
    harness.run()


def act(harness: Harness, body: dict[str, Any], key: str = "k") -> Any:
    return harness.call("mills", "/flows/grinding/:act", method="POST", json=body, headers={"Idempotency-Key": key})


def states(harness: Harness) -> dict[str, str]:
    listed: Any = harness.call("mills", "/flows/grinding").json
    return {run["id"]: run["state"] for run in listed["flows"]}


def test_all_runs_with_a_label_are_cancelled_as_a_batch(harness: Harness) -> None:
    begin(harness)
    body = {"action": "cancel", "label": "tenant:a", "reason": "no wind"}
    assert act(harness, {**body, "dry_run": True}).json == {"count": 2}
    answer = act(harness, body)
    assert (answer.status_code, answer.json["count"]) == (202, 2)
    harness.run()
    assert states(harness) == {"g0": "cancelled", "g1": "running", "g2": "cancelled", "g3": "running"}
    assert flows("grinding", "g0").status().error["detail"] == "no wind"
    status = batch(answer.json["batch"]).status()
    assert (status["state"], status["size"], status["succeeded"]) == ("completed", 2, 2)
    assert [unit["result"] for unit in batch(answer.json["batch"]).results()] == ["done", "done"]
    assert flows("other", "o1").status().state == "running"


@pytest.mark.parametrize(
    ("action", "state"), [("terminate", "cancelled"), ("resume", "running"), ("cancel", "cancelled")]
)
def test_every_action_on_the_runs_of_a_state(harness: Harness, action: str, state: str) -> None:
    begin(harness)
    chosen = "suspended" if action == "resume" else "running"
    for id_ in ("g1", "g3") if action == "resume" else ():
        flows("grinding", id_).suspend("a pause")
    harness.run()
    act(harness, {"action": action, "state": chosen})
    harness.run()
    assert set(states(harness).values()) == {state}


def test_ended_runs_are_deleted(harness: Harness) -> None:
    begin(harness)
    flows("grinding", "g1").terminate()
    flows("grinding", "g2").terminate()
    answer = act(harness, {"action": "delete", "state": "cancelled"})
    harness.run()
    assert set(states(harness)) == {"g0", "g3"}
    assert batch(answer.json["batch"]).status()["succeeded"] == 2


def test_what_a_run_refuses_is_a_failed_unit(harness: Harness) -> None:
    begin(harness)
    answer = act(harness, {"action": "delete", "label": "tenant:a"})
    harness.run()
    errors = sorted(unit["error"] for unit in batch(answer.json["batch"]).results("failed"))
    assert [error.partition(".")[0] for error in errors] == [
        f"{id_}: A running flow cannot be deleted" for id_ in ("g0", "g2")
    ]


def test_a_repeat_under_the_key_is_the_same_batch_and_another_action_is_refused(harness: Harness) -> None:
    begin(harness)
    body = {"action": "cancel", "label": "tenant:a"}
    first = act(harness, body).json
    harness.run()
    grinding.with_(labels={"tenant": "a"}).start("late", sacks=1)
    harness.travel(60)
    again = act(harness, body)
    assert (again.status_code, again.json) == (202, first)
    harness.run()
    assert states(harness)["late"] == "running"
    refused = act(harness, {"action": "terminate", "label": "tenant:a"})
    assert (refused.status_code, refused.json["type"]) == (409, f"{URN}other-body")


def test_a_repeat_after_a_death_continues_behind_the_last_page(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(harness, 5)
    load: Any = pages.load_page
    loaded: list[int] = []

    def dying(*arguments: Any) -> Any:
        if loaded:
            raise KeyboardInterrupt
        loaded.append(arguments[3])
        return load(*arguments)

    wanted = bulk.ActionOnRuns("cancel", lists.Runs("grinding", "running"))
    with replaced(page_units_max=2, flow_bulk_page=3, flow_bulk_per_task=2):
        monkeypatch.setattr(pages, "load_page", dying)
        with pytest.raises(KeyboardInterrupt):
            bulk.act_on_all(runtime.ports(), "mills", wanted, "k")
        monkeypatch.undo()
        harness.run()  # the units of the first page
        assert sorted(states(harness).values()) == ["cancelled"] * 2 + ["running"] * 3
        grinding.start("g00", sacks=1)  # before the last id: it matches too late
        begun = bulk.act_on_all(runtime.ports(), "mills", wanted, "k")
        assert begun.count == 5
        harness.run()
    assert states(harness) == {"g00": "running", **{f"g{number}": "cancelled" for number in range(5)}}


def test_two_requests_under_one_key_at_once_are_one_batch(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(harness)
    wanted = bulk.ActionOnRuns("cancel", lists.Runs("grinding", "running"))
    others: list[bulk.Begun] = []

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        harness.travel(1)
        others.append(bulk.act_on_all(runtime.ports(), "mills", wanted, "k"))
        return lists.count_flows(*arguments)

    monkeypatch.setattr(bulk, "count_flows", overtaken)
    begun = bulk.act_on_all(runtime.ports(), "mills", wanted, "k")
    assert [begun] == others
    harness.run()
    assert set(states(harness).values()) == {"cancelled"}


def test_a_repeat_that_finds_pages_which_another_one_has_loaded_is_sent_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(harness)
    wanted = bulk.ActionOnRuns("cancel", lists.Runs("grinding", "running"))
    listed: Any = bulk._ids

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        assert bulk.act_on_all(runtime.ports(), "mills", wanted, "k").count == 4
        return [*listed(*arguments), "g9"]

    monkeypatch.setattr(bulk, "_ids", overtaken)
    with pytest.raises(Unavailable, match="another repeat"):
        bulk.act_on_all(runtime.ports(), "mills", wanted, "k")
    assert bulk.act_on_all(runtime.ports(), "mills", wanted, "k").count == 4


def test_a_request_whose_batch_is_cancelled_meanwhile_is_answered_with_what_was_loaded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(harness, 6)
    load: Any = pages.load_page
    wanted = bulk.ActionOnRuns("cancel", lists.Runs("grinding", "running"))

    def cancelled(*arguments: Any) -> Any:
        created = load(*arguments)
        batch(bulk.batch_of("mills", "grinding", "k")).cancel()
        return created

    monkeypatch.setattr(pages, "load_page", cancelled)
    with replaced(page_units_max=2, flow_bulk_per_task=2):
        begun = bulk.act_on_all(runtime.ports(), "mills", wanted, "k")
        assert bulk.act_on_all(runtime.ports(), "mills", wanted, "k") == begun
    assert begun.count == 2
    assert batch(begun.batch).status()["state"] == "cancelled"


def test_runs_are_chosen_by_the_beginning_of_their_ids(harness: Harness) -> None:
    begin(harness)
    grinding.start("g1-again")
    assert act(harness, {"action": "terminate", "prefix": "g1"}).json["count"] == 2
    harness.run()
    assert {id_ for id_, state in states(harness).items() if state == "cancelled"} == {"g1", "g1-again"}


def test_a_run_that_is_removed_while_its_unit_acts_is_skipped(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(harness)
    terminate, matches = unit_of("terminate"), bulk.matches

    def removed(*arguments: Any) -> bool:
        flows("grinding", "g0").terminate()
        flows("grinding", "g0").delete()
        return matches(*arguments)

    monkeypatch.setattr(bulk, "matches", removed)
    assert bulk.act_on_run(runtime.ports(), terminate) == "skipped"


def unit_of(action: str, state: str = "", label: str = "") -> dict[str, Any]:
    """Return a unit on the run g0, of a request at this time."""
    [read] = runtime.ports().store.read("clock/now")
    chosen = lists.Runs("grinding", state or None, None, "g")
    return bulk.ActionOnRuns(action, chosen).payload("b", read.read_time.isoformat()) | {"id": "g0", "label": label}


def test_a_unit_skips_a_run_that_has_changed_or_is_another_one(harness: Harness) -> None:
    begin(harness)
    ports = runtime.ports()
    terminate, cancel_b = unit_of("terminate", "stuck"), unit_of("cancel", label="tenant:b")
    assert [bulk.act_on_run(ports, each) for each in (terminate, cancel_b)] == ["skipped", "skipped"]
    delete = unit_of("delete")
    terminate_all = unit_of("terminate")
    flows("grinding", "g0").terminate()
    flows("grinding", "g0").delete()
    assert bulk.act_on_run(ports, delete) == "skipped"
    harness.travel(10)
    grinding.start("g0", sacks=9)
    harness.run()
    assert bulk.act_on_run(ports, terminate_all) == "skipped"
    assert flows("grinding", "g0").status().state == "running"


def test_a_run_that_is_stuck_for_another_reason_than_at_the_request_is_still_stuck(harness: Harness) -> None:
    mills = Function("mills")
    missing = ["wind", "sacks"]

    @mills.flow
    async def grinding() -> None:
        raise ValueError(missing[0])

    harness.add(mills)
    grinding.start("g0")
    harness.run(raise_errors=False)
    terminate = unit_of("terminate", "stuck")
    missing.pop(0)
    flows("grinding", "g0").resume()
    harness.run(raise_errors=False)
    assert "sacks" in flows("grinding", "g0").status().problem["detail"]
    assert bulk.act_on_run(runtime.ports(), terminate) == "done"


def test_a_second_delivery_of_a_unit_does_not_undo_what_a_person_did_since(harness: Harness) -> None:
    begin(harness)
    ports, run = runtime.ports(), flows("grinding", "g0")
    run.suspend("a pause")
    harness.travel(1)
    resume = unit_of("resume")
    assert bulk.act_on_run(ports, resume) == "done"
    harness.travel(10)
    run.suspend("another pause")
    assert bulk.act_on_run(ports, resume) == "skipped"
    assert run.status().state == "suspended"


def test_a_second_delivery_of_a_cancel_is_the_same_cancel(harness: Harness) -> None:
    begin(harness)
    cancel = unit_of("cancel")
    assert [bulk.act_on_run(runtime.ports(), cancel) for _ in range(2)] == ["done", "done"]
    messages = runtime.ports().store.query(Query("flows/grinding~g0/mailbox"))
    assert len([each for each in messages if each.id != "!"]) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "cancel"}, "state"),
        ({"action": "repair", "state": "stuck"}, "action"),
        ({"state": "stuck"}, "action"),
        ({"action": "cancel", "state": "tired"}, "state"),
        ({"action": "cancel", "label": "tenant"}, "label"),
        ({"action": "cancel", "label": "tenant:\ud800"}, "label"),
        ({"action": "cancel", "state": "stuck", "ids": []}, "ids"),
    ],
)
def test_a_request_that_chooses_nothing_or_something_unknown_is_refused(
    harness: Harness, body: dict[str, Any], field: str
) -> None:
    begin(harness, 1)
    answer = act(harness, body)
    assert (answer.status_code, answer.json["field"]) == (400, field)


def test_more_runs_than_one_request_acts_on_are_refused_before_any(harness: Harness) -> None:
    begin(harness)
    with replaced(flow_bulk_runs_max=3):
        answer = act(harness, {"action": "cancel", "state": "running"})
    assert (answer.status_code, answer.json["type"]) == (409, f"{URN}too-many-runs")
    harness.run()
    assert set(states(harness).values()) == {"running"}


def test_no_runs_are_an_empty_batch(harness: Harness) -> None:
    begin(harness)
    answer = act(harness, {"action": "resume", "state": "stuck"})
    harness.run()
    assert answer.json["count"] == 0
    assert batch(answer.json["batch"]).status()["state"] == "completed"


shop = Function("locks")
broken: list[str] = []


@shop.task
def print_page() -> str:
    if broken:
        raise Problem(broken[-1])
    return "printed"


@shop.flow
async def printing() -> str:
    async with flow.lock("printer"):
        return await print_page.call()


def test_a_retry_that_the_code_refuses_is_a_failed_unit_and_leaves_its_run_as_it_is(harness: Harness) -> None:
    harness.add(shop)
    semaphore("printer").ensure(permits=1)
    broken[:] = ["The paper is out"]
    printing.start("1")
    harness.run()
    before = flows("printing", "1").status()
    harness.travel(10)
    answer = harness.call("locks", "/flows/printing/:act", method="POST", json={"action": "retry", "state": "failed"})
    harness.run()
    [unit] = batch((answer.json or {})["batch"]).results("failed")
    assert unit["error"].startswith(
        "1: After the entries that stay, the code holds a lock of 'printer', which was released."
    )
    assert flows("printing", "1").status() == before
    assert "retried" not in harness.get("locks/flows/printing/1").json


def test_a_retry_without_the_code_that_cannot_continue_adds_its_reason_as_a_sentence(harness: Harness) -> None:
    harness.add(shop)
    semaphore("printer").ensure(permits=1)
    broken[:] = ["The paper is out"]
    printing.start("1")
    harness.run()
    address = FlowAddress("printing", "1")
    for key in ("R1", "R2"):
        retries.retry(runtime.ports(), bulk.NO_FLOWS, address, key, retries.RetryOptions())
        harness.run()
        detail = str((flows("printing", "1").status().error or {})["detail"])
        assert detail.startswith("The paper is out. The retry could not continue: After the entries that stay, ")
        assert detail.count("could not continue") == 1
