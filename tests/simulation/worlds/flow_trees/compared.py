"""Run a random program over the driver and over the model, and compare them after each entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from signalbox import Problem, flow
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.machine.driver import Driver, Position
from signalbox.flows.model.messages import Cancel, Event, Result
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.tasks.api import Call
from tests.simulation.world import EPOCH, Violation
from tests.simulation.worlds.flow_trees.model import Model, ModelFlow
from tests.simulation.worlds.flow_trees.programs import EVENTS, Drawing, Run, Trace, Tree, in_python, shown

FUNCTION = "shop"
ENTRIES_MAX = 40
CANCEL_RATE, EVENT_RATE, ERROR_RATE = 0.08, 0.15, 0.3


@dataclass(frozen=True, slots=True)
class Entry:
    """What happens next: a command ends, an event arrives, or the run is cancelled."""

    kind: str
    label: str = ""
    value: int = 0
    failed: bool = False

    def __str__(self) -> str:
        match self.kind:
            case "cancel":
                return "the run is cancelled"
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


class ModelRun:
    """A program that runs in the model."""

    def __init__(self, program: Tree) -> None:
        self.trace = Trace()
        self.model = Model(
            lambda model, generation: Run(ModelFlow(model), self.trace, generation).main(program)
        ).start()

    def apply(self, entry: Entry) -> None:
        match entry.kind:
            case "cancel":
                self.model.cancel()
            case "event":
                self.model.event(entry.label, entry.value)
            case _:
                self.model.end(entry.label, entry.value, "bad" if entry.failed else "")

    def pending(self) -> list[str]:
        return sorted(f"{leaf.command.kind} {leaf.command.label}" for leaf in self.model.pending)

    def seen(self) -> Seen:
        kept: dict[str, list[Any]] = {}
        for name, value in self.model.kept:
            kept.setdefault(name, []).append(value)
        ended = self.model.ended
        end = "" if ended is None else shown(ended.error if ended.error is not None else ended.value)
        locks = [] if ended else sorted(self.model.locks)  # the last turn releases what is left
        return Seen(self.trace.seen, self.pending(), locks, kept, end)


# --- the driver ---


class DriverFlow:
    """The names of `signalbox.flow`, with labels for all commands."""

    def __init__(self) -> None:
        self.seconds: dict[float, str] = {}

    def command(self, kind: str, label: str) -> Any:
        match kind:
            case "step":
                return Call(FUNCTION, label, {})
            case "sleep":
                return flow.sleep(self.sleep(label))
            case "event":
                return flow.event(label)
            case "lock":
                return flow.lock(label)
        return SubFlow(FUNCTION, "ship", {}, id=label)

    def sleep(self, label: str) -> float:
        seconds = float(len(self.seconds) + 1)
        self.seconds[seconds] = label
        return seconds

    def label(self, command: Any) -> str:
        match command.kind:
            case "sleep":
                return f"sleep {self.seconds[command.seconds]}"
            case "flow":
                return f"flow {command.id}"
        return f"{command.kind} {command.name.removeprefix(f'{FUNCTION}.')}"

    all, settled, first, first_success = map(
        staticmethod, (flow.all, flow.settled, flow.first, flow.first_success)
    )
    shield, begin, as_completed = map(staticmethod, (flow.shield, flow.begin, flow.as_completed))

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
        return int((flow.now() - EPOCH).total_seconds())

    def again(self) -> Any:
        return flow.continue_as_new()


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
            value = {"semaphore": entry.label, "id": "l", "token": 1, "ends_at": "2026-01-01T00:00:00Z"}
        outcome = CallOutcome.from_problem(Problem("bad")) if entry.failed else CallOutcome(value)
        return Result(Wait("", path, signature=pending[path].command.signature), outcome, at)

    def seen(self) -> Seen:
        driver = self.driver
        pending = sorted(self.commands.label(each.command) for each in driver.pending.values())
        locks = [] if driver.ended else sorted(lease["semaphore"] for lease in driver.held.values())
        kept = {name: list(values) for name, values in driver.kept.items() if values}
        ended = driver.ended
        end = "" if ended is None else shown(ended.exception() or ended.value)
        return Seen(self.trace.seen, pending, locks, kept, end)


# --- compare ---


@dataclass(frozen=True, slots=True)
class Difference:
    """What the driver and the model do not agree on, after the last of the entries."""

    program: Tree
    entries: tuple[Entry, ...]
    what: str
    model: Any
    driver: Any

    def __str__(self) -> str:
        entries = "\n".join(f"{at}: {entry}" for at, entry in enumerate(self.entries, 1))
        differs = f"{self.what}:\n  model:  {self.model}\n  driver: {self.driver}"
        return f"\n{in_python(self.program)}\n\n{entries}\n\n{differs}"


def drawn_entry(rng: Random, pending: Sequence[str], number: int) -> Entry:
    """Return what happens next to a run that waits."""
    drawn = rng.random()
    if drawn < CANCEL_RATE:
        return Entry("cancel")
    ending = [label for label in pending if not label.startswith("event")]
    if drawn < CANCEL_RATE + EVENT_RATE or not ending:
        return Entry("event", rng.choice(EVENTS), number)
    kind, label = rng.choice(ending).split(" ")
    failed = kind in ("step", "flow") and rng.random() < ERROR_RATE
    return Entry(kind, label, number if kind in ("step", "flow") else 0, failed)


def differs(model: Seen, driver: Seen) -> tuple[str, Any, Any] | None:
    """Return the first thing that differs, and both values."""
    for branch in sorted({*model.trace, *driver.trace}):
        ours, theirs = model.trace.get(branch, []), driver.trace.get(branch, [])
        if ours != theirs:
            return f"{branch} observes", ours, theirs
    for what in ("ended", "pending", "locks", "kept"):
        ours, theirs = getattr(model, what), getattr(driver, what)
        if ours != theirs:
            return what, ours, theirs
    return None


def compare(program: Tree, entries: Sequence[Entry] | Random) -> Difference | None:
    """Return the first difference, or None. Entries that do not fit the program are left out."""
    model, applied = ModelRun(program), list[Entry]()
    driver: DriverRun | None = None

    def difference(what: str, ours: Any, theirs: Any) -> Difference:
        return Difference(program, tuple(applied), what, ours, theirs)

    try:
        driver = DriverRun(program)
        if found := differs(model.seen(), driver.seen()):
            return difference(*found)
        fixed = None if isinstance(entries, Random) else iter(entries)
        while model.model.ended is None and len(applied) < ENTRIES_MAX:
            if fixed is None:
                assert isinstance(entries, Random)
                entry = drawn_entry(entries, model.pending(), len(applied) + 1)
            elif (given := next(fixed, None)) is None:
                break
            else:
                entry = given
            if entry.kind not in ("event", "cancel") and f"{entry.kind} {entry.label}" not in model.pending():
                continue
            applied.append(entry)
            model.apply(entry)
            driver.apply(entry)
            if found := differs(model.seen(), driver.seen()):
                return difference(*found)
    except Exception as error:  # noqa: BLE001  whatever the driver raises is a difference
        return difference("raises", "", repr(error))
    finally:
        if driver is not None:
            driver.driver.drop()
    return None


def shrunk(difference: Difference) -> Difference:
    """Return a difference of a program that no smaller program or list of entries has."""
    while True:
        smaller = next((found for found in map(partial(_tried), _smaller(difference)) if found), None)
        if smaller is None:
            return difference
        difference = smaller


def _smaller(difference: Difference) -> Any:
    entries = difference.entries
    for program in difference.program.smaller():
        yield program, entries
    for at in range(len(entries)):
        yield difference.program, entries[:at] + entries[at + 1 :]


def _tried(tree: tuple[Tree, Sequence[Entry]]) -> Difference | None:
    try:
        return compare(*tree)
    except Exception:  # noqa: BLE001  a smaller tree may be no program
        return None


def compared(seed: int) -> Difference | None:
    """Return the difference that a seed's program shows, or None."""
    rng = Random(f"flow trees {seed}")
    return compare(Drawing(rng).program(), rng)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Compare one seed's program. Raises `Violation` with the smallest program that differs."""
    if difference := compared(seed):
        raise Violation(str(shrunk(difference)))
    if trace:
        trace(in_python(Drawing(Random(f"flow trees {seed}")).program()))
