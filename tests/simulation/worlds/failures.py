"""Tasks that are given up, kept, retried and deleted by people who repeat their calls, while calls and processes fail.

Tasks without a context and continuations of one semaphore. The code of a task returns, raises a `Problem` or raises
another error, until it is fixed. People retry and delete failures, some of them twice, some hours later.

Whenever a failure is written, it was not retried or deleted before. At rest, every task returned or is kept; a failure
that is marked as retried has run again, and none has run again twice; no permit is held.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect, name_of
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.user_code import CodeExited
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.model import semaphore
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import settings, waits
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import TaskSubject, parsed
from signalbox.tasks.model.failures import FAILURES, failure_path
from signalbox.tasks.service import failures, runs
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import FAILURES_KEPT, FAILURES_RETRIED, REACHED
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.user_task_effects import raise_any
from tests.simulation.world import Violation, World

ATTEMPTS_MAX = 2
NAME = "s"
LEASE_SECONDS = 86_400.0
FINE, PROBLEM, RAISING = "fine", "problem", "raising"
REPAIR_RATE = 0.5
RETRY_RATE = 0.8


class Refused(Problem):
    title = "Refused"


class Broken(Exception):
    """What a user's code raises."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    FailuresWorld(seed, trace).run()


class FailuresWorld:
    """A few tasks, named by their payload's `id`, and people who retry and delete those that fail."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.06, lose_answer=0.06, kill=0.05, duplicate=0.1, left=6)
        self.world = World(seed, rates, trace)
        self.world.task_handlers["user"] = self._deliver
        self.world.task_handlers["semaphore_admit"] = _admit
        self.world.observers.append(self._check_write)
        self.world.queue.on_reuse = self._check_reuse
        self.deliveries: Counter[str] = Counter()
        self.does: dict[str, str] = {}
        self.names: dict[str, set[str]] = defaultdict(set)
        self.returned: set[str] = set()

    def run(self) -> None:
        self._enqueue()
        random = self.world.random
        for _ in range(2):
            self.world.run([self._look_after] * random.randint(1, 4))
            self.world.pass_an_outage()
        self.world.fault_rates.left = 0
        for _ in range(4):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 60)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        self._check_rest()

    def _enqueue(self) -> None:
        """Enqueue tasks of both contexts; nothing fails yet."""
        random, ports, faults = self.world.random, self.world.reliable_ports(), self.world.fault_rates.left
        self.world.fault_rates.left = 0
        settings.put(ports, NAME, SemaphoreSettings(1, LEASE_SECONDS))
        for index in range(random.randint(0, 2)):
            call = Call("user", "continue", self._payload(f"continuation {index}"))
            waits.wait(ports, NAME, WaitRequest(f"w{index}", call, release_on_return=True))
        for index in range(random.randint(1, 2)):
            payload = self._payload(f"plain {index}")
            self.world.queue.take(Effect(payload["id"], "q", "user", "plain", payload, path="/tasks/plain"))
        self.world.fault_rates.left = faults

    def _payload(self, id_: str) -> dict[str, str]:
        self.does[id_] = self.world.random.choice((FINE, PROBLEM, RAISING))
        return {"id": id_}

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "user":
            allow_from_an_old_outbox_record(self.world, effect)

    # --- deliveries ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        """Run a user's task as a queue's delivery does; what it raises is retried."""
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered = parsed(Delivered(effect.name, effect.context, 0, self.deliveries[effect.name], *what))
        self.deliveries[effect.name] += 1
        self.names[effect.payload["id"]].add(effect.name)

        def code(_: TaskSubject | None, __: Start) -> str:
            return self._code(str(effect.payload["id"]))

        try:
            runs.run(ports, delivered, RetryLimits(ATTEMPTS_MAX), lambda _: True, code)
        except (Broken, CodeExited) as error:
            raise Unavailable("the code raised") from error

    def _code(self, id_: str) -> str:
        self.world.step(f"the code of {id_} is started, {self.does[id_]}")
        if self.does[id_] == PROBLEM:
            raise Refused("as its code is written")
        if self.does[id_] == RAISING:
            raise_any(self.world, Broken, f"{id_} {self.world.now()}")
        self.returned.add(id_)
        return id_

    # --- people ---

    def _look_after(self) -> None:
        """Retry a failure or delete it, and perhaps mend the code before; the call may be posted twice."""
        random = self.world.random
        if found := self.world.store.query(Query(FAILURES)):
            chosen = random.choice(found)
            retried = random.random() < RETRY_RATE
            if retried and chosen.data and chosen.data["state"] == "failed" and random.random() < REPAIR_RATE:
                self.does[Call.from_record(chosen.data["call"]).payload["id"]] = FINE
            operation = failures.retry if retried else failures.delete
            for _ in range(random.randint(1, 2)):
                self.world.start(f"{operation.__name__} {chosen.id}", lambda: operation(self.world.ports, chosen.id))

    # --- what must hold ---

    def _check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if not path.startswith(f"{FAILURES}/"):
            return
        states = [one.data["state"] if one.data else "" for one in (before, after)]
        REACHED[FAILURES_KEPT] += states == ["", "failed"]
        REACHED[FAILURES_RETRIED] += states == ["failed", "retried"]
        if states[0] in ("retried", "deleted") and states[1] not in (states[0], "deleted"):
            raise Violation(f"{path} was {states[0]}, and is {states[1]} again")

    def _check_rest(self) -> None:
        kept = {one.id: one.data for one in self.world.store.query(Query(FAILURES)) if one.data}
        for id_ in self.does:
            of_task = {name: kept[name] for name in self.names[id_] if name in kept}
            if id_ not in self.returned and not of_task:
                raise Violation(f"{id_} neither returned nor is kept as a failure")
            if id_.startswith("plain"):
                self._check_retries(id_, of_task)
        self._check_waits(kept)

    def _check_retries(self, id_: str, kept: Mapping[str, Mapping[str, Any]]) -> None:
        retries = {name_of(failure_path(name), "retry") for name in kept}
        if extra := self.names[id_] - retries - {id_}:
            raise Violation(f"{id_} ran under {len(extra)} names that are of no failure")
        retried = {
            name_of(failure_path(name), "retry") for name, record in kept.items() if record["state"] == "retried"
        }
        if lost := retried - self.names[id_]:
            raise Violation(f"{len(lost)} failures of {id_} count as retried, and did not run again")

    def _check_waits(self, kept: Mapping[str, Mapping[str, Any]]) -> None:
        waiters = Query(f"{semaphore.path_of(NAME)}/waiters")
        continuations = [
            Call.from_record(one.data["continuation"]) for one in self.world.store.query(waiters) if one.data
        ]
        waits = Counter(str(call.payload["id"]) for call in continuations)
        for id_, count in waits.items():
            if count > 1 + len(self.names[id_] & kept.keys()):
                raise Violation(f"{id_} has waited {count} times")
        [read] = self.world.store.read(semaphore.path_of(NAME))
        assert read.data is not None
        leases = Semaphore.from_record(read.data).leases
        if held := [lease.lease_id for lease in leases if lease.is_live(self.world.now())]:
            raise Violation(f"{held} are held without a holder")


def _admit(ports: Ports, effect: Effect) -> None:
    tasks.TASKS[effect.task](ports, effect.payload)


def _sweep(ports: Ports) -> None:
    sweep.sweep(ports)
    outbox.sweep(ports)
