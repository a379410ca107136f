"""Flows that abandon a batch, which a task populates when it is delivered: before, meanwhile, or long afterwards.

No unit runs, so a batch that is not cancelled never ends. At rest no batch is left that no flow waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import COLLECTION
from signalbox.core import outbox
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports, Query
from signalbox.core.problems import Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.problems import NoFlow
from signalbox.flows.service import messages, reads, starts
from signalbox.flows.tasks import steps, turns
from signalbox.mailboxes.model.messages import Delivery
from signalbox.tasks.api import Call
from signalbox.tasks.model.contexts import parsed
from tests.simulation.fault_rates import FaultRates
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import faults
from tests.simulation.worlds.flows.inline_step_code import InlineSteps, SimulatedWorkers
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns

FUNCTION, FLOW, ID = "shop", "mailing", "m"
ADDRESS = FlowAddress(FLOW, ID)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    AbandonedWorld(seed, Random(f"abandoned {seed}"), trace).run()


class AbandonedWorld:
    """One flow that waits for a batch for a while; people may cancel it."""

    def __init__(self, seed: int, own: Random, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(duplicate=0.3, left=faults(own.choice((0, 3))))
        self.world = World(seed, rates, trace)
        self.world.step_microseconds_max = own.choice((300, 30_000))
        self.world.time_jumps, self.world.time_jumps_left = (0.05, 1.0), own.choice((0, 4))
        self.world.task_handlers |= {FUNCTION: self._deliver, "batch_expand": lambda *_: None}
        self.seconds = own.choice((0.0, 0.05, 0.3))
        self.cancels = own.random() < 0.5
        self.deliveries: Counter[str] = Counter()
        self.flows = Flows(FUNCTION, {FLOW: FlowDefinition.from_function(self._code())})

    def _code(self) -> Callable[..., Any]:
        async def mailing() -> Any:
            calls: list[Call[Any]] = [Call(FUNCTION, "mail", {"to": name}) for name in "ab"]
            which, _ = await flow.first(flow.batch(calls), flow.sleep(self.seconds))
            return which

        return mailing

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            workers = SimulatedWorkers(self.world, ADDRESS.base, InlineSteps(self.world, InlineRuns(), Random(0)))
            turns.run_turn(ports, self.flows, wake, workers)
        elif effect.task in steps.OWN_TASKS:
            what = effect.function, effect.task, effect.payload, effect.queue
            steps.run_own_task(ports, parsed(Delivered(effect.name, effect.context, 0, before, *what)))

    def _start(self) -> None:
        def start() -> None:
            starts.start(self.world.ports, self.flows, FUNCTION, ADDRESS, {})

        self.world.start("start", start)

    def _cancel(self) -> None:
        def cancel() -> None:
            with suppress(NoFlow):
                messages.cancel(self.world.ports, ADDRESS, "")

        self.world.start("cancel", cancel)

    def run(self) -> None:
        self.world.run([self._start, self._start, *([self._cancel] if self.cancels else [])])
        self.world.fault_rates.left = 0
        for _ in range(3):
            self.world.pass_time(CORE_LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        self._check()

    def _check(self) -> None:
        try:
            header = reads.get(self.world.reliable_ports(), ADDRESS)
        except NoFlow:
            return
        if not header.end:
            raise Violation(f"{header.address.base} never ends: it waits for {header.pending}")
        for snapshot in self.world.store.query(Query(COLLECTION)):
            if not Header.from_record(snapshot.data or {}).ended:
                raise Violation(f"the batch {snapshot.id} runs, and no flow waits for it")


def _sweep(ports: Ports) -> None:
    for part in (outbox.sweep, sweep.sweep):
        try:
            part(ports)
        except Unavailable:
            continue
