"""A fork: a run that begins with the first entries of another run's log."""

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from signalbox import Function, Problem, flow, flows, semaphore
from signalbox.adapters import runtime
from signalbox.core.ports import Snapshot
from signalbox.core.problems import BadArgument, OtherBody, Unavailable
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.headers import forked_header
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.messages import Result
from signalbox.flows.problems import BadFlow, CannotFork, FlowExists, NoFlow
from signalbox.flows.service import reads, starts, turns
from signalbox.flows.storage.log import read_log
from signalbox.testing import Harness, replay
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.cost_table import row_cost
from tests.unit.flows.shops import FUNCTION, Shop, flows_of, step

app = Function("shop")
ran: list[Any] = []
prices = {"tea": 4}


@app.task
def reserve(item: str) -> str:
    ran.append(("reserve", item))
    return f"{item} reserved"


@app.task
def charge(item: str, key: str) -> int:
    ran.append(("charge", item, key))
    if item not in prices:
        raise Problem(f"{item} has no price")
    return prices[item]


@app.task
def tell(what: str) -> None:
    ran.append(("tell", what))


@app.flow
async def order(item: str) -> list[Any]:
    flow.send(tell.call(what=f"begun {item}"))
    key = flow.uuid()
    reserved = await reserve.call(item=item)
    key = f"{key} {flow.uuid()}"
    paid = await charge.call(item=item, key=key)
    approved = await flow.event("approved", str)
    return [reserved, paid, approved, key, flow.uuid()]


@app.flow
async def guarded() -> str:
    async with flow.lock("till"):
        await flow.event("go")
    return await flow.event("then", str)


@app.flow
async def child(number: int) -> int:
    return number


@app.flow
async def parent() -> Any:
    await flow.event("go")
    try:
        return await child.call_as("only", 1)
    except FlowExists:
        return "in use"


@app.flow
async def drawing() -> list[str]:
    drawn = []
    for _ in range(3):
        await flow.event("go")
        drawn.append(str(flow.uuid()))
    return drawn


@app.flow
async def napping() -> None:
    await flow.sleep(60)


@app.flow
async def rounds(number: int = 0) -> Any:
    await flow.event("go")
    return flow.continue_as_new(number=number + 1)


@pytest.fixture(autouse=True)
def shop(harness: Harness) -> Harness:
    ran.clear()
    harness.add(app)
    semaphore("till").ensure(permits=1)
    return harness


def fail(harness: Harness) -> None:
    order.start("1", item="cake")
    harness.run()
    assert flows("order", "1").status().state == "failed"


def test_a_failed_run_continues_from_the_entry_before_its_failure_as_another_run(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(harness)
    before, first_key = flows("order", "1").log(), ran[-1][2]
    ran.clear()
    monkeypatch.setitem(prices, "cake", 7)
    fork = order.fork("1", "1b", 1)
    harness.run()
    assert ran == [("charge", "cake", first_key)], "nothing is sent or reserved again, and what was drawn is the same"
    fork.event("approved", "by Ann")
    harness.run()
    assert fork.status().result[:-1] == ["cake reserved", 7, "by Ann", first_key]
    assert flows("order", "1").log() == before
    assert harness.get("shop/flows/order/1b").json["forked_from"] == {"id": "1", "entries": 1}
    replay(order, fork.log())


def test_a_fork_of_a_fork_draws_what_each_of_them_drew(harness: Harness) -> None:
    order.start("1", item="tea")
    harness.run()
    first = order.fork("1", "2", 1)
    harness.run()
    second = order.fork("2", "3", 2)
    third = order.fork("3", "4", 0)
    for run in (flows("order", "1"), first, second, third):
        run.event("approved", "yes")
    harness.run()
    one, two, three, four = (flows("order", number).status().result for number in "1234")
    assert one[:4] == two[:4] == three[:4], "the draws before the second entry are those of the first run"
    assert four[3].split()[0] == one[3].split()[0]
    assert four[3] != one[3], "after its own first entry a fork draws by itself"
    assert len({one[4], two[4], three[4], four[4]}) == 4
    for run in (first, second, third):
        replay(order, run.log())


def test_other_arguments_labels_and_a_time_out(harness: Harness) -> None:
    order.with_(labels={"tenant": "a"}).start("1", "cake")
    harness.run()
    order.fork("1", "2", 0, arguments={"item": "tea"})
    order.with_(labels={"tenant": "b"}, timeout_seconds=60, on_complete=tell.call(what="the end")).fork("1", "3", 1)
    harness.travel(61)
    assert ("reserve", "tea") in ran
    two, three = flows("order", "2").status(), flows("order", "3").status()
    assert (two.labels, three.labels) == ({"tenant": "a"}, {"tenant": "b"})
    assert (two.state, three.state) == ("running", "failed")
    assert ran[-1] == ("tell", "the end")
    with pytest.raises(TypeError):
        order.fork("1", "4", 0, arguments={"items": "tea"})
    wrong = {"id": "4", "from_entry": 0, "arguments": {"x": 1}}
    assert harness.post("shop/flows/order/1/fork", json=wrong).status == 400


def test_a_time_out_of_a_fork_counts_from_the_fork(harness: Harness) -> None:
    order.start("1", "tea")
    harness.travel(3600)
    order.with_(timeout_seconds=60).fork("1", "2", 2)
    harness.travel(59)
    assert flows("order", "2").status().state == "running"
    harness.travel(2)
    assert flows("order", "2").status().state == "cancelled"


def test_a_repeat_changes_nothing_and_another_one_is_refused(harness: Harness) -> None:
    fail(harness)
    order.fork("1", "2", 1)
    harness.run()
    ran.clear()
    order.fork("1", "2", 1)
    harness.run()
    assert ran == []
    with pytest.raises(OtherBody):
        order.fork("1", "2", 0)
    with pytest.raises(OtherBody):
        order.start("2", "cake")
    order.start("other", "cake")
    harness.run()
    for other, options in (
        ("other", {}),
        ("1", {"labels": {"tenant": "a"}}),
        ("1", {"timeout_seconds": 60}),
        ("1", {"on_complete": tell.call(what="the end")}),
    ):
        with pytest.raises(OtherBody):
            order.with_(**options).fork(other, "2", 1)
    with pytest.raises(OtherBody):
        order.fork("1", "2", 1, arguments={"item": "cake"})
    flows("order", "1").delete()
    order.fork("1", "2", 1)
    with pytest.raises(NoFlow):
        order.fork("1", "3", 1)


@pytest.mark.parametrize(("entry", "refused"), [(0, False), (1, True), (2, False), (3, True), (4, True)])
def test_a_lock_is_not_taken_over(harness: Harness, entry: int, refused: bool) -> None:
    run = guarded.start("1")
    harness.run()
    for event in ("go", "then"):
        run.event(event, "done")
        harness.run()
    assert run.status().log_length == 3
    if refused:
        with pytest.raises(CannotFork) as error:
            guarded.fork("1", "2", entry)
        assert ("holds 'till'" in error.value.detail) == (entry == 1)
        return
    fork = guarded.fork("1", "2", entry)
    harness.run()
    assert len(harness.get("semaphores/till").json["leases"]) == (1 if entry == 0 else 0)
    for event in ("go", "then"):
        fork.event(event, "again")
    harness.run()
    assert fork.status().result == "again"


def test_a_kept_event_is_of_the_fork_too(harness: Harness) -> None:
    run = guarded.start("1")
    run.event("then", "early")
    harness.run()
    log = [entry["entry"] for entry in run.log()["entries"]]
    assert log == ["event", "done"], "the event that is kept, and the lock"
    fork = guarded.fork("1", "2", 1)
    assert harness.get("shop/flows/guarded/2").json["unawaited"] == {"events": 1, "names": ["then"]}
    run.event("go")
    fork.event("go")
    harness.run()
    assert fork.status().result == "early"


def test_what_cannot_be_forked(harness: Harness) -> None:
    order.start("1", item="tea")
    harness.run()
    for entry, error in ((9, CannotFork), (-1, BadFlow), (True, BadFlow), ("1", BadFlow)):
        with pytest.raises(error):
            order.fork("1", "2", entry)  # type: ignore[arg-type]  # as a caller over HTTP may write it
    with pytest.raises(BadFlow, match="an id of its own"):
        order.fork("1", "1", 0)
    with pytest.raises(NoFlow):
        order.fork("0", "2", 0)

    async def changed(item: str) -> int:
        return await charge.call(item=item, key="")

    changed.__name__ = "order"
    other = Function("shop")
    renamed = other.flow(changed)
    with pytest.raises(CannotFork, match=r"`step shop\.reserve` was recorded"):
        renamed.fork("1", "2", 1)


def test_a_log_that_does_not_fit_one_commit_is_refused(harness: Harness) -> None:
    order.start("1", item="tea")
    harness.run()
    with replaced(flow_commit_bytes_max=500), pytest.raises(CannotFork, match="500 bytes"):
        order.fork("1", "2", 2)


def test_a_log_in_chunks_is_copied(harness: Harness) -> None:
    with replaced(flow_tail_bytes_max=100):
        order.start("1", item="tea")
        harness.run()
        fork = order.fork("1", "2", 2)
        assert fork.log()["entries"] == flows("order", "1").log()["entries"]
        fork.event("approved", "yes")
        harness.run()
        assert fork.status().result[2] == "yes"
    assert LIMITS.flow_tail_bytes_max > 100


def test_a_run_that_is_deleted_and_started_again_meanwhile_gives_no_mixed_fork() -> None:
    def paid(who: str, number: int) -> str:
        return f"{who} paid {number}"

    async def sale(who: str) -> None:
        for number in range(6):
            await flow.run(paid, who, number)
        await flow.event("never")

    shop, source = Shop(flows_of(sale)), FlowAddress("sale", "1")
    read, begun = shop.world.store.read, list[int]()

    def started_again(*paths: str, **options: Any) -> tuple[Snapshot, ...]:
        if "/log/" in paths[0] and not begun:
            begun.append(1)
            sweep.terminate(shop.ports, source)
            shop.settle()
            sweep.delete(shop.ports, source)
            shop.start("sale", who="Bob")
            shop.settle()
        return read(*paths, **options)

    with replaced(flow_tail_bytes_max=100):
        shop.start("sale", who="Ann")
        shop.settle()
        with mock.patch.object(shop.world.store, "read", started_again), pytest.raises(Unavailable):
            starts.fork(shop.ports, shop.flows, source, starts.Fork("2", 6))
        starts.fork(shop.ports, shop.flows, source, starts.Fork("2", 6))
        entries = read_log(shop.ports.store, reads.get(shop.ports, FlowAddress("sale", "2"))).entries
    assert next(entry.outcome.result for entry in entries if isinstance(entry, Result)) == "Bob paid 0"


def test_the_id_of_a_sub_flow_is_in_use(harness: Harness) -> None:
    run = parent.start("1")
    run.event("go")
    harness.run()
    assert run.status().result == 1
    fork = parent.fork("1", "2", 1)
    harness.run()
    assert fork.status().result == "in use"


def test_a_fork_whose_sub_flow_loses_the_race_for_its_id_looks_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = parent.start("1")
    run.event("go")
    harness.run()
    flows("child", "only").delete()
    look = turns.refuse_sub_flows

    def then_another_takes_it(*what: Any) -> None:
        look(*what)
        child.start("only", 2)

    monkeypatch.setattr(starts, "refuse_sub_flows", then_another_takes_it)
    fork = parent.fork("1", "2", 1)
    harness.run()
    assert fork.status().result == "in use"


def test_a_fork_of_a_fork_from_before_its_entry_draws_by_itself_behind_its_own(harness: Harness) -> None:
    first = drawing.start("1")
    for _ in range(2):
        first.event("go")
        harness.run()
    second = drawing.fork("1", "2", 2)
    third = drawing.fork("2", "3", 1)
    for run, left in ((first, 1), (second, 1), (third, 2)):
        for _ in range(left):
            run.event("go")
            harness.run()
    one, two, three = (flows("drawing", number).status().result for number in "123")
    assert (one[:2], one[0]) == (two[:2], three[0])
    assert len({one[1], three[1], one[2], two[2], three[2]}) == 5


def test_a_fork_was_started_when_its_origin_was_and_takes_its_path_and_logs_nothing_again(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run = drawing.start("1")
    harness.travel(10)
    run.event("go")
    harness.run()

    async def changed() -> list[str]:
        began_at = flow.now().isoformat()[:19]
        if flow.patched("in its log"):
            await flow.event("never")
        flow.log.info("begun")
        await flow.event("go")
        flow.log.info("gone")
        await flow.event("go")
        flow.log.info("gone again")
        return [began_at, str(flow.patched("behind its log"))]

    changed.__name__ = "drawing"
    other = Function("shop")
    fork = other.flow(changed).fork("1", "2", 1)
    harness.add(other)
    fork.event("go")
    harness.run()
    assert fork.status().result == ["2026-01-01T00:00:00", "True"]
    assert [line.getMessage() for line in caplog.records if "drawing/2" in line.getMessage()] == [
        "drawing/2: gone again"
    ]


def test_a_sleep_of_a_fork_ends_after_its_time(harness: Harness) -> None:
    napping.start("1")
    harness.travel(50)
    fork = napping.fork("1", "2", 0)
    [span] = harness.get("shop/flows/napping/2/log?spans=true").json["spans"]
    assert span["due_at"].startswith("2026-01-01T00:01:50")
    harness.travel(59)
    assert fork.status().state == "running"
    harness.travel(2)
    assert fork.status().state == "completed"


def test_the_current_execution_is_forked(harness: Harness) -> None:
    run = rounds.start("1")
    run.event("go")
    harness.run()
    fork = rounds.fork("1", "2", 0)
    assert fork.log()["arguments"] == {"number": 1}
    fork.event("go")
    harness.run()
    assert fork.log()["arguments"] == {"number": 2}
    assert "forked_from" not in harness.get("shop/flows/rounds/2").json


def test_over_http(harness: Harness) -> None:
    fail(harness)
    body = {"id": "2", "from_entry": 1}
    answers = [harness.post("shop/flows/order/1/fork", json=body) for _ in range(2)]
    assert [(answer.status, answer.json) for answer in answers] == [
        (201, {"flow": "order", "id": "2"}),
        (200, {"flow": "order", "id": "2"}),
    ]
    assert harness.post("shop/flows/order/1/fork", json={"id": "3"}).json["field"] == "from_entry"
    assert harness.post("shop/flows/order/1/fork", json={"from_entry": 1}).status == 400
    refused = harness.post("shop/flows/order/1/fork", json={"id": "3", "from_entry": 7})
    assert (refused.status, refused.json["type"].rpartition(":")[2]) == (409, "cannot-fork")


def test_a_run_whose_code_has_not_been_started_cannot_be_forked() -> None:
    async def chain() -> None:
        await step("work")

    shop, address = Shop(flows_of(chain)), FlowAddress("chain", "1")
    starts.start(shop.ports, flows_of(), FUNCTION, address, {})
    with pytest.raises(CannotFork, match="has not been started"):
        starts.fork(shop.ports, shop.flows, address, starts.Fork("2", 0))


def test_older_code_forks_no_run_of_newer_code() -> None:
    async def chain() -> None:
        await step("work")

    shop = Shop(flows_of(chain, revision=2))
    shop.start("chain")
    with pytest.raises(Unavailable):
        starts.fork(shop.ports, flows_of(chain, revision=1), FlowAddress("chain", "1"), starts.Fork("2", 0))


def test_costs() -> None:
    async def chain() -> None:
        await step("work")
        await step("work")

    shop = Shop(flows_of(chain))
    shop.tasks["work"] = lambda _: None
    shop.start("chain")
    shop.settle()
    source, wanted = FlowAddress("chain", "1"), starts.Fork("2", 1)
    cost = shop.world.cost_of(lambda: starts.fork(shop.ports, shop.flows, source, wanted))
    assert cost == row_cost("flows", "fork")
    with pytest.raises(BadArgument):
        starts.fork(shop.ports, shop.flows, source, starts.Fork("3", 1, {"x": 1}))


def test_a_fork_at_the_entry_of_a_patch_runs_the_new_code_and_one_before_it_the_old(harness: Harness) -> None:
    async def patient() -> str:
        await flow.event("first")
        code = "new" if flow.patched("discount") else "old"
        await flow.event("second")
        return code

    shop = Function("patches")
    run = shop.flow(patient).start("1")
    harness.add(shop)
    run.event("first")
    harness.run()
    [header] = [reads.get(runtime.ports(), FlowAddress("patient", "1"))]
    assert header.patches == {"discount": 2}
    for entries, expected in ((1, {"discount": 2}), (0, {})):
        fork = forked_header(header, entries, replace(header, patches={}), None)
        assert fork.patches == expected
