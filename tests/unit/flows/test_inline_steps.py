"""Inline steps: functions that run within the turns of a flow, one commit a step."""

import gc
import importlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from signalbox import Function, Problem, TaskContext, documents, flow, flows
from signalbox.core.problems import GaveUp
from signalbox.core.times import rfc3339
from signalbox.core.user_code import ProcessEnded
from signalbox.flows.api import step_threads
from signalbox.flows.api.step_threads import IDLE_MAX, Threads
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine import claims
from signalbox.flows.machine.claims import NOBODY, Carrier
from signalbox.flows.machine.commands import Inline
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.headers import FlowHeader, new_header
from signalbox.flows.model.messages import Cancel, Event, Result, message_to_record
from signalbox.flows.model.waits import Claim, Wait
from signalbox.flows.problems import BadFlow, StepTimedOut
from signalbox.flows.service import messages, reads, suspensions
from signalbox.flows.service.turns import take_page
from signalbox.flows.storage import commits
from signalbox.flows.storage.log import read_log
from signalbox.mailboxes.model.messages import StoredMessage
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.testing import Harness
from tests.unit.cost_table import is_within, row_cost
from tests.unit.flows.random_flows import BEGIN
from tests.unit.flows.shops import Shop, Workers, flows_of, step
from tests.unit.flows.test_flow_tables import rows


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


def add(one: int, two: int = 1) -> int:
    return one + two


async def chain(count: int, size: int = 0) -> int:
    total = 0
    for _ in range(count):
        total = len(await flow.run(lambda: "x" * size)) if size else await flow.run(add, total, two=2)
    return total


def run_of(shop: Shop, name: str = "chain") -> FlowHeader:
    return reads.get(shop.ports, FlowAddress(name, "1"))


def test_one_delivery_carries_a_chain() -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain", count=20)
    shop.deliver(shop.take("turn"))
    assert shop.world.tasks == []
    assert shop.status("chain")["result"] == 40
    assert run_of(shop).running == {}


@pytest.mark.parametrize("steps", [200, pytest.param(1_000, marks=pytest.mark.slow)])
def test_an_inline_step_costs_about_one_write(steps: int) -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain", count=steps, size=500)
    wake = shop.take("turn")
    cost = shop.world.cost_of(lambda: shop.deliver(wake))
    assert shop.status("chain")["log_length"] == steps
    assert is_within("flows", "inline", cost, steps) or steps < 1_000
    assert (cost.tasks, cost.deletes) == (0, 0)


def test_a_chain_moves_the_end_of_its_log_into_a_chunk_early() -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain", count=100, size=500)
    shop.deliver(shop.take("turn"))
    log = run_of(shop).log
    assert (log.chunks, log.length) == (1, 100)
    assert len(read_log(shop.ports.store, run_of(shop)).entries) == 100
    assert len(log.tail_text) <= LIMITS.flow_live_tail_bytes_max < log.held_bytes < LIMITS.flow_tail_bytes_max


def test_the_run_that_begins_a_chain() -> None:
    async def one() -> Any:
        return await flow.run(dies)

    def dies() -> None:
        raise ProcessEnded

    shop = Shop(flows_of(one))
    shop.start("one")
    wake = shop.take("turn")
    shop.world.pass_time(10)

    def delivered() -> None:
        with pytest.raises(ProcessEnded):
            shop.deliver(wake)

    assert shop.world.cost_of(delivered) == row_cost("flows", "inline_start")


def test_a_dead_delivery_is_replaced_when_its_claim_is_over() -> None:
    ran: list[int] = []

    def charge() -> str:
        ran.append(1)
        if len(ran) == 1:
            raise ProcessEnded
        return "charged"

    async def sale() -> str:
        return await flow.run(charge)

    shop = Shop(flows_of(sale))
    shop.start("sale")
    wake = shop.take("turn")
    with pytest.raises(ProcessEnded):
        shop.deliver(wake)
    shop.deliver(wake, deliveries=1)  # finds the claim of the dead one
    [later] = shop.world.tasks
    assert later.not_before is not None
    assert (later.not_before - shop.world.now).total_seconds() == pytest.approx(LIMITS.inline_claim_seconds, abs=1)
    assert len(ran) == 1
    shop.settle()
    assert shop.status("sale")["result"] == "charged"
    assert len(ran) == 2


def test_a_problem_is_the_outcome_or_the_next_attempt() -> None:
    left = [2]

    def flaky() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise Problem("not yet")
        return "now"

    async def patient() -> list[str]:
        try:
            await flow.run(flaky)
        except Problem as problem:
            first = problem.detail
        return [first, await flow.step(flow.run(flaky), attempts_max=3, pause_seconds=60)]

    shop = Shop(flows_of(patient))
    shop.start("patient")
    shop.deliver(shop.take("turn"))
    [again] = shop.world.tasks
    assert again.not_before is not None
    assert (again.not_before - shop.world.now).total_seconds() >= 59
    shop.settle()
    assert shop.status("patient")["result"] == ["not yet", "now"]


def test_another_error_is_retried_and_then_given_up(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[int] = []

    def broken(context: TaskContext) -> None:
        ran.append(context.attempt)
        raise ValueError("a bug")

    async def sale() -> None:
        await flow.run(broken)

    shop = Shop(flows_of(sale))
    shop.start("sale")
    shop.settle()
    assert ran == list(range(1, LIMITS.inline_starts_max + 1))
    error = shop.status("sale")["error"]
    assert error["type"] == GaveUp.slug()
    assert "ValueError: a bug" in error["detail"]


def test_an_operation_is_the_same_in_every_start_and_another_in_every_attempt() -> None:
    operations: list[str] = []

    def charge(context: TaskContext) -> str:
        operations.append(context.operation)
        if len(operations) == 1:
            raise ValueError("started again")
        if len(operations) == 2:
            raise Problem("tried again")
        return "charged"

    async def sale() -> str:
        return await flow.step(flow.run(charge), attempts_max=2)

    shop = Shop(flows_of(sale))
    shop.start("sale")
    shop.settle()
    first, second, third = operations
    assert first == second != third


def test_a_cancel_waits_for_running_code_and_no_further_step_begins() -> None:
    ran: list[str] = []
    shop = Shop(flows_of())

    def charge(number: int) -> None:
        ran.append(f"charge {number}")
        if number == 1:
            messages.cancel(shop.ports, FlowAddress("sale", "1"))
        shop.world.pass_time(0.4)

    def refund() -> None:
        ran.append("refund")

    async def sale() -> None:
        try:
            for number in range(20):
                await flow.run(charge, number)
        except flow.Cancelled:
            await flow.run(refund)
            raise

    shop.flows = flows_of(sale)
    shop.start("sale")
    shop.settle()
    assert ran[-1] == "refund"
    assert len(ran) <= 6  # the delivery looks once a second
    assert shop.status("sale")["state"] == "cancelled"


def test_a_second_delivery_leaves_a_cancel_to_the_code_that_runs() -> None:
    ran: list[str] = []
    shop = Shop(flows_of())

    def charge(context: TaskContext) -> str:
        messages.cancel(shop.ports, FlowAddress("sale", "1"))
        wake = shop.take("turn")
        shop.deliver(wake)  # another process
        assert run_of(shop, "sale").log.length == 0
        ran.append("charged")
        return "receipt"

    ship, refund = partial(ran.append, "shipped"), partial(ran.append, "refunded")

    async def sale() -> None:
        try:
            await flow.run(charge)
            await flow.run(ship)
        except flow.Cancelled:
            await flow.run(refund)
            raise

    shop.flows = flows_of(sale)
    shop.start("sale")
    shop.deliver(shop.take("turn"))
    shop.settle()
    assert ran == ["charged", "refunded"]
    assert shop.status("sale")["state"] == "cancelled"


def test_an_event_is_applied_while_code_runs() -> None:
    shop = Shop(flows_of())

    def slow() -> str:
        messages.post_event(shop.ports, FlowAddress("sale", "1"), "stop", None, "e")
        shop.deliver(shop.take("turn"))
        assert shop.status("sale")["state"] == "completed"
        return "too late"

    async def sale() -> Any:
        which, _ = await flow.first(done=flow.run(slow), stopped=flow.event("stop"))
        return which

    shop.flows = flows_of(sale)
    shop.start("sale")
    shop.settle()
    assert shop.status("sale")["result"] == "stopped"


def test_a_turn_without_a_read_does_not_say_that_it_has_read() -> None:
    shop = Shop(flows_of())

    def slow() -> None:
        shop.world.pass_time(0.01)
        messages.post_event(shop.ports, FlowAddress("sale", "1"), "paid", 7, "e")
        shop.world.pass_time(0.5)  # the slot of the event's wake-up is over, and the delivery does not look yet

    async def sale() -> Any:
        await flow.run(slow)
        return await flow.event("paid")

    shop.flows = flows_of(sale)
    shop.start("sale")
    shop.deliver(shop.take("turn"))
    assert shop.status("sale")["state"] == "running"
    shop.settle()
    assert shop.status("sale")["result"] == 7


def test_a_delivery_hands_over_when_its_time_is_over() -> None:
    shop = Shop(flows_of())
    deliveries: list[int] = []

    def slow(number: int) -> None:
        deliveries.append(len(shop.world.tasks))
        shop.world.pass_time(50)

    async def long() -> None:
        for number in range(30):
            await flow.run(slow, number)

    shop.flows = flows_of(long)
    shop.start("long")
    runs = 0
    while shop.world.tasks:
        runs += 1
        shop.deliver(shop.world.tasks.pop(0))
    assert shop.status("long")["state"] == "completed"
    assert 3 <= runs <= 4  # 1,500 seconds, in deliveries of 540


def test_a_step_that_takes_longer_than_a_claim_renews_it() -> None:
    shop = Shop(flows_of())
    until: list[Any] = []

    class Slow:
        """Workers whose code ends when they have waited long enough."""

        def __init__(self) -> None:
            self.codes: dict[str, Callable[[], CallOutcome]] = {}
            self.passed = 0.0

        @property
        def running(self) -> list[str]:
            return list(self.codes)

        def begin(self, path: str, code: Callable[[], CallOutcome]) -> None:
            self.codes[path] = code

        def wait(self, seconds: float) -> dict[str, CallOutcome]:
            self.passed += max(seconds, 0.001)
            shop.world.pass_time(max(seconds, 0.001))
            until.append(run_of(shop, "long").running["0"].until)
            return {path: self.codes.pop(path)() for path in self.running} if self.passed > 50 else {}

        def abandon(self, path: str) -> None:
            self.codes.pop(path)

        def seconds(self) -> float:
            return self.passed

        def seconds_left(self) -> float:
            return 540 - self.passed

    async def long() -> int:
        return await flow.step(flow.run(add, 1), timeout_seconds=300)

    shop.flows = flows_of(long)
    shop.start("long")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.unit.flows.shops.Workers", lambda _: Slow())
        shop.deliver(shop.take("turn"))
    assert shop.status("long")["result"] == 2
    assert len(set(until)) == 3  # claimed once, renewed twice


def test_a_step_ends_at_its_time_out() -> None:
    shop = Shop(flows_of())

    async def late() -> str:
        try:
            await flow.step(flow.run(time.sleep, 5), timeout_seconds=0.05)
        except Problem as problem:
            return problem.slug()
        return "in time"

    shop.flows = flows_of(late)
    shop.start("late")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.unit.flows.shops.Workers", lambda _: Threads("shop"))
        patch.setattr(commits, "check_log", lambda *_: None)
        shop.deliver(shop.take("turn"))
    assert shop.status("late")["result"] == StepTimedOut.slug()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, flow.Cancelled])
def test_code_that_would_end_its_thread_has_an_outcome_at_once(error: type[BaseException]) -> None:
    def code() -> CallOutcome:
        raise error("bye")

    threads = Threads("shop")
    threads.begin("0", code)
    assert isinstance(threads.wait(5)["0"].raised, error)


def test_an_idle_thread_is_reused_also_by_the_next_delivery() -> None:
    begun, held = threading.Event(), threading.Event()
    ran: list[threading.Thread] = []

    def code() -> CallOutcome:
        ran.append(threading.current_thread())
        return CallOutcome(1)

    def slow() -> CallOutcome:
        ran.append(threading.current_thread())
        begun.set()
        held.wait(5)
        return CallOutcome(1)

    threads = Threads("shop")
    for path in ("0", "1"):
        threads.begin(path, code)
        assert threads.wait(5) == {path: CallOutcome(1)}
    threads.begin("2", slow)
    assert begun.wait(5)
    threads.abandon("2")
    threads.begin("3", code)
    assert threads.wait(5) == {"3": CallOutcome(1)}
    held.set()
    assert threads.wait(5) == {}
    following = Threads("shop")
    for path in ("4", "5"):
        following.begin(path, code)
        assert following.wait(5) == {path: CallOutcome(1)}
    first, second, held_up, other, *later = ran
    assert first is second is held_up is not other
    assert {*later} <= {first, other}


def test_a_process_keeps_few_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_threads, "_idle", [])
    both, ran = threading.Barrier(IDLE_MAX + 2), list[threading.Thread]()

    def code() -> CallOutcome:
        ran.append(threading.current_thread())
        both.wait(5)
        return CallOutcome(1)

    threads = Threads("shop")
    for path in range(IDLE_MAX + 2):
        threads.begin(str(path), code)
    ended: dict[str, CallOutcome] = {}
    while len(ended) < IDLE_MAX + 2:
        ended |= threads.wait(5)
    idle = len(step_threads._idle)
    assert IDLE_MAX <= idle < IDLE_MAX + 2


def test_each_step_runs_in_its_own_copy_of_the_deliverys_context() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    seen: list[str] = []

    def code() -> CallOutcome:
        seen.append(variable.get())
        variable.set("of a step")
        return CallOutcome(1)

    variable.set("of the delivery")
    threads = Threads("shop")
    for path in ("0", "1"):
        threads.begin(path, code)
        assert threads.wait(5)
    assert seen == ["of the delivery", "of the delivery"]


def test_a_step_whose_thread_cannot_be_started_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(step_threads, "_idle", [])
    threads = Threads("shop")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            threads.begin("0", lambda: CallOutcome(0))
    assert not threads.running
    threads.begin("1", lambda: CallOutcome(1))
    assert threads.wait(5) == {"1": CallOutcome(1)}


def test_abandoned_code_has_no_outcome_even_if_other_code_runs_under_its_path() -> None:
    gates = [threading.Event() for _ in range(2)]

    def code(number: int) -> CallOutcome:
        assert gates[number].wait(5)
        return CallOutcome(number)

    threads = Threads("shop")
    threads.begin("0", partial(code, 0))
    threads.abandon("0")
    threads.begin("0", partial(code, 1))
    gates[0].set()
    assert threads.wait(5) == {}
    gates[1].set()
    assert threads.wait(5) == {"0": CallOutcome(1)}


def test_outcomes_are_left_in_the_mailbox_of_a_stuck_flow() -> None:
    ran: list[str] = []

    def charge() -> str:
        ran.append("charged")
        return "receipt"

    def code(*, fixed: bool) -> Any:
        async def sale() -> str:
            paid = await flow.run(charge)
            if not fixed:
                raise KeyError("a bug")
            return paid

        return sale

    shop = Shop(flows_of(code(fixed=False)))
    shop.start("sale")
    shop.settle()
    assert shop.status("sale")["state"] == "stuck"
    shop.flows = flows_of(code(fixed=True))
    suspensions.resume(shop.ports, FlowAddress("sale", "1"))
    shop.settle()
    assert (shop.status("sale")["result"], ran) == ("receipt", ["charged"])


def test_a_coroutine_function_or_generator_cannot_be_an_inline_step() -> None:
    async def pause() -> None: ...

    def values() -> Iterator[int]:
        yield 1

    for function in (pause, values):
        with pytest.raises(TypeError, match="step"):
            flow.run(function)
    with pytest.raises(BadFlow, match="timeout_seconds"):
        flow.step(flow.run(add, 1), timeout_seconds=481)


@pytest.mark.parametrize("result", [{*"ab"}, 10**5_000], ids=["a set", "a very large integer"])
def test_a_result_must_be_json(result: Any) -> None:
    async def sale() -> Any:
        return await flow.run(lambda: result)

    shop = Shop(flows_of(sale))
    shop.start("sale")
    shop.settle()
    assert "cannot be stored" in shop.status("sale")["error"]["detail"]


def test_inline_steps_and_tasks_follow_each_other() -> None:
    async def sale() -> list[Any]:
        return [await flow.run(add, 1), await step("work"), await flow.all(flow.run(add, 2), step("work")), add(3)]

    shop = Shop(flows_of(sale))
    shop.start("sale")
    shop.settle()
    assert shop.status("sale")["result"] == [2, "work", [3, "work"], 4]


def test_users_steps_run_in_threads_and_their_calls_take_effect_once(harness: Harness) -> None:
    app = Function("studio")
    threads: set[threading.Thread] = set()
    together = threading.Barrier(3, timeout=10)

    def draw(name: str) -> str:
        together.wait()
        threads.add(threading.current_thread())
        documents.put(name, {"drawn": True})
        return name

    @app.flow
    async def show(names: list[str]) -> list[str]:
        return await flow.all(*[flow.run(draw, name) for name in names])

    harness.add(app)
    show.start("s1", names=["a", "b", "c"])
    harness.run()
    assert flows("show", "s1").status().result == ["a", "b", "c"]
    assert len(threads) == 3
    assert documents.get("b")["drawn"]
    assert all(thread.daemon for thread in threads)


def test_what_is_known_of_a_step_is_kept_only_as_long_as_its_function() -> None:
    module = importlib.import_module("signalbox.flows.api.flow")

    @dataclass
    class Unhashable:
        def __call__(self, context: TaskContext) -> int:
            return context.attempt

    def taking(context: TaskContext, number: int = 0) -> int:
        return context.attempt + number

    callables = (taking, Unhashable(), Unhashable().__call__, partial(taking, number=1), lambda: 1, len)
    for _ in range(2):
        assert [module._takes_context(each) for each in callables] == [True, True, True, True, False, False]

    def step() -> list[int]:
        return [1]

    kept = weakref.ref(step)
    assert not module._takes_context(step)
    assert module._result_of(step) is module._result_of(step)
    del step
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(
    ("annotations", "takes"),
    [
        ({"context": "TaskContext", "order": "Order"}, True),
        ({"context": "signalbox.TaskContext", "order": "Order"}, True),
        ({"context": TaskContext, "order": "Order"}, True),
        ({"context": "Order"}, False),
    ],
)
def test_a_step_takes_its_context_though_a_type_is_known_only_to_a_type_checker(
    annotations: dict[str, Any], takes: bool
) -> None:
    def step(context: Any, order: Any = None) -> None: ...

    step.__annotations__ = annotations
    assert importlib.import_module("signalbox.flows.api.flow")._takes_context(step) is takes


def test_a_step_is_given_up_at_once_though_the_clock_of_its_carrier_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of the last start ends ahead of the server's time: the wake-up that gives the step up is due then."""
    began: list[int] = []
    real = Workers.seconds
    monkeypatch.setattr(Workers, "seconds", lambda workers: real(workers) + 0.5 * len(began))

    def broken() -> None:
        began.append(1)
        raise ValueError("no luck")

    async def work() -> None:
        await flow.run(broken)

    shop = Shop(flows_of(work))
    shop.start("work")
    shop.settle()
    assert len(began) == LIMITS.inline_starts_max
    assert shop.status("work")["error"]["type"] == GaveUp.slug()


# --- the table of machine/claims.py, row by row ---

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STARTS = 3
CLAIMS = {
    "none": None,
    "of this delivery, whose code runs": Claim("me", STARTS, NOW + timedelta(seconds=5)),
    "of this delivery, whose code did not": Claim("me", STARTS, NOW + timedelta(seconds=5)),
    "of another delivery, not over": Claim("other", STARTS, NOW + timedelta(seconds=5)),
    "of another delivery, over": Claim("other", STARTS, NOW),
    "of another, over, but messages are left": Claim("other", STARTS, NOW),
    "of no delivery, not over": Claim("", STARTS, NOW + timedelta(seconds=5), "KeyError: 1"),
    "of no delivery, over": Claim("", STARTS, NOW, "KeyError: 1"),
    "over, after ten starts": Claim("other", LIMITS.inline_starts_max, NOW),
}


def what_happens(claim: Claim | None, carrier: Carrier, *, messages_left: bool) -> str:
    """Return what a turn does with an inline step that has a claim."""

    async def work() -> int:
        return await flow.run(add, 1)

    wait = Wait("i-0", "0", 1, "run add")
    header = new_header(FlowAddress("work", "1"), "shop", {}, "i")
    header = replace(header, begun=True, start_at=NOW, pending={"0": wait}, running={"0": claim} if claim else {})
    turn = FlowTurn.begin(FlowDefinition.from_function(work), header, (), NOW, carrier)
    if not messages_left:
        turn.see_all()
    turn.claim_steps()
    turn.close()
    after = turn.running.get("0")
    if turn.driver.ended:
        return "gives it up"
    if "0" in turn.claimed:
        starts = turn.claimed["0"].starts
        return "claims it" if claim is None else f"claims it, {'same' if starts == claim.starts else 'next'} start"
    return "leaves it" if after == claim else "renews it"


@pytest.mark.parametrize(("claim", "of_carrier", "of_another"), rows(claims, "its claim"))
def test_what_a_turn_does_with_an_inline_step(claim: str, of_carrier: str, of_another: str) -> None:
    busy = frozenset({"0"} if claim.endswith("runs") else ())
    carrier, left = Carrier(lambda: "me", busy), claim.endswith("left")
    assert what_happens(CLAIMS[claim], carrier, messages_left=left) == of_carrier
    assert of_another in ("-", what_happens(CLAIMS[claim], NOBODY, messages_left=left))


def steps_of(paths: str) -> dict[str, tuple[Inline[object], Wait]]:
    return {path: (Inline("work", lambda _: None), Wait("e", path, 1, "run work", rfc3339(BEGIN))) for path in paths}


def claims_of(paths: str, starts: int = 1) -> dict[str, Claim]:
    return {path: Claim("me", starts, BEGIN + timedelta(seconds=60)) for path in paths}


def test_a_delivery_runs_at_most_eight_steps_together_with_those_that_it_has_begun() -> None:
    carrier = Carrier(lambda: "me", frozenset("abcdef"))
    claimed = claims.new_claims(claims_of("abcdef"), steps_of("abcdefghij"), carrier, BEGIN)
    assert list(claimed) == ["g", "h"]


def test_no_first_start_begins_next_to_a_step_that_was_started_again() -> None:
    carrier = Carrier(lambda: "me", frozenset("a"))
    assert claims.new_claims(claims_of("a", starts=2), steps_of("ab"), carrier, BEGIN) == {}
    assert list(claims.new_claims(claims_of("a"), steps_of("ab"), carrier, BEGIN)) == ["b"]


@pytest.mark.parametrize("waits", [True, False])
def test_a_turn_that_follows_another_one_knows_the_cancel_that_waits(waits: bool) -> None:
    async def works() -> None:
        await flow.run(str, 1)

    definition = FlowDefinition.from_function(works)
    turn = FlowTurn.begin(definition, new_header(FlowAddress("works", "1"), "shop", {}, "i"), (), BEGIN)
    turn.header = replace(turn.header, begun=True, cancel_waits=waits, pending=turn.pending)
    following = turn.following(BEGIN, Carrier(lambda: "me"))
    following.claim_steps()
    turn.close()
    assert (following.cancels_left, list(following.claimed)) == (int(waits), [] if waits else ["0"])


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_cancel_that_waited_for_code_is_due_when_a_message_behind_it_has_ended_the_code(has_ended: bool) -> None:
    async def works() -> None:
        await flow.run(str, 1)
        await flow.event("next")

    definition = FlowDefinition.from_function(works)
    begun = FlowTurn.begin(definition, new_header(FlowAddress("works", "1"), "shop", {}, "i"), (), BEGIN)
    [(path, wait)], pending = begun.pending.items(), begun.pending
    running = {path: Claim("another", 1, BEGIN + timedelta(seconds=60))}
    header = replace(begun.header, begun=True, pending=pending, running=running)
    begun.close()
    behind = Result(wait, CallOutcome("1")) if has_ended else Event("other", 1)
    page = [
        StoredMessage.from_record(id_, {**message_to_record(message), "since": BEGIN}, BEGIN, BEGIN)
        for id_, message in (("cancel", Cancel("enough")), ("behind", behind))
    ]
    turn = FlowTurn.begin(definition, header, (), BEGIN)
    taken, _, is_due = take_page(turn, page, None)
    turn.close()
    assert ([each.id for each in taken], is_due) == (["behind"], has_ended)
