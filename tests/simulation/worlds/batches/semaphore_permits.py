"""Units that run under permits of the semaphore `s`, in some worlds of batches.

In some of these, an operator ends a lease, cancels a wait, or deletes the semaphore and perhaps creates it again.
Checked when a unit's code starts: this delivery has claimed the lease of its grant; no more units run than there are
permits, unless an operator has interfered, or a unit has its outcome already, or its batch has ended. Checked at rest:
no lease is live, and no wait is in the wait queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from signalbox.batches.model.units import PlacedUnit
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.semaphores import sweep
from signalbox.semaphores import tasks as semaphores_tasks
from signalbox.semaphores.model import semaphore
from signalbox.semaphores.model.leases import Granted, lease_id
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, settings, views, waits
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from signalbox.tasks.service import runs
from signalbox.tasks.service.unit_runs import IsLive
from tests.simulation.reached_counts import LATE_WAITS, PERMITS_WAITED, REACHED, SEMAPHORES_AGAIN, UNITS_FAILED_BY_HAND
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.worlds.batches.world import BatchesWorld

NAME = "s"
LEASE_SECONDS = 3_600
STARTS_MAX = 100

PERMITS_RATE = 0.25
"""The share of worlds whose units run under permits."""

HELD_RATE, HELD_SECONDS = 0.5, 20.0
"""The share of those worlds in which another task holds all permits at first, and how long it does."""

AGAIN_RATE = 0.25
"""The share of those worlds in which the operator deletes the semaphore while units wait, and creates it again."""

STEPS_MAX = 80
"""Round trips before an operator acts."""

BY_HAND_RATE = 0.7
"""The share of the others in which an operator interferes, if they have no other special event."""


def permits_of(seed: int) -> int:
    """Return the number of permits; 0 for a world without a semaphore."""
    drawn = Random(f"permits {seed}")
    return drawn.randint(1, 2) if drawn.random() < PERMITS_RATE else 0


class Permits:
    """The semaphore of a world, the units that run under it, and the operator."""

    def __init__(self, batches: BatchesWorld, seed: int, permits: int) -> None:
        self._batches, self._world, self._permits = batches, batches.world, permits
        self._random = Random(f"by hand {seed}")
        self._again = Random(f"semaphore again {seed}")
        self._running: dict[tuple[str, int], PlacedUnit] = {}
        self._claims: defaultdict[str, set[int]] = defaultdict(set)
        self.lease_ended_by_hand = False
        settings.put(self._world.reliable_ports(), NAME, SemaphoreSettings(permits, LEASE_SECONDS))
        if self._random.random() < HELD_RATE:
            held = WaitRequest("another task", lease_seconds=HELD_SECONDS, permits=permits)
            waits.wait(self._world.reliable_ports(), NAME, held)
        self._world.observers.append(self._note_claims)
        self._world.task_handlers["semaphore_admit"] = _admit
        self._world.task_handlers["another"] = _run_another

    # --- units ---

    def claims_of(self, effect: Effect) -> int:
        """Return how often the lease of a task's grant has been claimed; 0 for a task without a grant."""
        granted = effect.context.get("lease")
        return 0 if granted is None else len(self._claims[Granted.from_context(granted).id])

    def _note_claims(self, path: str, _: Snapshot, after: Snapshot) -> None:
        """Note the token of each claim: it is a new one, also when the same grant is claimed again."""
        if path != semaphore.path_of(NAME) or after.data is None:
            return
        for lease in Semaphore.from_record(after.data).leases:
            if lease.claimed:
                self._claims[lease_id(lease.id, lease.grant)].add(lease.token)

    @contextmanager
    def running(self, unit: PlacedUnit) -> Iterator[None]:
        """Note that a unit's code runs. Raises `Violation` if too many run."""
        key = (unit.path, unit.attempt)
        self._running[key] = unit
        under_way = [one.path for one in self._running.values() if self._counts(one)]
        if len(under_way) > self._permits and not self.lease_ended_by_hand:
            raise Violation(f"{under_way} run under {self._permits} permits")
        try:
            self._world.step(f"runs unit {unit.index} of {unit.batch}")
            yield
        finally:
            self._running.pop(key, None)

    def _counts(self, unit: PlacedUnit) -> bool:
        [read] = self._world.store.read(unit.path)
        header = self._batches.checks.header(unit.batch)
        live = header is not None and header.incarnation == unit.incarnation and not header.ended
        return live and read.data is None

    # --- the operator ---

    def by_hand(self) -> list[Callable[[], None]]:
        """Return the operator's action."""
        if not self._batches.kind.calm:
            return []
        if self._again.random() < AGAIN_RATE:
            return [self._delete_and_create]
        if self._random.random() >= BY_HAND_RATE:
            return []
        return self._random.sample([self._end_a_lease, self._cancel_a_wait, self._delete], self._random.randint(1, 2))

    def _end_a_lease(self) -> None:
        self.lease_ended_by_hand = True

        def act() -> None:
            for lease in views.get(self._world.ports, NAME).semaphore.leases[:1]:
                granted = Granted(NAME, lease_id(lease.id, lease.grant))
                leases.release(self._world.ports, granted)

        self._later("ends a lease", act)

    def _cancel_a_wait(self) -> None:
        self.lease_ended_by_hand = True

        def act() -> None:
            for waiter in (views.get(self._world.ports, NAME).waiters or ())[:1]:
                REACHED[UNITS_FAILED_BY_HAND] += 1
                waits.cancel(self._world.ports, NAME, waiter.id)

        self._later("cancels a wait", act)

    def _delete(self) -> None:
        self.lease_ended_by_hand = True
        self._later("deletes the semaphore", lambda: sweep.delete(self._world.ports, NAME))

    def _delete_and_create(self) -> None:
        """Delete the semaphore while units wait for it, and create it again, before its waiters are deleted."""
        self.lease_ended_by_hand = True

        def act() -> None:
            if views.get(self._world.ports, NAME).waiters:
                REACHED[SEMAPHORES_AGAIN] += 1
                sweep.delete(replace(self._world.ports, queue=Refusing()), NAME)
                settings.put(self._world.ports, NAME, SemaphoreSettings(self._permits, LEASE_SECONDS))
                self._use()

        self._later("deletes the semaphore and creates it again", act)

    def _use(self) -> None:
        """Hold all permits, have another task wait for one, and release them: an admit run reads the wait queue."""
        held = WaitRequest("another task, later", lease_seconds=HELD_SECONDS, permits=self._permits)
        answer = waits.wait(self._world.ports, NAME, held)
        waits.wait(self._world.ports, NAME, WaitRequest("a third task", Call("another", "task", {})))
        if answer.lease is not None:
            leases.release(self._world.ports, answer.lease)

    def _later(self, what: str, act: Callable[[], None]) -> None:
        steps = self._random.randint(0, STEPS_MAX)

        def work() -> None:
            for _ in range(steps):
                self._world.step("does other work")
            act()

        self._world.start(what, work)

    # --- rest ---

    def delete_again(self) -> None:
        """Have the operator delete the semaphore once more, if it does not exist."""
        if self._world.store.read(semaphore.path_of(NAME))[0].data is None:
            with suppress(NoSemaphore):
                sweep.delete(self._world.ports, NAME)

    def sweep(self, ports: Ports) -> None:
        """Run the semaphores' part of the sweeper."""
        sweep.sweep(ports)

    def check_rest(self) -> None:
        """Check that no permit is held, and no wait is left."""
        [read] = self._world.store.read(semaphore.path_of(NAME))
        waiters = [one.data or {} for one in self._world.store.query(Query(f"{semaphore.path_of(NAME)}/waiters"))]
        REACHED[PERMITS_WAITED] += sum(waiter["joined"] is not None for waiter in waiters)
        waiting = [waiter for waiter in waiters if waiter["state"] == "waiting"]
        leases = Semaphore.from_record(read.data).leases if read.data else ()
        held = [lease.lease_id for lease in leases if lease.is_live(self._world.now())]
        if read.data is None:  # a process joined alone and died before it read that the semaphore was gone (sem-12)
            REACHED[LATE_WAITS] += len(waiting)
            waiting = []
        if held or waiting:
            raise Violation(f"leases {held} are held, and {len(waiting)} wait for a permit for ever")


def deliver(ports: Ports, effect: Effect, deliveries: int, code: runs.Code, is_live: IsLive) -> None:
    """Deliver a unit's task as a queue does: `deliveries` counts this one."""
    what = effect.function, effect.task, effect.payload, effect.queue
    delivered = parsed(Delivered(effect.name, effect.context, 0, deliveries - 1, *what))
    runs.run(ports, delivered, RetryLimits(STARTS_MAX), is_live, code)


def _run_another(ports: Ports, effect: Effect) -> None:
    claimed = leases.claim(ports, Granted.from_context(effect.context["lease"]))
    if claimed is not None:
        leases.release(ports, claimed)


def _admit(ports: Ports, effect: Effect) -> None:
    semaphores_tasks.TASKS[effect.task](ports, effect.payload)


class Refusing:
    """A queue that accepts no task: all are left to the sweeper."""

    def create(self, tasks: Sequence[Effect]) -> Collection[str]:
        raise Unavailable(f"{len(tasks)} tasks are not accepted")
