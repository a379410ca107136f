"""Users' tasks, while calls fail, processes die and the store is unavailable for a while.

Tasks of several contexts: continuations of one semaphore, some of which release their permit between their attempts,
units of one batch, and tasks without a context. The code of a task returns, raises every time, or kills its process
every time. Whenever a task is given up, its code was started as often as is allowed. At rest, no code was started more
than once too often, every task returned or was given up, every unit has an outcome, and no permit is held. In some
worlds the semaphore is deleted, and perhaps created again, while its tasks run: what they return or raise is their end.

No answer is lost in this world: a count whose answer is lost costs its task a start (docs/protocols/tasks.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from signalbox.batches import tasks
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import header_path
from signalbox.batches.model.units import PlacedUnit
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import population, units
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Backoff, Effect
from signalbox.core.error_notes import record_path
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Committed, Ports, Query, Snapshot, Write
from signalbox.core.problems import GaveUp, Unavailable
from signalbox.core.records.queries import Field
from signalbox.core.user_code import CodeExited
from signalbox.semaphores import sweep as semaphores_sweep
from signalbox.semaphores import tasks as semaphores_tasks
from signalbox.semaphores.model import semaphore
from signalbox.semaphores.model.semaphore import Semaphore, waiter_path
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import settings, waits
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import TaskSubject, parsed
from signalbox.tasks.service import runs
from tests.simulation.fault_rates import FaultRates
from tests.simulation.faulty_ports import SimulatedStore
from tests.simulation.processes import Killed
from tests.simulation.reached_counts import CALLS_AWAY, GIVEN_UP, LEASES_OUTLIVED, REACHED, RESUMED
from tests.simulation.user_task_effects import raise_any
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max

ATTEMPTS_MAX = 2
NAME, BATCH = "s", "b"
LEASE_SECONDS = 600.0
PAUSE_SECONDS = 0.2
BACKOFF = Backoff(PAUSE_SECONDS, PAUSE_SECONDS, 0)
FINE, RAISING, DEADLY = "fine", "raising", "deadly"
CALLS_AWAY_MAX = 60
DELIVERIES_BEFORE_MAX = 6
OUTLIVE_RATE = 0.2
"""The share of worlds in which a continuation that fails has run for longer than its lease.

It is then delivered a second time, while its first delivery goes on for some steps."""

SECOND_STEPS_MAX = 40

DELETED_SHARE, AGAIN_SHARE = 0.15, 0.5
"""The share of worlds in which the semaphore is deleted, and that of these in which it is created again."""

TASKS_LONG = 5
"""Tasks of each context in a long world."""


class Broken(Exception):
    """What a user's code raises."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    AttemptsWorld(seed, trace).run()


class AwayStore(SimulatedStore):
    """A store that refuses the next `refuses` calls."""

    refuses = 0

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        self._refuse()
        return super().read(*paths, fields=fields)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        self._refuse()
        return super().read_some(needed, others, bytes_max)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        self._refuse()
        return super().query(query)

    def commit(self, writes: Sequence[Write]) -> Committed:
        self._refuse()
        return super().commit(writes)

    def _refuse(self) -> None:
        if self.refuses:
            self.refuses -= 1
            REACHED[CALLS_AWAY] += 1
            self._world.step("the store is away")
            raise Unavailable("the store is away")


class AttemptsWorld:
    """A few tasks, named by their payload's `id`: what was started how often, and how each ended."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.08, lose_answer=0, kill=0.03, duplicate=0.05, left=6)
        self.world = World(seed, rates, trace)
        self.store = AwayStore(self.world)
        self.ports = replace(self.world.ports, store=self.store)
        self.world.task_handlers["user"] = self._deliver
        self.world.task_handlers["batch_expand"] = self._kit(tasks.run_batch_task)
        self.world.task_handlers["semaphore_admit"] = self._kit(
            lambda ports, task, payload: semaphores_tasks.TASKS[task](ports, payload)
        )
        self.world.observers.append(self._check_write)
        if not self.world.versions:
            self.world.random.randint(0, 1)  # the seeds that notice planted faults were drawn with it
        self.outlive = not self.world.versions and Random(f"outlive {seed}").random() < OUTLIVE_RATE
        self.pauses = Random(f"second deliveries {seed}")
        self.deleting = Random(f"deleted {seed}")
        self.is_deleted = not self.world.versions and self.deleting.random() < DELETED_SHARE
        self.away_at = self.world.random.randint(0, DELIVERIES_BEFORE_MAX)
        self.deliveries: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.names: dict[str, str] = {}
        self.enqueued: list[str] = []
        self.ended: set[str] = set()

    def run(self) -> None:
        self._enqueue()
        self.world.run([self._delete_later] if self.is_deleted else [])
        self.world.fault_rates.left = 0
        for _ in range(3):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", lambda: _sweep(self.ports))
            self.world.run()
        self._check_rest()

    def _enqueue(self) -> None:
        """Enqueue tasks of all contexts; nothing fails yet."""
        random, ports, faults = self.world.random, self.world.reliable_ports(), self.world.fault_rates.left
        self.world.fault_rates.left = 0
        settings.put(ports, NAME, SemaphoreSettings(random.randint(1, 2), LEASE_SECONDS))
        for index in range(random.randint(0, operations_max(4, TASKS_LONG))):
            call = Call("user", "continue", self._payload(f"continuation {index}"))
            between = random.random() < 0.5
            wait = WaitRequest(f"w{index}", call, release_on_return=True, release_on_failure=between)
            waits.wait(ports, NAME, wait)
        payloads = [self._payload(str(index)) for index in range(random.randint(1, operations_max(3, TASKS_LONG)))]
        population.populate(ports, BATCH, BatchSpec(units=payloads, task=Call("user", "unit", {}), sealed=True))
        for index in range(random.randint(0, operations_max(2, TASKS_LONG))):
            payload = self._payload(f"plain {index}")
            self.world.queue.take(Effect(payload["id"], "q", "user", "plain", payload))
        self.world.fault_rates.left = faults

    def _delete_later(self) -> None:
        """Delete the semaphore while its tasks run: those that wait or have not begun never run."""
        again, steps = self.deleting.random() < AGAIN_SHARE, self.deleting.randint(0, SECOND_STEPS_MAX)

        def work() -> None:
            for _ in range(steps):
                self.world.step("the operator thinks")
            self.ended |= {id_ for id_ in self.enqueued if id_.startswith("continuation")}
            semaphores_sweep.delete(self.world.reliable_ports(), NAME)
            if again:
                settings.put(self.world.reliable_ports(), NAME, SemaphoreSettings(1, LEASE_SECONDS))

        self.world.start("the operator", work)

    def _payload(self, id_: str) -> dict[str, str]:
        self.enqueued.append(id_)
        return {"id": id_, "does": self.world.random.choice((FINE, FINE, RAISING, DEADLY))}

    # --- deliveries ---

    def _kit(self, run_task: Callable[[Ports, str, Mapping[str, Any]], None]) -> Callable[[Ports, Effect], None]:
        return lambda _, effect: run_task(self.ports, effect.task, effect.payload)

    def _deliver(self, _: Ports, effect: Effect) -> None:
        """Run a user's task as a queue's delivery does; what it raises is retried."""
        id_ = effect.payload["id"]
        if sum(self.deliveries.values()) == self.away_at:
            self.store.refuses = self.world.random.randint(0, CALLS_AWAY_MAX)
        retries = self.deliveries[effect.name]
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered = parsed(Delivered(effect.name, effect.context, 0, retries, *what, backoff=BACKOFF))
        self.deliveries[effect.name] += 1
        self.names[record_path(delivered.operation)] = id_

        def code(_: TaskSubject | None, __: Start) -> str:
            return self._code(effect)

        try:
            runs.run(self.ports, delivered, RetryLimits(ATTEMPTS_MAX), self._is_live, code)
        except GaveUp:
            self._check_given_up(id_)
        except NoSemaphore as problem:
            raise Violation(f"the end of {id_} is that its semaphore was deleted") from problem
        except (Broken, CodeExited) as error:
            raise Unavailable("the code raised") from error

    def _is_live(self, unit: PlacedUnit) -> bool:
        return units.unit_is_live(self.ports, unit)

    def _code(self, effect: Effect) -> str:
        id_, does = str(effect.payload["id"]), effect.payload["does"]
        REACHED[RESUMED] += bool(effect.context.get("lease", {}).get("resumes"))
        self.starts[id_] += 1
        self.world.step(f"the code of {id_} is started, {does}")
        if does != FINE and self.outlive and "lease" in effect.context:
            self.world.pass_time(LEASE_SECONDS + 1)
            REACHED[LEASES_OUTLIVED] += 1
            self.world.start(f"a second delivery of {id_}", lambda: self._deliver(self.ports, effect))
            for _ in range(self.pauses.randint(0, SECOND_STEPS_MAX)):
                self.world.step("the first delivery goes on")
        if does == DEADLY:
            raise Killed
        if does == RAISING:
            raise_any(self.world, Broken, f"{id_} {self.starts[id_]}")
        self.ended.add(id_)
        return id_

    # --- what must hold ---

    def _check_write(self, path: str, _: Snapshot, after: Snapshot) -> None:
        """Check a unit that is recorded as failed, and a count above the limit: its task will be given up."""
        data = after.data or {}
        if path.startswith(f"{header_path(BATCH)}/units/") and data["state"] == "failed":
            self._check_given_up(str(data["index"]))
        if path.startswith(waiter_path(NAME, "")):
            self._check_waits()
        if path in self.names and data["starts"] > ATTEMPTS_MAX:
            self._check_given_up(self.names[path])

    def _check_waits(self) -> None:
        """Check that each task has at most one wait in the queue."""
        found = self.world.store.query(Query(f"{semaphore.path_of(NAME)}/waiters"))
        waiting = Counter(str((each.data or {})["continuation"]) for each in found if (each.data or {}).get("since"))
        if twice := [task for task, waits_ in waiting.items() if waits_ > 1]:
            raise Violation(f"{twice} have two waits")

    def _check_given_up(self, id_: str) -> None:
        REACHED[GIVEN_UP] += 1
        self.ended.add(id_)
        if self.starts[id_] < ATTEMPTS_MAX:
            raise Violation(f"{id_} was given up, and its code was started {self.starts[id_]} times")

    def _check_rest(self) -> None:
        if never := set(self.enqueued) - self.ended:
            raise Violation(f"{sorted(never)} neither returned nor were given up")
        for id_, starts in self.starts.items():
            if starts > ATTEMPTS_MAX + 1:
                raise Violation(f"the code of {id_} was started {starts} times")
        self._check_records()

    def _check_records(self) -> None:
        header, stored = (one.data for one in self.world.store.read(header_path(BATCH), semaphore.path_of(NAME)))
        assert header is not None
        assert stored is not None or self.is_deleted
        if (state := Header.from_record(header).state) != "completed":
            raise Violation(f"the batch is {state} for ever")
        leases = Semaphore.from_record(stored).leases if stored else ()
        if held := [lease.lease_id for lease in leases if lease.is_live(self.world.now())]:
            raise Violation(f"{held} are held without a holder")


def _sweep(ports: Ports) -> None:
    outbox.sweep(ports)
    semaphores_sweep.sweep(ports)
