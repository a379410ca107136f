"""Locks of a flow that are held longer than their leases: they are renewed, or an error says that they expired."""

from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from signalbox.core.calls import Call
from signalbox.core.effects import Effect, name_of
from signalbox.core.problems import LeaseEnded, Problem, Unavailable, WaitOfFlow
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.service import messages, suspensions
from signalbox.semaphores import sweep as semaphore_sweep
from signalbox.semaphores import tasks as semaphore_tasks
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, settings, views, waits
from tests.unit.flows.shops import Shop, flows_of, raising, step


async def long_work() -> Any:
    """Hold a lock for an hour whose lease is ten minutes, and return its ends."""
    ends = []
    with await flow.lock("printer", lease_seconds=600) as lease:
        for _ in range(7):
            await flow.sleep(500)
            lease = await lease.renew()  # noqa: PLW2901  the lock with its new end
            ends.append(str(lease.ends_at))
    return ends


def shop_of(*codes: Any) -> Shop:
    shop = Shop(flows_of(*codes))
    settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    return shop


def free(shop: Shop) -> bool:
    """Return whether the permit can be had; if so it is taken."""
    return waits.wait(shop.ports, "printer", WaitRequest("other")).lease is not None


def test_a_lock_is_held_as_long_as_it_is_renewed() -> None:
    shop = shop_of(long_work)
    shop.start("long_work")
    for _ in range(6):
        while not any(each.task == "flow_command" and each.payload["act"] == "renew" for each in shop.world.tasks):
            shop.deliver(shop.world.tasks.pop(0))
        shop.deliver(shop.take("flow_command"))
        assert views.get(shop.ports, "printer").free == 0
    shop.settle()
    assert len(set(shop.status("long_work")["result"])) == 7
    assert free(shop)


def test_a_renewal_names_the_grant_whichever_delivery_has_claimed_it() -> None:
    shop = shop_of(long_work)
    shop.start("long_work")
    shop.deliver(shop.take("flow_command"))
    result = shop.take("flow_result")
    shop.deliver(result)
    shop.deliver(result, 1)  # its answer was lost: it claims the lease under a new token
    shop.settle()
    assert shop.status("long_work")["state"] == "completed"


def test_an_expired_lease_is_not_acquired_again_and_the_code_receives_the_error() -> None:
    async def slow() -> Any:
        with await flow.lock("printer", lease_seconds=600) as lease:
            await flow.sleep(1_000)
            try:
                await lease.renew()
            except Problem as problem:
                return problem.slug()

    shop = shop_of(slow)
    shop.start("slow")
    shop.settle()
    assert shop.status("slow")["result"] == "lease-ended"
    assert free(shop)


@pytest.mark.parametrize("again", [False, True])
def test_a_lease_of_a_deleted_semaphore_has_ended(again: bool) -> None:
    async def slow() -> Any:
        with await flow.lock("printer", lease_seconds=600) as lease:
            await step("print")
            try:
                await lease.renew()
            except Problem as problem:
                return problem.slug()

    shop = shop_of(slow)
    shop.start("slow")
    while not any(each.task == "print" for each in shop.world.tasks):
        shop.deliver(shop.world.tasks.pop(0))
    semaphore_sweep.delete(shop.ports, "printer")
    if again:
        settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    shop.settle()
    assert shop.status("slow")["result"] == "lease-ended"


def test_code_of_a_collected_run_leaves_its_lock_quietly() -> None:
    """Python closes code that nothing refers to any more while no flow runs, or another run."""
    with pytest.raises(StopIteration):
        flow.lock("printer").__aexit__(GeneratorExit).send(None)


def test_a_lock_that_was_released_is_not_renewed() -> None:
    async def careless() -> Any:
        with await flow.lock("printer", lease_seconds=600) as lease:
            await step("print")
        try:
            await lease.renew()
        except Problem as problem:
            return problem.slug()

    async def beside() -> Any:
        lease = await flow.lock("printer", lease_seconds=600)
        renewed, _ = await flow.settled(lease.renew(), step("print"))
        return str(renewed.error)

    shop = shop_of(careless, beside)
    shop.start("careless")
    shop.settle()
    assert shop.status("careless")["result"] == "lease-ended"


def test_a_lock_that_is_released_while_it_is_renewed_stays_released() -> None:
    async def beside() -> Any:
        lease = await flow.lock("printer", lease_seconds=600)
        try:
            await flow.all(renewing(lease), releasing(lease))
        except Problem as problem:
            return problem.slug()

    async def renewing(lease: Any) -> Any:
        await lease.renew()

    async def releasing(lease: Any) -> Any:
        await step("print")
        lease.release()

    shop = shop_of(beside)
    shop.start("beside")
    shop.deliver(shop.take("flow_command"))
    shop.deliver(shop.take("flow_result"))
    shop.deliver(shop.take("turn"))
    shop.deliver(shop.take("print"))
    shop.settle()
    assert shop.status("beside")["result"] == "lease-ended"
    assert free(shop)


@pytest.mark.parametrize("is_branch", [False, True])
def test_a_lock_that_a_failed_group_has_renewed_is_still_held(is_branch: bool) -> None:
    async def renewing(lease: Any) -> Any:
        return await lease.renew()

    async def holding() -> Any:
        async with flow.lock("printer", lease_seconds=600) as lease:
            with suppress(Problem):
                await flow.all(renewing(lease) if is_branch else lease.renew(), flow.event("number", int))
            await flow.event("done")

    shop = shop_of(holding)
    shop.start("holding")
    shop.settle()
    shop.event("holding", "number", "five")
    shop.settle()
    assert not free(shop)
    shop.event("holding", "done", id_="e2")
    shop.settle()
    assert shop.status("holding")["state"] == "completed"
    assert free(shop)


def test_a_duplicate_grant_takes_nothing_from_the_holder() -> None:
    async def holding() -> Any:
        with await flow.lock("printer", lease_seconds=600):
            await flow.event("done")

    shop = shop_of(holding)
    shop.start("holding")
    shop.deliver(shop.take("flow_command"))
    result = shop.take("flow_result")
    for deliveries in (0, 1):
        shop.deliver(result, deliveries)
        shop.world.pass_time(1)
        shop.deliver(shop.take("turn"))
    shop.settle()
    assert views.get(shop.ports, "printer").free == 0
    shop.event("holding", "done")
    shop.settle()
    assert views.get(shop.ports, "printer").free == 1


def test_a_posted_grant_is_applied_although_its_lease_ends_before_the_redelivery() -> None:
    async def brief() -> Any:
        with await flow.lock("printer", lease_seconds=5) as lease:
            return lease.semaphore

    shop = shop_of(brief)
    shop.start("brief")
    shop.deliver(shop.take("flow_command"))
    result = shop.take("flow_result")
    shop.deliver(result)
    shop.take("turn")  # the process died before it could wake the flow
    shop.world.pass_time(60)
    shop.deliver(result, 1)
    shop.settle()
    assert shop.status("brief")["result"] == "printer"


@pytest.mark.parametrize("seconds", [-1, 86_401, "long"])
def test_a_renewal_has_a_bound(seconds: Any) -> None:
    async def greedy() -> Any:
        with await flow.lock("printer", lease_seconds=600) as lease:
            await lease.renew(lease_seconds=seconds)

    shop = shop_of(greedy)
    shop.start("greedy")
    shop.settle()
    assert "`lease_seconds`" in shop.status("greedy")["problem"]["detail"]


def test_two_runs_that_hold_each_others_locks_are_a_deadlock_of_their_names() -> None:
    async def moves(first: str, second: str) -> None:
        async with flow.lock(first, lease_seconds=600):
            await flow.event("go")
            async with flow.lock(second, lease_seconds=600):
                pass

    shop = shop_of(moves)
    for name in ("lift", "stand"):
        settings.put(shop.ports, name, SemaphoreSettings(1, 600))
    long_id = "order of a customer " * 10
    for id_, first, second in (("1", "lift", "stand"), (long_id, "stand", "lift")):
        shop.start("moves", id_, first=first, second=second)
    shop.settle()
    assert views.find_deadlocks(shop.ports).deadlocks == ()
    for id_ in ("1", long_id):
        messages.post_event(shop.ports, FlowAddress("moves", id_), "go", 1, "e")
        shop.deliver(shop.take("turn"))
        shop.deliver(shop.take("flow_command"))
    [circle] = views.find_deadlocks(shop.ports).deadlocks
    one = "moves/1"
    [other] = {step.holder for step in circle} - {one}
    assert other.startswith("moves/order of a customer")
    assert len(other.encode()) <= 128
    assert {(step.holder, step.waits_for, step.held_by) for step in circle} == {
        (one, "stand", other),
        (other, "lift", one),
    }


def printer() -> Any:
    return flow.lock("printer", lease_seconds=600)


async def both() -> Any:
    return await flow.all(printer(), step("ok"))


@pytest.mark.parametrize(
    "group",
    [
        lambda: flow.all(printer()),
        lambda: flow.first(printer(), flow.event("x")),
        lambda: flow.all(flow.all(printer(), step("ok")), step("ok")),
        lambda: flow.settled(printer(), step("ok")),
        both,
    ],
)
def test_a_lock_in_a_nested_result_that_the_code_never_receives_is_released(group: Any) -> None:
    async def failing() -> Any:
        try:
            await flow.all(group(), step("fails"))
        except Problem:
            await flow.event("never")

    shop = shop_of(failing)
    shop.tasks["fails"] = raising("no")
    shop.start("failing")
    fails = shop.take("fails")
    shop.settle()
    assert views.get(shop.ports, "printer").free == 0
    shop.deliver(fails)
    shop.settle()
    assert shop.status("failing")["state"] == "running"
    assert free(shop)


def test_the_locks_in_an_abandoned_groups_results_are_released() -> None:
    async def first() -> Any:
        await flow.first(flow.all(flow.all(printer(), step("ok")), flow.event("x")), flow.event("go"))
        await flow.event("never")

    shop = shop_of(first)
    shop.start("first")
    shop.settle()
    assert views.get(shop.ports, "printer").free == 0
    shop.event("first", "go")
    shop.settle()
    assert free(shop)


@pytest.mark.parametrize("ending", ["error", "cancel"])
def test_the_locks_that_the_calls_of_a_failed_map_have_returned_are_released(ending: str) -> None:
    async def take(what: str) -> Any:
        if what == "lock":
            return [await printer()]
        if what == "outer":
            return outer[0]
        await flow.event("go")
        return await step("fails")

    outer: list[Any] = []

    async def mapping() -> None:
        outer[:] = [await flow.lock("outer")]
        with suppress(Problem, flow.Cancelled):
            await flow.map(take, ["lock", "outer", "fails"])
        await flow.shield(flow.event("never"))

    shop = shop_of(mapping)
    settings.put(shop.ports, "outer", SemaphoreSettings(1, 600))
    shop.tasks["fails"] = raising("no")
    shop.start("mapping")
    shop.settle()
    assert views.get(shop.ports, "printer").free == 0
    if ending == "error":
        shop.event("mapping", "go")
    else:
        messages.cancel(shop.ports, FlowAddress("mapping", "1"), "stop", None)
    shop.settle()
    assert free(shop)
    assert views.get(shop.ports, "outer").free == 0


async def cancels_the_handle() -> None:
    handle = flow.begin(flow.all(printer(), flow.event("other")))
    await flow.event("go")
    handle.cancel()
    await flow.event("never")


async def fails_in_the_handle() -> None:
    handle = flow.begin(flow.all(flow.all(printer()), step("fails")))
    await flow.settled(handle)
    await flow.event("never")


async def loses_in_the_handle() -> None:
    handle = flow.begin(flow.first(flow.all(flow.first(printer(), flow.sleep(60)), flow.event("x")), flow.event("go")))
    await handle
    await flow.event("never")


async def loses_behind_a_shield() -> None:
    await flow.first(flow.all(flow.shield(printer()), flow.event("x")), flow.event("go"))
    await flow.event("never")


@pytest.mark.parametrize("code", [cancels_the_handle, fails_in_the_handle, loses_in_the_handle, loses_behind_a_shield])
def test_a_lock_in_a_group_that_a_handle_began_is_released_if_no_code_can_receive_it(code: Any) -> None:
    shop = shop_of(code)
    shop.tasks["fails"] = raising("no")
    shop.start(code.__name__)
    fails = shop.take("fails") if code is fails_in_the_handle else None
    shop.settle()
    assert views.get(shop.ports, "printer").free == 0
    if fails is None:
        shop.event(code.__name__, "go")
    else:
        shop.deliver(fails)
    shop.settle()
    assert shop.status(code.__name__)["state"] == "running"
    assert free(shop)


def test_a_lock_of_a_handle_that_a_group_waited_for_stays_held() -> None:
    async def keeps() -> None:
        handle = flow.begin(flow.all(printer(), step("ok")))
        with suppress(Problem):
            await flow.all(handle, flow.wait_for(flow.event("x"), 5))
        [lock, _] = await handle
        await flow.event("go")
        lock.release()
        await flow.event("never")

    shop = shop_of(keeps)
    shop.start("keeps")
    shop.settle()
    assert views.get(shop.ports, "printer").free == 0
    shop.event("keeps", "go")
    shop.settle()
    assert free(shop)


def test_a_lock_that_changed_code_does_not_hold_any_more_is_released() -> None:
    async def keeps() -> Any:
        await printer()
        await flow.event("go")
        await flow.event("never")

    async def releases() -> Any:
        (await printer()).release()
        await flow.event("go")
        await flow.event("never")

    shop = shop_of(keeps)
    shop.start("keeps")
    shop.settle()
    releases.__name__ = "keeps"
    shop.flows = flows_of(releases)
    shop.event("keeps", "go")
    shop.settle()
    assert free(shop)


async def impatient() -> Any:
    await flow.all(flow.lock("printer", lease_seconds=600), flow.event("never"))
    raise KeyError("a bug")


def test_the_status_of_a_stuck_run_names_the_locks_that_it_holds_and_terminate_releases_them() -> None:
    async def breaks() -> None:
        async with flow.lock("printer", lease_seconds=600):
            await flow.event("go")
            raise KeyError("a bug")

    shop = shop_of(breaks)
    shop.start("breaks")
    shop.settle()
    assert "problem" not in shop.status("breaks")
    shop.event("breaks", "go")
    shop.deliver(shop.take("turn"))
    [lock] = shop.status("breaks")["problem"]["locks"]
    [lease] = views.get(shop.ports, "printer").leases
    assert lock == {"semaphore": "printer", "lease": lease.lease_id, "ends_at": lock["ends_at"]}
    assert datetime.fromisoformat(lock["ends_at"]) == lease.ends_at
    sweep.terminate(shop.ports, FlowAddress("breaks", "1"))
    shop.settle()
    assert free(shop)


def test_the_status_of_a_run_that_is_stuck_as_soon_as_it_has_its_lock_names_the_lock_until_it_is_fixed() -> None:
    bugs = [KeyError("a bug")]

    async def breaks() -> None:
        async with flow.lock("printer", lease_seconds=600):
            if bugs:
                raise bugs[0]
            await flow.event("go")

    shop = shop_of(breaks)
    shop.start("breaks")
    shop.settle()
    [lock] = shop.status("breaks")["problem"]["locks"]
    [lease] = views.get(shop.ports, "printer").leases
    assert lock == {"semaphore": "printer", "lease": lease.lease_id, "ends_at": lock["ends_at"]}
    assert datetime.fromisoformat(lock["ends_at"]) == lease.ends_at
    bugs.clear()
    suspensions.resume(shop.ports, FlowAddress("breaks", "1"))
    shop.settle()
    shop.event("breaks", "go")
    shop.settle()
    assert shop.status("breaks")["state"] == "completed"
    assert free(shop)


@pytest.mark.parametrize("stuck", [False, True])
def test_a_grant_that_waits_when_its_flow_is_terminated_is_released(stuck: bool) -> None:
    shop = shop_of(impatient)
    shop.start("impatient")
    shop.deliver(shop.take("flow_command"))
    shop.deliver(shop.take("flow_result"))
    if stuck:
        shop.event("impatient", "never")
        shop.settle()
        assert shop.status("impatient")["state"] == "stuck"
    shop.world.pass_time(1)  # the slot of the grant's wake-up has ended
    sweep.terminate(shop.ports, FlowAddress("impatient", "1"))
    shop.settle()
    assert shop.world.ids("flows/impatient~1/mailbox") == [
        "!",
        *([name_of("event", "flows/impatient~1", "e")] if stuck else []),
    ]
    assert free(shop)


# --- what an operator ends ---


async def two_pages() -> str:
    """Print on two printers at once, and say how that went."""
    try:
        async with flow.lock("printer", permits=2):
            return "printed"
    except LeaseEnded as ended:
        return ended.detail


def waiting_shop() -> Shop:
    """Return a shop whose flow waits for a lock that another one holds."""
    shop = shop_of(two_pages)
    settings.put(shop.ports, "printer", SemaphoreSettings(2, 600))
    waits.wait(shop.ports, "printer", WaitRequest("other", lease_seconds=86_400))
    shop.start("two_pages")
    shop.deliver(shop.take("flow_command"))
    return shop


def test_the_wait_of_a_flow_is_ended_by_its_flow_only() -> None:
    shop = waiting_shop()
    [waiter] = views.get(shop.ports, "printer").waiters or ()
    with pytest.raises(WaitOfFlow, match="The flow two_pages/1 waits here"):
        waits.cancel(shop.ports, "printer", waiter.id)
    messages.cancel(shop.ports, FlowAddress("two_pages", "1"), "", None)
    shop.settle()
    assert not views.get(shop.ports, "printer").waiters


def dies(*_: Any) -> Any:
    raise Unavailable("the process has died")


def shop_whose_semaphore_is_new(code: Any, *, posted: bool = False) -> tuple[Shop, Effect]:
    """Return a shop whose flow was granted a lock of a semaphore that was created again since, and the grant's task.

    `posted`: that task was delivered once.
    """
    shop = shop_of(code)
    shop.tasks |= {name: partial(task, shop.ports) for name, task in semaphore_tasks.TASKS.items()}
    settings.put(shop.ports, "printer", SemaphoreSettings(2, 600))
    shop.start(code.__name__)
    shop.deliver(shop.take("flow_command"))
    granted = shop.take("flow_result")
    if posted:
        shop.deliver(granted)
    shop.world.pass_time(1)
    semaphore_sweep.delete(shop.ports, "printer")
    shop.deliver(shop.take("clean"))
    settings.put(shop.ports, "printer", SemaphoreSettings(2, 600))
    return shop, granted


@pytest.mark.parametrize("posted", [False, True])
def test_a_wait_that_its_flow_does_not_need_is_not_left_in_an_open_semaphore(
    posted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery repeats the wait and dies before it has closed the semaphore.

    The flow does not need the wait: an earlier delivery has posted its lock (`posted`), or it is cancelled meanwhile.
    """
    shop, granted = shop_whose_semaphore_is_new(two_pages, posted=posted)

    def late(*call: Any) -> Any:
        if not posted:
            messages.cancel(shop.ports, FlowAddress("two_pages", "1"), "", None)
            shop.settle()  # the command to leave the queue finds no wait
        return waits.combine(*call)

    with monkeypatch.context() as patch:
        patch.setattr(waits, "wait", late)
        patch.setattr(waits, "confirm", dies)
        with pytest.raises(Unavailable):
            shop.deliver(granted, int(posted))
    shop.settle()
    view = views.get(shop.ports, "printer")
    assert (view.semaphore.mode, len(view.waiters or ())) == ("open", 1)
    shop.deliver(granted, 1 + posted)
    shop.settle()
    assert not views.get(shop.ports, "printer").waiters
    assert shop.status("two_pages")["state"] == ("completed" if posted else "cancelled")


def test_a_late_delivery_of_an_earlier_grant_leaves_the_lease_that_the_flow_holds() -> None:
    """The delivery before has repeated the same wait, which was granted that lease."""

    async def holding() -> Any:
        with await flow.lock("printer", permits=2):
            await flow.event("done")

    shop, granted = shop_whose_semaphore_is_new(holding)
    shop.deliver(granted)
    shop.settle()
    shop.deliver(granted, 1)
    shop.settle()
    assert views.get(shop.ports, "printer").free == 0
    shop.event("holding", "done")
    shop.settle()
    assert views.get(shop.ports, "printer").free == 2


@pytest.mark.parametrize("posted", [False, True])
def test_a_flow_receives_the_error_of_a_lease_that_an_operator_has_ended_before_it_came(posted: bool) -> None:
    shop = shop_of(two_pages)
    settings.put(shop.ports, "printer", SemaphoreSettings(2, 600))
    shop.start("two_pages")
    shop.deliver(shop.take("flow_command"))
    granted = shop.take("flow_result")
    if posted:
        shop.deliver(granted)
    [lease] = views.get(shop.ports, "printer").semaphore.leases
    assert leases.release(shop.ports, Granted("printer", lease.lease_id))
    shop.deliver(granted, int(posted))
    shop.settle()
    assert shop.status("two_pages")["result"] == ("printed" if posted else ENDED)
    assert not views.get(shop.ports, "printer").semaphore.leases


ENDED = "The lease of printer was ended by an operator before the flow received it."


def test_a_flow_that_waits_for_more_permits_than_are_left_is_stuck_until_there_are_enough() -> None:
    shop = waiting_shop()
    settings.put(shop.ports, "printer", SemaphoreSettings(1, 600))
    shop.settle()
    assert "at most 1" in shop.status("two_pages")["problem"]["detail"]
    settings.put(shop.ports, "printer", SemaphoreSettings(3, 600))
    suspensions.resume(shop.ports, FlowAddress("two_pages", "1"))
    shop.settle()
    assert shop.status("two_pages")["result"] == "printed"


@pytest.mark.parametrize("again", [False, True])
def test_a_flow_whose_semaphore_is_deleted_is_stuck_or_waits_for_the_next_one(again: bool) -> None:
    shop = waiting_shop()
    shop.tasks |= {name: partial(task, shop.ports) for name, task in semaphore_tasks.TASKS.items()}
    semaphore_sweep.delete(shop.ports, "printer")
    if again:
        settings.put(shop.ports, "printer", SemaphoreSettings(2, 600))
        waits.wait(shop.ports, "printer", WaitRequest("another", Call("shop", "print", {})))  # it meets the old wait
    shop.settle()
    if not again:
        assert shop.status("two_pages")["problem"]["detail"].startswith("NoSemaphore")
        settings.put(shop.ports, "printer", SemaphoreSettings(2, 600))
        suspensions.resume(shop.ports, FlowAddress("two_pages", "1"))
        shop.settle()
    assert shop.status("two_pages")["result"] == "printed"


def test_a_lock_waits_in_the_lane_of_its_key_and_priority() -> None:
    async def urgent() -> Any:
        with await flow.lock("printer", key="tenant", priority="high"):
            return "held"

    shop = shop_of(urgent)
    held = waits.wait(shop.ports, "printer", WaitRequest("holder")).lease
    assert held is not None
    for number in range(3):
        waits.wait(shop.ports, "printer", WaitRequest(f"w{number}", Call("users", "come", {}), priority="low"))
    shop.start("urgent")
    shop.deliver(shop.take("flow_command"))
    waiters = views.get(shop.ports, "printer").waiters or ()
    assert [(each.request.key, each.request.priority) for each in waiters].count(("tenant", "high")) == 1


def test_a_lock_with_a_wrong_priority_or_key_is_refused_where_it_is_made() -> None:
    with pytest.raises(Problem, match="high"):
        flow.lock("printer", priority="urgent")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(Problem, match="key"):
        flow.lock("printer", key="a/b")
