"""Retry in place: a run that has failed, or is stuck, continues under its id from an earlier point of its log."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from signalbox import Access, Function, Problem, flow, flows, semaphore
from signalbox.adapters import runtime
from signalbox.core.ports import Conflict, Query
from signalbox.flows import sweep
from signalbox.flows.machine import rewinds
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Event, message_to_record
from signalbox.flows.model.retention import AS_LONG_AS_NEEDED, Keeping
from signalbox.flows.model.waits import Claim
from signalbox.flows.problems import BadFlow, CannotRetry, NoFlow
from signalbox.flows.service import reads, retries, suspensions, turns
from signalbox.flows.storage.log import read_log
from signalbox.mailboxes.model.messages import header_path
from signalbox.mailboxes.storage import message_put, read_mailbox
from signalbox.testing import Harness, replay
from signalbox.testing.deliveries import TaskFailed
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.cost_table import row_cost
from tests.unit.flows.shops import FUNCTION, Shop, flows_of, step

app = Function("shop")
ran: list[Any] = []
broken: set[str] = set()
beside: dict[str, Callable[[], object]] = {}


@app.task
def work(what: str) -> str:
    ran.append(what)
    beside.pop(what, lambda: None)()
    if what in broken:
        raise Problem(f"{what} is broken")
    return f"{what} done"


@app.task
def told(outcome: Any = None) -> None:
    ran.append(("told", outcome))


@app.flow
async def order() -> list[Any]:
    flow.send(work.call(what="begun"))
    first = await work.call(what="reserve")
    approved = await flow.event("approved", str)
    key = flow.uuid()
    paid = await work.call(what="charge")
    return [first, approved, paid, str(key)]


@app.flow
async def several() -> list[Any]:
    names = ("a", "b", "c")
    drawn = []

    async def branch(name: str) -> str:
        result: str = await work.call(what=name)
        drawn.append(f"{name} {flow.uuid()}")
        return result

    settled = await flow.settled(*(branch(name) for name in names))
    if failed := [each.error for each in settled if each.error]:
        raise failed[0]
    return sorted(drawn)


@app.flow
async def saga() -> str:
    try:
        await work.call(what="book")
    except Problem:
        await work.call(what="undo")
        raise
    return "booked"


@app.flow
async def two_sagas() -> list[str]:
    async def of(what: str) -> str:
        try:
            return await work.call(what=what)
        except Problem:
            await work.call(what=f"undo {what}")
            raise

    first = await work.call(what="first")
    return [first, *await flow.all(of("book"), of("pay"))]


@app.flow
async def raising() -> str:
    await work.call(what="first")
    if "raising" in broken:
        raise Problem("raised by itself")
    return "completed"


@app.flow
async def guarded() -> str:
    await flow.event("go")
    async with flow.lock("till"):
        return await work.call(what="inside")


@app.flow
async def child(what: str) -> str:
    await work.call(what="prepare")
    return await work.call(what=what)


@app.flow
async def parent() -> str:
    return await child.call(what="charge")


@app.flow
async def careless() -> str:
    await child.call(what="charge")
    if "later" in broken:
        raise Problem("by itself")
    return "done"


@app.flow
async def resized() -> str:
    return await child.call(what="new charge" if "changed" in broken else "charge")


@app.flow
async def grandparent() -> str:
    return await parent.call()


@app.flow
async def cleaning() -> None:
    try:
        await flow.event("never")
    finally:
        await work.call(what="clean")


@app.flow
async def siblings() -> None:
    await flow.all(cleaning.call(), begins_late("charge", 5))


async def begins_late(what: str, seconds: float) -> str:
    await flow.sleep(seconds)
    return await work.call(what=what)


@app.flow
async def beginning() -> list[str]:
    handle = flow.begin(flow.step(work.call(what="slow"), attempts_max=2, pause_seconds=5))
    await flow.event("go")
    return [await work.call(what="fast"), await handle]


def ids_of(name: str) -> list[str]:
    return [each.id.partition("~")[2] for each in runtime.ports().store.query(Query("flows")) if f"{name}~" in each.id]


@pytest.fixture(autouse=True)
def shop(harness: Harness) -> Harness:
    ran.clear()
    broken.clear()
    harness.add(app)
    semaphore("till").ensure(permits=1)
    return harness


def header_of(name: str, id_: str) -> FlowHeader:
    return reads.get(runtime.ports(), FlowAddress(name, id_))


def failed_order(harness: Harness) -> None:
    broken.add("charge")
    order.with_(on_complete=told.call()).start("7")
    flows("order", "7").event("approved", "by Ann")
    harness.run()
    assert flows("order", "7").status().state == "failed"
    broken.clear()
    ran.clear()


def test_the_failed_step_runs_again_and_nothing_else(harness: Harness) -> None:
    failed_order(harness)
    run = flows("order", "7")
    before = header_of("order", "7")
    answer = run.retry(reason="charge was broken")
    assert [each["command"] for each in answer["runs_again"]] == ["step shop.work"]
    assert (answer["keeps"], answer["drops"], answer["repeated"]) == (3, [], False)
    assert run.status().state == "running"
    harness.run()
    assert [each for each in ran if each != "charge"] == [("told", ran[-1][1])]
    status = run.status()
    assert (status.state, status.result[:3]) == ("completed", ["reserve done", "by Ann", "charge done"])
    after = header_of("order", "7")
    assert (after.incarnation, after.generation, after.execution_id) == (
        before.incarnation,
        0,
        f"{before.incarnation}-0.1",
    )
    log = run.log()
    assert [each["entry"] for each in log["entries"]].count("blank") == 1
    replay(order, log)
    shown = harness.get("shop/flows/order/7").json
    assert (shown["retried"]["times"], shown["retried"]["reason"]) == (1, "charge was broken")
    assert "forked_from" not in shown


def test_a_dry_run_changes_nothing_and_a_repeat_under_the_key_neither(harness: Harness) -> None:
    failed_order(harness)
    answer = harness.post("shop/flows/order/7/retry", json={"dry_run": True})
    assert (answer.status, answer.json["keeps"]) == (200, 3)
    assert flows("order", "7").status().state == "failed"
    broken.add("charge")
    headers = {"Idempotency-Key": "R1"}
    first = harness.post("shop/flows/order/7/retry", json={}, headers=headers)
    assert first.status == 202
    harness.run()
    assert ran.count("charge") == 1
    again = harness.post("shop/flows/order/7/retry", json={}, headers=headers)
    assert (again.status, again.json["repeated"]) == (200, True)
    assert again.json["execution_id"] == first.json["execution_id"]
    assert harness.post("shop/flows/order/7/retry", json={"from_entry": 1}, headers=headers).status == 409
    harness.run()
    assert ran.count("charge") == 1


@app.flow
async def misread() -> int:
    await work.call(what="reserve")
    await work.call(what="charge")
    return int("12x" if "misread" in broken else "12")


@app.flow
async def careful() -> int:
    with suppress(Problem):
        await work.call(what="book")
    await work.call(what="undo")
    return int("12x")


@app.flow
async def above_misread() -> int:
    return await misread.call()


def test_a_stuck_run_is_sent_to_its_code_and_its_dry_run_lists_the_commands_that_have_ended(harness: Harness) -> None:
    broken.add("misread")
    misread.start("1")
    harness.run(raise_errors=False)
    assert (flows("misread", "1").status().state, ran) == ("stuck", ["reserve", "charge"])
    with pytest.raises(CannotRetry) as refused:
        flows("misread", "1").retry()
    assert (refused.value.reason, refused.value.field) == ("stuck", "from_entry")
    assert refused.value.detail.startswith("The run is stuck, and needs no retry: deploy fixed code")
    dry = flows("misread", "1").retry(1, dry_run=True)
    assert (dry["cancels"], dry["ended"]) == (["step shop.work"], ["step shop.work"])
    broken.clear()
    flows("misread", "1").resume()
    harness.run()
    assert (flows("misread", "1").status().result, ran) == (12, ["reserve", "charge"])


@app.flow
async def misreading_beside() -> None:
    async def misreads() -> int:
        return int(await flow.event("number", str))

    await flow.all(work.call(what="a"), misreads(), child.call(what="b"), flow.sleep(5), order.call())


def test_a_dry_run_of_a_stuck_run_tells_ended_commands_from_pending_ones(harness: Harness) -> None:
    beside["a"] = lambda: flows("misreading_beside", "1").event("number", "12x")
    misreading_beside.start("1")
    harness.run(raise_errors=False)
    assert flows("misreading_beside", "1").status().state == "stuck"
    dry = flows("misreading_beside", "1").retry(0, dry_run=True)
    assert sorted(dry["cancels"]) == ["event number", "flow child", "flow order", "sleep", "step shop.work"]
    assert sorted(dry["ended"]) == ["flow child", "step shop.work"]


def test_a_failed_command_of_a_stuck_run_is_not_taken_for_the_last_one(harness: Harness) -> None:
    broken.add("book")
    careful.start("1")
    harness.run(raise_errors=False)
    with pytest.raises(CannotRetry) as refused:
        flows("careful", "1").retry()
    assert refused.value.reason == "stuck"
    broken.clear()
    assert flows("careful", "1").retry(1, dry_run=True)["ended"] == ["step shop.work"]


def test_a_cut_drops_entries_and_gives_their_events_back(harness: Harness) -> None:
    failed_order(harness)
    run = flows("order", "7")
    drops = run.retry(1, dry_run=True)["drops"]
    assert [(each["number"], each["entry"]) for each in drops] == [(2, drops[0]["entry"]), (3, drops[1]["entry"])]
    run.retry(0)
    harness.run()
    assert run.status().result[:3] == ["reserve done", "by Ann", "charge done"]
    assert [each for each in ran if isinstance(each, str)] == ["reserve", "charge"], "what was sent counts as sent"
    replay(order, run.log())


def test_of_several_steps_only_the_failed_ones_run_again_and_the_drawn_ids_stay(harness: Harness) -> None:
    broken.update("ac")
    several.start("1")
    harness.run()
    with_ids = flows("several", "1").log()
    assert flows("several", "1").status().state == "failed"
    broken.clear()
    ran.clear()
    flows("several", "1").retry()
    harness.run()
    assert sorted(ran) == ["a", "c"]
    status = flows("several", "1").status()
    assert status.state == "completed"
    log = flows("several", "1").log()
    replay(several, log)
    kept = [each for each in with_ids["entries"] if "error" not in each]
    assert all(each in log["entries"] for each in kept)


def test_a_handled_failure_needs_a_place_and_a_raised_one_too(harness: Harness) -> None:
    broken.update({"book", "raising"})
    saga.start("1")
    raising.start("1")
    harness.run()
    with pytest.raises(CannotRetry) as handled:
        flows("saga", "1").retry()
    assert (handled.value.reason, handled.value.entries) == ("tail-has-effects", [2])
    with pytest.raises(CannotRetry) as raised:
        flows("raising", "1").retry()
    assert raised.value.reason == "nothing-failed"
    answer = harness.post("shop/flows/saga/1/retry", json={})
    assert (answer.status, answer.json["reason"], answer.json["entries"]) == (409, "tail-has-effects", [2])
    broken.clear()
    flows("saga", "1").retry(0)
    flows("raising", "1").retry(1)
    harness.run()
    assert flows("saga", "1").status().result == "booked"
    assert flows("raising", "1").status().result == "completed"


def test_a_released_lock_is_not_taken_for_held(harness: Harness) -> None:
    broken.add("inside")
    guarded.start("1")
    flows("guarded", "1").event("go")
    harness.run()
    with pytest.raises(CannotRetry) as refused:
        flows("guarded", "1").retry()
    assert (refused.value.reason, refused.value.from_entry) == ("holds-lock", 1)
    broken.clear()
    flows("guarded", "1").retry(refused.value.from_entry)
    harness.run()
    assert flows("guarded", "1").status().result == "inside done"
    assert harness.get("semaphores/till").json["leases"] == []


def test_what_cannot_be_retried(harness: Harness) -> None:
    order.start("1")
    harness.run()
    for entry in (None, 0):
        with pytest.raises(CannotRetry) as refused:
            flows("order", "1").retry(entry)
        assert refused.value.reason == "not-failed"
    flows("order", "1").cancel()
    harness.run()
    with pytest.raises(CannotRetry):
        flows("order", "1").retry()
    with pytest.raises(NoFlow):
        flows("order", "2").retry()
    with pytest.raises(BadFlow):
        flows("order", "1").retry(-1)
    with pytest.raises(BadFlow):
        flows("order", "1").retry(1, family=True)
    failed_order(harness)
    with pytest.raises(CannotRetry) as refused:
        flows("order", "7").retry(9)
    assert refused.value.reason == "no-entry"
    with replaced(flow_rewinds_max=0), pytest.raises(CannotRetry) as refused:
        flows("order", "7").retry()
    assert refused.value.reason == "too-many"


def test_a_run_that_has_not_failed_is_told_what_to_do_instead(harness: Harness) -> None:
    broken.add("misread")
    above_misread.start("1")
    order.start("1")
    order.start("2")
    harness.run(raise_errors=False)
    flows("order", "2").suspend("a pause")
    [below] = [each["id"] for each in harness.get("shop/flows/misread").json["flows"]]

    def advice(name: str, id_: str) -> str:
        with pytest.raises(CannotRetry) as refused:
            flows(name, id_).retry()
        assert refused.value.reason == "not-failed"
        return refused.value.detail.partition("can be retried. ")[2]

    assert (
        advice("above_misread", "1") == f"It waits for misread/{below}, which is stuck: with fixed code, both continue."
    )
    assert (advice("order", "1"), advice("order", "2")) == ("It needs no retry.", "Resume it.")
    flows("order", "1").cancel()
    harness.run(raise_errors=False)
    assert advice("order", "1") == "Fork it."


def test_a_long_key_takes_little_room_in_the_header(harness: Harness) -> None:
    failed_order(harness)
    flows("order", "7").retry(key="k" * 100_000)
    assert len(header_of("order", "7").retries[-1].key) < 200
    assert flows("order", "7").retry(key="k" * 100_000)["repeated"]


def test_a_family_is_retried_from_its_highest_run(harness: Harness) -> None:
    broken.add("charge")
    grandparent.start("1")
    harness.run()
    assert flows("grandparent", "1").status().state == "failed"
    entry = flows("grandparent", "1").log()["entries"][0]
    runs = harness.get("shop/flows/child").json["flows"]
    assert [each["state"] for each in runs] == ["failed"], entry
    below = runs[0]["id"]
    with pytest.raises(CannotRetry) as refused:
        flows("child", below).retry()
    assert (refused.value.reason, refused.value.field) == ("parent-moved-on", "family")
    broken.clear()
    ran.clear()
    answer = flows("child", below).retry(family=True, key="R1")
    assert (answer["flow"], answer["id"]) == ("grandparent", "1")
    assert flows("child", below).retry(family=True, key="R1")["repeated"]
    harness.run()
    assert ran == ["charge"], "the sub-flows go on, and do nothing again"
    assert flows("grandparent", "1").status().result == "charge done"
    assert flows("child", below).status().state == "completed"
    assert flows("child", below).retry(family=True, key="R1")["repeated"]


@pytest.mark.parametrize("family", [False, True])
def test_a_dry_run_lists_what_runs_again_in_the_sub_flows_below(harness: Harness, family: bool) -> None:
    broken.add("charge")
    grandparent.start("1")
    harness.run()
    [[middle], [below]] = [
        [each["id"] for each in harness.get(f"shop/flows/{name}").json["flows"]] for name in ("parent", "child")
    ]
    run = flows("child", below) if family else flows("grandparent", "1")
    dry = run.retry(family=family, dry_run=True)
    assert (dry["flow"], [each["command"] for each in dry["runs_again"]]) == ("grandparent", ["flow parent"])
    listed = [(each["flow"], each["id"], [one["command"] for one in each["runs_again"]]) for each in dry["sub_flows"]]
    assert listed == [("parent", middle, ["flow child"]), ("child", below, ["step shop.work"])]
    assert run.status().state == "failed"


def test_a_dry_run_does_not_list_a_sub_flow_that_begins_again(harness: Harness) -> None:
    broken.update(("charge", "new charge"))
    resized.start("1")
    harness.run()
    assert len(flows("resized", "1").retry(dry_run=True)["sub_flows"]) == 1
    broken.add("changed")  # its arguments
    assert flows("resized", "1").retry(dry_run=True)["sub_flows"] == []


def test_a_late_repeat_of_a_familys_retry_does_not_retry_the_sub_flow_that_has_failed_again(harness: Harness) -> None:
    broken.add("charge")
    grandparent.start("1")
    harness.run()
    below = harness.get("shop/flows/child").json["flows"][0]["id"]
    [above] = harness.get("shop/flows/parent").json["flows"]
    flows("child", below).retry(family=True, key="R1")
    beside["charge"] = lambda: flows("parent", above["id"]).suspend("it shall not receive the failure")
    harness.run()
    assert (header_of("child", below).state, header_of("parent", above["id"]).state) == ("failed", "suspended")
    assert flows("child", below).retry(family=True, key="R1")["repeated"]
    assert header_of("child", below).rewinds == 1


def test_a_family_is_not_asked_for_by_a_sub_flow_that_has_not_failed(harness: Harness) -> None:
    broken.add("later")
    careless.start("1")
    harness.run()
    below = harness.get("shop/flows/child").json["flows"][0]["id"]
    with pytest.raises(CannotRetry) as refused:
        flows("child", below).retry(family=True)
    assert refused.value.reason == "not-failed"


def test_a_family_is_not_asked_for_by_a_sub_flow_of_an_earlier_execution(harness: Harness) -> None:
    """Another sub-flow has begun at its place, since the code of the parent has changed its arguments."""
    broken.update(("charge", "new charge"))
    resized.start("1")
    harness.run()
    [old] = harness.get("shop/flows/child").json["flows"]
    broken.add("changed")
    flows("resized", "1").retry(0)
    harness.run()
    assert len(harness.get("shop/flows/child").json["flows"]) == 2
    with pytest.raises(CannotRetry) as refused:
        flows("child", old["id"]).retry(family=True)
    assert refused.value.reason == "parent-moved-on"


def test_a_family_is_retried_only_by_who_may_retry_its_highest_run(harness: Harness) -> None:
    public = Function("store")
    seen = []

    @public.flow
    async def inner() -> str:
        return await work.call(what="charge")

    @public.flow
    async def outer() -> str:
        return await inner.call()

    @public.access("inner", "outer")
    def rule(access: Access) -> bool:
        seen.append((access.action, access.name))
        return access.name == "inner"

    harness.add(public, public=True, exposes=["inner", "outer"])
    broken.add("charge")
    outer.start("1")
    harness.run()
    below = ids_of("inner")[0]
    for body in ({"family": True}, {"family": True, "dry_run": True}):
        assert harness.post(f"store/flows/inner/{below}/retry", json=body).status == 403
    assert seen == [("retry", "inner"), ("retry", "outer")] * 2
    alone = harness.post(f"store/flows/inner/{below}/retry", json={})
    assert (alone.status, alone.json["reason"]) == (409, "parent-moved-on")
    assert "outer" not in str(alone.json), "a caller who may not retry the parent is not told which run it is"
    assert header_of("outer", "1").rewinds == 0


def test_a_coroutine_of_a_group_that_has_handled_its_failure_needs_a_place(harness: Harness) -> None:
    broken.add("book")
    two_sagas.start("1")
    harness.run()
    assert "undo book" in ran
    with pytest.raises(CannotRetry) as handled:
        flows("two_sagas", "1").retry()
    entries = flows("two_sagas", "1").log()["entries"]
    failed = next(n for n, each in enumerate(entries, 1) if "error" in each)
    assert (handled.value.reason, handled.value.field) == ("tail-has-effects", "from_entry")
    assert handled.value.entries == [n for n, each in enumerate(entries, 1) if n > failed and each["path"] == "1.0.1"]
    broken.clear()
    flows("two_sagas", "1").retry(1)
    harness.run()
    assert flows("two_sagas", "1").status().result == ["first done", "book done", "pay done"]


def test_the_timeline_links_the_sub_flow_that_a_retry_continues(harness: Harness) -> None:
    broken.add("charge")
    parent.start("1")
    harness.run()
    broken.clear()
    flows("parent", "1").retry()
    spans = []
    for _ in range(2):
        [span] = harness.get("shop/flows/parent/1/log?spans=true").json["spans"]
        spans.append((span.get("run", {}).get("id"), span["outcome"]))
        harness.run()
    assert spans == [(None, "pending"), (ids_of("child")[0], "done")], "at first, the retry has not been opened"


def test_the_timeline_links_a_sub_flow_that_ended_before_the_run_was_retried(harness: Harness) -> None:
    broken.add("later")
    careless.start("1")
    harness.run()
    [below] = ids_of("child")
    broken.clear()
    flows("careless", "1").retry(1)
    harness.run()
    assert flows("careless", "1").status().result == "done"
    [span] = harness.get("shop/flows/careless/1/log?spans=true").json["spans"]
    assert (span["run"]["id"], span["outcome"]) == (below, "done")


def test_a_sub_flow_that_failed_after_its_cancel_is_not_adopted(harness: Harness) -> None:
    """It was cancelled because of a sibling, and its clean-up failed: another one begins."""
    broken.update(("charge", "clean"))
    siblings.start("1")
    harness.run()
    broken.clear()
    flows("siblings", "1").retry()
    harness.run()
    old, new = ids_of("cleaning")
    states = {header_of("cleaning", id_).state for id_ in (old, new)}
    assert states == {"failed", "running"}
    assert flows("siblings", "1").status().state == "running"


def test_a_handle_that_fails_behind_a_later_command_runs_again(harness: Harness) -> None:
    broken.add("slow")
    beginning.start("1")
    flows("beginning", "1").event("go")
    harness.run()
    assert [each.get("result") for each in flows("beginning", "1").log()["entries"][1:]] == ["fast done", None]
    broken.clear()
    answer = flows("beginning", "1").retry()
    assert [each["number"] for each in answer["runs_again"]] == [3]
    harness.run()
    assert flows("beginning", "1").status().result == ["fast done", "slow done"]
    assert ran.count("fast") == 1


def test_all_failed_runs_that_match_are_retried_and_only_the_roots_of_trees(harness: Harness) -> None:
    broken.add("charge")
    for number in "12":
        grandparent.start(number)
    harness.run()
    broken.clear()
    ran.clear()
    for name in ("child", "grandparent"):
        begun = harness.post(f"shop/flows/{name}/:act", json={"action": "retry", "state": "failed"})
        assert begun.json["count"] == 2
        harness.run()
    assert ran == ["charge", "charge"]
    assert [flows("grandparent", number).status().state for number in "12"] == ["completed"] * 2


@app.flow
async def stuck_run() -> str:
    await flow.event("go")
    if "code" in broken:
        raise ValueError("a bug")
    return "completed"


@app.flow
async def waiter() -> None:
    await flow.event("never")


@app.flow
async def many_waits() -> str:
    async with flow.lock("till"):
        await flow.event("go")
        await flow.all(waiter.call(), flow.event("never"), trap())
    return "completed"


async def trap() -> None:
    await flow.event("bug")
    if "code" in broken:
        raise ValueError("a bug")


@app.flow
async def changed() -> Any:
    if "other code" in broken:
        await flow.event("go")
    await work.call(what="first")
    return await work.call(what="charge")


@app.flow
async def above() -> str:
    await changed.call()
    return "completed"


@app.flow
async def ending() -> None:
    if "ending" in broken:
        raise Problem("raised at once")
    await flow.event("end")


@app.flow
async def noisy() -> str:
    await flow.event("go")
    return await work.call(what="charge")


def test_a_sub_flow_is_retried_alone_while_its_parent_waits(harness: Harness) -> None:
    broken.add("charge")
    parent.start("1")
    flows("parent", "1").suspend()
    harness.run()
    [below] = harness.get("shop/flows/child").json["flows"]
    assert below["state"] == "failed"
    broken.clear()
    ran.clear()
    flows("child", below["id"]).retry()
    flows("parent", "1").resume()
    harness.run()
    assert ran == ["charge"]
    assert flows("parent", "1").status().result == "charge done"
    assert [each["entry"] for each in flows("parent", "1").log()["entries"]] == ["done"], "the failure never came"


def stick(harness: Harness) -> None:
    """Let a run wait for a sub-flow under a lock, and be stuck."""
    many_waits.start("1")
    harness.run()
    flows("many_waits", "1").event("go")
    harness.run()
    flows("many_waits", "1").event("bug")
    with pytest.raises(TaskFailed):
        harness.run()


def test_a_stuck_run_goes_on_before_what_it_is_stuck_at(harness: Harness) -> None:
    broken.add("code")
    stick(harness)
    assert flows("many_waits", "1").status().state == "stuck"
    broken.clear()
    with pytest.raises(CannotRetry) as refused:
        flows("many_waits", "1").retry()
    assert refused.value.reason == "stuck"
    answer = flows("many_waits", "1").retry(1)
    harness.run()
    assert answer["keeps"] == 1
    assert flows("many_waits", "1").status().state == "running"
    assert len(harness.get("semaphores/till").json["leases"]) == 1, "the lock of the kept entry is held"


def test_a_stuck_run_that_goes_on_before_its_lock_releases_it(harness: Harness) -> None:
    broken.add("code")
    stick(harness)
    first = harness.get("semaphores/till").json["leases"]
    broken.clear()
    flows("many_waits", "1").retry(0)
    harness.run()
    [lease] = harness.get("semaphores/till").json["leases"]
    assert lease != first[0], "the next execution has another lease"
    flows("many_waits", "1").event("go")
    harness.run()
    states = sorted(each["state"] for each in harness.get("shop/flows/waiter").json["flows"])
    assert states == ["cancelled", "running"], "the sub-flow of the dropped entries is cancelled"


def test_a_run_whose_code_does_not_fit_ends_again_and_its_parent_is_told(harness: Harness) -> None:
    broken.add("charge")
    above.start("1")
    harness.run()
    assert flows("above", "1").status().state == "failed"
    broken.add("other code")
    [below] = harness.get("shop/flows/changed").json["flows"]
    with pytest.raises(CannotRetry) as refused:
        flows("changed", below["id"]).retry(2)
    assert refused.value.reason == "parent-moved-on"
    flows("above", "1").retry()
    harness.run()
    status = flows("above", "1").status()
    assert status.state == "failed", "its sub-flow does not fit, ends again, and says why"
    assert "The retry could not continue" in status.error["detail"]
    broken.clear()
    flows("above", "1").retry()
    harness.run()
    assert flows("above", "1").status().state == "completed"
    assert ran.count("first") == 1


def test_a_run_that_cannot_continue_keeps_its_first_error_before_the_last_reason(harness: Harness) -> None:
    broken.add("charge")
    changed.start("1")
    harness.run()
    for _ in range(3):
        flows("changed", "1").retry()
        broken.add("other code")
        harness.run()
        broken.remove("other code")
        detail = flows("changed", "1").status().error["detail"]
        assert detail.startswith("charge is broken. The retry could not continue: `step shop.work` was recorded")
        assert detail.count("could not continue") == 1
        assert 'work.call(what="charge")' in flows("changed", "1").status().trace


def test_the_log_of_a_run_whose_next_turn_begins_an_execution_can_be_replayed(harness: Harness) -> None:
    def log() -> Any:
        return harness.get("shop/flows/changed/1/log").json

    broken.add("charge")
    changed.start("1")
    harness.run()
    flows("changed", "1").retry()
    assert (log()["begins"], log()["waiting_for"]) == (True, {})
    assert flows("changed", "1").status().trace == ""
    replay(changed, log())
    broken.add("other code")
    with pytest.raises(AssertionError, match="was recorded at step 0"):
        replay(changed, log())
    broken.clear()
    harness.run()
    assert "begins" not in log()


def test_events_that_came_after_the_failure_are_received_in_their_order(harness: Harness) -> None:
    broken.add("charge")
    noisy.start("1")
    run = flows("noisy", "1")
    run.event("go", 1)
    run.event("go", 2)
    for number in range(3, 9):
        run.event("go", number)
    harness.run()
    assert run.status().state == "failed"
    broken.clear()
    with replaced(mailbox_page=2):
        run.retry(0)
        harness.run()
    assert run.status().state == "completed"
    values = [each["value"] for each in run.log()["entries"] if each["entry"] == "event"]
    assert values == sorted(values)


def test_a_cancel_comes_before_the_events_that_the_end_has_left_unread(harness: Harness) -> None:
    broken.add("ending")
    flows("ending", "1").event("end", start=ending.starting())
    harness.run()
    assert flows("ending", "1").status().state == "failed"
    broken.clear()
    flows("ending", "1").retry(0)
    flows("ending", "1").cancel("too late")
    harness.run()
    assert flows("ending", "1").status().state == "cancelled"


@app.flow
async def picky() -> list[int]:
    received = []
    for _ in range(60):
        received.append(await flow.event("go"))
        if "picky" in broken:
            raise Problem("Not now.")
    return received


def test_events_that_the_end_has_left_unread_are_received_in_larger_pages_if_the_log_is_long(harness: Harness) -> None:
    broken.add("picky")
    picky.start("1")
    run = flows("picky", "1")
    run.suspend()
    for number in range(60):
        run.event("go", number)
        harness.clock.advance(0.1)
    run.resume()
    with (
        replaced(mailbox_page=4, flow_page_log_entries=4, flow_page_max=40),
        mock.patch("signalbox.flows.service.turns.read_log", wraps=read_log) as turn,
    ):
        harness.run()
        assert run.status().state == "failed"
        broken.clear()
        turn.reset_mock()
        run.retry(0)
        harness.run()
    assert run.status().result == [*range(60)]
    assert turn.call_count < 8, "with pages of four messages, fifteen and more"


def test_a_chunk_in_which_the_cut_lies_is_cut(harness: Harness) -> None:
    with replaced(flow_tail_bytes_max=100, flow_live_tail_bytes_max=50, flow_chunk_bytes_max=400):
        failed_order(harness)
        for entry in (2, 1, 0):
            broken.add("charge")
            flows("order", "7").retry(entry)
            harness.run()
            assert flows("order", "7").status().state == "failed"
        broken.clear()
        flows("order", "7").retry()
        harness.run()
        assert flows("order", "7").status().state == "completed"
        replay(order, flows("order", "7").log())


def test_each_end_is_told_and_says_how_often_the_run_was_retried(harness: Harness) -> None:
    failed_order(harness)
    broken.add("charge")
    flows("order", "7").retry()
    harness.run()
    told_ends = [each[1] for each in ran if isinstance(each, tuple)]
    assert len(told_ends) == 1


def test_a_deadline_that_is_over_needs_another_time_out(harness: Harness) -> None:
    broken.add("charge")
    order.with_(timeout_seconds=60).start("7")
    flows("order", "7").event("approved", "by Ann")
    harness.run()
    harness.travel(120)
    assert flows("order", "7").status().state == "failed"
    with pytest.raises(CannotRetry) as refused:
        flows("order", "7").retry()
    assert refused.value.reason == "deadline-over"
    broken.clear()
    flows("order", "7").retry(timeout_seconds=60)
    assert flows("order", "7").status().deadline_at
    harness.run()
    assert flows("order", "7").status().state == "completed"


def test_what_a_retry_costs() -> None:
    async def two() -> Any:
        await step("work")
        return await step("charge")

    async def over() -> Any:
        return await SubFlow[Any](FUNCTION, "two", {})

    def charge(_: Any) -> str:
        if "charge" in broken:
            raise Problem("no")
        return "charged"

    broken.add("charge")
    shop = Shop(flows_of(two, over), {"work": lambda _: "done", "charge": charge})
    options = retries.RetryOptions()
    shop.start("two")
    shop.settle()
    address = FlowAddress("two", "1")
    cost = shop.world.cost_of(lambda: retries.retry(shop.ports, shop.flows, address, "k", options))
    assert cost == row_cost("flows", "retry")
    alone = shop.world.cost_of(lambda: shop.deliver(shop.take("turn")))
    shop.settle()

    shop.start("over")
    shop.settle()
    shop.world.cost_of(lambda: retries.retry(shop.ports, shop.flows, FlowAddress("over", "1"), "k", options))
    adopting = shop.world.cost_of(lambda: shop.deliver(shop.take("turn")))
    more = row_cost("flows", "retry_adopts")
    assert (adopting.reads, adopting.writes) == (alone.reads + more.reads, alone.writes + more.writes)


def test_what_the_retry_of_a_sub_flow_costs_whose_parent_waits() -> None:
    shop = Shop(flows_of(two, over), {"work": failing})
    shop.start("over")
    shop.deliver(shop.take("turn"))
    suspensions.suspend(shop.ports, FlowAddress("over", "1"))
    shop.settle()
    below = FlowAddress("two", "below")
    cost = shop.world.cost_of(lambda: retries.retry(shop.ports, shop.flows, below, "k", DEFAULT))
    assert cost == row_cost("flows", "retry", "retry_alone")


async def two() -> Any:
    await step("work")
    await flow.event("go")
    return await step("charge")


async def over() -> Any:
    return await SubFlow[Any](FUNCTION, "two", {}, id="below")


def failing(_: Any) -> str:
    raise Problem("no")


def failed_shop(*names: str, keeping: Keeping = AS_LONG_AS_NEEDED) -> Shop:
    """Return a shop with a run that has failed at its second step; the names are those of further events."""
    shop = Shop(flows_of(two, over, keeping=keeping), {"work": lambda _: "done", "charge": failing})
    shop.start("two")
    for name in ("go", *names):
        shop.event("two", name, id_=name)
    shop.settle()
    assert shop.status("two")["state"] == "failed"
    return shop


TWO = FlowAddress("two", "1")
DEFAULT = retries.RetryOptions()


def test_of_two_retries_at_once_one_is_refused_and_learns_the_other_s_key() -> None:
    shop, asked = failed_shop(), list[str]()

    def overtaken(header: FlowHeader, *given: Any) -> Any:
        if not asked:
            asked.append("R2")
            retries.retry(shop.ports, shop.flows, TWO, "R2", DEFAULT)
        return rewinds.plan_of(header, *given)

    with mock.patch.object(retries, "plan_of", overtaken), pytest.raises(CannotRetry) as refused:
        retries.retry(shop.ports, shop.flows, TWO, "R1", DEFAULT)
    assert (refused.value.reason, refused.value.first_key) == ("not-failed", "R2")


def test_messages_of_an_ended_run_are_not_dropped_after_its_retry() -> None:
    shop = failed_shop()
    mailbox = read_mailbox(shop.ports.store, TWO.base, 10)
    event = message_put(TWO.base, "late", message_to_record(Event("late", 1)))
    shop.ports.store.commit([event])
    mailbox = read_mailbox(shop.ports.store, TWO.base, 10)
    retries.retry(shop.ports, shop.flows, TWO, "R1", DEFAULT)
    with pytest.raises(Conflict):
        turns.advance(shop.ports, shop.flows, turns.FlowMailbox(TWO, mailbox))


def test_a_run_whose_removal_has_begun_is_not_retried() -> None:
    shop = failed_shop("a", "b")
    [read] = shop.ports.store.read(header_path(TWO.base))
    with replaced(flow_removed_at_once_max=1):
        assert not sweep.remove(shop.ports, TWO, read, lambda: True)
    with pytest.raises(CannotRetry) as refused:
        retries.retry(shop.ports, shop.flows, TWO, "R1", DEFAULT)
    assert refused.value.reason == "being-removed"


def test_a_retry_removes_the_note_of_the_archive_and_the_next_end_has_its_own() -> None:
    shop = failed_shop(keeping=Keeping.checked(None, "gs://archive/of/flows"))
    [listing] = shop.ports.store.read(TWO.base)
    assert "archived_at" in (listing.data or {})
    retries.retry(shop.ports, shop.flows, TWO, "R1", DEFAULT)
    [listing] = shop.ports.store.read(TWO.base)
    assert not {"archived_at", "due_at", "ended_at"} & (listing.data or {}).keys()
    shop.settle()
    assert sorted(name.count(".1.ndjson") for name in shop.archives) == [0, 1]


def test_a_termination_that_has_seen_the_ended_sub_flow_looks_again_after_its_retry() -> None:
    shop = Shop(flows_of(two, over), {"work": failing, "charge": failing})
    shop.start("over")
    shop.deliver(shop.take("turn"))
    suspended = FlowAddress("over", "1")
    suspensions.suspend(shop.ports, suspended)
    shop.settle()
    below, seen = FlowAddress("two", "below"), list[str]()

    def looked(ports: Any, header: FlowHeader) -> None:
        cancels(ports, header)
        if not seen:
            seen.append("the sub-flow has ended")
            retries.retry(shop.ports, shop.flows, below, "R1", DEFAULT)

    cancels = sweep.cancel_sub_flows
    with mock.patch.object(sweep, "cancel_sub_flows", looked):
        sweep.terminate(shop.ports, suspended)
    shop.settle()
    assert reads.get(shop.ports, below).state == "cancelled"


@pytest.mark.parametrize(("delivery", "ends_in", "refused"), [("d", 40, 41), ("d", 0, None), ("", 40, None)])
def test_a_stuck_run_is_not_retried_while_the_code_of_an_inline_step_may_run(
    harness: Harness, delivery: str, ends_in: int, refused: int | None
) -> None:
    order.start("7")
    harness.run()
    now = harness.clock.now
    claim = Claim(delivery, 1, now + timedelta(seconds=ends_in))
    header = replace(
        reads.get(runtime.ports(), FlowAddress("order", "7")), stuck={"detail": "no"}, running={"0": claim}
    )
    if refused is None:
        rewinds.check_state(header, now, None)
        return
    with pytest.raises(CannotRetry) as error:
        rewinds.check_state(header, now, None)
    assert (error.value.reason, error.value.headers["Retry-After"]) == ("step-running", str(refused))


@app.flow
async def announced() -> str:
    await flow.event("go")
    flow.send(work.call(what="announcement"))
    return await work.call(what="charge")


def test_what_the_code_sends_behind_an_event_that_is_given_back_is_sent(harness: Harness) -> None:
    broken.add("charge")
    announced.start("1")
    flows("announced", "1").event("go")
    harness.run()
    broken.clear()
    assert (flows("announced", "1").status().state, ran.count("announcement")) == ("failed", 1)
    flows("announced", "1").retry(0)
    harness.run()
    assert (flows("announced", "1").status().result, ran.count("announcement")) == ("charge done", 2)
