"""Grants that are released by a process that has not claimed them, while their tasks are delivered again.

So a flow releases a lock that its code did not receive: it knows the grant, but not under which token a delivery holds
it. Once the release is answered, no delivery holds the grant, and the next wait has its permit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports, Snapshot
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.model.leases import Granted, parse_lease_id
from signalbox.semaphores.model.semaphore import Semaphore, path_of, release_path
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.world import Violation, World

NAME = "granted"
RECORD = path_of(NAME)
LEASE_SECONDS = 86_400.0
"""No lease ends by itself, so a permit that is not released is missing at rest."""

STEPS = (3_000, 300_000)
GRANTS_SHARE = 0.05


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it is idle. Raises `Violation` when a grant is held that was released."""
    own = Random(f"by grant {seed}")
    with replaced(guarded_attempts_max=own.choice((0, 1))):
        GrantsWorld(seed, own, trace).run()


def drawn(seed: int) -> bool:
    """Return whether a seed of the semaphores' world also runs this world."""
    return Random(f"by grant drawn {seed}").random() < GRANTS_SHARE


class GrantsWorld:
    """One semaphore and a few continuations; `released` are the grants whose release was answered, by their waits."""

    def __init__(self, seed: int, own: Random, trace: Callable[[str], None] | None) -> None:
        self.own = own
        rates = FaultRates(duplicate=0.5, kill=0.1, lose_answer=0.05, left=own.choice((2, 6)))
        self.world = World(seed, rates, trace)
        self.world.step_microseconds_max = own.choice(STEPS)
        self.world.task_handlers |= {"user": self._continue, "semaphore_admit": _admit}
        self.world.observers.append(self._observed)
        self.waits = [f"w{number}" for number in range(own.randint(1, 4))]
        self.deliveries: Counter[str] = Counter()
        self.began: set[str] = set()
        self.released: set[tuple[str, int]] = set()

    def run(self) -> None:
        settings.put(self.world.reliable_ports(), NAME, SemaphoreSettings(self.own.choice((1, 2)), LEASE_SECONDS))
        self.world.run([self._repeated(id_, self._wait_of(id_)) for id_ in self.waits])
        self.world.fault_rates.left = 0
        for _ in range(3):
            self.world.pass_time(600)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        if missing := set(self.waits) - self.began:
            raise Violation(f"{sorted(missing)} never run: {self._semaphore()}")
        if held := [lease.lease_id for lease in self._semaphore().leases if lease.is_live(self.world.now())]:
            raise Violation(f"{held} are held, and their grants were released")

    def _repeated(self, name: str, work: Callable[[], object]) -> Callable[[], None]:
        """Return the beginning of a call, which is repeated until it has an answer."""

        def answered() -> None:
            work()

        def begin() -> None:
            self.world.start(name, answered, lambda done: None if done else begin())

        return begin

    def _wait_of(self, id_: str) -> Callable[[], object]:
        request = WaitRequest(id_, Call("user", "continue", {"id": id_}))
        return lambda: waits.wait(self.world.ports, NAME, request)

    def _continue(self, ports: Ports, effect: Effect) -> None:
        """Claim the grant, as a task does that brings a lock to its flow; the flow releases it meanwhile."""
        granted = Granted.from_context(effect.context["lease"])
        self.deliveries[effect.name] += 1
        if self.deliveries[effect.name] == 1:
            self._repeated(f"end of {granted.id}", lambda: self._release(granted))()
        leases.claim(ports, granted)
        self.began.add(effect.payload["id"])

    def _release(self, granted: Granted) -> None:
        leases.release(self.world.ports, granted)
        self.released.add(parse_lease_id(granted.id))
        self._check_released(self._semaphore())

    def _observed(self, path: str, _: Snapshot, after: Snapshot) -> None:
        if path == RECORD and after.data is not None:
            self._check_released(Semaphore.from_record(after.data))

    def _check_released(self, semaphore: Semaphore) -> None:
        """Check that each grant that was released has no lease, or one whose release is left for an admit run."""
        for lease in semaphore.leases:
            if (lease.id, lease.grant) in self.released and lease.is_live(self.world.now()):
                [left] = self.world.store.read(release_path(NAME, lease.lease_id))
                if left.data is None:
                    raise Violation(f"the grant of {lease.lease_id} was released, and a delivery holds it")

    def _semaphore(self) -> Semaphore:
        [read] = self.world.store.read(RECORD)
        return Semaphore.from_record(read.data or {})


def _admit(ports: Ports, effect: Effect) -> None:
    tasks.TASKS[effect.task](ports, effect.payload)


def _sweep(ports: Ports) -> None:
    outbox.sweep(ports)
    sweep.sweep(ports)
