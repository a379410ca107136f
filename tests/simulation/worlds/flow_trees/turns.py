"""A program that runs in turns, through a store and a queue: each turn replays its log, and it may continue as new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from signalbox import Problem
from signalbox.core.effects import Effect
from signalbox.flows import sweep
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.service import messages, reads, starts
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings
from tests.simulation.worlds.flow_trees.programs import Run, Trace, Tree, shown
from tests.simulation.worlds.flow_trees.runs import FUNCTION, DriverFlow, Entry, Seen
from tests.unit.flows.shops import Shop, flows_of

FLOW = FlowAddress("program", "1")
LEASE_SECONDS, TIMEOUT_SECONDS, SOON_SECONDS = 86_400, 600, 10
GENERATIONS_MAX = 3


def locks_of(tree: Tree) -> Iterator[str]:
    """Yield the labels of the locks of a program."""
    if tree.kind in ("lock", "locked"):
        yield tree.label
    for part in tree.parts:
        yield from locks_of(part)


class TurnsRun:
    """A run of a flow. Each entry is a delivery, and is followed by the turns that it causes."""

    def __init__(self, program: Tree) -> None:
        self.commands = DriverFlow(is_timed=False)
        self.traces: dict[int, Trace] = {}

        async def code(generation: int = 0) -> Any:
            trace = self.traces[generation] = Trace()  # a turn runs the code of a generation from its beginning
            return await Run(self.commands, trace, generation).main(program)

        code.__name__ = FLOW.name
        self.shop = Shop(flows_of(code))
        for label in locks_of(program):
            for name in (label, *(f"{label}g{number}" for number in range(1, GENERATIONS_MAX))):
                settings.put(self.shop.ports, name, SemaphoreSettings(1, LEASE_SECONDS))
        self.entries = 0
        starts.start(self.shop.ports, self.shop.flows, FUNCTION, FLOW, {}, timeout_seconds=TIMEOUT_SECONDS)
        self.settle()

    def apply(self, entry: Entry) -> None:
        self.entries += 1
        match entry.kind:
            case "deadline":
                self.shop.world.pass_time(TIMEOUT_SECONDS)
            case "terminate":
                sweep.terminate(self.shop.ports, FLOW, "enough")
            case "cancel":
                messages.cancel(self.shop.ports, FLOW, "enough", f"cancel {self.entries}")
            case "event":
                messages.post_event(self.shop.ports, FLOW, entry.label, entry.value, f"event {self.entries}")
            case "lock":
                self.deliver(lambda task: task.payload.get("semaphore") == entry.label)
                self.deliver(lambda task: task.task == "flow_result")
            case _:
                self.shop.tasks[entry.label] = bad if entry.failed else lambda _: entry.value
                self.deliver(lambda task: task.task == entry.label)
        self.settle()

    def deliver(self, is_it: Callable[[Effect], bool]) -> None:
        [task] = filter(is_it, self.shop.world.tasks)
        self.shop.world.tasks.remove(task)
        self.shop.deliver(task)

    def settle(self) -> None:
        """Deliver what the kit itself has enqueued, until nothing of it is due."""
        while task := next(filter(self.is_due, self.shop.world.tasks), None):
            self.shop.world.tasks.remove(task)
            self.shop.deliver(task)

    def is_due(self, task: Effect) -> bool:
        if task.not_before and task.not_before > self.shop.world.now + timedelta(seconds=SOON_SECONDS):
            return False
        return task.task == "turn" or (task.task == "flow_command" and task.payload["act"] != "wait")

    def seen(self) -> Seen:
        header = reads.get(self.shop.ports, FLOW)
        pending = sorted(wait.signature.replace(f"{FUNCTION}.", "") for wait in header.pending.values())
        locks = sorted(lease["semaphore"] for lease in header.leases.values())
        trace = {branch: seen for one in self.traces.values() for branch, seen in one.seen.items()}
        if header.stuck:
            return Seen(trace, pending, locks, {}, f"stuck: {header.stuck}")
        outcome = header.end.outcome if header.end else None
        ended = outcome and (shown(outcome.result) if outcome.error is None else header.state)
        return Seen(trace, pending, locks, {}, ended or "")

    def close(self) -> None: ...


def bad(_: Any) -> Any:
    raise Problem("bad")
