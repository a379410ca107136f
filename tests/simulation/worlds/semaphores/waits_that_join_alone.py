"""Waits that join a wait queue alone while a signal frees several permits: those that fit are granted soon after.

Either the signal has read the wait queue before they joined, or they have read the semaphore before the signal. Nothing
fails, and no wait that the signal grants releases its permit, so no later signal reads the queue for them.

In a second world the head of the wait queue, which needs all permits, is cancelled while a signal frees one: the wait
behind it is granted soon after both.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from signalbox.core.calls import Call
from signalbox.core.ports import Snapshot
from signalbox.semaphores import tasks
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.world import Violation, World

NAME = "joined"
LEASE_SECONDS = 60.0
LATE_SECONDS = 15.0
STEPS = (3_000, 300_000, 1_000_000)
JOINING_SHARE = 0.05


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it is idle. Raises `Violation` when a wait that fits is granted late."""
    JoiningWorld(seed, trace).run()
    DepartingWorld(seed, trace).run()


def drawn(seed: int) -> bool:
    """Return whether a seed of the semaphores' world also runs this world."""
    return Random(f"joining {seed}").random() < JOINING_SHARE


class JoiningWorld:
    """A semaphore whose permits are all held by one lease; some waits come before its signal, and some during it."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(left=0), trace)
        self.world.step_microseconds_max = self.world.random.choice(STEPS)
        self.world.task_handlers["semaphore_admit"] = lambda ports, effect: tasks.TASKS[effect.task](
            ports, effect.payload
        )
        self.world.task_handlers["user"] = lambda *_: None
        self.world.observers.append(self._observed)
        self.permits = self.world.random.choice((2, 3))
        self.waiting = self.world.random.randint(1, self.permits - 1)
        self.granted_at: dict[str, datetime] = {}
        self.answered_at: dict[str, datetime] = {}

    def run(self) -> None:
        """Hold all permits and start some waits; then signal while others join."""
        ports = self.world.reliable_ports()
        settings.put(ports, NAME, SemaphoreSettings(self.permits, LEASE_SECONDS))
        held = waits.wait(ports, NAME, WaitRequest("holder", permits=self.permits)).lease
        assert held is not None, "all permits are free"
        for index in range(self.waiting):
            waits.wait(ports, NAME, _waiting(f"first{index}"))
        others = [f"other{index}" for index in range(self.permits - self.waiting)]
        acts = [*(self._start(id_) for id_ in others), lambda: self._start_signal(held.id)]
        self.world.random.shuffle(acts)
        with replaced(guarded_attempts_max=self.world.random.choice((0, 2))):
            self.world.run(acts)
        for id_ in others:
            self._check(id_)

    def _start(self, id_: str) -> Callable[[], None]:
        def work() -> None:
            waits.wait(self.world.ports, NAME, _waiting(id_))
            self.answered_at[id_] = self.world.now()

        return lambda: self.world.start(id_, work)

    def _start_signal(self, lease: str) -> None:
        def work() -> None:
            leases.signal(self.world.ports, NAME, SignalRequest(lease))
            self.answered_at["signal"] = self.world.now()

        self.world.start("signal", work)

    def _observed(self, _: str, __: Snapshot, after: Snapshot) -> None:
        if after.data is not None and after.data.get("state") == "granted":
            self.granted_at.setdefault(after.id, after.read_time)

    def _check(self, id_: str) -> None:
        could_be_at = max(self.answered_at[id_], self.answered_at["signal"])
        late = self.granted_at.get(id_, self.world.now()) - could_be_at
        if id_ not in self.granted_at or late > timedelta(seconds=LATE_SECONDS):
            raise Violation(f"{id_} fits behind all earlier waits, and waits {late} for its permit")


class DepartingWorld(JoiningWorld):
    """Two permits, both held; the head of the wait queue needs both, and the next wait one."""

    def run(self) -> None:
        """Cancel the head while one of the permits is released."""
        ports = self.world.reliable_ports()
        settings.put(ports, NAME, SemaphoreSettings(2, LEASE_SECONDS))
        held = [waits.wait(ports, NAME, WaitRequest(id_)).lease for id_ in ("a", "b")]
        waits.wait(ports, NAME, _waiting("head", permits=2))
        waits.wait(ports, NAME, _waiting("next"))
        assert held[0] is not None, "a permit is free"
        lease = held[0].id
        acts = [lambda: self._start_signal(lease), self._start_cancel]
        self.world.random.shuffle(acts)
        self.world.run(acts)
        self._check("next")

    def _start_cancel(self) -> None:
        def work() -> None:
            waits.cancel(self.world.ports, NAME, "head")
            self.answered_at["next"] = self.world.now()

        self.world.start("cancel", work)


def _waiting(id_: str, permits: int = 1) -> WaitRequest:
    return WaitRequest(id_, Call("user", "continue", {"id": id_}), permits=permits)
