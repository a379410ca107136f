"""Flows run to their ends: steps, events, sleeps, locks, sub-flows, batches, cancels; and what makes them stuck."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest import mock

import pytest

from signalbox.adapters.http.json_bodies import json_of
from signalbox.batches.service.lifecycle import get as get_batch
from signalbox.batches.service.population import populate_whole
from signalbox.core.ports import Conflict, Put, Query
from signalbox.core.problems import GaveUp, NotFound, OtherBody, Problem, Unavailable
from signalbox.core.records.queries import Order
from signalbox.core.user_code import ProcessEnded
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.http import routes
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import ObjectCall, SubFlow
from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import End
from signalbox.flows.model.messages import Message
from signalbox.flows.problems import BadFlow, FlowEnded, FlowRunning, NoFlow, TooManyEvents
from signalbox.flows.service import lists, messages, reads, sends, suspensions
from signalbox.flows.shown import FlowLogShown
from signalbox.flows.storage.log import read_log
from signalbox.flows.tasks import steps
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import HEADER, collection_of, header_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import header_put
from signalbox.semaphores.model.leases import Lease
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings, views
from signalbox.tasks.api import Call
from signalbox.testing.replaced_limits import replaced
from tests.unit.flows.shops import FUNCTION, Shop, flows_of, raising, step

NOT_PROBLEMS: Any = [Problem]

SECOND = timedelta(seconds=1)


async def checkout(order: int) -> Any:
    paid = await step("charge", order=order)
    packed, label = await flow.all(step("pack"), step("label"))
    return [paid, packed, label]


async def approval() -> Any:
    which, who = await flow.first(flow.event("approved"), flow.sleep(60))
    return who if which == 0 else "timeout"


def leases(shop: Shop) -> int:
    """Return how many leases the printer has."""
    return len(views.get(shop.ports, "printer").leases)


def test_steps_run_one_after_the_other_and_concurrently() -> None:
    shop = Shop(flows_of(checkout))
    assert shop.start("checkout", order=7)
    assert shop.status("checkout")["waiting_for"][0]["command"] == "step shop.charge"
    shop.settle()
    status = shop.status("checkout")
    assert (status["state"], status["result"]) == ("completed", ["charge", "pack", "label"])
    assert sorted(shop.ran) == ["charge", "label", "pack"]


def test_a_start_can_be_repeated_and_another_one_under_its_id_is_refused() -> None:
    shop = Shop(flows_of(checkout))
    assert shop.start("checkout", order=7)
    assert not shop.start("checkout", order=7)
    with pytest.raises(OtherBody):
        shop.start("checkout", order=8)


def test_a_flow_whose_code_is_elsewhere_is_begun_by_its_run() -> None:
    caller = Shop(flows_of())
    caller.start("checkout", order=7)
    assert caller.status("checkout")["state"] == "running"
    shop = Shop(flows_of(checkout), world=caller.world)
    shop.settle()
    assert shop.status("checkout")["state"] == "completed"


@pytest.mark.parametrize(("event", "expected"), [(True, "ann"), (False, "timeout")])
def test_the_first_of_an_event_and_a_sleep_decides(event: bool, expected: str) -> None:
    shop = Shop(flows_of(approval))
    shop.start("approval")
    if event:
        shop.event("approval", "approved", "ann")
    shop.settle()
    assert shop.status("approval")["result"] == expected


def test_an_event_is_applied_once_however_often_it_is_posted() -> None:
    async def counting() -> Any:
        first = await flow.event("x")
        second = await flow.event("x")
        return [first, second]

    shop = Shop(flows_of(counting))
    shop.start("counting")
    shop.event("counting", "x", 1, "a")
    shop.settle()
    shop.event("counting", "x", 1, "a")
    with pytest.raises(OtherBody):
        shop.event("counting", "x", 2, "a")
    shop.event("counting", "x", 2, "b")
    shop.settle()
    assert shop.status("counting")["result"] == [1, 2]
    with pytest.raises(FlowEnded):
        shop.event("counting", "x", 3, "c")


def test_a_problem_is_raised_in_the_code_and_asked_for_again_as_often_as_it_says() -> None:
    async def paying() -> Any:
        return await flow.step(step("charge"), attempts_max=3, pause_seconds=10)

    shop = Shop(flows_of(paying), {"charge": raising("no money", 2)})
    shop.start("paying")
    began = shop.world.now
    shop.settle()
    assert shop.status("paying")["result"] == "done"
    assert (shop.world.now - began).total_seconds() >= 20
    failing = Shop(flows_of(paying), {"charge": raising("no money")})
    failing.start("paying")
    failing.settle()
    status = failing.status("paying")
    assert (status["state"], status["error"]["detail"], len(failing.ran)) == ("failed", "no money", 3)


def test_a_cancel_is_raised_where_the_code_waits_and_its_clean_up_may_wait() -> None:
    async def saga() -> Any:
        await step("reserve")
        try:
            await flow.sleep(3600)
        except flow.Cancelled:
            await step("undo")
            raise

    shop = Shop(flows_of(saga))
    shop.start("saga")
    shop.deliver(shop.take("reserve"))
    messages.cancel(shop.ports, FlowAddress("saga", "1"), "changed my mind")
    shop.settle()
    assert shop.status("saga")["state"] == "cancelled"
    assert shop.ran == ["reserve", "undo"]


def test_a_lock_is_held_for_its_block_and_released() -> None:
    async def printing(n: int) -> Any:
        with await flow.lock("printer", lease_seconds=600) as lease:
            await step("print", n=n)
        return lease.token

    shop = Shop(flows_of(printing))
    settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    for number in (1, 2):
        shop.start("printing", str(number), n=number)
    shop.settle()
    tokens = {shop.status("printing", str(number))["result"] for number in (1, 2)}
    assert len(tokens) == 2
    assert leases(shop) == 0


def test_a_lock_that_is_granted_too_late_is_released() -> None:
    async def impatient() -> Any:
        which, _ = await flow.first(flow.lock("printer", lease_seconds=600), flow.sleep(1))
        return which

    async def holding() -> Any:
        with await flow.lock("printer", lease_seconds=600):
            await flow.sleep(100)

    shop = Shop(flows_of(impatient, holding))
    settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    shop.start("holding")
    shop.deliver(shop.take("flow_command"))
    shop.deliver(shop.take("flow_result"))
    shop.start("impatient")
    shop.settle()
    assert shop.status("impatient")["result"] == 1
    assert leases(shop) == 0


def test_a_lock_that_is_released_in_the_turn_that_applies_its_grant_is_released() -> None:
    async def brief() -> Any:
        (await flow.lock("printer", lease_seconds=600)).release()
        await flow.event("never")

    shop = Shop(flows_of(brief))
    settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    shop.start("brief")
    shop.settle()
    assert leases(shop) == 0


async def printing() -> Any:
    with await flow.lock("nowhere", lease_seconds=600):
        await step("print")


def test_a_lock_of_no_semaphore_is_stuck_until_there_is_one() -> None:
    shop = Shop(flows_of(printing))
    shop.start("printing")
    for _ in range(2):
        shop.settle()
        problem = shop.status("printing")["problem"]
        assert problem["detail"].startswith("NoSemaphore: ")
        assert problem["place"].endswith("in printing")
        shop.world.pass_time(LIMITS.flow_stuck_seconds + 1)
        sweep.sweep(shop.ports)
    settings.put(shop.ports, "nowhere", SemaphoreSettings(1, 600))
    suspensions.resume(shop.ports, FlowAddress("printing", "1"))
    shop.settle()
    assert (shop.status("printing")["state"], shop.ran) == ("completed", ["print"])
    assert not views.get(shop.ports, "nowhere").leases


def test_a_lock_of_no_semaphore_is_an_error_that_deployed_code_may_handle() -> None:
    async def careful() -> Any:
        try:
            await flow.lock("nowhere", lease_seconds=600)
        except NotFound:
            return "without"

    shop = Shop(flows_of(printing))
    shop.start("printing")
    shop.settle()
    assert shop.status("printing")["state"] == "stuck"
    shop.flows = flows_of(named_of(careful, "printing"))
    suspensions.resume(shop.ports, FlowAddress("printing", "1"))
    shop.settle()
    assert shop.status("printing")["result"] == "without"


def test_a_flow_runs_another_one_and_gets_its_result_or_its_error() -> None:
    async def outer(good: bool) -> Any:
        try:
            return await SubFlow(FUNCTION, "inner", {"good": good})
        except Problem as problem:
            return f"failed: {problem.detail}"

    async def inner(good: bool) -> Any:
        await step("work")
        if not good:
            raise Problem("bad")
        return 5

    for good, expected in ((True, 5), (False, "failed: bad")):
        shop = Shop(flows_of(outer, inner))
        shop.start("outer", good=good)
        shop.settle()
        assert shop.status("outer")["result"] == expected


def test_a_flow_that_is_not_waited_for_any_more_is_cancelled() -> None:
    async def outer() -> Any:
        await flow.first(SubFlow(FUNCTION, "inner", {}), flow.sleep(5))

    async def inner() -> Any:
        await flow.event("never")

    shop = Shop(flows_of(outer, inner))
    shop.start("outer")
    shop.settle()
    [child] = lists.list_flows(shop.ports, lists.Runs("inner")).flows
    assert child.state == "cancelled"


def test_a_flow_continues_as_new_with_an_empty_log_and_the_events_it_has_not_waited_for() -> None:
    async def counter(total: int) -> Any:
        total += await flow.event("add")
        return total if total > 5 else flow.continue_as_new(total=total)

    shop = Shop(flows_of(counter))
    shop.start("counter", total=0)
    for number in range(3):
        shop.event("counter", "add", 2, str(number))
    shop.settle()
    status = shop.status("counter")
    assert (status["result"], status["generation"], status["log_length"]) == (6, 2, 1)


def test_a_batch_of_a_flow_is_populated_by_a_command() -> None:
    async def mailing() -> Any:
        return await flow.batch([step("mail", to=name) for name in "abc"])

    shop = Shop(flows_of(mailing))
    shop.start("mailing")
    act = shop.take("flow_command")
    shop.deliver(act)
    assert shop.world.tasks, "the batch expands by tasks of its own function"


def test_an_error_other_than_a_problem_makes_a_flow_stuck_until_its_code_is_fixed() -> None:
    async def broken() -> Any:
        result = await step("charge")
        return {"charge": 1}[result + "x"]

    fixed = Shop(flows_of(broken))
    fixed.start("broken")
    fixed.settle()
    status = fixed.status("broken")
    assert (status["state"], status["problem"]["type"]) == ("stuck", "flow-failed")
    assert "test_flow_operations.py" in status["problem"]["place"]

    async def broken() -> Any:  # type: ignore[no-redef]  # the next deployment of the same flow
        return await step("charge")

    fixed.flows = flows_of(broken)
    fixed.world.pass_time(LIMITS.flow_stuck_seconds + 1)
    assert sweep.sweep(fixed.ports) == 1
    fixed.settle()
    assert (fixed.status("broken")["state"], fixed.ran) == ("completed", ["charge"])


def test_code_that_asks_for_something_else_is_stuck_and_resumed_by_hand() -> None:
    async def work() -> Any:
        await step("a")
        return await step("b")

    shop = Shop(flows_of(work))
    shop.start("work")
    first = work

    async def work() -> Any:  # type: ignore[no-redef]  # the next deployment of the same flow
        await step("c")

    shop.flows = flows_of(work)
    shop.settle()
    assert shop.status("work")["problem"]["type"] == "flow-changed"
    shop.flows = flows_of(first)
    suspensions.resume(shop.ports, FlowAddress("work", "1"))
    shop.settle()
    assert shop.status("work")["result"] == "b"


def test_older_code_leaves_a_flow_alone_that_newer_code_has_brought_forward() -> None:
    shop = Shop(flows_of(checkout, revision=2))
    shop.start("checkout", order=1)
    charge = shop.take("charge")
    shop.flows = flows_of(checkout, revision=1)
    shop.deliver(charge)
    run = shop.take("turn")
    with pytest.raises(Unavailable):
        shop.deliver(run)
    shop.flows = flows_of(checkout, revision=3)
    shop.deliver(run)
    shop.settle()
    assert shop.status("checkout")["state"] == "completed"


def test_a_flow_whose_code_is_not_there_waits_for_a_deployment_that_has_it() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", order=1)
    shop.flows = flows_of()
    shop.deliver(shop.take("charge"))
    with pytest.raises(Unavailable):
        shop.deliver(shop.world.tasks[0])


def test_a_run_whose_code_ends_the_process_ten_times_marks_its_flow_as_stuck() -> None:
    deaths = [0]

    async def deadly() -> Any:
        await flow.event("x")
        deaths[0] += 1
        raise ProcessEnded

    shop = Shop(flows_of(deadly))
    shop.start("deadly")
    shop.event("deadly", "x")
    wake = shop.take("turn")
    for deliveries in range(LIMITS.flow_careful_deliveries + LIMITS.flow_starts_max):
        with pytest.raises(ProcessEnded):
            shop.deliver(wake, deliveries)
    shop.deliver(wake, 100)
    assert deaths == [LIMITS.flow_careful_deliveries + LIMITS.flow_starts_max]
    assert "10 starts" in shop.status("deadly")["problem"]["detail"]


def test_an_outage_does_not_mark_a_flow_as_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(flows_of(approval))
    shop.start("approval")
    shop.event("approval", "approved", "ann")
    [wake] = [task for task in shop.world.tasks if not task.not_before or task.not_before < shop.world.now + SECOND]
    shop.world.tasks.remove(wake)
    commit = shop.ports.store.commit

    def away(writes: Any) -> Any:
        if any(write.path.startswith("flows/") for write in writes):
            raise Unavailable("an outage")
        return commit(writes)

    for deliveries in range(50):
        with monkeypatch.context() as patched:
            patched.setattr(type(shop.ports.store), "commit", lambda _, writes: away(writes))
            with pytest.raises(Unavailable):
                shop.deliver(wake, deliveries)
    shop.deliver(wake, 50)
    shop.settle()
    assert shop.status("approval")["result"] == "ann"


def test_a_step_that_was_delivered_before_leaves_its_outcome_and_runs_no_code_of_the_flow() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", order=1)
    charge = shop.take("charge")
    shop.deliver(charge, deliveries=1)
    assert shop.status("checkout")["log_length"] == 0
    shop.deliver(charge, deliveries=2)
    assert shop.ran == ["charge"]
    shop.settle()
    shop.deliver(charge, deliveries=3)
    assert shop.ran.count("charge") == 1
    assert shop.status("checkout")["state"] == "completed"


def test_the_continuation_of_a_flow_receives_its_outcome() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", on_complete=Call(FUNCTION, "told", {}), order=1)
    ended: list[Any] = []
    original = shop.run_task

    def run_task(task: Any) -> Any:
        if task.task == "told":
            ended.append(task.context["outcome"])
        return original(task)

    shop.run_task = run_task  # type: ignore[method-assign]  # notes the outcomes of continuations
    shop.settle()
    assert ended == [{"called": {"flow": "checkout", "id": "1"}, "call": "1", "result": ["charge", "pack", "label"]}]


def test_messages_to_a_flow_that_has_ended_are_dropped_page_by_page() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", order=1)
    for number in range(12):
        shop.event("checkout", "x", id_=str(number))
        shop.world.pass_time(0.1)
    shop.world.tasks[:] = [each for each in shop.world.tasks if each.task != "turn"]
    ended = replace(reads.get(shop.ports, FlowAddress("checkout", "1")), begun=True)
    after = ended.ended(End("completed", CallOutcome(None), shop.world.now))
    shop.world.store.commit(
        [header_put(shop.world.store.read(header_path(after.address.base))[0], after.to_record(), 5)]
    )
    with replaced(mailbox_page=4):
        suspensions.resume(shop.ports, after.address)
        shop.settle()
    waiting = Query(collection_of(after.address.base), order_by=(Order(("since",)),))
    assert [each.id for each in shop.world.store.query(waiting)] == [HEADER]


def test_a_flow_that_has_ended_is_removed_after_32_days_and_its_id_is_free() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", order=1)
    with pytest.raises(FlowRunning):
        sweep.delete(shop.ports, FlowAddress("checkout", "1"))
    shop.settle()
    shop.world.pass_time(LIMITS.flow_kept_seconds - 10)
    assert sweep.sweep(shop.ports) == 0
    shop.world.pass_time(20)
    assert sweep.sweep(shop.ports) == 1
    with pytest.raises(NoFlow):
        shop.status("checkout")
    assert lists.list_flows(shop.ports, lists.Runs("checkout")).flows == ()
    assert shop.start("checkout", order=2)


def test_a_start_that_is_repeated_on_the_last_day_of_its_task_begins_no_second_run() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", order=7)
    shop.settle()
    shop.world.pass_time(31 * 24 * 3600)
    sweep.sweep(shop.ports)
    assert not shop.start("checkout", order=7)
    shop.settle()
    assert shop.ran.count("charge") == 1


def test_a_stuck_flow_can_be_deleted_and_gives_its_locks_back() -> None:
    async def broken() -> Any:
        with await flow.lock("printer", lease_seconds=600):
            await flow.event("x")
            raise KeyError("x")

    shop = Shop(flows_of(broken))
    settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    shop.start("broken")
    shop.settle()
    assert leases(shop) == 1
    shop.event("broken", "x")
    shop.deliver(shop.take("turn"))
    sweep.delete(shop.ports, FlowAddress("broken", "1"))
    shop.settle()
    assert leases(shop) == 0


def test_a_stuck_flow_that_is_deleted_has_the_flows_in_it_cancelled() -> None:
    async def outer() -> Any:
        await flow.all(SubFlow(FUNCTION, "inner", {}), breaking())

    async def breaking() -> Any:
        await flow.event("x")
        raise KeyError("x")

    async def inner() -> Any:
        await flow.event("never")

    shop = Shop(flows_of(outer, inner))
    shop.start("outer")
    shop.settle()
    shop.event("outer", "x")
    shop.settle()
    sweep.delete(shop.ports, FlowAddress("outer", "1"))
    shop.settle()
    [child] = lists.list_flows(shop.ports, lists.Runs("inner")).flows
    assert child.state == "cancelled"


def test_the_log_is_shown_page_by_page() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", order=1)
    shop.settle()
    header, entries = reads.get_log(shop.ports.store, FlowAddress("checkout", "1"))
    with replaced(flow_log_page=2):
        first, token = routes.log_page(entries, "")
        second, last_token = routes.log_page(entries, token)
    shown = FlowLogShown.of(header, entries, [*first, *second], last_token)
    assert shown.entries[0].command == "step shop.charge"
    assert (len(first), len(second), "next_page_token" in json_of(shown)) == (2, 1, False)


def test_a_long_log_moves_into_chunks_and_is_replayed_whole() -> None:
    async def long() -> Any:
        for number in range(40):
            await step("work", n=number)
        return "end"

    shop = Shop(flows_of(long), {"work": lambda _: "x" * 500})
    with replaced(flow_tail_bytes_max=1_500, flow_chunk_bytes_max=6_000):
        shop.start("long")
        shop.settle()
    status = shop.status("long")
    assert (status["result"], status["log_length"]) == ("end", 40)
    chunks = reads.get(shop.ports, FlowAddress("long", "1")).log.chunks
    assert chunks >= 3


def test_a_log_that_is_too_long_is_stuck_saying_so() -> None:
    async def long() -> Any:
        while True:
            await step("work")

    shop = Shop(flows_of(long))
    with replaced(flow_log_entries_max=5):
        shop.start("long")
        shop.settle()
    assert "flow.continue_as_new" in shop.status("long")["problem"]["detail"]


def test_messages_that_lead_to_more_than_one_commit_may_hold_are_applied_in_several_turns() -> None:
    async def wide() -> Any:
        await flow.all(*[after(number) for number in range(10)])

    async def after(number: int) -> Any:
        await flow.event(f"e{number}")
        await step("work", text="x" * 1_000)

    shop = Shop(flows_of(wide))
    shop.start("wide")
    with replaced(outbox_bytes_max=4_000):
        for number in range(10):
            shop.event("wide", f"e{number}", id_=str(number))
        shop.settle()
    assert shop.status("wide")["state"] == "completed"


def test_the_outcome_of_a_step_is_applied_although_its_turn_is_too_large_for_it() -> None:
    async def branch(number: int) -> Any:
        await flow.event(f"e{number}")
        for _ in range(40):
            flow.send(step("sent", text="x" * 100))
        return number

    async def wide() -> Any:
        return await flow.all(*map(branch, range(3)), step("last"))

    shop = Shop(flows_of(wide))
    shop.start("wide")
    last = shop.take("last")
    with replaced(flow_commit_bytes_max=28_000):
        for number in range(3):
            shop.event("wide", f"e{number}", id_=str(number))
        shop.deliver(last)
        assert shop.status("wide")["state"] == "running"
        shop.settle()
    assert shop.status("wide")["result"] == [0, 1, 2, "last"]
    assert shop.ran.count("sent") == 120


@pytest.mark.parametrize(("waiting", "size"), [(60, 90_000), (46, 95_000)])
def test_results_that_do_not_fit_into_one_commit_are_applied_in_several(waiting: int, size: int) -> None:
    """Outcomes that wait in the mailbox have more bytes than a commit, and a step's outcome comes on top."""

    async def wide() -> Any:
        results = await flow.all(*(flow.event(f"e{number}") for number in range(waiting)), step("last"))
        return [len(each) for each in results]

    shop = Shop(flows_of(wide))
    shop.start("wide")
    last = shop.take("last")
    for number in range(waiting):
        shop.event("wide", f"e{number}", "x" * size, id_=str(number))
    shop.deliver(last)
    shop.settle()
    assert shop.status("wide")["result"] == [*[size] * waiting, 4]


def test_a_problem_with_a_long_detail_is_the_outcome_of_its_step_cut() -> None:
    async def one() -> Any:
        try:
            await step("work")
        except Problem as problem:
            return len(problem.detail)

    shop = Shop(flows_of(one), {"work": raising("x" * 1_100_000)})
    shop.start("one")
    shop.settle()
    assert shop.status("one")["result"] == 2_000


def test_a_turn_that_the_store_refuses_is_stuck_and_keeps_the_outcome_of_its_step() -> None:
    async def one() -> Any:
        return await step("work")

    shop = Shop(flows_of(one))
    shop.start("one")
    with mock.patch.object(shop.ports.store, "commit", refusing_headers_that_end(shop.ports.store.commit)):
        shop.settle()
    assert shop.status("one")["problem"]["detail"] == "The turn was refused: No."
    suspensions.resume(shop.ports, FlowAddress("one", "1"))
    shop.settle()
    assert (shop.status("one")["result"], shop.ran) == ("work", ["work"])


def refusing_headers_that_end(commit: Any) -> Any:
    def refusing(writes: Any) -> Any:
        if any(isinstance(write, Put) and write.data.get("end", "null") != "null" for write in writes):
            raise Problem("No.")
        return commit(writes)

    return refusing


def test_the_tasks_of_a_turn_have_as_many_outbox_records_as_they_need_also_at_a_cancel() -> None:
    async def inner() -> Any:
        await flow.event("never")

    async def pair() -> Any:
        try:
            await shop_flow("inner")
        except flow.Cancelled:
            await step("undo")
            raise

    async def wide() -> Any:
        await flow.all(*[pair() for _ in range(60)])

    shop = Shop(flows_of(wide, inner))
    shop.start("wide")
    shop.settle()
    messages.cancel(shop.ports, FlowAddress("wide", "1"))
    shop.settle()
    assert shop.status("wide")["state"] == "cancelled"
    assert shop.ran.count("undo") == 60


def shop_flow(name: str) -> SubFlow[Any]:
    return SubFlow(FUNCTION, name, {})


@pytest.mark.parametrize(("name", "value"), [("", 1), ("x" * 300, 1), ("x", float("nan")), ("a\udc80", 1)])
def test_an_event_that_cannot_be_is_refused(name: str, value: Any) -> None:
    shop = Shop(flows_of(approval))
    shop.start("approval")
    with pytest.raises(BadFlow):
        shop.event("approval", name, value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SubFlow(FUNCTION, "inner", {"at": object()}),
        lambda: SubFlow(FUNCTION, "inner", {"text": "x" * 200_000}),
        lambda: flow.sleep(-1),
        lambda: flow.event(""),
        lambda: flow.event("a\udc80"),
        lambda: flow.lock("printer", permits=0),
        lambda: flow.step(step("work"), attempts_max=0),
        lambda: flow.step(step("work"), pause_factor=0.5),
        lambda: flow.step(step("work"), pause_seconds=9, pause_max_seconds=8),
        lambda: flow.step(step("work"), no_retry=NOT_PROBLEMS),
        lambda: flow.step(step("work"), no_retry=(NOT_PROBLEMS,)),
        lambda: flow.batch([step("a"), step("b")]),
    ],
)
def test_an_invalid_command_raises_an_error_where_the_code_creates_it(make: Any) -> None:
    async def careless() -> Any:
        try:
            await make()
        except BadFlow as problem:
            return problem.detail

    shop = Shop(flows_of(careless))
    shop.start("careless")
    assert shop.status("careless")["result"]


def test_a_flow_is_an_async_function_whose_parameters_are_json() -> None:
    def plain() -> None:
        return None

    async def leased(lease: Lease) -> Any:
        await step(lease.id)

    for code in (plain, leased):
        with pytest.raises(TypeError):
            FlowDefinition.from_function(code)


def test_a_result_that_cannot_be_stored_is_the_steps_error() -> None:
    async def tolerant() -> Any:
        try:
            await step("work")
        except Problem as problem:
            return problem.slug()

    for result, slug in ((object(), "bad-argument"), ("x" * 200_000, "too-large")):
        shop = Shop(flows_of(tolerant), {"work": lambda _, result=result: result})  # type: ignore[misc]  # mypy infers no type for a lambda with a default
        shop.start("tolerant")
        shop.settle()
        assert shop.status("tolerant")["result"] == slug


def test_a_chunk_that_is_newer_than_the_header_counts_as_far_as_the_header_says() -> None:
    async def long() -> Any:
        for _ in range(20):
            await step("work")

    shop = Shop(flows_of(long), {"work": lambda _: "x" * 100})
    with replaced(flow_tail_bytes_max=300):
        shop.start("long")
        old = None
        for _ in range(12):
            shop.deliver(shop.take("work"))
            header = reads.get(shop.ports, FlowAddress("long", "1"))
            old = old or (header if header.log.chunks else None)
    assert old is not None
    assert len(read_log(shop.ports.store, old).entries) == old.log.length


def test_a_turn_that_is_overtaken_while_its_code_runs_commits_nothing() -> None:
    async def slow() -> Any:
        got = []
        for _ in range(2):
            event = await flow.event("x")
            got.append(event)
            if meanwhile:
                meanwhile.pop()()
        return got

    shop, meanwhile = Shop(flows_of(slow)), list[Callable[[], None]]()
    shop.start("slow")
    shop.event("slow", "x", 1, id_="e1")
    turn = shop.take("turn")
    meanwhile.append(lambda: shop.deliver(turn))
    shop.deliver(turn)
    assert shop.status("slow")["log_length"] == 1
    shop.event("slow", "x", 2, id_="e2")
    shop.settle()
    assert shop.status("slow")["result"] == [1, 2]


def test_a_flow_that_does_not_exist_is_reported() -> None:
    shop = Shop(flows_of(approval))
    with pytest.raises(NoFlow):
        shop.event("approval", "x")
    with pytest.raises(NoFlow):
        messages.cancel(shop.ports, FlowAddress("approval", "1"))


@pytest.mark.parametrize("ended", ["cancelled", "deleted"])
def test_an_attempt_that_is_due_later_does_not_begin_once_its_flow_has_ended(ended: str) -> None:
    async def paying() -> Any:
        await flow.step(step("charge"), attempts_max=2, pause_seconds=3600)

    shop = Shop(flows_of(paying), {"charge": raising("no money")})
    shop.start("paying")
    shop.deliver(shop.take("charge"))
    again = shop.take("charge")
    messages.cancel(shop.ports, FlowAddress("paying", "1"))
    shop.settle()
    if ended == "deleted":
        sweep.delete(shop.ports, FlowAddress("paying", "1"))
    shop.deliver(again)
    assert shop.ran == ["charge"]


def test_a_late_delivery_of_an_earlier_attempt_does_not_begin() -> None:
    async def paying() -> Any:
        await flow.step(step("charge"), attempts_max=2, pause_seconds=3600)

    shop = Shop(flows_of(paying), {"charge": raising("no money")})
    shop.start("paying")
    charge = shop.take("charge")
    shop.deliver(charge)
    shop.deliver(charge, deliveries=1)
    assert shop.ran == ["charge"]


def test_a_delayed_step_looks_first_and_one_on_time_does_not() -> None:
    async def patient() -> Any:
        await step("charge").after(3600)

    shop = Shop(flows_of(patient))
    shop.start("patient")
    assert "delayed" in shop.take("charge").context["step"]
    on_time = Shop(flows_of(checkout))
    on_time.start("checkout", order=1)
    assert "delayed" not in on_time.take("charge").context["step"]


async def _impatient() -> Any:
    which, _ = await flow.first(flow.batch([step("mail", to=name) for name in "abc"]), flow.sleep(5))
    return which


def test_a_batch_that_was_abandoned_before_it_was_populated_is_not_populated() -> None:
    shop = Shop(flows_of(_impatient))
    shop.start("_impatient")
    late = shop.take("flow_command")
    shop.settle()
    assert shop.status("_impatient")["result"] == 1
    shop.deliver(late)
    assert shop.world.tasks == []
    assert shop.world.ids("batches") == []


def test_a_batch_that_is_abandoned_while_it_is_populated_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(flows_of(_impatient))
    shop.start("_impatient")
    late = shop.take("flow_command")

    def populated_late(*arguments: Any) -> Any:
        shop.settle()  # the time is over, and the task that cancels the batch finds none
        return populate_whole(*arguments)

    monkeypatch.setattr(steps, "populate_whole", populated_late)
    shop.deliver(late)
    [batch] = shop.world.ids("batches")
    assert shop.world.record(f"batches/{batch}")["state"] == "cancelled"


def test_a_removal_does_not_delete_the_messages_of_a_new_run_under_the_same_id() -> None:
    async def quick() -> Any:
        await flow.event("go")

    shop = Shop(flows_of(quick))
    shop.start("quick")
    shop.event("quick", "go")
    shop.settle()
    address = FlowAddress("quick", "1")
    [ended] = shop.ports.store.read(header_path(address.base))
    sweep.delete(shop.ports, address)
    shop.start("quick")
    shop.event("quick", "go", id_="of the new run")
    with pytest.raises(Conflict):
        sweep.remove(shop.ports, address, ended)
    shop.settle()
    assert shop.status("quick")["state"] == "completed"


def test_a_removal_of_many_pages_removes_everything() -> None:
    async def eventful() -> Any:
        for _ in range(9):
            await flow.event("x")

    shop = Shop(flows_of(eventful))
    shop.start("eventful")
    for number in range(9):
        shop.event("eventful", "x", id_=str(number))
    shop.settle()
    with replaced(flow_removal_page=2):
        sweep.delete(shop.ports, FlowAddress("eventful", "1"))
    assert not shop.ports.store.query(Query(collection_of(FlowAddress("eventful", "1").base)))


def test_the_status_names_the_events_that_the_code_has_not_waited_for() -> None:
    async def two() -> Any:
        await flow.event("paid")
        return await flow.event("packed")

    shop = Shop(flows_of(two))
    shop.start("two")
    shop.settle()
    assert "unawaited" not in shop.status("two")
    shop.event("two", "payed", id_="a")
    shop.event("two", "packed", id_="b")
    shop.event("two", "payed", id_="c")
    shop.settle()
    assert shop.status("two")["unawaited"] == {"events": 3, "names": ["packed", "payed"]}
    shop.event("two", "paid", id_="d")
    shop.settle()
    assert (shop.status("two")["state"], shop.status("two")["unawaited"]["names"]) == ("completed", ["payed"])


def test_events_that_the_code_does_not_wait_for_are_refused_at_last_and_the_flow_can_be_cancelled() -> None:
    async def deaf() -> Any:
        await flow.event("never")

    with replaced(flow_events_kept_max=3):
        shop = Shop(flows_of(deaf))
        shop.start("deaf")
        for number in range(5):  # posted before a turn has read any of them
            shop.event("deaf", "x", number, str(number))
        shop.settle()
        with pytest.raises(TooManyEvents):
            shop.event("deaf", "x", 9, "9")
        shop.event("deaf", "x", 4, "4")
        assert shop.status("deaf")["state"] == "running"
        messages.cancel(shop.ports, FlowAddress("deaf", "1"))
        shop.settle()
    assert shop.status("deaf")["state"] == "cancelled"


def test_events_are_refused_while_those_that_are_kept_have_too_many_bytes_to_be_passed_on() -> None:
    async def deaf(total: int) -> Any:
        await flow.event("again")
        return flow.continue_as_new(total=total + 1)

    shop = Shop(flows_of(deaf))
    shop.start("deaf", total=0)
    refused = 0
    for number in range(57):
        try:
            shop.event("deaf", "x", "x" * 100_000, str(number))
        except TooManyEvents:
            refused += 1
        shop.settle()
    assert refused == 42
    shop.event("deaf", "x", "x" * 100_000, "0")
    with replaced(flow_events_kept_bytes_max=9_000_000):
        shop.event("deaf", "again", id_="again")
    shop.settle()
    status = shop.status("deaf")
    assert (status["state"], status["generation"], status["log_length"]) == ("running", 1, 15)


async def next_round(round_: int) -> Any:
    await flow.event("go")
    return flow.continue_as_new(round_=round_ + 1)


def suspended_round() -> Shop:
    shop = Shop(flows_of(next_round))
    shop.start("next_round", round_=0)
    shop.settle()
    suspensions.suspend(shop.ports, FlowAddress("next_round", "1"))
    return shop


def resumed(shop: Shop) -> Mapping[str, Any]:
    suspensions.resume(shop.ports, FlowAddress("next_round", "1"))
    shop.settle()
    return shop.status("next_round")


def test_a_burst_of_events_to_a_suspended_run_is_refused_where_it_does_not_fit_and_the_run_continues() -> None:
    shop = suspended_round()
    for number in range(90):
        shop.event("next_round", "x", "x" * 100_000, id_=str(number))
    status = resumed(shop)
    assert (status["state"], status["unawaited"]["events"]) == ("running", 29)
    shop.event("next_round", "x", "x" * 100_000, id_="28")
    with pytest.raises(TooManyEvents, match="29 events"):
        shop.event("next_round", "x", "x" * 100_000, id_="29")
    with pytest.raises(OtherBody):
        shop.event("next_round", "x", "y", id_="29")
    shop.event("next_round", "go", id_="go")  # the code waits for it
    shop.settle()
    status = shop.status("next_round")
    assert (status["state"], status["generation"], status["log_length"]) == ("running", 1, 29)


def test_a_burst_of_small_events_is_kept_up_to_a_number() -> None:
    shop = suspended_round()
    with replaced(flow_events_passed_on_max=3):
        for number in range(5):
            shop.event("next_round", "x", number, id_=str(number))
        shop.event("next_round", "go", id_="go")
        status = resumed(shop)
    assert (status["state"], status["generation"], status["unawaited"]["events"]) == ("running", 1, 3)


def replayed_entries(burst: int, gap_seconds: float, *, awaited: bool = True) -> tuple[int, int]:
    """Send a burst to a suspended run. Return the entries that its turns replay, and the most counts of its bytes."""

    async def collect() -> int:
        await flow.event("x" if awaited else "go")
        return sum([await flow.event("x") for _ in range(burst - awaited)])

    replays: list[int] = []
    counts: list[int] = []

    def counted(turn: FlowTurn, log: Sequence[Message]) -> FlowTurn:
        replays.append(len(log))
        counts.append(0)
        return replay_log(turn, log)

    def kept_bytes(driver: Driver) -> int:
        counts[-1] += 1
        return int(bytes_of_kept(driver))

    replay_log, bytes_of_kept = FlowTurn.replay_log, vars(Driver)["kept_bytes"].fget
    shop = Shop(flows_of(collect))
    shop.start("collect")
    shop.settle()
    suspensions.suspend(shop.ports, FlowAddress("collect", "1"))
    for number in range(burst):
        shop.event("collect", "x", number, id_=str(number))
        shop.world.pass_time(gap_seconds)
    with (
        mock.patch.object(FlowTurn, "replay_log", counted),
        mock.patch.object(Driver, "kept_bytes", property(kept_bytes)),
    ):
        suspensions.resume(shop.ports, FlowAddress("collect", "1"))
        shop.settle()
    if not awaited:
        shop.event("collect", "go", id_="go")
        shop.settle()
    assert shop.status("collect")["result"] == sum(range(awaited, burst))
    return sum(replays), max(counts)


@pytest.mark.parametrize("awaited", [True, False])
def test_turns_of_a_long_log_apply_larger_pages_so_that_a_burst_is_replayed_a_few_times(awaited: bool) -> None:
    most = 32_000  # as much as the events have that the code does not wait for
    limits = {"mailbox_page": 8, "flow_page_log_entries": 20, "flow_page_max": 80}
    with replaced(**limits, flow_events_passed_on_bytes_max=most):
        entries, counts = replayed_entries(400, 0.02, awaited=awaited)
    assert entries < 3_000  # with pages of 8 messages, more than 15,000
    assert counts <= 3


def test_a_burst_that_one_page_has_is_not_replayed_for_commits_that_have_no_room_for_it() -> None:
    entries, _ = replayed_entries(1_000, 0)  # sent at once: a page is not settled until it has all of them
    assert entries <= 350 + 700


@pytest.mark.parametrize("limit", ["flow_log_bytes_max", "flow_log_entries_max"])
def test_a_burst_of_events_leaves_room_in_the_log_for_the_code(limit: str) -> None:
    shop = suspended_round()
    for number in range(20):
        shop.event("next_round", "x", "x" * 130, id_=str(number))
    with replaced(**{limit: 4_000 if limit == "flow_log_bytes_max" else 16}):
        status = resumed(shop)
        assert (status["state"], 12 <= status["unawaited"]["events"] <= 14) == ("running", True)
        shop.event("next_round", "go", id_="go")
        shop.settle()
        assert shop.status("next_round")["generation"] == 1


def test_updates_with_large_values_are_refused_where_they_do_not_fit_and_the_run_continues() -> None:
    shop, address = suspended_round(), FlowAddress("next_round", "1")
    for number in range(90):
        messages.post_update(shop.ports, address, "x", "x" * 100_000, str(number))
    assert resumed(shop)["state"] == "running"
    assert sends.answer_of(shop.ports, address, "28") is None
    refused = sends.answer_of(shop.ports, address, "29")
    assert refused is not None
    assert str((refused.error or {})["type"]).endswith("too-many-updates")


def test_events_that_come_faster_than_turns_and_do_not_fit_are_named_and_fixed_by_code_that_waits_for_them() -> None:
    async def rounds(round_: int) -> Any:
        await flow.event("go")
        return flow.continue_as_new(round_=1) if not round_ else 0

    async def waits(round_: int) -> int:
        await flow.event("go")
        return sum([len(await flow.event("big")) for _ in range(40)]) + round_

    shop = Shop(flows_of(rounds))
    shop.start("rounds", round_=0)
    shop.settle()
    for number in range(40):
        shop.event("rounds", "big", "x" * 95_000, id_=str(number))
    with replaced(flow_events_passed_on_bytes_max=9_000_000):  # as if the code had received them, and given them up
        shop.settle()
    shop.event("rounds", "go", id_="go")
    shop.settle()
    assert "would pass on 40 events of 3,8" in shop.status("rounds")["problem"]["detail"]
    shop.flows = flows_of(named_of(waits, "rounds"))
    suspensions.resume(shop.ports, FlowAddress("rounds", "1"))
    shop.settle()
    assert shop.status("rounds")["result"] == 40 * 95_000


def test_a_cancel_goes_before_the_events_of_its_page_and_after_its_results() -> None:
    seen = []

    async def attentive() -> Any:
        try:
            seen.append(await step("charge"))
            while True:
                seen.append(await flow.event("x"))
        except flow.Cancelled:
            seen.append("cancelled")
            raise

    shop = Shop(flows_of(attentive))
    shop.start("attentive")
    shop.event("attentive", "x", "event")
    charge = shop.take("charge")
    shop.deliver(charge, deliveries=1)
    messages.cancel(shop.ports, FlowAddress("attentive", "1"))
    shop.settle()
    assert seen[-2:] == ["charge", "cancelled"]


def test_a_repeat_of_an_accepted_event_is_accepted_after_the_end() -> None:
    async def brief() -> Any:
        return await flow.event("x")

    shop = Shop(flows_of(brief))
    shop.start("brief")
    shop.event("brief", "x", 1, "a")
    shop.settle()
    shop.event("brief", "x", 1, "a")
    with pytest.raises(OtherBody):
        shop.event("brief", "x", 2, "a")
    with pytest.raises(FlowEnded):
        shop.event("brief", "x", 1, "b")


def purge(shop: Shop) -> None:
    """Lose all tasks; their names become free."""
    shop.world.tasks.clear()
    shop.world.queue.names.clear()


def test_the_sweeper_repeats_the_commands_of_a_flow_whose_tasks_are_lost() -> None:
    async def everything() -> Any:
        added = ObjectCall("counters", ObjectAddress("Counter", "a"), "add", {"who": "x"})
        await flow.all(step("charge"), added, flow.sleep(9))
        await SubFlow(FUNCTION, "inner", {})
        return "done"

    async def inner() -> Any:
        await step("pack")

    shop = Shop(flows_of(everything, inner))
    shop.start("everything")
    for _ in range(4):
        purge(shop)
        shop.world.pass_time(30 * 3600)
        sweep.sweep(shop.ports)
        shop.settle()
    assert shop.status("everything")["state"] == "completed"
    assert sorted(shop.ran) == ["charge", "pack"]


def test_the_sweeper_leaves_a_flow_alone_that_has_turns_and_looks_at_a_patient_one_once_a_day() -> None:
    shop = Shop(flows_of(checkout, approval))
    shop.start("checkout", order=1)
    shop.world.pass_time(3000)
    shop.deliver(shop.take("charge"))
    shop.world.pass_time(3000)
    waiting = len(shop.world.tasks)
    assert sweep.sweep(shop.ports) == 1
    assert len(shop.world.tasks) == waiting
    assert sweep.sweep(shop.ports) == 0


def test_resuming_a_running_flow_repeats_its_steps() -> None:
    shop = Shop(flows_of(checkout))
    shop.start("checkout", order=1)
    purge(shop)
    suspensions.resume(shop.ports, FlowAddress("checkout", "1"))
    shop.deliver(shop.take("turn"))
    shop.deliver(shop.take("charge"))
    assert shop.status("checkout")["log_length"] == 1


def test_a_step_whose_task_was_given_up_is_not_run_again() -> None:
    async def stubborn() -> Any:
        await flow.step(step("work"), attempts_max=3)

    def gives_up(_: Any) -> Any:
        raise GaveUp("Gave up after 10 attempts.")

    shop = Shop(flows_of(stubborn), {"work": gives_up})
    shop.start("stubborn")
    shop.settle()
    assert (shop.status("stubborn")["error"]["type"], shop.ran) == ("gave-up", ["work"])


def test_code_that_asks_for_the_time_of_its_start_later_gets_that_of_the_commit() -> None:
    async def timed(asks: bool) -> Any:
        first = flow.now() if asks else None
        await step("work")
        return str(first)

    shop = Shop(flows_of(named("timed", partial(timed, False))))
    shop.start("timed")
    begun_at = shop.world.now
    shop.world.pass_time(60)
    shop.flows = flows_of(named("timed", partial(timed, True)))
    shop.settle()
    assert shop.status("timed")["result"].startswith(str(begun_at)[:16])


def named(name: str, code: Any) -> Any:
    """Return a flow of a name."""

    async def run() -> Any:
        return await code()

    run.__name__ = name
    return run


@pytest.mark.parametrize("begun", [False, True])
def test_arguments_that_do_not_fit_end_a_new_run_and_hold_one_whose_code_has_changed(begun: bool) -> None:
    async def trip(days: int) -> Any:
        await step("pack")
        return days

    async def old(days: str) -> Any:
        await step("pack")
        return days

    shop = Shop(flows_of(named_of(old, "trip")) if begun else Flows("other", {}))
    shop.start("trip", days="two")
    shop.flows = flows_of(trip)
    shop.settle()
    assert shop.status("trip")["state"] == ("stuck" if begun else "failed")


def named_of(code: Any, name: str) -> Any:
    code.__name__ = name
    return code


def test_a_repeated_cancel_does_not_cancel_the_next_generation() -> None:
    async def stubborn(round_: int) -> Any:
        try:
            await flow.event("never")
        except flow.Cancelled:
            if round_:
                raise
            return flow.continue_as_new(round_=1)

    shop = Shop(flows_of(stubborn))
    shop.start("stubborn", round_=0)
    address = FlowAddress("stubborn", "1")
    for _ in range(3):
        messages.cancel(shop.ports, address, "no", "of this task")
        shop.settle()
    assert (shop.status("stubborn")["state"], shop.status("stubborn")["generation"]) == ("running", 1)


def test_deleting_a_stuck_flow_cancels_its_batch_and_its_wait_for_a_lock() -> None:
    async def broken() -> Any:
        await flow.all(flow.batch([step("mail", to="a")]), flow.lock("printer"), flow.event("x"))

    shop = Shop(flows_of(broken))
    shop.start("broken")
    shop.flows = flows_of(checkout)
    shop.flows = replace(shop.flows, definitions={"broken": FlowDefinition.from_function(checkout)})
    shop.event("broken", "x")
    shop.deliver(next(task for task in shop.world.tasks if task.task == "turn"))
    assert shop.status("broken")["state"] == "stuck"
    shop.world.tasks.clear()
    sweep.delete(shop.ports, FlowAddress("broken", "1"))
    commands = [task.payload["act"] for task in shop.world.tasks if task.task == "flow_command"]
    assert sorted(commands) == ["end_batch", "leave"]


def test_a_run_that_ignores_its_cancel_is_terminated_and_holds_and_runs_nothing_afterwards() -> None:
    async def inner() -> Any:
        await flow.event("never")

    async def immortal() -> Any:
        with await flow.lock("printer", lease_seconds=600):
            while True:
                try:
                    await flow.all(flow.event("x"), SubFlow(FUNCTION, "inner", {}), flow.lock("printer"), long_batch())
                except:  # noqa: E722  as a user may write it
                    await step("ignored")

    def long_batch() -> Any:
        return flow.batch([step("unit", number=number) for number in range(3)])

    shop = Shop(flows_of(immortal, inner))
    settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    shop.start("immortal")
    shop.settle()
    messages.cancel(shop.ports, FlowAddress("immortal", "1"))
    sweep.terminate(shop.ports, FlowAddress("immortal", "1"), "enough")
    shop.settle()
    status = shop.status("immortal")
    assert (status["state"], status["error"]["detail"], leases(shop)) == ("cancelled", "enough", 0)
    assert [child.state for child in lists.list_flows(shop.ports, lists.Runs("inner")).flows] == ["cancelled"]
    [batch_id] = {record.id for record in shop.ports.store.query(Query("batches"))}
    assert get_batch(shop.ports, batch_id).state == "cancelled"


def test_a_call_of_an_object_whose_outcome_was_lost_is_asked_for_its_outcome_again() -> None:
    async def counting() -> Any:
        return await ObjectCall("counters", ObjectAddress("Counter", "a"), "add", {"who": "x"})

    shop = Shop(flows_of(counting))
    shop.start("counting")
    shop.deliver(shop.take("turn"))
    assert [task.task for task in shop.world.tasks] == ["flow_result"]
    purge(shop)
    shop.world.pass_time(LIMITS.flow_silent_seconds + 1)
    sweep.sweep(shop.ports)
    shop.settle()
    assert shop.status("counting")["state"] == "completed"


def test_a_removal_does_not_delete_the_log_of_a_new_run_under_the_same_id() -> None:
    async def eventful() -> Any:
        await flow.event("go")
        await flow.event("never")

    shop = Shop(flows_of(eventful))
    address = FlowAddress("eventful", "1")
    shop.start("eventful")
    sweep.terminate(shop.ports, address)
    [ended] = shop.ports.store.read(header_path(address.base))
    sweep.delete(shop.ports, address)
    with replaced(flow_tail_bytes_max=10):
        shop.start("eventful")
        shop.event("eventful", "go")
        shop.settle()
    log = shop.world.ids(f"{address.base}/log")
    with mock.patch.object(sweep, "_messages", return_value=[]), pytest.raises(Conflict):  # it deleted them before
        sweep.remove(shop.ports, address, ended)
    assert log
    assert shop.world.ids(f"{address.base}/log") == log


class Declined(Problem):
    """The bank has declined the card."""


class Stolen(Declined):
    """The card was reported as stolen."""


@pytest.mark.parametrize("final", [Declined, Stolen])
def test_a_step_is_not_run_again_after_a_problem_of_no_retry(final: type[Problem]) -> None:
    async def paying() -> Any:
        return await flow.step(step("charge"), attempts_max=9, pause_seconds=1, no_retry=(Declined,))

    outcomes = iter([Problem("the bank is closed"), final("no money")])

    def charge(*_: Any) -> str:
        raise next(outcomes)

    shop = Shop(flows_of(paying), {"charge": charge})
    shop.start("paying")
    shop.settle()
    status = shop.status("paying")
    assert (status["state"], status["error"]["type"], len(shop.ran)) == ("failed", final.slug(), 2)


def test_the_pauses_of_a_task_grow_up_to_the_longest() -> None:
    async def paying() -> Any:
        await flow.step(step("charge"), attempts_max=5, pause_seconds=1, pause_factor=3, pause_max_seconds=8)

    shop = Shop(flows_of(paying), {"charge": raising("closed")})
    shop.start("paying")
    pauses = []
    for _ in range(5):
        task = shop.take("charge")
        pauses.append(round((task.not_before - shop.world.now).total_seconds()) if task.not_before else 0)
        shop.world.advance(max(0, pauses[-1]))
        shop.deliver(task)
    assert pauses == [0, 1, 3, 8, 8]


def test_a_step_that_raises_a_users_problem_of_the_name_gave_up_is_retried_and_one_that_was_given_up_is_not() -> None:
    command = flow.step(step("work"), attempts_max=3)
    given_up = CallOutcome.from_problem(GaveUp("Gave up after 10 attempts."))
    of_user = CallOutcome(error={**(given_up.error or {}), "title": Problem.title, "status": 400})
    assert [command.is_retried(1, given_up), command.is_retried(1, of_user)] == [False, True]


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 0), (2, 2), (3, 20), (4, 200), (9, 10**6), (1_000, 10**6)])
def test_a_pause_is_bounded_however_many_attempts_there_are(attempt: int, seconds: float) -> None:
    command = flow.step(step("work"), attempts_max=1_000, pause_seconds=2, pause_factor=10, pause_max_seconds=10**6)
    assert command.pause_before(attempt) == seconds
    assert flow.step(step("work"), pause_factor=10).pause_before(attempt) == 0
