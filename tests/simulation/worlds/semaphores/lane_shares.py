"""While a lane waits, each other lane is granted no more than its share: the bound of `machine/lanes.py`.

Between two grants of a lane that waits, another lane is granted at most ⌊p × other weight / own weight⌋ permits before
its last grant, where p are the permits of the lane's own last grant. If each wait is for one permit, these are at most
⌊other weight / own weight⌋ + 1 permits. A lane that was never granted any is overtaken by one grant of each other lane.

A lane waits while a wait that was answered "waiting" is in its queue. A commit that has read the semaphore's record
before does not count: it may have found the lane empty.

The waits of one key and priority are granted in their order: a wait is never granted while another one is in the queue
that was answered "waiting" before the first was requested. This holds also for a key that is given a weight while it
waits; the shares are not checked in worlds in which weights change.

The world of this module has clients of several lanes, each of which waits again after its permit, at once or later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from random import Random

from signalbox.core import times
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports, Snapshot
from signalbox.semaphores import tasks
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.lanes import weight_of
from signalbox.semaphores.model.lanes import PLAIN, Lane
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.model.priorities import Priority
from signalbox.semaphores.model.semaphore import Semaphore, path_of
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import KEYS_REWEIGHED, LANES_SHARED, REACHED, SHARES_GRANTED
from tests.simulation.versions import versions_of
from tests.simulation.world import Violation, World

SHARES_SHARE = 0.1
REWEIGHED_SHARE = 0.3
NAME = "shared"
LEASE_SECONDS = 600.0
CLIENTS = (2, 3, 4, 12)
WAITS_MAX = 20
PAUSES = (0.0, 0.0, 0.2, 0.6)
STAGGER_SECONDS = 0.05

KEYS = ("", "a", "b", "c", "d")
PRIORITIES: tuple[Priority, ...] = ("normal", "normal", "high", "low")
WEIGHTS = {"b": 3}
LIMITS_OF_LANES = {"lanes_max": 3, "lanes_shared_max": 1, "lanes_read_max": 2, "lane_heads_max": 6}


def is_queued(data: Mapping[str, object] | None) -> bool:
    """Return whether a waiter's record is in the queue of a lane."""
    return bool(data) and ("since" in data or "places" in data)  # type: ignore[operator]  # it has data


def lane_of_record(data: Mapping[str, object]) -> str:
    """Return the lane of a waiter's record that is in a queue."""
    return str(data.get("lane", PLAIN))


class ShareWatch:
    """The waiters in each lane, and what others were granted since a lane waits or was served last."""

    def __init__(self, answered: Mapping[str, int]) -> None:
        self._answered = answered
        self._queued: dict[str, tuple[str, int]] = {}
        self._lanes: dict[str, str] = {}
        self._waits_since: dict[str, int] = {}
        self._others: dict[str, Counter[str]] = {}
        self._own_last: Counter[str] = Counter()
        self._joining_max = 0

    def waiter_written(self, after: Snapshot) -> None:
        """Note a waiter that joins or leaves a lane."""
        self._look()
        if after.data is None or not is_queued(after.data):
            self._queued.pop(after.id, None)
            return
        lane = self._lanes[after.id] = lane_of_record(after.data)
        REACHED[LANES_SHARED] += "#" in lane
        if after.id not in self._queued:
            self._queued[after.id] = (lane, times.microseconds(after.update_time or after.read_time))

    def semaphore_deleted(self) -> None:
        """Forget everything: the waits end with their semaphore."""
        for kept in (self._queued, self._waits_since, self._others, self._own_last):
            kept.clear()

    def check(self, new: Semaphore, granted: Iterable[tuple[str, int]], before: datetime | None) -> None:
        """Check the grants of a commit that rests on the record of the time `before`: waits and their permits."""
        self._look()
        for id_, permits in granted:
            lane = self._lanes[id_]
            for other in self._waits_since:
                if other != lane and before and times.microseconds(before) >= self._waits_since[other]:
                    self._count(new, lane, permits, other)
            self._own_last[lane] = permits
            self._others.pop(lane, None)
        most = LIMITS.lanes_max + 3 * (LIMITS.lanes_shared_max + len(new.settings.weights)) + self._joining_max
        if len(new.lanes) > most:
            raise Violation(f"the record has {len(new.lanes)} lanes, and room for {most}")

    def _count(self, semaphore: Semaphore, lane: str, permits: int, waiting: str) -> None:
        others = self._others.setdefault(waiting, Counter())
        weight, own = weight_of(semaphore, Lane(lane)), weight_of(semaphore, Lane(waiting))
        allowed = self._own_last[waiting] * weight // own
        REACHED[SHARES_GRANTED] += 1
        if others[lane] > allowed:
            raise Violation(
                f"lane {lane!r} of weight {weight} was granted {others[lane]} permits, and {permits} more, while "
                f"{waiting!r} of weight {own} waited"
            )
        others[lane] += permits

    def _look(self) -> None:
        """Note the lanes that wait now, and since when."""
        since: dict[str, int] = {}
        for id_, (lane, queued_at) in self._queued.items():
            if (answered := self._answered.get(id_, 10**18)) < 10**18:
                since[lane] = min(since.get(lane, 10**18), max(answered, queued_at))
        joining = self._queued.keys() - self._answered.keys()  # each may list a lane without seeing those of the others
        self._joining_max = max(self._joining_max, len(joining))
        for lane in self._waits_since.keys() - since.keys():
            self._others.pop(lane, None)
        self._waits_since = {lane: self._waits_since.get(lane, at) for lane, at in since.items()}


def granted_from_queue(old: Semaphore, new: Semaphore, left: Callable[[str], bool]) -> list[tuple[str, int]]:
    """Return the waits of the new leases, and their permits, that were in the queue before this commit."""
    held = {(lease.id, lease.grant) for lease in old.leases}
    return [(one.id, one.permits) for one in new.leases if (one.id, one.grant) not in held and left(one.id)]


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it is idle. Raises `Violation` if a lane gets more than its share."""
    SharesWorld(seed, trace).run()


def drawn(seed: int) -> bool:
    """Return whether a seed of the semaphores' world also runs this world. The last release refuses lanes."""
    return versions_of(seed) is None and Random(f"shares {seed}").random() < SHARES_SHARE


class SharesWorld:
    """A semaphore and clients of several lanes. Some always have a wait in the queue, others pause between waits."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(left=0), trace)
        random = self.world.random
        self.world.step_microseconds_max = 3_000
        self.world.task_handlers["semaphore_admit"] = lambda ports, effect: tasks.TASKS[effect.task](
            ports, effect.payload
        )
        self.world.task_handlers["user"] = self._continue
        self.world.task_handlers["client"] = self._come
        self.world.observers.append(self._observed)
        self.permits = random.choice((1, 1, 2))
        lanes: list[tuple[str, Priority]] = [(key, priority) for key in KEYS for priority in ("normal", "high", "low")]
        self.clients = random.sample(lanes, random.choice(CLIENTS))
        self.several = {client: random.randint(1, self.permits) for client in range(len(self.clients))}
        self.pauses = {client: random.choice(PAUSES) for client in range(len(self.clients))}
        self.weights = WEIGHTS if random.random() < 0.5 else {}
        weighing = Random(f"weights {seed}")
        self.reweighed = weighing.random() < REWEIGHED_SHARE
        self.weighed_at_seconds = weighing.uniform(0.1, 2)
        self.later_weights = {key: weighing.choice((2, 3, 50)) for key in weighing.sample(KEYS[1:], 2)}
        self.waits = 0
        self.requested: dict[str, int] = {}
        self.queued: set[str] = set()
        self.answered: dict[str, int] = {}
        self.left_at: dict[str, datetime] = {}
        self.done: set[str] = set()
        self.watch = ShareWatch(self.answered)

    def run(self) -> None:
        """Let the clients wait, release and come back; then nothing waits any more."""
        rounds = self.world.random.choice((0, 2))
        with replaced(grants_page_max=2, known_head_max=3, guarded_attempts_max=rounds, **LIMITS_OF_LANES):
            wanted = SemaphoreSettings(self.permits, LEASE_SECONDS, weights=self.weights)
            settings.put(self.world.reliable_ports(), NAME, wanted)
            for number, client in enumerate((*self.pauses, *self.pauses)):
                self._start_later(client, number * STAGGER_SECONDS, f"start {number}")
            if self.reweighed:
                at = self.world.now() + timedelta(seconds=self.weighed_at_seconds)
                self.world.tasks.append(Effect("weigh", "q", "client", "weigh", {}, not_before=at))
            self.world.run([])
        [record] = self.world.store.read(path_of(NAME))
        semaphore = Semaphore.from_record(record.data or {})
        if len(self.done) < self.waits or semaphore.mode != "open" or semaphore.lanes:
            raise Violation(f"{self.waits - len(self.done)} of {self.waits} waits are left; {semaphore}")

    def _start(self, client: int) -> None:
        if self.waits == WAITS_MAX:
            return
        self.waits += 1
        id_ = f"w{self.waits} of {client}"
        key, priority = self.clients[client]
        call = Call("user", "continue", {"id": id_, "client": client})
        request = WaitRequest(id_, call, permits=self.several[client], key=key, priority=priority)

        def work() -> None:
            self.requested.setdefault(id_, times.microseconds(self.world.now()))
            if waits.wait(self.world.ports, NAME, request).waiting:
                self.answered[id_] = times.microseconds(self.world.now())

        self.world.start(id_, work)

    def _start_later(self, client: int, seconds: float, name: str) -> None:
        at = self.world.now() + timedelta(seconds=seconds)
        self.world.tasks.append(Effect(name, "q", "client", "come", {"client": client}, not_before=at))

    def _come(self, ports: Ports, effect: Effect) -> None:
        if effect.task == "weigh":
            settings.put(ports, NAME, SemaphoreSettings(self.permits, LEASE_SECONDS, weights=self.later_weights))
            return
        self._start(effect.payload["client"])

    def _continue(self, ports: Ports, effect: Effect) -> None:
        """Hold the permit for a moment; wait again before or after it is released."""
        lease = leases.claim(ports, Granted.from_context(effect.context["lease"]))
        if lease is None:
            return
        self.done.add(effect.payload["id"])
        client = effect.payload["client"]
        pause = self.pauses[client]
        if pause == 0:
            self._start(client)
        ports.clock.sleep(0.1)
        leases.release(ports, lease)
        if pause:
            self._start_later(client, pause, f"again {effect.payload['id']}")

    def _observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path.startswith(f"{path_of(NAME)}/waiters/"):
            if is_queued(before.data) and not is_queued(after.data):
                self.left_at[after.id] = after.read_time
            (self.queued.add if is_queued(after.data) else self.queued.discard)(after.id)
            self.watch.waiter_written(after)
        elif path == path_of(NAME) and before.data and after.data:
            at = after.update_time or after.read_time
            old, new = Semaphore.from_record(before.data), Semaphore.from_record(after.data)
            granted = granted_from_queue(old, new, lambda id_: self.left_at.get(id_) == at)
            REACHED[KEYS_REWEIGHED] += any(lane.keys for lane in new.lanes)
            self._check_order({lease.id for lease in new.leases} - {lease.id for lease in old.leases})
            if not self.reweighed:
                self.watch.check(new, granted, before.update_time)

    def _check_order(self, granted: set[str]) -> None:
        """Check that no wait was granted before an earlier one of its key and priority."""
        for id_ in granted:
            for other in self.queued - granted:
                is_of_key = other.rpartition(" ")[2] == id_.rpartition(" ")[2]
                if is_of_key and self.answered.get(other, 10**18) < self.requested[id_]:
                    raise Violation(f"{id_} was granted before {other}, which waited when it was requested")
