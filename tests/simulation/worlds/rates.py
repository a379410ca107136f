"""A rate whose waits and acquires overlap, whose limits change, and which is deleted and created again.

Checked at each grant, by the server's time: in no window more than the burst and what has come back in it; each wait is
granted once, by the rate that it waits for, and overtakes no wait that was answered before it began; no acquire is
granted while waits are known to be left, or before its time; nothing is granted while the rate is paused. Checked at
each answer: the repeat of a wait that was granted or cancelled is not refused, also after its rate was deleted. Checked
at each commit: what is owed is at most what the burst, one wait and the grants ahead can owe, and after a change of the
limits at most the new burst. In some worlds the burst is lowered while all of it is in use. Checked at rest: each
wait that was answered has run, unless it was cancelled or its rate was deleted, and a cancelled one has not. In calm
worlds, the rate is reached, also by a light wait behind a heavy one that is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.kit_names import ADMIT_QUEUE
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Delete, Ports, Query, Snapshot, Store
from signalbox.core.problems import NotFound
from signalbox.core.times import microseconds
from signalbox.rates import machine, service, sweep, tasks
from signalbox.rates.limits import LIMITS
from signalbox.rates.model import COLLECTION, Rate, RateSettings, RateWait, path_of, waits_of
from signalbox.rates.problems import BadRate, NoRate
from signalbox.rates.requests import AcquireRequest, RateWaitRequest
from signalbox.rates.storage import incarnation_of, wait_of
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import BURST_LOWERED, REACHED, TASKS_PURGED
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max
from tests.simulation.worlds.purged_deletions import delete_and_purge, is_deleted

NAME = "r"
DELETE_RATE, PURGE_RATE, WEIGHTY_RATE, CALM_RATE, PAUSE_RATE = 0.25, 0.25, 0.25, 0.1, 0.4
LOWERED_SHARE, BEHIND_SHARE, FAR_SHARE = 0.2, 0.5, 0.3
AHEAD_SECONDS = LIMITS.grants_ahead_seconds
CALM_SECONDS = 0.35
"""How much longer than the rate says the grants of a calm world may take."""

FAST, SLOW = RateSettings(6_000, 1), RateSettings(1 / 60, 2)
SETTINGS = (RateSettings(60, 1), RateSettings(60, 2), RateSettings(70, 3), RateSettings(20, 3), FAST, SLOW)


@dataclass(slots=True)
class Seen:
    """What was observed: calls and answers of waits, grants under the present limits, tasks that ran."""

    called_at: dict[str, datetime] = field(default_factory=dict)
    answered_at: dict[str, datetime] = field(default_factory=dict)
    grants: list[tuple[datetime, int]] = field(default_factory=list)
    granted: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    acquired: set[str] = field(default_factory=set)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it is idle. Raises `Violation` when a property does not hold."""
    RatesWorld(seed, trace).run()


class RatesWorld:
    """One rate, its callers, and the task that waits."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(abort=0.04, lose_answer=0.06, kill=0.05, duplicate=0.15, left=6), trace)
        random = self.world.random
        self.calm = random.random() < CALM_RATE
        self.settings = FAST if self.calm else random.choice(SETTINGS)
        self.world.handlers["semaphore_admit"] = self._admit
        self.world.task_handlers["job"] = self._job
        self.world.task_handlers["client"] = self._client
        self.world.queue.on_reuse = self._check_reuse
        self.world.queue.ahead_seconds = random.choice((0.0, 0.0, 3.0))
        self.world.observers.append(self._observe)
        if self.calm:
            self.world.fault_rates.left, self.world.queue.ahead_seconds = 0, 0.0
        else:
            self.world.time_jumps, self.world.time_jumps_left = (0.2, 0.7, 5.0), 4
        self.seen = Seen()
        self.number = 0
        self.purges = not self.calm and random.random() < PURGE_RATE
        self.purged = False
        self.seed = seed
        self.lowers = not self.calm and Random(f"lowered {seed}").random() < LOWERED_SHARE
        self.is_behind = self.calm and Random(f"behind {seed}").random() < BEHIND_SHARE
        self.behind_at = datetime.max.replace(tzinfo=UTC)
        self.is_far = self.calm and not self.is_behind and Random(f"far {seed}").random() < FAR_SHARE

    def run(self) -> None:
        random = self.world.random
        service.put(self.world.reliable_ports(), NAME, self.settings)
        if self.is_far:
            self._run_before_a_far_alarm()
        elif self.is_behind:
            self._run_behind_a_heavy_wait()
        elif self.calm:
            self.world.run([self._wait] * 6)
        else:
            kinds = [*[self._wait] * 3, *[self._acquire] * 2, self._cancel, self._change, *[self._pass_time] * 2]
            if self.lowers:
                self._run_lowered()
            kinds += [self._pause, self._resume] if random.random() < PAUSE_RATE else []
            for _ in range(2):
                kinds += [self._delete] if random.random() < DELETE_RATE else []
                self.world.run(self._beginnings(kinds))
                self.world.pass_an_outage()
        self.world.fault_rates.left = 0
        self.world.run([self._resume])
        self._settle()
        self._check_rest()
        if is_deleted(self.world, self.seed):
            self._leave_waits()
            waits = [waits_of(NAME)]
            delete_and_purge(self.world, self.seed, lambda ports: service.delete(ports, NAME), waits, ADMIT_QUEUE)

    def _leave_waits(self) -> None:
        """Let two waits wait in a pause, and forget the receipts of all others, whose records expire by themselves."""
        self.world.run([self._pause])
        self.world.run([self._wait] * 2)
        for one in self.world.store.query(Query(waits_of(NAME), limit=1_000)):
            if one.data and one.data["state"] != "waiting":
                self.world.store.commit([Delete(one.path)])

    def _run_lowered(self) -> None:
        """Use all permits of a burst of 3, and lower the burst to 1."""
        self.world.run([lambda: self._put(RateSettings(20, 3))])
        self.world.run([self._acquire] * 3)
        self.world.run([lambda: self._put(RateSettings(20, 1))])

    def _run_behind_a_heavy_wait(self) -> None:
        """Cancel a wait for a whole burst; the light wait behind it is granted when its one permit is there."""
        self.world.run([lambda: self._put(RateSettings(20, 3))])
        self.world.run([self._acquire] * 3)
        now = self.world.now()
        self.behind_at = now + timedelta(seconds=60 / 20 + 1.5)
        for seconds, call in enumerate(("wait behind-3", "wait behind-1", "cancel behind-3")):
            at = now + timedelta(seconds=0.7 * seconds)
            self.world.tasks.append(Effect(call, "q", "client", "call", {"call": call}, not_before=at))

    def _run_before_a_far_alarm(self) -> None:
        """Set an alarm for a heavy wait, hours ahead, and cancel the wait, or make the rate faster.

        The admit run that follows is purged. The wait behind is granted when the sweeper has come an hour later.
        """
        ports, faster = self.world.reliable_ports(), self.world.random.random() < 0.5
        self.world.run([lambda: self._put(replace(SLOW, burst=10))])
        service.acquire(ports, NAME, AcquireRequest(9, "a"))
        for id_ in ("far-9", "far-1"):
            self.seen.called_at[id_] = self.world.now()
            service.wait(ports, NAME, RateWaitRequest(id_, Call("job", "job", {"id": id_}), int(id_[-1])))
            self.seen.answered_at[id_] = self.world.now()
        self.world.pass_time(AHEAD_SECONDS)
        service.admit(ports, NAME)
        if faster:
            service.put(ports, NAME, FAST)
        else:
            service.cancel(ports, NAME, "far-9")
        self.world.queue.purge(lambda effect: effect.not_before is None or effect.not_before < self._in_an_hour())
        self.world.pass_time(LIMITS.rate_checked_seconds)
        sweep.sweep(ports)
        if "far-1" not in self.seen.granted:
            raise Violation("far-1 sleeps until a far alarm, and its permit is there")

    def _in_an_hour(self) -> datetime:
        return self.world.now() + timedelta(hours=1)

    def _client(self, ports: Ports, effect: Effect) -> None:
        what, id_ = effect.payload["call"].split()
        if what == "cancel":
            service.cancel(ports, NAME, id_)
            return
        self.seen.called_at[id_] = self.world.now()
        service.wait(ports, NAME, RateWaitRequest(id_, Call("job", "job", {"id": id_}), int(id_[-1])))
        self.seen.answered_at[id_] = self.world.now()

    def _beginnings(self, kinds: list[Callable[[], None]]) -> list[Callable[[], None]]:
        random = self.world.random
        return [random.choice(kinds) for _ in range(random.randint(2, operations_max(8)))]

    def _pass_time(self) -> None:
        """Let the time pass between two callers, so that admit runs come between them."""
        self.world.pass_time(self.world.random.choice((0.3, 0.6, 2.0)))

    def _settle(self) -> None:
        """Hand the tasks over that crashed processes have left; then let the sweeper find what was lost."""
        self._sweep(outbox.sweep)
        if not self.purged:
            self._check_none_sleeps()
        self.purges = False
        if self.purged:
            self.world.pass_time(LIMITS.rate_checked_seconds)
        for _ in range(2):  # the first one may be too early
            self._sweep(sweep.sweep)

    def _sweep(self, part: Callable[[Ports], int]) -> None:
        self.world.processes.current = "scheduler"
        self.world.pass_time(CORE_LIMITS.outbox_patience_seconds + 1)
        self.world.start("sweep", lambda: self._swept(part))
        self.world.run()

    def _swept(self, part: Callable[[Ports], int]) -> None:
        part(self.world.ports)

    # --- callers ---

    def _repeated(self, what: str, act: Callable[[], None]) -> None:
        """Start an operation; repeat it until it is answered."""

        def ended(done: bool) -> None:
            if not done:
                self._repeated(what, act)

        self.world.start(what, act, ended)

    def _wait(self) -> None:
        random = self.world.random
        self.number += 1
        id_ = f"w{random.randrange(100, 1000)}-{self.number}"
        weight = random.choice((2, 3)) if random.random() < WEIGHTY_RATE and not self.calm else 1
        request = RateWaitRequest(id_, Call("job", "job", {"id": id_}), weight)
        self.seen.called_at[id_] = self.world.now()

        def act() -> None:
            try:
                service.wait(self.world.ports, NAME, request)
                self.seen.answered_at[id_] = self.world.now()
            except (NoRate, BadRate) as problem:
                if id_ in self.seen.granted | self.seen.cancelled:
                    raise Violation(f"{id_} has a receipt, and its repeat is refused: {problem}") from problem
                self.seen.ended.add(id_)

        self._repeated(f"wait {id_}", act)

    def _acquire(self) -> None:
        self.number += 1
        request = AcquireRequest(1, f"a{self.number}")

        def act() -> None:
            try:
                service.acquire(self.world.ports, NAME, request)
            except NoRate:
                return

        self._repeated(f"acquire {request.id}", act)

    def _cancel(self) -> None:
        if not self.seen.called_at:
            return
        id_ = self.world.random.choice(sorted(self.seen.called_at))

        def act() -> None:
            try:
                service.cancel(self.world.ports, NAME, id_)
            except NotFound:
                return

        self._repeated(f"cancel {id_}", act)

    def _change(self) -> None:
        self._put(self.world.random.choice(SETTINGS))

    def _put(self, settings: RateSettings) -> None:
        def act() -> None:
            service.put(self.world.ports, NAME, settings)

        self._repeated(f"limits {settings}", act)

    def _pause(self) -> None:
        def act() -> None:
            with suppress(NoRate):
                service.pause(self.world.ports, NAME)

        self._repeated("pause", act)

    def _resume(self) -> None:
        def act() -> None:
            with suppress(NoRate):
                service.resume(self.world.ports, NAME)

        self._repeated("resume", act)

    def _delete(self) -> None:
        def act() -> None:
            with suppress(NoRate):
                service.delete(self.world.ports, NAME)
            service.put(self.world.ports, NAME, self.settings)

        self._repeated("delete", act)

    # --- tasks ---

    def _admit(self, ports: Ports, payload: dict[str, Any]) -> None:
        if self.purges and self.world.random.random() < PURGE_RATE:
            self.purged = True
            REACHED[TASKS_PURGED] += 1
            return
        try:
            tasks.TASKS["rate_admit"](ports, payload)
        except AssertionError as error:
            raise Violation(f"an admit run decides a state that must not be: {error}") from error

    def _job(self, _: Ports, effect: Effect) -> None:
        self.seen.ran.add(effect.payload["id"])

    # --- what must hold ---

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "job":
            allow_from_an_old_outbox_record(self.world, effect)

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path == path_of(NAME):
            self._observe_rate(before, after)
        elif path.startswith(waits_of(NAME)):
            self._observe_wait(before, after)

    def _observe_rate(self, before: Snapshot, after: Snapshot) -> None:
        if before.data is None or after.data is None:
            self.seen.grants.clear()
            self.seen.acquired.clear()
            return
        old, new = Rate.from_record(before.data), Rate.from_record(after.data)
        if old.paused_at and (new.recent != old.recent or new.full_at > old.full_at) and _limits(old) == _limits(new):
            raise Violation("permits were granted in a pause")
        if _limits(old) != _limits(new):
            self.seen.grants.clear()
            self._observe_change(old, new)
        for receipt in new.recent:
            if receipt not in old.recent:
                self._observe_acquire(old, new, receipt.id, receipt.at)
        owed = (new.full_at - microseconds(self.world.now())) / 1e6 - AHEAD_SECONDS
        most = (new.settings.burst + 3) * machine.interval(new) / 1e6
        if owed > most + 1e-6:
            raise Violation(f"{owed:.3f} s are owed, and at most {most:.3f} s can be")

    def _observe_change(self, old: Rate, new: Rate) -> None:
        now = microseconds(self.world.now())
        REACHED[BURST_LOWERED] += old.full_at - now > new.settings.burst * machine.interval(old)
        if new.full_at - now > new.settings.burst * machine.interval(new):
            raise Violation(f"after a change, {(new.full_at - now) / 1e6} s are owed, more than the burst")

    def _observe_acquire(self, old: Rate, new: Rate, id_: str, at: datetime) -> None:
        if id_ in self.seen.acquired:
            raise Violation(f"the acquire {id_} took two permits")
        if at > self.world.now():
            raise Violation(f"the acquire {id_} was granted before its time")
        if old.alarm_at is not None:
            raise Violation(f"the acquire {id_} was granted before waits that are left")
        self.seen.acquired.add(id_)
        self._note_grant(new, at, 1)

    def _observe_wait(self, before: Snapshot, after: Snapshot) -> None:
        old, new = wait_of(before), wait_of(after)
        if new is None:
            if old is not None and old.state == "waiting":
                self.seen.ended.add(old.id)
            return
        if new.state == "cancelled":
            self.seen.cancelled.add(new.id)
        if new.state != "granted" or (old and old.state == "granted"):
            return
        rate = check_granting(self.world.store, new)
        if new.id in self.seen.granted:
            raise Violation(f"{new.id} was granted twice")
        assert new.granted_at is not None
        self.seen.granted.add(new.id)
        self._check_order(new)
        if new.id == "behind-1" and new.granted_at > self.behind_at:
            raise Violation(f"{new.id} was granted at {new.granted_at}, and its permit was there before")
        self._note_grant(rate, new.granted_at, new.weight)

    def _check_order(self, granted: RateWait) -> None:
        for snapshot in self.world.store.query(Query(waits_of(NAME))):
            other = wait_of(snapshot)
            if other and other.state == "waiting" and other.incarnation == granted.incarnation:
                answered_at = self.seen.answered_at.get(other.id)
                if answered_at and answered_at < self.seen.called_at[granted.id]:
                    raise Violation(f"{granted.id} overtook {other.id}")

    def _note_grant(self, rate: Rate, at: datetime, weight: int) -> None:
        grants = self.seen.grants
        grants.append((at, weight))
        for begin, _ in grants:
            for end, _ in grants:
                within = [each for time, each in grants if begin <= time <= end]
                most = max(rate.settings.burst, *within) if within else 0
                back = (end - begin) / timedelta(seconds=1) * rate.settings.per_minute / 60
                if within and sum(within) > most + back + 1e-6:
                    raise Violation(f"{sum(within)} permits from {begin} to {end}: more than {most} + {back:.3f}")

    def _left(self) -> list[str]:
        """Return the waits that were answered, and neither granted, nor cancelled, nor ended with their rate."""
        over = self.seen.granted | self.seen.cancelled | self.seen.ended
        return sorted(self.seen.answered_at.keys() - over)

    def _check_none_sleeps(self) -> None:
        if left := self._left():
            raise Violation(f"{left} sleep, and no task will wake them")

    def _check_rest(self) -> None:
        self._check_none_sleeps()
        if lost := sorted(self.seen.granted - self.seen.ran):
            raise Violation(f"{lost} were granted, and never ran")
        if wrong := sorted(self.seen.cancelled & self.seen.ran):
            raise Violation(f"{wrong} were cancelled, and ran")
        if self.calm and not (self.is_behind or self.is_far):
            self._check_speed()
        stale = [each.path for each in self.world.store.query(Query(COLLECTION)) if "alarm_at" in (each.data or {})]
        if stale:
            raise Violation(f"{stale} have an alarm, and no wait is left")

    def _check_speed(self) -> None:
        times = [at for at, _ in self.seen.grants]
        seconds = (max(times) - min(times)) / timedelta(seconds=1)
        if seconds > len(times) * 60 / FAST.per_minute + CALM_SECONDS:
            raise Violation(f"{len(times)} waits were granted in {seconds:.3f} s")


def check_granting(store: Store, wait: RateWait) -> Rate:
    """Return the rate that grants a wait. Raises `Violation` if it is paused, or the wait was made for another."""
    [read] = store.read(path_of(NAME))
    if read.data is None or wait.incarnation != incarnation_of(read):
        raise Violation(f"{wait.id} was granted by a rate that it does not wait for")
    rate = Rate.from_record(read.data)
    if rate.paused_at:
        raise Violation(f"{wait.id} was granted in a pause")
    return rate


def _limits(rate: Rate) -> RateSettings:
    return rate.settings
