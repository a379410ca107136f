"""Random flows: coroutines whose code is drawn from a seed, and random entries for their logs."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random
from typing import Any

from signalbox.core.problems import Problem
from signalbox.flows.api import flow
from signalbox.flows.machine.driver import Driver, Position, replay
from signalbox.flows.model.messages import Cancel, Event, Message, Result
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.tasks.api import Call

import_module("signalbox.flows.api.host")  # as in a function that has flows: it connects calls with the flow that runs

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Code = Callable[[], Coroutine[Any, Any, Any]]


def step(name: str) -> Call[Any]:
    """Return a call of a task."""
    return Call("shop", name, {})


def done(driver: Driver, path: str, result: Any = None, error: str = "", at: datetime = BEGIN) -> Result:
    """Return the entry that ends what a driver waits for."""
    outcome = CallOutcome.from_problem(Problem(error)) if error else CallOutcome(result)
    return Result(Wait("", path, signature=driver.pending[path].command.signature), outcome, at)


def random_code(seed: int) -> Code:
    """Return the code of a flow: the same seed, the same code."""

    async def code() -> Any:
        rng = Random(seed)

        def command() -> Any:
            name = rng.choice("ab")
            return rng.choice((lambda: step(name), lambda: flow.sleep(1), lambda: flow.event(name)))()

        async def branch(depth: int) -> Any:
            seen: list[str] = []
            handles: list[flow.Handle[Any]] = []
            for _ in range(rng.randint(1, 3)):
                if rng.random() < 0.2:
                    is_one = rng.random() < 0.5
                    handles.append(flow.begin(command() if is_one else flow.first_success(command(), command())))
                seen.append(str(await one(depth, rng.randrange(6 if depth else 4))))
                if rng.random() < 0.2:
                    flow.send(step("sent"))
                seen.append(f"{flow.random():.3f}")
            if handles and rng.random() < 0.5:
                seen.append(str(await flow.settled(*handles)))
            return seen

        async def one(depth: int, kind: int) -> Any:
            try:
                if kind == 0:
                    return await command()
                if kind == 1:
                    return await flow.all(*[command() for _ in range(rng.randint(0, 3))])
                if kind == 2:
                    return await flow.first(command(), command())
                if kind == 3:
                    return await flow.settled(command(), command())
                return await flow.all(sub(rng.random(), depth - 1), command())
            except flow.Cancelled:
                await step("clean_up")
                raise
            except Problem:
                return "?"

        async def sub(drawn: float, depth: int) -> Any:
            """Draw from separate random numbers: two branches must not share what they draw from."""
            inner = Random(drawn)
            for _ in range(inner.randint(1, 2)):
                await step(inner.choice("ab"))
            return depth

        return await branch(2)

    return code


def random_entry(rng: Random, driver: Driver, at: datetime) -> Message:
    """Return an entry that a waiting driver may apply next."""
    choice = rng.random()
    if choice < 0.15:
        return Event(rng.choice("ab"), rng.randrange(9), at)
    if choice < 0.18:
        return Cancel("enough", at)
    path = rng.choice(sorted(driver.pending))
    waiting = driver.pending[path]
    if waiting.command.kind == "event":
        return Event(waiting.command.name, rng.randrange(9), at)
    failing = waiting.command.kind == "step" and rng.random() < 0.2
    return done(driver, path, rng.randrange(9), "no" if failing else "", at)


def grown(seed: int, entries_max: int = 60) -> tuple[Code, Driver, list[Message]]:
    """Return a random flow, after random entries until it ended, and its log."""
    rng, code, log = Random(-seed - 1), random_code(seed), list[Message]()
    driver = Driver(code, Position(str(seed))).start(BEGIN)
    while driver.ended is None and len(log) < entries_max:
        assert driver.pending, (seed, log)
        log.append(random_entry(rng, driver, BEGIN + timedelta(seconds=len(log))))
        driver.apply(log[-1])
    return code, driver, log


def replayed(code: Code, seed: str, log: list[Message]) -> Driver:
    """Return a new driver to which a log was applied."""
    return replay(Driver(code, Position(seed)), BEGIN, log)


def shown(driver: Driver) -> tuple[Any, ...]:
    """Return what a driver waits for, its kept results, its leases, and its end."""
    ended = driver.ended and (repr(driver.ended.value), repr(driver.ended.exception()))
    kept = sorted((name, tuple(values)) for name, values in driver.kept.items() if values)
    return sorted((path, each.command.signature) for path, each in driver.pending.items()), kept, driver.held, ended
