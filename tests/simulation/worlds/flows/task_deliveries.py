"""How tasks are delivered in a simulated world of flows: wake-ups, steps, the kit's own tasks, those of users."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from signalbox.adapters.http.task_deliveries import LATE_SECONDS
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.kit_names import FLOW_RESULT_TASK
from signalbox.core.ports import Ports, unlimited
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.flows.model.definitions import Flows
from signalbox.flows.tasks import archives, steps, turns
from signalbox.mailboxes.model.messages import Delivery
from signalbox.objects import service
from signalbox.semaphores import tasks
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from tests.simulation.cloud_tasks import NAME_KEPT_SECONDS
from tests.simulation.fault_rates import STEP_ERROR_PASSES_RATE, STEP_FAILS_RATE
from tests.simulation.reached_counts import REACHED, STEPS_RUN, TASKS_PURGED
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record, names_in_old_records
from tests.simulation.world import Violation, World
from tests.simulation.worlds.flows.archives import Archive
from tests.simulation.worlds.flows.inline_step_code import InlineSteps, SimulatedWorkers
from tests.simulation.worlds.flows.interpreted_programs import FUNCTION, LEASE_SECONDS, Code
from tests.simulation.worlds.flows.observed_flows import FlowsHistory
from tests.simulation.worlds.objects.remembering_class import NEW, Version

STARTS_MAX = 60
"""Of a step's code: more than a world has faults, so none is given up."""

REPEATED = ("release", "wait", "renew", "populate")
"""The acts that a flow may ask for again, hours later."""


@dataclass
class FlowDeliveries:
    """The deliveries of a world. `code` returns the deployment that handles a delivery; `own` draws for the steps.

    `told` has the outcomes that `on_complete` received, by task name; `sent` has the names of the messages that flows
    sent, by mark.
    """

    world: World
    history: FlowsHistory
    code: Callable[[], Code]
    own: Random
    failing: float = STEP_FAILS_RATE
    told: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    sent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    starts: Counter[str] = field(default_factory=Counter)
    purged: set[str] = field(default_factory=set)
    inline: InlineSteps = field(init=False)
    archive: Archive = field(init=False)
    _due: dict[str, datetime] = field(default_factory=dict)
    _deliveries: Counter[str] = field(default_factory=Counter)
    _numbers: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        self.inline = InlineSteps(self.world, self.history.inline, Random(0))
        self.archive = Archive(self.world, self.history)

    def install(self) -> None:
        """Handle all tasks of the world."""
        admit: Callable[[Ports, Effect], None]
        admit = lambda ports, effect: tasks.TASKS[effect.task](ports, effect.payload)  # noqa: E731  the handler of a task
        self.world.task_handlers |= {FUNCTION: self._deliver, "logs": self._run_object, "semaphore_admit": admit}
        self.world.queue.on_reuse = self._reused
        take = self.world.queue.take

        def take_near(effect: Effect) -> bool:
            """Take a task, unless it is the alarm of a lease: no world comes to its end."""
            self._due.setdefault(effect.name, effect.not_before or self.world.now())
            if (effect.not_before or self.world.now()) - self.world.now() < timedelta(seconds=LEASE_SECONDS / 2):
                return take(effect)
            return True

        self.world.queue.take = take_near  # type: ignore[method-assign]  # this world draws tasks in its own way

    def purge(self) -> None:
        """Lose tasks that wait, as if the queues were purged. Their names become free some hours later.

        Tasks of users and of semaphores are kept: nothing but their queue has them.
        """
        waiting, queue = self.world.tasks, self.world.queue
        for effect in [effect for effect in waiting if _is_found_again(effect)]:
            waiting.remove(effect)
            queue.names[queue.key(effect)] = self.world.now() + timedelta(seconds=self.own.choice(NAME_KEPT_SECONDS))
            self.purged.add(effect.name)
            REACHED[TASKS_PURGED] += 1

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self._deliveries[effect.name]
        self._deliveries[effect.name] += 1
        what = effect.function, effect.task, effect.payload, effect.queue
        late = self.world.now() - self._due[effect.name] > timedelta(seconds=LATE_SECONDS)
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, before, *what, is_late=late))
        flows = self.code().flows
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            self._run_turn(ports, flows, wake)
        elif effect.payload.get("act") == "archive":
            archives.archive(ports, effect.payload, self.archive.write)
        elif effect.task in steps.OWN_TASKS:
            steps.run_own_task(ports, delivered)
        elif "step" in effect.context:
            looks = before > 0 or late or effect.context["step"]["attempt"] > 1
            begins = not looks or self.history.is_awaited(effect.context["step"])
            code = lambda _, __: self._step(effect, begins=begins)  # noqa: E731  what the step runs
            steps.run_step(ports, flows, delivered, RetryLimits(STARTS_MAX), code)
        else:
            self._user_task(effect)

    def _run_turn(self, ports: Ports, flows: Flows, wake: Delivery) -> None:
        workers = SimulatedWorkers(self.world, wake.wake.mailbox, self.inline)
        cancels = self.inline.cancels_waiting(wake.wake)
        try:
            turns.run_turn(ports, flows, wake, workers)
        finally:
            workers.end()
        self.inline.note_left(wake.wake.mailbox, cancels)

    def _step(self, effect: Effect, *, begins: bool) -> str:
        """Run a step: no two runs have the same outcome, so a result in a log identifies its run.

        `begins` is False if its flow did not wait for it when its task was delivered, later than at once.
        """
        step = effect.context["step"]
        place = step["flow"], step["life"], step["path"]
        if not begins:
            raise Violation(f"the step {place} began late, although its flow does not wait for it")
        number = str(next(self._numbers))
        REACHED[STEPS_RUN] += 1
        self.starts[effect.name] += 1
        self.history.names[place] = f"{FUNCTION}.{effect.task}"
        self.world.step(f"step {effect.task} of {place} ends as {number}")
        if self.world.fault_rates.left and self.own.random() < STEP_ERROR_PASSES_RATE:
            raise Unavailable("the step's code has no luck")
        self.history.outcomes[place].add((step["attempt"], number))
        self.history.ended_at[number] = self.world.now()
        if self.own.random() < self.failing:
            raise Problem(number)
        return number

    def _user_task(self, effect: Effect) -> None:
        if effect.task == "told":
            self.told[effect.name].append(effect.context["outcome"])
        else:
            self.sent[effect.payload["mark"]].add(effect.name)

    def _run_object(self, ports: Ports, effect: Effect) -> None:
        version = Version(NEW, lambda _: None)
        code = service.Code("logs", version.apply, lambda _: "logs", version.check)
        service.run(ports, code, Delivery(WakeUp.from_payload(effect.payload), effect.name), unlimited)

    def _reused(self, effect: Effect) -> None:
        """Check a second creation. A release may be created twice: each branch that ends creates it, hours apart.

        A step may be created from an old outbox record after a repeated turn has created it. It reads its flow first.
        """
        self._deliveries[effect.name] = 0
        repeated = effect.name in self.purged or effect.payload.get("act") in REPEATED
        if "step" in effect.context:
            repeated |= effect.name in names_in_old_records(self.world)
        if effect.function == FUNCTION and effect.task != WAKE_UP_TASK and not repeated:
            allow_from_an_old_outbox_record(self.world, effect)


def _is_found_again(effect: Effect) -> bool:
    """Return whether a silent flow enqueues the task again."""
    if effect.task == WAKE_UP_TASK or "step" in effect.context:
        return True
    return effect.payload.get("act") in (*REPEATED[1:], "archive") or (
        effect.task == FLOW_RESULT_TASK and "outcome" in effect.context
    )
