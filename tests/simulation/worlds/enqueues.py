"""Calls that tasks enqueue, which die, fail and are delivered again in another order; and calls of people, under ids.

A task makes a few calls, two of them equal, in an order that each delivery chooses; a delivery may arrive hours later.
People post calls under a few ids, also with other payloads. Whenever a task is created, it is not created again except
by an outbox record. At rest, the calls of every acknowledged task and the acknowledged calls of people ran, and none
ran under more names than it was called.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from signalbox.core import idempotency_keys, outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports
from signalbox.core.problems import OtherBody, Unavailable
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues
from tests.simulation.fault_rates import ENQUEUE_FAILS_RATE, FaultRates
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World

CALLED = ("a", "b", "b", "c")
IDS, PAYLOADS = ("x", "y"), ("1", "2")
LATE_RATE = 0.5


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    EnqueuesWorld(seed, trace).run()


class EnqueuesWorld:
    """A few tasks and people that make calls, and the tasks that these calls enqueue."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.05, lose_answer=0.06, kill=0.05, duplicate=0.1, left=6)
        self.world = World(seed, rates, trace)
        self.world.task_handlers["parent"] = self._parent
        self.world.task_handlers["child"] = self._child
        self.world.queue.on_reuse = self._check_reuse
        self.deliveries: Counter[str] = Counter()
        self.promised: Counter[str] = Counter()
        self.ran: defaultdict[str, set[str]] = defaultdict(set)

    def run(self) -> None:
        random = self.world.random
        parents = [Effect(f"parent-{index}", "q", "parent", "parent", {}) for index in range(random.randint(1, 2))]
        for parent in parents:
            self.world.queue.take(parent)
        self.world.run([self._post] * random.randint(0, 4))
        self.world.pass_an_outage()
        self.world.tasks.extend(parent for parent in parents if random.random() < LATE_RATE)
        self.world.run([self._post] * random.randint(0, 2))
        self.world.fault_rates.left = 0
        for _ in range(2):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        self._check_rest()

    def _parent(self, ports: Ports, effect: Effect) -> None:
        """Make the calls in an order of this delivery's own, and perhaps fail afterwards."""
        is_repeated = self.deliveries[effect.name] > 0
        self.deliveries[effect.name] += 1
        order = self.world.random.sample(CALLED, len(CALLED))
        fails = self.world.inject_fault(ENQUEUE_FAILS_RATE)
        with idempotency_keys.idempotent_calls(effect.name, is_repeated=is_repeated):
            for what in order:
                request = EnqueueRequest(_call(f"{effect.name} {what}"))
                name = idempotency_keys.idempotency_key("enqueue", idempotency_keys.content_of(request.call))
                assert name, "inside of a task every call has its key"
                enqueues.from_task(ports, request, name, is_repeated=is_repeated)
        if fails:
            raise Unavailable("the code fails after its calls")
        self.promised |= Counter(f"{effect.name} {what}" for what in CALLED)

    def _post(self) -> None:
        random = self.world.random
        id_, payload = random.choice(IDS), random.choice(PAYLOADS)
        self.world.start(f"post {id_} {payload}", lambda: self._enqueue(id_, payload))

    def _enqueue(self, id_: str, payload: str) -> None:
        try:
            enqueues.by_id(self.world.ports, EnqueueRequest(_call(f"{id_} {payload}"), id_))
        except OtherBody:
            return
        self.promised |= Counter([f"{id_} {payload}"])

    def _child(self, _: Ports, effect: Effect) -> None:
        self.ran[effect.payload["what"]].add(effect.name)

    # --- what must hold ---

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "child":
            allow_from_an_old_outbox_record(self.world, effect)

    def _check_rest(self) -> None:
        for what, times in self.promised.items():
            if len(self.ran[what]) < times:
                raise Violation(f"{what} was called {times} times, and ran under {len(self.ran[what])} names")
        for what, names in self.ran.items():
            if len(names) > CALLED.count(what[-1]) and len(names) > 1:
                raise Violation(f"{what} ran under {len(names)} names")
        for id_ in IDS:
            if len({what for what in self.ran if what.startswith(id_) and self.ran[what]}) > 1:
                raise Violation(f"two calls ran under the id {id_}")


def _call(what: str) -> Call:
    return Call("child", "child", {"what": what})


def _sweep(ports: Ports) -> None:
    outbox.sweep(ports)
