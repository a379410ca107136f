"""A pager that is told of the flows, batches and tasks that need a person, while calls and processes fail.

Runs of one flow end by an event: they return, fail, or get stuck until their code is fixed. Batches have units that
fail; a task without a context is given up. A person fixes the code. The pager's own task is killed and delivered twice.

Whenever the pager is told, the failure is committed. At rest, each failure that was committed has been told: each stuck
run, each failed run, each batch that ended without success, each task that was given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from signalbox.batches import sweep as batches_sweep
from signalbox.batches import tasks as batch_tasks
from signalbox.batches.machine.lifecycle import has_succeeded
from signalbox.batches.model.headers import header_of
from signalbox.batches.model.tree import header_path as batch_path
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population, units
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.kit_names import FAILURE_NOTICE_TASK
from signalbox.core.limits import DECLARED, LIMITS
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.flows import sweep as flows_sweep
from signalbox.flows.api import flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import FAILED, FlowHeader
from signalbox.flows.service import messages, starts
from signalbox.flows.tasks import turns
from signalbox.mailboxes.model.messages import HEADER, Delivery
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import TaskSubject, parsed
from signalbox.tasks.model.failures import FAILURES
from signalbox.tasks.service import runs
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import FLOWS_STUCK, NOTICES, REACHED
from tests.simulation.world import Violation, World
from tests.simulation.worlds.flows.inline_step_code import InlineSteps, SimulatedWorkers
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns

FUNCTION, FLOW = "shop", "errand"
ENDS = ("return", "fail", "stuck")
PAGED = f'{{"{FUNCTION}": {{"{FAILURE_NOTICE_TASK}": ["notice"]}}}}'

Failure = tuple[str, str, str]
"""The subject, the reason and the id of a failure."""


class Refused(Problem):
    title = "Refused"


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    with mock.patch.dict(DECLARED, {"task_parameters": PAGED}):
        NoticesWorld(seed, trace).run()


class NoticesWorld:
    """A function with a flow, a task and a pager. `failed` is what was committed, `told` what the pager received."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.06, lose_answer=0.06, kill=0.08, duplicate=0.1, left=6)
        self.world = World(seed, rates, trace)
        self.world.task_handlers |= {FUNCTION: self._deliver, "batch_expand": _run_batch_task}
        self.world.observers.append(self._observe)
        self.deliveries: Counter[str] = Counter()
        self.inline = InlineSteps(self.world, InlineRuns(), self.world.random)
        self.failed = set[Failure]()
        self.told = set[Failure]()
        self.is_fixed = False
        self.flows = Flows(FUNCTION, {FLOW: FlowDefinition.from_function(self._code())})

    def run(self) -> None:
        random = self.world.random
        begun: list[Callable[[], object]] = []
        for number in range(random.randint(0, 2)):
            begun += self._run_of(FlowAddress(FLOW, f"r{number}"), random.choice(ENDS))
        for number in range(random.randint(0, 2)):
            begun.append(partial(self._populate, f"b{number}"))
        payload = {"does": random.choice(ENDS[:2])}
        self.world.queue.take(Effect("plain", "q", FUNCTION, "work", payload, path="/tasks/work"))
        self.world.run([partial(self._act, each) for each in begun])
        self.world.pass_an_outage()
        self.is_fixed = random.random() < 0.5
        self.world.fault_rates.left = 0
        for _ in range(3):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 600)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        if lost := self.failed - self.told:
            raise Violation(f"the pager was not told of {sorted(lost)}")

    # --- what people do ---

    def _code(self) -> Callable[..., Any]:
        async def errand() -> None:
            does = await flow.event("end", str)
            if does == "stuck" and not self.is_fixed:
                raise ValueError(does)
            if does == "fail":
                raise Refused(does)

        return errand

    def _run_of(self, address: FlowAddress, does: str) -> list[Callable[[], object]]:
        ports = self.world.ports
        return [
            lambda: starts.start(ports, self.flows, FUNCTION, address, {}),
            lambda: messages.post_event(ports, address, "end", does, "e"),
        ]

    def _populate(self, id_: str) -> None:
        random = self.world.random
        does = [random.choice(ENDS[:2]) for _ in range(random.randint(1, 2))]
        units_of = [{"does": each} for each in does]
        spec = BatchSpec(
            task=Call(FUNCTION, "work", {}), units=units_of, sealed=True, failures_max=random.choice((None, 0))
        )
        population.populate(self.world.ports, id_, spec)

    def _act(self, work: Callable[[], object]) -> None:
        """Let a person act, and repeat it until there is an answer."""

        def answered() -> None:
            try:
                work()
            except Problem as problem:
                if isinstance(problem, Unavailable):
                    raise
                self.world.log(f"refused: {problem.detail}")

        def ended(done: bool) -> None:
            if not done:
                self._act(work)

        self.world.start("person", answered, ended)

    # --- tasks ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            turns.run_turn(ports, self.flows, wake, SimulatedWorkers(self.world, wake.wake.mailbox, self.inline))
            return
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered = parsed(Delivered(effect.name, effect.context, 0, before, *what))

        def code(_: TaskSubject | None, __: Start) -> str:
            return self._told(effect) if effect.task == FAILURE_NOTICE_TASK else _work(effect)

        runs.run(ports, delivered, RetryLimits(9), partial(units.unit_is_live, ports), code)

    def _told(self, effect: Effect) -> str:
        self.world.step("the pager is told")
        notice = effect.payload["notice"]
        failure = notice["subject"], notice["reason"], notice["id"]
        if failure not in self.failed:
            raise Violation(f"the pager is told of {failure}, which was not committed")
        self.told.add(failure)
        REACHED[NOTICES] += 1
        return "told"

    # --- what is committed ---

    def _observe(self, path: str, _: Snapshot, after: Snapshot) -> None:
        if after.data is None:
            return
        base, __, name = path.partition("/mailbox/")
        if name == HEADER and base.startswith(f"{FlowAddress.COLLECTION}/"):
            address = FlowAddress.of_base(base)
            header = FlowHeader.from_record(address, after.data)
            if header.stuck:
                REACHED[FLOWS_STUCK] += 1
                self.failed.add(("flow", "stuck", address.key))
            if header.end and header.end.state == FAILED:
                self.failed.add(("flow", "failed", address.key))
        elif path.startswith(f"{FAILURES}/"):
            self.failed.add(("task", "failed", after.id))
        elif path == batch_path(after.id):
            batch = header_of(after.data)
            if batch and batch.ended and not has_succeeded(batch):
                self.failed.add(("batch", "failed", after.id))


def _work(effect: Effect) -> str:
    if effect.payload["does"] == "fail":
        raise Refused("as its payload says")
    return "done"


def _run_batch_task(ports: Ports, effect: Effect) -> None:
    batch_tasks.run_batch_task(ports, effect.task, effect.payload)


def _sweep(ports: Ports) -> None:
    for part in (outbox.sweep, batches_sweep.sweep, flows_sweep.sweep):
        part(ports)
