"""Programs that run in the model and in the driver: both apply the same entries, and show what is compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from signalbox import Problem, flow
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.model.messages import Cancel, Event, Result
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.tasks.api import Call
from tests.simulation.world import EPOCH
from tests.simulation.worlds.flow_trees.model import Model, ModelFlow
from tests.simulation.worlds.flow_trees.nodes import Leaf, Outcome
from tests.simulation.worlds.flow_trees.programs import Run, Trace, Tree, shown

FUNCTION = "shop"
SLEEP_SECONDS = 1_000_000
ENDS_AT = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Entry:
    """What happens next: a command ends, an event arrives, or the run is cancelled."""

    kind: str
    label: str = ""
    value: int | str = 0
    failed: bool = False

    def fits(self, pending: Sequence[str]) -> bool:
        """Return whether a run that waits for `pending` may apply the entry."""
        return self.kind in ("event", "cancel", "deadline", "terminate") or f"{self.kind} {self.label}" in pending

    def __str__(self) -> str:
        match self.kind:
            case "cancel":
                return "the run is cancelled"
            case "deadline":
                return "the time-out of the run is over"
            case "terminate":
                return "the run is terminated"
            case "event":
                return f"the event {self.label} arrives with {self.value}"
        return f"{self.label} {'fails' if self.failed else f'ends with {self.value}'}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is compared."""

    trace: dict[str, list[str]]
    pending: list[str]
    locks: list[str]
    kept: dict[str, list[Any]]
    ended: str


# --- the model ---


def is_inline(leaf: Leaf) -> bool:
    return leaf.command.kind == "run"


def is_failing(label: str) -> bool:
    """Return whether an inline step of a run in turns fails."""
    return label.endswith("3")


def outcome_of(value: Any, *, failed: bool) -> Outcome:
    return Outcome(error=Problem("bad")) if failed else Outcome(value)


class ModelRun:
    """A program that runs in the model."""

    def __init__(self, program: Tree, *, in_turns: bool = False) -> None:
        self.trace, self.in_turns, self.is_over_time = Trace(), in_turns, False
        self.model = Model(lambda model, number: Run(ModelFlow(model), self.trace, number).main(program), not in_turns)

    def start(self) -> None:
        self.model.start()
        self.run_steps()

    def apply(self, entry: Entry) -> None:
        match entry.kind:
            case "deadline" if self.is_over_time:
                pass  # the time-out is that of the whole run
            case "cancel" | "deadline":
                self.is_over_time |= entry.kind == "deadline"
                self.model.cancel()
            case "terminate":
                self.model.terminate()
            case "event":
                self.model.event(entry.label, entry.value)
            case _:
                self.model.end(entry.kind, entry.label, outcome_of(entry.value, failed=entry.failed))
        self.run_steps()

    def run_steps(self) -> None:
        """End the inline steps of a run in turns: the turn runs them, one after another."""
        while self.in_turns and not self.ended and (step := next(filter(is_inline, self.model.pending), None)):
            label = step.command.label
            self.model.end("run", label, outcome_of(label, failed=is_failing(label)))

    def close(self) -> None:
        """Close the code of all branches, also of those that have not begun: Python would warn about each."""
        for code in self.model.codes:
            code.close()

    def pending(self) -> list[str]:
        return sorted(f"{leaf.command.kind} {leaf.command.label}" for leaf in self.model.pending)

    @property
    def ended(self) -> bool:
        return self.model.ended is not None

    def seen(self) -> Seen:
        kept: dict[str, list[Any]] = {}
        for name, value in self.model.kept:
            kept.setdefault(name, []).append(value)
        ended = self.model.ended
        end = "" if ended is None else shown(ended.error if ended.error is not None else ended.value)
        locks = [] if ended else sorted(self.model.locks)  # the last turn releases what is left
        return Seen(self.trace.seen, self.pending(), locks, {} if ended else kept, end)

    def seen_in_turns(self) -> Seen:
        """Return what the status of a run shows."""
        seen, ended = self.seen(), self.model.ended
        pending = sorted("sleep" if each.startswith("sleep") else each for each in seen.pending)
        failed = ended and ended.error and ("cancelled" if ended.is_cancelled else "failed")
        return Seen(seen.trace, pending, seen.locks, {}, failed or seen.ended)


# --- the driver ---


def inline_step(label: str) -> Callable[[], str]:
    """Return the function of an inline step, which a run in turns starts."""

    def step() -> str:
        if is_failing(label):
            raise Problem("bad")
        return label

    step.__name__ = label
    return step


class DriverFlow:
    """The functions of `signalbox.flow`, with labels for all commands."""

    def __init__(self, *, is_timed: bool = True) -> None:
        self.is_timed = is_timed
        self.seconds: dict[str, float] = {}

    def command(self, kind: str, label: str) -> Any:
        match kind:
            case "step":
                return Call(FUNCTION, label, {})
            case "sleep":
                return flow.sleep(self.sleep(label))
            case "event":
                return flow.event(label, int)
            case "lock":
                return flow.lock(label)
            case "run":
                return flow.run(inline_step(label))
        return SubFlow(FUNCTION, "ship", {}, id=label)

    def sleep(self, label: str) -> float:
        return self.seconds.setdefault(label, float(SLEEP_SECONDS + len(self.seconds)))

    def label(self, command: Any) -> str:
        match command.kind:
            case "sleep":
                return next(f"sleep {label}" for label, it in self.seconds.items() if it == command.seconds)
            case "flow":
                return f"flow {command.id}"
        return f"{command.kind} {command.name.removeprefix(f'{FUNCTION}.')}"

    all: Any = staticmethod(flow.all)
    settled: Any = staticmethod(flow.settled)
    first: Any = staticmethod(flow.first)
    first_success: Any = staticmethod(flow.first_success)
    shield: Any = staticmethod(flow.shield)
    begin: Any = staticmethod(flow.begin)
    as_completed: Any = staticmethod(flow.as_completed)

    def wait_for(self, item: Any, label: str) -> Any:
        return flow.wait_for(item, self.sleep(label))

    def map(self, items: Sequence[Callable[[], Any]], at_once: int) -> Any:
        return flow.map(lambda item: item(), items, at_once=at_once)

    def cancel(self, handle: Any) -> bool:
        cancelled: bool = handle.cancel()
        return cancelled

    def done(self, handle: Any) -> bool:
        done: bool = handle.done
        return done

    def now(self) -> int:
        return int((flow.now() - EPOCH).total_seconds()) if self.is_timed else 0

    def again(self, generation: int) -> Any:
        return flow.continue_as_new(generation=generation)


class DriverRun:
    """A program that runs in the driver, without turns."""

    def __init__(self, program: Tree) -> None:
        self.trace, self.commands = Trace(), DriverFlow()
        self.driver = Driver(lambda: Run(self.commands, self.trace).main(program), Position("1")).start(EPOCH)
        self.entries = 0

    def apply(self, entry: Entry) -> None:
        self.entries += 1
        at = EPOCH + timedelta(seconds=self.entries)
        match entry.kind:
            case "cancel":
                self.driver.apply(Cancel("enough", at))
            case "event":
                self.driver.apply(Event(entry.label, entry.value, at))
            case _:
                self.driver.apply(self.result(entry, at))

    def result(self, entry: Entry, at: datetime) -> Result:
        pending = self.driver.pending
        [path] = [
            path for path in pending if self.commands.label(pending[path].command) == f"{entry.kind} {entry.label}"
        ]
        value: Any = entry.value
        if entry.kind == "lock":
            value = {"semaphore": entry.label, "id": "l", "token": 1, "ends_at": ENDS_AT, "granted": {}}
        elif entry.kind == "renew":
            value = ENDS_AT
        outcome = CallOutcome.from_problem(Problem("bad")) if entry.failed else CallOutcome(value)
        return Result(Wait("", path, signature=pending[path].command.signature), outcome, at)

    def seen(self) -> Seen:
        driver = self.driver
        pending = sorted(self.commands.label(each.command) for each in driver.pending.values())
        locks = [] if driver.ended else sorted(lease["semaphore"] for lease in driver.held.values())
        kept = {name: list(values) for name, values in driver.kept.items() if values and not driver.ended}
        ended = driver.ended
        end = "" if ended is None else shown(ended.exception() or ended.value)
        return Seen(self.trace.seen, pending, locks, kept, end)

    def close(self) -> None:
        self.driver.drop()
