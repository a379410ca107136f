"""The transition tables in the docstrings of flows' machine, run row by row."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from signalbox.core.problems import GaveUp, NotFound, OtherBody, Problem
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine import driver as driver_module
from signalbox.flows.machine import turns
from signalbox.flows.machine.commands import HeldLock, Lock, ReceivedUpdate
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import FlowHeader, new_header
from signalbox.flows.model.log import StoredLog
from signalbox.flows.model.messages import Blank, Cancel, Event, Message, Result, Update
from signalbox.flows.model.waits import Wait
from signalbox.flows.problems import CannotFork, CannotRetry, FlowEnded, FlowRunning, TooManyEvents, TooManyUpdates
from signalbox.flows.service import messages, reads, retries, starts, suspensions
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.semaphores.problems import NoSemaphore
from signalbox.tasks.storage import count_start
from signalbox.testing.replaced_limits import replaced
from tests.unit.flows.random_flows import BEGIN, done
from tests.unit.flows.shops import FUNCTION, Shop, flows_of, step


def rows(module: Any, first: str) -> list[tuple[str, ...]]:
    """Parse the table whose first column is `first`. Columns are separated by two spaces or more."""
    table = re.search(rf"^    {first}  .+\n    -[- ]+\n((?:    \S.*\n)+)", module.__doc__ or "", re.MULTILINE)
    assert table, first
    return [tuple(re.split(r"\s{2,}", line.strip())) for line in table[1].splitlines()]


# --- the states of the header ---

ADDRESS = FlowAddress("work", "1")
ERRORS: dict[str, type[Exception]] = {
    "NoFlow": NotFound,
    "FlowEnded": FlowEnded,
    "TooManyEvents": TooManyEvents,
    "TooManyUpdates": TooManyUpdates,
    "FlowRunning": FlowRunning,
    "CannotFork": CannotFork,
    "CannotRetry": CannotRetry,
    "OtherBody": OtherBody,
}


@dataclass
class Case:
    """A flow in a state, and code that does what a row's condition says once it has received the event `go`."""

    state: str
    condition: str
    shop: Shop = field(default_factory=lambda: Shop(flows_of()))

    def __post_init__(self) -> None:
        if self.state != "none":
            fails = self.failing if self.condition == "it has failed" else self.waiting
            self.deploy(self.broken if self.state == "stuck" else fails)
            self.shop.start("work", number=0)
        if self.state in ("stuck", "ended"):
            self.shop.event("work", "go" if self.state == "stuck" else "end")
        self.shop.settle()
        if self.state == "suspended":
            suspensions.suspend(self.shop.ports, ADDRESS, "a test")
        self.deploy(self.sound)
        ended = "failed" if self.condition == "it has failed" else "completed"
        assert self.now == {"ended": ended}.get(self.state, self.state)

    @property
    def now(self) -> str:
        """The state of the header; `none` if the flow does not exist."""
        try:
            return reads.get(self.shop.ports, ADDRESS).state
        except NotFound:
            return "none"

    def deploy(self, code: Callable[..., Any]) -> None:
        self.shop.flows = Flows(FUNCTION, {"work": FlowDefinition.from_function(code)})

    async def waiting(self, number: int = 0) -> Any:
        await flow.first(flow.event("go"), flow.event("end"))
        return number

    async def failing(self, number: int = 0) -> Any:
        await self.waiting(number)
        raise Problem("no")

    async def broken(self, number: int = 0) -> Any:
        await flow.first(flow.event("go"), flow.event("end"))
        raise KeyError(number)

    async def sound(self, number: int = 0) -> Any:
        """Do what the row says, at once if the flow is new, else after the event `go`."""
        if self.condition == "the code diverged from its log":
            await flow.sleep(1)
        if self.state != "none" and number == 0:
            await flow.first(flow.event("go"), flow.event("end"))
        if self.condition == "the code waits" or number:
            await flow.event("more")
        if self.condition == "the code raises a Problem":
            raise Problem("no")
        if self.condition == "the code raises Cancelled":
            raise flow.Cancelled
        if self.condition == "the code raises another error":
            raise KeyError("x")
        return flow.continue_as_new(number=1) if self.condition == "the code continues as new" else number

    def turn(self) -> None:
        """Run a turn with the event `go`, which a stuck flow has in its mailbox."""
        if self.state in ("running", "suspended"):
            self.shop.event("work", "go")
        else:
            suspensions.resume(self.shop.ports, ADDRESS)
        wake = self.shop.take("turn")
        if self.condition != "its code was started ten times":
            self.shop.deliver(wake)
            return
        for _ in range(LIMITS.flow_starts_max):
            count_start(self.shop.ports, wake.name)
        self.shop.deliver(wake, LIMITS.flow_careful_deliveries)

    def run(self, command: str) -> None:
        """Do the row's command."""
        ports = self.shop.ports
        match command:
            case "start":
                self.shop.start("work", number=5 if self.condition == "with other arguments" else 0)
            case "turn":
                self.turn()
            case "event":
                with replaced(flow_events_kept_max=0 if self.condition == "1,000 are kept" else 1_000):
                    self.shop.event("work", "x", id_="x")
            case "update":
                with replaced(flow_updates_max=0 if self.condition == "100 are unanswered" else 100):
                    messages.post_update(ports, ADDRESS, "x", 1, "x")
            case "cancel":
                messages.cancel(ports, ADDRESS)
            case "terminate":
                sweep.terminate(ports, ADDRESS)
            case "suspend":
                suspensions.suspend(ports, ADDRESS)
            case "fork":
                wanted = starts.Fork("2", 1 if self.condition == "the code has ended there" else 0)
                starts.fork(ports, self.shop.flows, ADDRESS, wanted)
            case "resume":
                suspensions.resume(ports, ADDRESS)
            case "retry":
                retries.retry(ports, self.shop.flows, ADDRESS, "key", retries.RetryOptions(0))
            case "delete":
                sweep.delete(ports, ADDRESS)
            case "sweep":
                self.shop.world.pass_time(
                    LIMITS.flow_kept_seconds if self.state == "ended" else LIMITS.flow_stuck_seconds
                )
                assert sweep.sweep(ports) == 1
            case _:
                raise AssertionError(f"no test for {command}")


HEADER_ROWS = [
    (command, state, condition, becomes)
    for command, states, condition, becomes in rows(turns, "command")
    for state in states.split(", ")
]


@pytest.mark.parametrize(("command", "state", "condition", "becomes"), HEADER_ROWS, ids=str)
def test_each_row_of_the_header_s_table_holds(command: str, state: str, condition: str, becomes: str) -> None:
    case = Case(state, condition)
    before = case.now
    if refusal := ERRORS.get(becomes):
        with pytest.raises(refusal):
            case.run(command)
        assert case.now == before
        return
    case.run(command)
    assert case.now == (before if becomes == "same" else becomes)


def test_the_table_has_every_command_in_every_state_that_it_can_meet() -> None:
    covered = {(command, state) for command, state, _, _ in HEADER_ROWS}
    states = ("none", "running", "suspended", "stuck", "ended")
    commands = ("start", "event", "update", "cancel", "terminate", "suspend", "fork", "retry", "resume", "delete")
    expected = {(command, state) for command in commands for state in states}
    expected |= {("turn", state) for state in states[1:]} | {("sweep", state) for state in states[3:]}
    assert covered == expected


# --- the messages of a turn ---


async def two_steps() -> Any:
    """Retry a step, whose attempts are limited."""
    await flow.all(flow.step(step("a"), attempts_max=3, no_retry=(NoSemaphore,)), flow.event("never"))


async def locked() -> Any:
    await flow.all(flow.lock("till"), flow.event("never"))


@pytest.mark.parametrize(("message", "condition", "becomes"), rows(turns, "message"), ids=str)
def test_each_row_of_the_messages_table_holds(message: str, condition: str, becomes: str) -> None:
    header = new_header(ADDRESS, FUNCTION, {}, "i")
    attempt = 3 if condition.endswith("the last") else 2
    refused = "refused" in condition
    now = Wait(header.execution_id, "0.0", attempt, "lock till" if refused else "step shop.a")
    event = Wait(header.execution_id, "0.1", 1, "event never")
    begun = FlowHeader(
        ADDRESS, FUNCTION, {}, header.digest, "i", begun=True, start_at=BEGIN, pending={"0.0": now, "0.1": event}
    )
    begun = replace(begun, stuck={"type": "flow-failed"} if refused else None)
    turn = FlowTurn.begin(FlowDefinition.from_function(locked if refused else two_steps), begun, (), BEGIN)
    success, failure = CallOutcome(1), CallOutcome.from_problem(Problem("no"))
    posted: Message = Update("x", 1, "u") if message == "update" else Event("x", 1)
    if condition == "the flow has ended":
        turn.take(Cancel("enough"))
        assert turn.driver.ended is not None
    if message == "cancel":
        posted = Cancel("again")
        if condition == "a later one":
            turn.driver.cancelling = True
    if message == "result":
        earlier = Wait(now.execution_id, now.path, attempt - 1)
        posted = {
            "a success of a pending command": Result(now, success),
            "a success of an earlier attempt": Result(earlier, success),
            "a failure of the current attempt, not last": Result(now, failure),
            "a failure of the current attempt, the last": Result(now, failure),
            "a refused lock, and the flow is stuck": Result(now, CallOutcome.from_problem(NoSemaphore("no"))),
            "a failure of the current attempt, `no_retry`": Result(now, CallOutcome.from_problem(NoSemaphore("no"))),
            "the task of the current attempt was given up": Result(now, CallOutcome.from_problem(GaveUp("ten times"))),
            "a failure of an earlier attempt": Result(earlier, failure),
            "of an earlier execution": Result(Wait("h-0", now.path, attempt), success),
            "of a path that is not pending": Result(Wait(now.execution_id, "7"), success),
            "the flow has ended": Result(now, success),
        }[condition]
    before = len(turn.applied)
    full = {"flow_events_passed_on_max": 0, "flow_updates_max": 0} if becomes == "refused" else {}
    with replaced(**full):
        turn.take(posted, "m")
    retried, applied = bool(turn.retried), len(turn.applied) > before
    refused = bool(turn.refused or turn.replies())
    turn.close()
    assert (retried, applied, refused) == (becomes == "retried", becomes == "applied", becomes == "refused")


@pytest.mark.parametrize("held", [False, True])
def test_a_lease_in_a_dropped_result_is_released_unless_the_flow_holds_it(held: bool) -> None:
    granted = {"semaphore": "till", "id": "l", "token": 1}
    outcome = CallOutcome({**granted, "ends_at": "2026-01-01T00:00:00Z", "granted": granted})

    async def code() -> Any:
        lease = await flow.lock("till")
        await flow.event("never")
        return lease.id

    entry = Result(Wait("", "0", signature="lock till"), outcome, BEGIN)
    log = (entry,) if held else ()
    path, signature = ("1", "event never") if held else ("0", "lock till")
    header = FlowHeader(ADDRESS, FUNCTION, {}, "", "i", begun=True, start_at=BEGIN, log=StoredLog(log))
    pending = {path: Wait(header.execution_id, path, 1, signature)}
    header = FlowHeader(ADDRESS, FUNCTION, {}, "", "i", begun=True, start_at=BEGIN, log=StoredLog(log), pending=pending)
    turn = FlowTurn.begin(FlowDefinition.from_function(code), header, log, BEGIN)
    turn.take(Result(Wait("earlier-0", "0"), outcome))
    assert turn.released == ([] if held else [granted])
    turn.close()


# --- the entries of the log ---

GRANTED = {"semaphore": "till", "id": "l", "token": 1, "granted": {"id": "l"}, "ends_at": "2026-01-01T00:00:00Z"}
RENEWED = "2026-01-02T00:00:00Z"


@dataclass
class Code:
    """A coroutine that records the results it receives."""

    condition: str
    received: list[Any] = field(default_factory=list)

    async def __call__(self) -> Any:
        try:
            self.received.append(await self.first())
            if "renew" in self.condition:
                lock = self.received.pop()
                renewal = lock.renew()
                if "released" in self.condition:
                    lock.release()
                self.received.append(await renewal)
        except (Problem, flow.Cancelled) as error:
            if "refused" in self.condition:
                raise
            self.received.append(error)
        if self.condition != "the code has ended":
            await flow.event("end")

    def first(self) -> Any:
        if "lock" in self.condition:
            return Lock("till")
        if self.condition.startswith("a command waits for it, "):
            return self.update()
        if self.condition == "several commands wait for its name":
            return flow.all(self.one(), self.one())
        if "shield" in self.condition:
            return flow.shield(step("a"))
        if "begun" in self.condition:
            flow.begin(step("a"))
            return flow.event("y")
        return flow.event("x") if self.condition == "a command waits for its name" else step("a")

    async def update(self) -> Any:
        received: Any = await flow.update("x", int if "value fits" in self.condition else str)
        received.answer(received.value + 1)
        return received

    async def one(self) -> Any:
        self.received.append(await flow.event("x"))


def entry_of(driver: Driver, entry: str, condition: str) -> Message:
    """Return the entry of a row, for a driver that waits."""
    if entry == "event":
        return Event("x", 7, BEGIN)
    if entry == "update":
        return Update("x", 7, "u", BEGIN)
    if entry == "cancel":
        return Cancel("enough", BEGIN)
    if entry == "blank":
        return Blank("0", "step shop.a", BEGIN)
    if condition == "another command is pending under its path":
        return Result(Wait("", "0", signature="step shop.other"), CallOutcome(1), BEGIN)
    if condition == "no command is pending under its path":
        return Result(Wait("", "7", signature="step shop.a"), CallOutcome(1), BEGIN)
    if "renews" in condition:
        return done(driver, "1", RENEWED)
    if "refused" in condition:
        return replace(done(driver, "0"), outcome=CallOutcome.from_problem(NoSemaphore("There is none.")))
    if "lock" in condition:
        return done(driver, "0", GRANTED)
    return done(driver, "0", 1, "no" if condition.endswith("failed") else "")


def received(code: Code) -> str:
    """Return the results that the code has received, in the words of the table."""
    match code.received:
        case []:
            return "is not resumed"
        case [ReceivedUpdate(value=7)]:
            return "receives the update"
        case [HeldLock() as lock]:
            assert lock.ends_at.day == (2 if "renews" in code.condition else 1)
            return "receives a held lock"
        case [Problem() as problem]:
            return "receives LeaseEnded" if type(problem).__name__ == "LeaseEnded" else "receives the error"
        case [flow.Cancelled()]:
            return "receives Cancelled"
        case [7]:
            return "the first receives it" if "several" in code.condition else "receives the value"
        case [1]:
            return "receives the result"
    raise AssertionError(code.received)


@pytest.mark.parametrize(("entry", "condition", "becomes", "afterwards"), rows(driver_module, "entry"), ids=str)
def test_each_row_of_the_driver_s_table_holds(entry: str, condition: str, becomes: str, afterwards: str) -> None:
    code = Code(condition)
    driver = Driver(code, Position("seed")).start(BEGIN)
    if "renews" in condition:
        driver.apply(done(driver, "0", GRANTED))
    if condition == "a later one":
        driver.apply(Cancel("enough", BEGIN))
        code.received.clear()
    if condition == "the code has ended":
        driver.apply(done(driver, "0", 1))
        code.received.clear()
    applied = entry_of(driver, entry, condition)
    before = set(driver.pending)
    if becomes == "is stuck":
        refused, changed = "NoSemaphore: ", r"was recorded at step .* Guard the change with `flow.patched"
        with pytest.raises(Stuck, match=refused if "refused" in condition else changed):
            driver.apply(applied)
        return
    driver.apply(applied)
    assert received(code) == becomes
    path = applied.wait.path if isinstance(applied, Result) else "0"
    expected = {
        "not pending": path in before and path not in driver.pending,
        "pending": path in driver.pending,
        "held": "0" in driver.held,
        "the other is pending": len(before & set(driver.pending)) == 1,
        "kept": driver.kept == {"x": [7]} or [update.name for _, update in driver.updates] == ["x"],
        "refused": driver.replies["u"].failed if "u" in driver.replies else False,
        "cancelling": driver.cancelling,
        "ended": driver.ended is not None,
    }
    assert all(expected[fact] for fact in afterwards.split(", "))
    assert ("held" in afterwards) == bool(driver.held)
    driver.drop()
