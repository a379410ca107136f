"""The planned times of a schedule with an overlap rule: some missed ones that are made up for, and some that are due.

Their tasks are delivered in any order, some twice, by processes that are killed at any step. The code returns, raises
once, raises until it is repaired, or refuses its time, and people retry what was given up.

At rest, each time took effect, or was left out by ``overlap="skip"`` and has never begun. No two times ran at once. A
time did not run again after a delivery that ran it was acknowledged. No time waits for ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from random import Random
from unittest import mock

from signalbox import Function, TaskContext
from signalbox.adapters import runtime
from signalbox.adapters.http.task_deliveries import FORWARDED, TURNS
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.kit_names import Overlap
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, Query
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.user_code import CodeExited
from signalbox.document_events.model import COLLECTION
from signalbox.tasks.model.failures import FAILURES
from signalbox.tasks.requests.enqueues import EnqueueRequest, scheduled
from signalbox.tasks.service import enqueues, failures
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import FAILURES_KEPT, FAILURES_RETRIED, REACHED, TIMES_LEFT_OUT, TIMES_WAITED
from tests.simulation.user_task_effects import CHILD, effect_of, raise_any, take_effect
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max

FINE, ONCE, RAISING, REFUSING = "fine", "raises once", "raises", "refuses"
DOES = (FINE, FINE, FINE, FINE, ONCE, RAISING, REFUSING)
OVERLAPS: tuple[Overlap, ...] = ("queue", "skip")
ATTEMPTS_MAX = 3
RETRY_SECONDS = 50
"""The pause of the queue, so that a hold of nine minutes ends within a few deliveries."""

REPAIRS_MAX = 8
STEPS_MAX = 12
"""The steps of a run, in which the tasks of other times arrive."""


RUNS: ContextVar[list[str]] = ContextVar("RUNS")
"""The times that the running delivery has begun."""


class Refused(Problem):
    title = "Refused"


class Broken(Exception):
    """What the task's code raises."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    ScheduledTimesWorld(seed, trace).run()


class ScheduledTimesWorld:
    """A function with one scheduled task, and what each of its times did."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.03, lose_answer=0.04, kill=0.03, duplicate=0.05, left=6)
        self.world = World(seed, rates, trace)
        self.world.task_handlers["shop"] = self._deliver
        self.world.task_handlers[CHILD] = self._took_effect
        self.world.queue.retry_seconds = RETRY_SECONDS
        self.world.queue.forgets_acknowledged = True
        self.app = Function("shop")
        self.overlap = Random(f"overlap {seed}").choice(OVERLAPS)
        self.app.schedule("* * * * *", overlap=self.overlap)(self.app.task(attempts_max=ATTEMPTS_MAX)(self._code()))
        self.is_repaired = False
        self.deliveries: Counter[str] = Counter()
        self.does: dict[str, str] = {}
        self.running = ""
        self.over: set[str] = set()
        self.begun: Counter[str] = Counter()
        self.missed: set[str] = set()
        self.times: list[str] = []
        self.ran: defaultdict[str, set[str]] = defaultdict(set)
        self.operations: defaultdict[str, set[str]] = defaultdict(set)

    def run(self) -> None:
        with mock.patch.object(runtime, "_ports", self.world.ports):
            self._run()
            self._check_rest()

    def _run(self) -> None:
        random, world = self.world.random, self.world
        count = random.randint(2, operations_max(6))
        planned = [partial(self._enqueue, number, is_missed=random.random() < 0.7) for number in range(count)]
        world.run([*planned, *[self._look_after] * random.randint(0, 2)])
        world.pass_an_outage()
        world.run([self._look_after] * random.randint(0, 2))
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Sweep, repair the code, and retry what was given up, until nothing is."""
        world = self.world
        world.fault_rates.left = 0
        self.is_repaired = True
        for _ in range(REPAIRS_MAX):
            world.pass_time(LIMITS.outbox_patience_seconds + 1)
            world.start("sweep", partial(_sweep, world.ports))
            world.run()
            kept = self._failures()
            for id_ in kept:
                world.start(f"retry {id_}", partial(failures.retry, world.ports, id_))
            world.run()
            if not kept:
                return
        raise Violation(f"a failure is kept after {REPAIRS_MAX} retries: {self._failures()}")

    def _failures(self) -> list[str]:
        found = self.world.store.query(Query(FAILURES))
        return [each.id for each in found if each.data and each.data["state"] == "failed"]

    def _enqueue(self, number: int, *, is_missed: bool) -> None:
        """Enqueue the task of a planned time, as the schedule does, or a person who makes up for it."""
        at = self.world.epoch.replace(second=0, microsecond=0) - timedelta(minutes=60 - number)
        name, call = f"{at:%H:%M}", Call("shop", "tick", {})
        self.times.append(name)
        if is_missed:
            self.missed.add(name)
        id_ = scheduled("shop-tick", at)
        request = EnqueueRequest(call, id_, by_schedule=not is_missed, scheduled_at=at, is_backfill=is_missed)
        self._start_enqueue(name, request)

    def _start_enqueue(self, name: str, request: EnqueueRequest) -> None:
        """Enqueue the task, again if that failed or its process died, as the schedule and the person do."""

        def ended(is_done: bool) -> None:
            if not is_done:
                self._start_enqueue(name, request)

        self.world.start(f"enqueues {name}", partial(_enqueue, self.world.ports, request), ended)

    def _look_after(self) -> None:
        """Retry a failure."""
        if kept := self._failures():
            REACHED[FAILURES_RETRIED] += 1
            id_ = self.world.random.choice(kept)
            self.world.start(f"retry {id_}", lambda: failures.retry(self.world.ports, id_))

    # --- the function ---

    def _deliver(self, _: Ports, effect: Effect) -> None:
        """Deliver a task as a queue does, with the members that the adapter takes from its envelope."""
        context, operation = dict(effect.context), effect.operation or effect.name
        name = context["scheduled"][11:16]
        self.operations[name].add(operation)
        executions, retries = context.pop(FORWARDED, (0, 0))
        turns, earlier = int(context.pop(TURNS, 0)), self.deliveries[effect.name]
        REACHED[TIMES_WAITED] += bool(turns) and not earlier
        self.deliveries[effect.name] += 1
        what = effect.function, effect.task, effect.payload
        delivered = Delivered(
            operation,
            context,
            executions,
            retries + earlier,
            *what,
            turns=turns,
        )
        own, is_over = list[str](), operation in self.over
        RUNS.set(own)
        try:
            self.app._run(runtime.ports(), delivered)
        except (Broken, CodeExited) as error:
            raise Unavailable("the code raised") from error
        except Problem:
            REACHED[FAILURES_KEPT] += 1
            self.over |= {operation} if own else set()
            raise
        finally:
            if own and is_over:
                raise Violation(f"{name} has run again, although a delivery that ran it was acknowledged")
        self.over |= {operation} if own else set()

    def _code(self) -> Callable[..., None]:
        def tick(context: TaskContext) -> None:
            assert context.scheduled_at
            self._tick(f"{context.scheduled_at:%H:%M}")

        return tick

    def _tick(self, name: str) -> None:
        if self.running:
            raise Violation(f"{name} runs while {self.running} does")
        self.begun[name] += 1
        RUNS.get().append(name)
        try:
            self.running = name
            does = self.does.setdefault(name, self.world.random.choice(DOES))
            if does == ONCE:
                self.does[name] = FINE
            does = FINE if self.is_repaired else does
            for _ in range(self.world.random.randint(1, STEPS_MAX)):
                self.world.step(f"{name} runs, and {does}")
            if does == REFUSING:
                raise Refused("as its code is written")
            take_effect(self.world.ports, name)
            if does in (ONCE, RAISING):
                raise_any(self.world, Broken, f"{name} {self.world.now()}")
        finally:
            self.running = ""

    def _took_effect(self, _: Ports, effect: Effect) -> None:
        self.ran[effect_of(effect)].add(effect.name)

    # --- what must hold ---

    def _check_rest(self) -> None:
        for read in self.world.store.query(Query(COLLECTION)):
            if read.data and read.data.get("waiting"):
                raise Violation(f"{[each['event'] for each in read.data['waiting']]} wait for ever")
        for name in self.times:
            times = len(self.ran[name])
            if not times and not self.begun[name] and self.overlap == "skip" and name not in self.missed:
                REACHED[TIMES_LEFT_OUT] += 1
            elif not times or times > len(self.operations[name]):
                raise Violation(f"{name} took effect {times} times, in {len(self.operations[name])} operations")


def _enqueue(ports: Ports, request: EnqueueRequest) -> None:
    enqueues.by_id(ports, request)


def _sweep(ports: Ports) -> None:
    outbox.sweep(ports)
