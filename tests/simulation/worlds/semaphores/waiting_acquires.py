"""Requests that wait for permits without a continuation (`wait_seconds`), in the lines of a few processes.

Clients repeat a request under its id: to the same process or another one, while the first still waits, or since its
answer was lost. A client that was granted permits releases them, or is gone. Requests are ended at any step, as by a
time-out. An event of a line waits in steps, so that time passes.

Checked at each answer: no request is answered "not acquired" that has held a lease since before it began, nor, where
nothing fails, next to a permit that has been free for as long as two looks. No wait has two leases. Only the first of a
line takes permits. At rest, all lines are empty, only requests that may be repeated are remembered, and all permits
        are free again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from random import Random
from types import SimpleNamespace
from unittest import mock

from signalbox.adapters import waiting_requests
from signalbox.adapters.waiting_requests import Lines
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.semaphores import tasks
from signalbox.semaphores.http.permits import acquire_in_turn
from signalbox.semaphores.model.semaphore import Semaphore, path_of
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import WaitAnswer
from signalbox.semaphores.requests import SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, views
from signalbox.testing.replaced_limits import replaced
from tests.simulation import processes
from tests.simulation.fault_rates import FaultRates
from tests.simulation.faulty_ports import SimulatedClock
from tests.simulation.reached_counts import ACQUIRES_IN_LINE, REACHED
from tests.simulation.versions import versions_of
from tests.simulation.world import Violation, World

ACQUIRES_SHARE = 0.1
NAME = "polled"
LEASE_SECONDS = 2.0
WAITS_SECONDS = (0.1, 0.5, 1.5)
HOLDS_SECONDS = (0.0, 0.2, 0.6)
STEP_MICROSECONDS = 40_000
PROCESSES = (1, 2)
PLACES = (2, 12)
CLIENTS = (2, 6)
REQUESTS_MAX = 3
GONE_RATE, REPEAT_RATE = 0.15, 0.4
EQUAL_PACES = (1.0,)
FREE_SECONDS = 1.5
"""Two of the longest pauses between looks here, with their steps and those of an overtaken commit."""

LIMITS = {"acquire_pause_seconds_max": 0.2}


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it is idle. Raises `Violation` when a property does not hold."""
    AcquiresWorld(seed, trace).run()


def drawn(seed: int) -> bool:
    """Return whether a seed of the semaphores' world also runs this world, whose lines only today's release has."""
    return versions_of(seed) is None and Random(f"acquires {seed}").random() < ACQUIRES_SHARE


class SleepingClock(SimulatedClock):
    """A clock whose sleeps last as long as they say, in the time of the server."""

    def sleep(self, seconds: float) -> None:
        pass_steps(self._world, seconds, lambda: False)


def pass_steps(world: World, seconds: float, is_over: Callable[[], bool]) -> None:
    """Yield to other processes until it is over, or the time has passed."""
    ends_at = world.now() + timedelta(seconds=seconds)
    while world.now() < ends_at and not is_over():
        world.step("waits")


class StepEvent:
    """An event that a simulated process waits for: the place of its request in a line."""

    def __init__(self, world: World) -> None:
        self._world, self._is_set = world, False
        self.request = world.processes.current

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        pass_steps(self._world, seconds, self.is_set)
        return self._is_set


class AcquiresWorld:
    """One semaphore, the lines of a few processes, and clients that each acquire under one id."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(abort=0.01, lose_answer=0.02, kill=0.01, left=4), trace)
        random = self.world.random
        self.world.step_microseconds_max = STEP_MICROSECONDS
        self.world.task_handlers["semaphore_admit"] = lambda ports, effect: tasks.TASKS[effect.task](
            ports, effect.payload
        )
        self.calm = random.random() < 0.3
        if self.calm:
            self.world.fault_rates.left = 0
        self.ports = Ports(
            self.world.ports.store, self.world.ports.queue, SleepingClock(self.world), self.world.ports.log
        )
        self.lines = [Lines(random.choice(PLACES), 1.0) for _ in range(random.choice(PROCESSES))]
        self.permits = random.choice((1, 1, 2))
        self.granted: dict[str, str] = {}
        self.free_since: datetime | None = None
        self.world.observers.append(self._observed)

    def run(self) -> None:
        """Let the clients acquire; then every permit must be free."""
        random, world = self.world.random, self.world
        monotonic = SimpleNamespace(monotonic=lambda: world.now().timestamp())
        event = mock.patch.object(waiting_requests, "Event", partial(StepEvent, world))
        paces = mock.patch.object(processes, "PACES", EQUAL_PACES if self.calm else processes.PACES)
        with event, mock.patch.object(waiting_requests, "time", monotonic), paces, replaced(**LIMITS):
            settings.put(world.reliable_ports(), NAME, SemaphoreSettings(self.permits, LEASE_SECONDS))
            world.run([partial(self._request, f"c{number}") for number in range(random.randint(*CLIENTS))])
        if left := [(lines._lines, lines._paces) for lines in self.lines if lines._lines or lines._paces]:
            raise Violation(f"no request is left, and lines have {left}")
        for lines in self.lines:
            if lines._arrivals.keys() != lines._away.keys():
                raise Violation(f"{lines._away} are away, and the arrivals of {lines._arrivals} are remembered")
        world.pass_time(LEASE_SECONDS)
        if views.get(world.reliable_ports(), NAME).free != self.permits:
            raise Violation("permits do not come back")

    # --- clients ---

    def _request(self, id_: str, number: int = 1) -> None:
        """Send a request; some clients send it again at once, as after a connection that was lost."""
        random = self.world.random
        process, seconds = random.randrange(len(self.lines)), random.choice(WAITS_SECONDS)
        self.world.start(
            f"{id_}.{number} at {process}",
            lambda: self._send(id_, number, process, seconds),
            lambda done: None if done else self._again(id_, number),
        )
        if random.random() < REPEAT_RATE:
            self._again(id_, number)

    def _again(self, id_: str, number: int) -> None:
        if number < REQUESTS_MAX:
            self._request(id_, number + 1)

    def _send(self, id_: str, number: int, process: int, seconds: float) -> None:
        began, had, lines = self.world.now(), self._live_lease(id_), self.lines[process]
        REACHED[ACQUIRES_IN_LINE] += bool(lines._lines)
        answer = acquire_in_turn(lines, self.ports, NAME, WaitRequest(id_, lease_seconds=LEASE_SECONDS), seconds)
        self._check(id_, had, began, answer)
        if answer.lease and self.world.random.random() >= GONE_RATE:
            self.ports.clock.sleep(self.world.random.choice(HOLDS_SECONDS))
            with suppress(Unavailable):
                leases.signal(self.ports, NAME, SignalRequest(answer.lease.id, f"{id_}.{number}"))

    # --- what must hold ---

    def _semaphore(self) -> Semaphore:
        [record] = self.world.store.read(path_of(NAME))
        return Semaphore.from_record(record.data or {})

    def _live_lease(self, id_: str) -> int | None:
        now = self.world.now()
        live = [lease.token for lease in self._semaphore().leases if lease.id == id_ and lease.is_live(now)]
        return live[0] if live else None

    def _check(self, id_: str, had: int | None, began: datetime, answer: WaitAnswer) -> None:
        if answer.lease is not None or answer.ended:
            return
        if had is not None and self._live_lease(id_) == had:
            raise Violation(f"{id_} has held a lease since before its request, and is answered that it has none")
        if self.free_since and self.calm:
            free_for = self.world.now() - max(self.free_since, began)
            if free_for > timedelta(seconds=FREE_SECONDS):
                raise Violation(f"{id_} is refused, and a permit was free for {free_for}")

    def _check_turn(self, id_: str) -> None:
        """Check that the process that was granted a permit runs the first request of a line."""
        request = self.world.processes.current
        first = [places[0].request for lines in self.lines for places in lines._lines.values()]  # type: ignore[attr-defined]  # as they were made
        if request not in first:
            raise Violation(f"{id_} is granted to {request}, and the first requests in line are {first}")

    def _observed(self, path: str, _: Snapshot, after: Snapshot) -> None:
        if path != path_of(NAME) or after.data is None:
            return
        semaphore, at = Semaphore.from_record(after.data), after.update_time or after.read_time
        for lease in semaphore.leases:
            if lease.id not in self.granted:
                self._check_turn(lease.id)
            if self.granted.setdefault(lease.id, lease.lease_id) != lease.lease_id:
                raise Violation(f"{lease.id} was granted {lease.lease_id} after {self.granted[lease.id]}")
        if semaphore.free(at) <= 0:
            self.free_since = None
        elif self.free_since is None:
            self.free_since = at
