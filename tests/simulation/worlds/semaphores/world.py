"""Waits, signals, renewals and cancels in one simulated world, and the properties that must hold.

A world has one semaphore, a few waits with and without a continuation, callers that retry calls without an answer, and
holders that crash. In some worlds the queues are purged once. In some worlds the semaphore is paused and resumed. In
some worlds more other semaphores are due at every sweep than it visits. The limits are small, so pages fill, leases
expire and the combining path is taken often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from signalbox.core import outbox, times
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.kit_names import ADMIT_QUEUE
from signalbox.core.ports import Committed, Ports, Query, Snapshot, Write, unlimited
from signalbox.core.problems import NotFound, Unavailable
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.semaphores import sweep, tasks
from signalbox.semaphores.model import semaphore
from signalbox.semaphores.model.leases import Granted, Lease, LeaseRecord, parse_lease_id
from signalbox.semaphores.model.semaphore import Semaphore, release_path, waiter_path
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import NOT_ACQUIRED, WaitAnswer
from signalbox.semaphores.problems import BadSemaphore
from signalbox.semaphores.requests import RenewRequest, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.faulty_ports import SimulatedStore
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max
from tests.simulation.worlds.purged_deletions import delete_and_purge, is_deleted
from tests.simulation.worlds.semaphores import lane_shares as semaphores_shares
from tests.simulation.worlds.semaphores import releases_by_grant as semaphores_granted
from tests.simulation.worlds.semaphores import waiting_acquires as semaphores_acquires
from tests.simulation.worlds.semaphores import waits_that_join_alone as semaphores_joining
from tests.simulation.worlds.semaphores.idle_semaphores import crowd, refusing_alarms
from tests.simulation.worlds.semaphores.lane_shares import (
    KEYS,
    LIMITS_OF_LANES,
    PRIORITIES,
    WEIGHTS,
    ShareWatch,
    granted_from_queue,
    is_queued,
    lane_of_record,
)
from tests.simulation.worlds.semaphores.lost_tasks import ABANDONED_SHARE, IDS, abandon
from tests.simulation.worlds.semaphores.promptness import LATE_SECONDS, HeadWatch
from tests.sweeper_budgets import budget_of

NAME = "s"
RECORD = semaphore.path_of(NAME)
LEASE_SECONDS = 4.0
CLAIM_SECONDS = 3
PAGE = 2
KNOWN = 3
RETRIES_MAX = 12
WAITS_LONG = 8
WAITS_MANY = (6, 12)
SWEEPS = 6
CROWDED_RATE = 0.1
CROWDED_SWEEPS = 24
VISITS = 2
CHANGING_SHARE = 0.2
DOUBTING_SHARE = 0.2
STEADY_SHARE = 0.3
LATE_RENEWALS_SHARE = 0.1
LATE_COMMITS_SECONDS = (0.5, 2.0, 3.9, 4.5)
LATER_SECONDS = 1.0
PURGED_SHARE = 0.3
LANED_SHARE = 0.3
MANY_SHARE = 0.1
PAUSED_SHARE = 0.3
SILENT_SECONDS = (0.5, 5.0, 60.0)
"""The time after which an unclaimed grant's task counts as lost where queues are purged. The task may only be late."""
CHANGES = ((1,), (1, 1), (1, 2), (), (3,))
ARRIVALS_SECONDS = (0.0, 0.3, 0.5, 0.503, 0.506, 0.509, 0.515)


def run(
    seed: int,
    trace: Callable[[str], None] | None = None,
    *,
    racing: bool | None = None,
    changing: bool | None = None,
    recreated: bool | None = None,
    abandoned: bool | None = None,
    steady: bool | None = None,
    doubting: bool | None = None,
    laned: bool | None = None,
    many: bool = False,
) -> None:
    """Run one seed's world until it is idle. Raises `Violation` when a property does not hold.

    In a `racing` world nothing fails, and all callers compete for one permit on the combining path. In a `changing`
    world the permits are lowered and raised, and waits need one or two. In a `recreated` world the semaphore is deleted
    and created again, twice, while one wait is called three times. In an `abandoned` world weeks have passed since the
    tasks of some grants were lost. In a `steady` world nothing fails and no clock jumps. In a `doubting` world callers
    renew and signal leases that were signalled before. In a `laned` world waits have keys and priorities; with `many`
    there are more waits. With None, the seed chooses; some seeds also run a steady world of changes, one in which the
    answers of late renewals are lost, and one with lanes of many waits.
    """
    chosen = racing, changing, recreated, abandoned, steady, doubting
    try:
        SemaphoresWorld(seed, trace, *chosen, laned=laned, many=many).run()
        if [racing, changing, steady, doubting, laned] == [None] * 5:
            if Random(f"many lanes {seed}").random() < MANY_SHARE:
                SemaphoresWorld(seed, trace, racing=False, laned=True, many=True).run()
            if Random(f"steady {seed}").random() < STEADY_SHARE:
                SemaphoresWorld(seed, trace, racing=False, changing=True, steady=True).run()
            if Random(f"late renewals {seed}").random() < LATE_RENEWALS_SHARE:
                run_late_renewals(seed, trace)
        if semaphores_joining.drawn(seed):
            semaphores_joining.run(seed, trace)
        if semaphores_granted.drawn(seed):
            semaphores_granted.run(seed, trace)
        if semaphores_shares.drawn(seed):
            semaphores_shares.run(seed, trace)
        if semaphores_acquires.drawn(seed):
            semaphores_acquires.run(seed, trace)
    except Violation:
        raise
    except AssertionError as error:
        raise Violation(f"the kit's own assertion failed: {error}") from error


def run_late_renewals(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run a world in which commits of renewals come late, and their answers are lost."""
    SemaphoresWorld(seed, trace, racing=False, late_renewals=True, laned=False).run()


class LateStore(SimulatedStore):
    """A store whose first commit is made some seconds after its call, and loses its answer."""

    def __init__(self, world: World, seconds: float) -> None:
        super().__init__(world)
        self._seconds, self._is_late = seconds, True

    def commit(self, writes: Sequence[Write]) -> Committed:
        if not self._is_late:
            return super().commit(writes)
        self._is_late = False
        self._world.pass_time(self._seconds)
        super().commit(writes)
        raise Unavailable("the answer was lost")


class SemaphoresWorld:
    """One semaphore and its callers. `began` and `answered` are the microseconds of a wait's first call and answer."""

    def __init__(
        self,
        seed: int,
        trace: Callable[[str], None] | None,
        racing: bool | None = None,
        changing: bool | None = None,
        recreated: bool | None = None,
        abandoned: bool | None = None,
        steady: bool | None = None,
        doubting: bool | None = None,
        *,
        late_renewals: bool = False,
        laned: bool | None = None,
        many: bool = False,
    ) -> None:
        self.late_renewals = late_renewals
        self.seed = seed
        self.world = World(seed, trace=trace)
        random = self.world.random
        self.racing = random.random() < 0.4 if racing is None else racing
        self.calm = self.racing or random.random() < 0.3
        self.world.fault_rates = FaultRates(left=0 if self.calm else 5)
        self.world.step_microseconds_max = 3_000
        self.world.time_jumps = (0.05, 0.1, 0.2) if self.racing else (0.1, 1.0, 3.5)
        self.world.time_jumps_left = random.choice((0, 4, 10)) if self.racing else random.choice((0, 2, 6))
        if steady:
            self.calm, self.world.fault_rates.left, self.world.time_jumps_left = True, 0, 0
        self.unhurried = self.calm and (self.racing or not self.world.time_jumps_left)
        self.world.queue.ahead_seconds = 0.0 if self.racing else random.choice((0.0, 0.05, 0.3, 1.0))
        chosen = not self.racing and Random(f"changing {seed}").random() < CHANGING_SHARE
        self.changing = chosen if changing is None else changing
        self.rounds = 0 if self.racing else random.choice((0, 1, 2))
        self.permits = 1 if self.racing else random.choice((1, 1, 2))
        self.steady = self.unhurried and not self.racing
        if self.changing:
            self.permits, self.unhurried = 2, False
        self.heads = HeadWatch()
        self.of_lanes = Random(f"lanes {seed}")
        self.laned = self.of_lanes.random() < LANED_SHARE if laned is None else laned
        if self.world.versions is not None:
            self.laned = False  # the last release refuses a record with lanes for as long as it runs
        self.many = many
        lanes = [(key, priority) for key in KEYS for priority in PRIORITIES]
        self.lanes = self.of_lanes.sample(lanes, self.of_lanes.choice((2, 3, 6)))
        weights = WEIGHTS if self.laned and self.of_lanes.random() < 0.5 else {}
        self.settings = SemaphoreSettings(self.permits, LEASE_SECONDS, weights=weights)
        self.world.task_handlers["semaphore_admit"] = self._admit
        self.world.task_handlers["user"] = self._continue
        self.world.queue.on_reuse = self._check_reuse
        self.world.observers.append(self._observed)
        self.began: dict[str, int] = {}
        self.answered: dict[str, int] = {}
        self.answered_by: dict[tuple[str, int], int] = {}
        self.shares = ShareWatch(self.answered)
        self.cancelling: set[str] = set()
        self.signalled: set[str] = set()
        self.renewed_late: set[str] = set()
        self.extended_late: set[str] = set()
        self.released: set[str] = set()
        self.seen: set[tuple[str, int]] = set()
        self.ran: set[tuple[str, int]] = set()
        self.whole: set[str] = set()
        self.over: dict[str, int] = {}
        self.timed: set[str] = set()
        self.started: set[str] = set()
        self.token_max = 0
        self.cancelled: set[str] = set()
        self.ends: dict[tuple[str, int], datetime] = {}
        self.gone: set[tuple[str, int]] = set()
        self.left: dict[tuple[str, int], datetime] = {}
        self.left_releases: dict[str, datetime] = {}
        self.grants: dict[str, int] = {}
        drawn_recreated = random.random() < 0.15 and not self.racing
        self.recreated = drawn_recreated if recreated is None else recreated
        self.doubled = bool(recreated)
        if self.doubled:
            self.rounds, self.world.time_jumps_left = 0, 0
        self.incarnation = 0
        self.incarnation_of: dict[str, int] = {}
        self.queued_at: dict[str, datetime] = {}
        self.forgetting: set[str] = set()
        self.left_queue: dict[str, datetime] = {}
        self.left_lane: dict[str, str] = {}
        lost_tasks = not self.racing and Random(f"abandoned {seed}").random() < ABANDONED_SHARE
        self.abandoned = lost_tasks if abandoned is None else abandoned
        self.crowded = not self.calm and Random(f"crowd {seed}").random() < CROWDED_RATE
        drawn_doubting = Random(f"doubting {seed}").random() < DOUBTING_SHARE
        self.doubting = late_renewals or (drawn_doubting if doubting is None else doubting)
        self.own = Random(f"purge {seed}")
        plain = not (self.racing or self.abandoned or self.doubled or steady or late_renewals)
        self.purging = plain and self.own.random() < PURGED_SHARE
        self.silence: dict[str, float] = {"expired_leases_max": 1}
        if self.abandoned:
            self.silence["silent_grants_max"] = 0  # more of them are lost than visits of the sweeper return
        if self.purging or late_renewals:
            self.calm = self.unhurried = self.steady = False
        if self.purging:
            self.silence = {"expired_leases_max": 20, "grant_silent_seconds": self.own.choice(SILENT_SECONDS)}
        paused = Random(f"paused {seed}")
        self.pausing = not (self.calm or self.doubled or late_renewals) and paused.random() < PAUSED_SHARE
        self.released_by: dict[str, str] = {}
        self.operated: set[str] = set()

    def run(self) -> None:
        random = self.world.random
        with replaced(
            claim_seconds=CLAIM_SECONDS,
            grants_page_max=PAGE,
            releases_page_max=PAGE,
            guarded_attempts_max=self.rounds,
            known_head_max=KNOWN,
            **self.silence,
            **LIMITS_OF_LANES,
        ):
            settings.put(self.world.reliable_ports(), NAME, self.settings)
            if self.crowded:
                crowd(self.world)
                self.world.queue.refuses = refusing_alarms(Random(f"refusals {self.seed}"))
            if self.abandoned:
                self._abandon()
            acts: list[Callable[[], None]] = []
            waits_max = 3 if self.racing else operations_max(5, WAITS_LONG)
            waits = 1 if self.doubled else random.randint(2, waits_max)
            for index in range(self.of_lanes.randint(*WAITS_MANY) if self.many else waits):
                calls = 3 if self.doubled else 1 if self.racing else random.choice((1, 1, 2))
                acts += [self._waiting(f"w{index}")] * calls
                if random.random() < (0.4 if self.changing else 0.15) and not self.racing:
                    acts.append(self._cancelling(f"w{index}"))
            acquires = random.randint(1, 4) if self.racing else random.choice((0, 1, 2))
            acts += [self._acquiring(f"i{index}") for index in range(acquires)]
            if self.recreated:
                acts += [self._recreate] * (2 if self.doubled else 1)
            if self.changing:
                acts += [self._changing(permits) for permits in random.choice(CHANGES)]
            if self.pausing:
                acts += [self._pause, self._resume] * random.randint(1, 2)
            random.shuffle(acts)
            if self.purging:
                acts.insert(self.own.randint(1, len(acts)), self._purge)
            self.world.run([] if self.racing and self._put_off(acts) else acts)
            if self.calm:
                self._check_prompt()
            if self.pausing:
                self.world.run([self._resume])
            self._let_the_sweeper_finish()
            self._check_rest()
            if is_deleted(self.world, self.seed):
                below = [f"{RECORD}/{collection}" for collection in sweep.BELOW]
                delete_and_purge(self.world, self.seed, lambda ports: sweep.delete(ports, NAME), below, ADMIT_QUEUE)

    def _abandon(self) -> None:
        self.began |= dict.fromkeys(IDS, self._microsecond())
        self.whole |= set(IDS)
        abandon(self.world, NAME, self._sweep, Random(f"weeks {self.seed}"))

    def _purge(self) -> None:
        """Lose the tasks that wait, as if the queues were purged: admit runs, and those of grants without a claim.

        Others are kept: a task that has claimed its lease, and one of a deadline, is in its queue alone.
        """
        [read] = self.world.store.read(RECORD)
        leases = Semaphore.from_record(read.data).leases if read.data else ()
        lost = {(lease.id, lease.grant) for lease in leases if lease.continued and not lease.claimed}

        def is_lost(effect: Effect) -> bool:
            granted = effect.context.get("lease")
            return effect.task == "admit" or (granted is not None and parse_lease_id(granted["id"]) in lost)

        self.world.queue.purge(is_lost)

    def _put_off(self, acts: list[Callable[[], None]]) -> bool:
        """Schedule callers while admit runs are due, not only before."""
        self.world.task_handlers["caller"] = lambda _, effect: acts[effect.payload["act"]]()
        for index in range(len(acts)):
            at = self.world.now() + timedelta(seconds=self.world.random.choice(ARRIVALS_SECONDS))
            self.world.tasks.append(Effect(f"caller {index}", "q", "caller", "come", {"act": index}, not_before=at))
        return True

    # --- the callers ---

    def _persistently(self, name: str, work: Callable[[], None], left: int = RETRIES_MAX) -> None:
        """Retry until it is answered, as a queue would."""

        def ended(done: bool) -> None:
            if not done and left:
                self._persistently(name, work, left - 1)

        self.world.start(name, work, ended)

    def _waiting(self, id_: str) -> Callable[[], None]:
        deadline = 5.0 if self.world.random.random() < 0.1 else None
        if self.changing:
            deadline = self.world.random.choice((None, None, deadline, LATER_SECONDS))
        call = Call("user", "continue", {"id": id_})
        seconds = self.world.random.choice((None, None, 1.0))
        if self.world.random.random() < (0.05 if self.racing else 0.2):
            self.forgetting.add(id_)
        late = Call("user", "timeout", {"id": id_})
        key, priority = self.of_lanes.choice(self.lanes) if self.laned else (KEYS[0], PRIORITIES[0])
        request = WaitRequest(
            id_,
            call,
            lease_seconds=seconds,
            permits=self.world.random.choice((1, 2)) if self.changing else 1,
            deadline_seconds=deadline,
            on_timeout=late,
            key=key,
            priority=priority,
        )

        def work() -> None:
            began = self._microsecond()
            self.began.setdefault(id_, began)
            try:
                answer = self._wait(request)
            except BadSemaphore:  # the permits were lowered before it came
                answer = NOT_ACQUIRED
            if answer.waiting:
                self.answered.setdefault(id_, self._microsecond())
                self._note_answer(id_, began)
            else:
                self.answered.setdefault(id_, 10**18)

        return lambda: self._persistently(f"wait {id_}", work)

    def _note_answer(self, id_: str, began: int) -> None:
        """Note that a wait was answered "waiting" by the semaphore of now, if the call began after it was created."""
        incarnation, found = self._incarnation(), self.world.store.read(waiter_path(NAME, id_))[0].data
        if found and found["incarnation"] == incarnation and incarnation <= began:
            self.answered_by.setdefault((id_, incarnation), self._microsecond())

    def _answered_at(self, id_: str) -> int:
        """Return the microsecond at which a wait was answered "waiting": of several semaphores, by that of now."""
        if self.recreated:
            return self.answered_by.get((id_, self._incarnation()), 10**18)
        return self.answered.get(id_, 10**18)

    def _incarnation(self) -> int:
        """Return the create time of the semaphore in microseconds; 0 if it is deleted."""
        [read] = self.world.store.read(RECORD)
        return times.microseconds(read.create_time) if read.create_time else 0

    def _cancelling(self, id_: str) -> Callable[[], None]:
        def work() -> None:
            self.cancelling.add(id_)
            with suppress(NotFound):
                if waits.cancel(self.world.ports, NAME, id_):
                    self.cancelled.add(id_)
                self._check_nudged(id_)

        return self._later(lambda: self._persistently(f"cancel {id_}", work))

    def _later(self, act: Callable[[], None]) -> Callable[[], None]:
        """Return an act of a world of changes that comes, perhaps, when those before it have had their effects."""
        if not self.changing or self.world.random.random() < 0.5:
            return act
        name = f"later {self.world.random.random()}"
        self.world.task_handlers[name] = lambda *_: act()
        at = self.world.now() + timedelta(seconds=LATER_SECONDS)
        return lambda: self.world.tasks.append(Effect(name, "q", name, "act", {}, not_before=at))

    def _acquiring(self, id_: str) -> Callable[[], None]:
        """Acquire a permit at once or not at all; hold it, perhaps renew it; signal, or vanish."""
        random = self.world.random
        renewing, vanishing = random.random() < 0.5, random.random() < 0.3
        request = WaitRequest(id_, lease_seconds=random.choice((None, 1.0)))

        def work() -> None:
            self.began.setdefault(id_, self._microsecond())
            answer = self._wait(request)
            if answer.lease is None or vanishing:
                return
            lease = answer.lease.id
            self._hold()
            if renewing:
                self._renew(lease)
            if self.doubting:
                self.operated.add(lease)
                self.world.start(f"operator {lease}", lambda: self._signal_again(lease, "the operator's"))
            self.signalled.add(lease)
            signal = SignalRequest(lease, f"signal of {lease}")
            self._check_released(lease, leases.signal(self.world.ports, NAME, signal))
            if self.doubting:
                self._renew(lease)
                self._signal_again(lease, "the second")

        return lambda: self._persistently(f"acquire {id_}", work, left=3)

    def _renew(self, lease: str) -> None:
        """Renew a lease. If a process extended it late and then crashed, it stays extended: no caller knows better."""
        ports = self.world.ports
        if self.late_renewals:
            late = LateStore(self.world, self.world.random.choice(LATE_COMMITS_SECONDS))
            ports = replace(ports, store=late)
        self.extended_late.discard(lease)
        began = self.world.now()
        ends_at = leases.renew(ports, NAME, RenewRequest(lease))
        if ends_at is not None and self._had_ended(lease, began):
            raise Violation(f"{lease} had ended when its renewal began, and its holder is answered that it is held")
        if ends_at is not None and lease in self.extended_late:
            raise Violation(f"{lease} had expired when its renewal came, and its holder is answered that it is held")

    def _wait(self, request: WaitRequest) -> WaitAnswer:
        """Wait, and check that a lease which the answer names was not over when the call began."""
        began = self.world.now()
        answer = waits.wait(self.world.ports, NAME, request)
        if answer.lease is None:
            return answer
        ends_at = self.ends.get(parse_lease_id(answer.lease.id), answer.lease.ends_at)
        if ends_at <= began or self._had_ended(answer.lease.id, began):
            raise Violation(f"{request.id} is said to hold {answer.lease.id}, which had ended when the call began")
        return answer

    def _had_ended(self, lease: str, at: datetime) -> bool:
        """Return whether a lease had been ended by then: in the semaphore's record, or by a release that was left."""
        ended = (self.left.get(parse_lease_id(lease)), self.left_releases.get(lease))
        return any(end is not None and end <= at for end in ended)

    def _signal_again(self, lease: str, operation: str) -> None:
        """Signal a lease that its holder signals, or has signalled."""
        self._hold()
        request = SignalRequest(lease, f"{operation} signal of {lease}")
        self._note_released(lease, operation, leases.signal(self.world.ports, NAME, request))

    def _note_released(self, lease: str, operation: str, released: bool) -> None:
        """Check that one signal at most is answered that it released a lease; a repeat of it is answered the same."""
        if released and self.released_by.setdefault(lease, operation) != operation:
            raise Violation(f"{lease} was released by {self.released_by[lease]} signal and by {operation}")
        self._check_nudged(parse_lease_id(lease)[0])

    def _check_nudged(self, id_: str) -> None:
        """Check that an admit run comes for a release that was left, when a call that ends its lease is answered.

        Of a lease that has expired none need come: its permits are free.
        """
        [read] = self.world.store.read(RECORD)
        leases = Semaphore.from_record(read.data).leases if read.data else ()
        held = [lease for lease in leases if lease.id == id_ and lease.is_live(read.read_time)]
        left = [release_path(NAME, lease.lease_id) for lease in held]
        waiting = any(task.function == "semaphore_admit" for task in self.world.tasks)
        tasks = [one.name for one in self.world.processes.running if one.name.startswith("task ")]
        running = any(not name.startswith(("task continue", "task timeout")) for name in tasks)
        if waiting or running or self.purging:
            return
        if found := [one.path for one in self.world.store.read(*left) if one.data is not None]:
            raise Violation(f"{found} was left, its lease's end is answered, and no admit run will apply it")

    def _changing(self, permits: int) -> Callable[[], None]:
        """Lower or raise the permits."""

        def work() -> None:
            with suppress(NotFound):
                settings.patch(self.world.ports, NAME, SettingsPatch({"permits": permits}))

        return self._later(lambda: self._persistently(f"patch to {permits}", work))

    def _pause(self) -> None:
        """Pause the semaphore, perhaps some time later."""

        def work() -> None:
            self.world.ports.clock.sleep(self.world.random.choice((0.0, 0.5, 3.0)))
            with suppress(NotFound):
                settings.pause_grants(self.world.ports, NAME)

        self._persistently("pause", work)

    def _resume(self) -> None:
        def work() -> None:
            self.world.ports.clock.sleep(self.world.random.choice((0.0, 1.0, 5.0)))
            with suppress(NotFound):
                settings.resume_grants(self.world.ports, NAME)

        self._persistently("resume", work)

    def _recreate(self) -> None:
        """Delete the semaphore and create it again: its old waiters are never granted, and tokens keep growing."""

        def work() -> None:
            with suppress(NotFound):
                sweep.delete(self.world.ports, NAME)
            settings.put(self.world.ports, NAME, self.settings)

        self._persistently("rebirth", work)

    def _hold(self) -> None:
        for _ in range(self.world.random.choice((0, 0, 1) if self.racing else (0, 1, 3))):
            self.world.ports.clock.sleep(0.1)

    # --- the tasks ---

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "user":
            allow_from_an_old_outbox_record(self.world, effect)

    @staticmethod
    def _admit(ports: Ports, effect: Effect) -> None:
        tasks.TASKS[effect.task](ports, effect.payload)

    def _continue(self, ports: Ports, effect: Effect) -> None:
        id_ = effect.payload["id"]
        if effect.task == "timeout":
            self.timed.add(id_)
            if id_ in self.started and effect.context["reason"] == "deadline" and not self.recreated:
                raise Violation(f"{id_} was started in time, and timed out")
            return
        given = Granted.from_context(effect.context["lease"])
        began, cancelled = self.world.now(), id_ in self.cancelled
        lease = leases.claim(ports, given)
        if lease is None:
            return
        if cancelled and not self.recreated:
            raise Violation(f"{id_} was cancelled, and begins")
        self._check_run(id_, lease, began)
        self.started.add(id_)
        self._hold()
        self.whole.add(id_)
        if id_ in self.forgetting:
            return
        self.signalled.add(lease.id)
        self._check_released(lease.id, leases.release(ports, lease))
        if self.doubting:
            self._renew(lease.id)
            self._signal_again(lease.id, "the second")

    def _check_run(self, id_: str, lease: Lease, began: datetime) -> None:
        self.world.log(f"  RUNS {lease.id}")
        if (id_, lease.token) not in self.seen:
            raise Violation(f"{id_} runs under token {lease.token}, which was never granted")
        if self.left.get((id_, lease.token), self.ends[id_, lease.token]) <= began:
            raise Violation(f"{id_} runs under {lease.id}, which had ended when it came to claim it")
        if (id_, lease.token) in self.ran:
            raise Violation(f"{id_} runs twice under token {lease.token}")
        if self.over.get(id_, 10**20) < lease.token:
            raise Violation(f"{id_} runs again after its lease was signalled")
        self.ran.add((id_, lease.token))

    def _check_released(self, name: str, released: bool) -> None:
        """Check that `released` was answered for exactly the leases that their holder's signal ended in time."""
        id_, token = parse_lease_id(name)
        self.released |= {name} if released else set()
        self._note_released(name, "its holder's", released)
        left, ends_at = self.left.get((id_, token)), self.ends.get((id_, token))
        if left is None or ends_at is None or id_ in self.cancelling or name in self.renewed_late:
            return
        if released and (id_, token) not in self.gone:
            raise Violation(
                f"{name} has been taken over by another delivery, and its signal is answered that it was released"
            )
        if (id_, token) not in self.gone:
            return
        in_time = left < ends_at or self.left_releases.get(name, ends_at) < ends_at
        in_doubt = self.world.now() >= ends_at  # its commit's answer was lost, and others have written since
        in_doubt |= name in self.operated  # another signal has ended it
        if in_time and not released and not in_doubt:
            raise Violation(f"{name} was ended in time by its holder's signal, which is answered that it was lost")
        if released and not in_time:
            raise Violation(f"{name} had expired when its signal came, and its holder is answered that it was released")

    # --- what must hold at every write ---

    def _microsecond(self) -> int:
        """Return the time as the wait queue orders by it: no two commits share a microsecond."""
        return times.microseconds(self.world.now())

    def _observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path.startswith(f"{RECORD}/releases/") and after.data is not None:
            self.left_releases.setdefault(after.id, after.create_time or after.read_time)
        granted = False
        if path.startswith(f"{RECORD}/waiters/"):
            granted = self._note_place(before, after)
            self._note_incarnation(before, after)
            self._check_deleted(before, after)
            self.shares.waiter_written(after)
        if path == RECORD and after.data is None:
            self.incarnation += 1
            self.shares.semaphore_deleted()
        if path == RECORD and after.data is not None:
            self._observed_semaphore(before, after)
        if self.steady and path.startswith(RECORD) and not granted:
            self._look_at_head(after.read_time)

    def _note_place(self, before: Snapshot, after: Snapshot) -> bool:
        """Note a waiter that leaves the wait queue; return whether it is granted, by a commit with further writes."""
        if before.data is None or not is_queued(before.data) or is_queued(after.data):
            return False
        self.left_queue[before.id] = after.read_time
        self.left_lane[before.id] = lane_of_record(before.data)
        return after.data is not None and after.data["state"] == "granted"

    def _queue_before(self, at: datetime) -> list[str]:
        """List the waiters as they were before the commit of that time, whose last write is the semaphore's."""
        left = [one.id for one in self._waits() if self.left_queue.get(one.id) == at]
        joined = {id_ for id_, since in self.queued_at.items() if since == at}
        return [id_ for id_ in self._wait_queue() if id_ not in joined] + left

    def _look_at_head(self, at: datetime) -> None:
        [semaphore] = self.world.store.read(RECORD)
        if semaphore.data is not None:
            self.heads.look(Semaphore.from_record(semaphore.data), self._waits(), at)

    def _observed_semaphore(self, before: Snapshot, after: Snapshot) -> None:
        assert after.data is not None
        new = Semaphore.from_record(after.data)
        unused = Semaphore(SemaphoreSettings(self.permits, LEASE_SECONDS))
        old = Semaphore.from_record(before.data) if before.data is not None else unused
        at = after.update_time or after.read_time
        self.ends |= {(lease.id, lease.token): lease.ends_at for lease in new.leases}
        now_held = {(lease.id, lease.token) for lease in new.leases}
        left = [one for one in old.leases if (one.id, one.token) not in now_held]
        self.left |= {(one.id, one.token): at for one in left}
        self.gone |= {(one.id, one.token) for one in left if new.granted_as(one.id, one.grant) is None}
        self._check_permits(old, new, at)
        self._check_tokens(old, new)
        for lease in old.leases:
            if lease.is_live(at):
                self._check_kept(lease, new)
            elif (kept := new.granted_as(lease.id, lease.grant)) is not None:
                self.renewed_late.add(lease.lease_id)  # what had ended stays lost: its renewal is undone
                self.extended_late |= {lease.lease_id} if kept.ends_at > lease.ends_at else set()
        self._check_order(old, new, at)
        self._check_passing(old, new, before, at)
        self._check_shares(old, new, before.update_time, at)
        if new.mode != "open" and new.sweep_at(at) is None:
            raise Violation("the wait queue may have waiters, and no sweep is due")

    def _check_permits(self, old: Semaphore, new: Semaphore, at: datetime) -> None:
        lowered = new.settings.permits < old.settings.permits and new.leases == old.leases
        granted = {(one.id, one.grant) for one in new.leases} - {(one.id, one.grant) for one in old.leases}
        if granted and old.paused_at:
            raise Violation(f"{granted} were granted in a pause")
        if new.free(at) < 0 and not lowered and (granted or not self.changing):
            held = [lease.lease_id for lease in new.leases if lease.is_live(at)]
            raise Violation(f"{held} live at once with {new.settings.permits} permits")

    def _check_tokens(self, old: Semaphore, new: Semaphore) -> None:
        known = {(lease.id, lease.token) for lease in old.leases}
        for lease in new.leases:
            if (lease.id, lease.token) in known:
                continue
            if lease.token <= self.token_max:
                raise Violation(f"token {lease.token} of {lease.id} is not larger than all before")
            self.seen.add((lease.id, lease.token))
            if (
                not lease.continued
                and self.grants.setdefault(lease.id, lease.grant) != lease.grant
                and not self.recreated
            ):
                raise Violation(f"one acquire, delivered again, took a second lease: {lease.lease_id}")
        self.token_max = max([self.token_max, *(lease.token for lease in new.leases)])

    def _check_kept(self, lease: LeaseRecord, new: Semaphore) -> None:
        """Check that a lease is lost before its end only by a signal, a cancel, or another delivery of its own task."""
        kept = new.granted_as(lease.id, lease.grant)
        if kept is None:
            excused = self.signalled | self.renewed_late
            if lease.id in self.began and lease.lease_id not in excused and lease.id not in self.cancelling:
                raise Violation(f"{lease.lease_id} was taken away before its end")
            self.over.setdefault(lease.id, 10**20 if self.recreated else lease.token)
        elif kept.token != lease.token and lease.lease_id in self.released:
            raise Violation(f"{lease.lease_id} was released, its holder heard, and another delivery takes it over")
        elif kept.ends_at < lease.ends_at and kept.token == lease.token and lease.claimed:
            raise Violation(f"{lease.lease_id} ends earlier than it was promised")

    def _check_order(self, old: Semaphore, new: Semaphore, at: datetime) -> None:
        """Check that a waiter that was answered "waiting" is overtaken only by waits whose call had begun by then.

        A wait that was in the queue of its lane may overtake those of other lanes.
        """
        held = {(lease.id, lease.grant) for lease in old.leases}
        granted = {lease.id for lease in new.leases if (lease.id, lease.grant) not in held}
        queue = set(self._queue_before(at))
        waiting = {one.id: lane_of_record(one.data or {}) for one in self._waits() if one.id in queue}
        for id_ in granted:
            in_lane = self.left_lane[id_] if self.left_queue.get(id_) == at else None
            overtaken = [
                one
                for one, lane in waiting.items()
                if one not in granted | self._hopeless(new.settings.permits)
                and self._answered_at(one) < self.began[id_]
                and in_lane in (None, lane)
            ]
            if overtaken:
                raise Violation(f"{id_}, whose call began after {overtaken[0]} had to wait, overtakes it")

    def _check_shares(self, old: Semaphore, new: Semaphore, before: datetime | None, at: datetime) -> None:
        """Check that no lane is granted more than its share while another one waits, and that the record has room."""
        from_queue = granted_from_queue(old, new, lambda id_: self.left_queue.get(id_) == at)
        self.shares.check(new, from_queue, before)

    def _check_deleted(self, before: Snapshot, after: Snapshot) -> None:
        """Check that no operation deletes a waiter of the current semaphore."""
        if before.data is None or after.data is not None or not is_queued(before.data):
            return
        if before.data["incarnation"] == self._incarnation():
            raise Violation(f"{before.id} was deleted while it waited")

    def _note_incarnation(self, before: Snapshot, after: Snapshot) -> None:
        if after.data and (before.data is None or before.data["joined"] != after.data["joined"]):
            self.incarnation_of[after.id] = self.incarnation
        if is_queued(after.data) and not is_queued(before.data):
            self.queued_at[after.id] = after.update_time or after.read_time

    def _check_passing(self, old: Semaphore, new: Semaphore, before: Snapshot, at: datetime) -> None:
        """Check that waiters are of this semaphore; where nothing failed, that expired permits are granted at once."""
        held, queued = {(lease.id, lease.grant) for lease in old.leases}, self._queue_before(at)
        granted = [one.id for one in new.leases if (one.id, one.grant) not in held and one.id in queued]
        if self.steady:
            self.heads.check(granted, at)
        for id_ in granted:
            if self.incarnation_of[id_] != self.incarnation:
                raise Violation(f"{id_} waited for an earlier semaphore of this name")
        opens_late = before.update_time and at - before.update_time > timedelta(seconds=LATE_SECONDS)
        if self.unhurried and (old.mode, new.mode) == ("opening", "open") and opens_late:
            raise Violation("it took too long to open a semaphore without waiters")
        ends = sorted((lease.ends_at for lease in old.leases), reverse=True)
        if self.unhurried and granted and len(ends) >= old.settings.permits and before.update_time:
            free_since = ends[old.settings.permits - 1]
            late = at - max(before.update_time, free_since, self.queued_at[granted[0]])
            if late > timedelta(seconds=LATE_SECONDS):
                raise Violation(f"{granted[0]} got its permit {late} after it was free")

    # --- what must hold at rest ---

    def _wait_queue(self) -> list[str]:
        """List the waiters of the current semaphore."""
        return [one.id for one in self._waits() if is_queued(one.data)]

    def _hopeless(self, permits: int) -> set[str]:
        """Return the waits that need more permits; they may be overtaken."""
        return {one.id for one in self._waits() if one.data and one.data["permits"] > permits}

    def _waits(self) -> list[Snapshot]:
        incarnation = self._incarnation()
        found = self.world.store.query(Query(f"{RECORD}/waiters", limit=1000)) if incarnation else ()
        return [one for one in found if one.data and one.data["incarnation"] == incarnation]

    def _check_prompt(self) -> None:
        """Check that no sweeper was needed where nothing failed."""
        if queued := self._wait_queue():
            raise Violation(f"nothing failed, nothing is left to run, and {queued} still wait")
        [snapshot] = self.world.store.read(RECORD)
        if snapshot.data and snapshot.data["mode"] != "open":
            raise Violation(f"nothing failed, nothing is left to run, and the semaphore stays {snapshot.data['mode']}")

    def _let_the_sweeper_finish(self) -> None:
        self.world.pass_an_outage()
        self.world.fault_rates.left = 0
        self.world.queue.refuses = lambda _: False
        for _ in range(CROWDED_SWEEPS if self.crowded else SWEEPS):
            self.world.pass_time(30)
            self.world.start("sweep", lambda: self._sweep(self.world.ports))
            self.world.run()

    def _sweep(self, ports: Ports) -> None:
        outbox.sweep(ports)
        sweep.sweep(ports, budget_of(VISITS) if self.crowded else unlimited)

    def _check_rest(self) -> None:
        [snapshot] = self.world.store.read(RECORD)
        semaphore = Semaphore.from_record(snapshot.data or {})
        if queued := self._wait_queue():
            raise Violation(f"{queued} wait for ever; {semaphore}")
        if semaphore.free(snapshot.read_time) != (semaphore.settings.permits if self.changing else self.permits):
            raise Violation(f"permits are missing: {semaphore}")
        if semaphore.mode != "open":
            raise Violation(f"the wait queue is empty, and the semaphore stays {semaphore.mode}")
        if semaphore.lanes:
            raise Violation(f"no wait is left, and the semaphore keeps the lanes {semaphore.lanes}")
        for one in self._waits():
            self._check_wait(one)
        kept = {one.id for one in self._waits()}
        left = [one.id for one in self.world.store.query(Query(f"{RECORD}/waiters")) if one.id not in kept]
        if left and self.calm:
            raise Violation(f"{left} were left behind by an earlier semaphore of this name")

    def _check_wait(self, snapshot: Snapshot) -> None:
        state = (snapshot.data or {})["state"]
        if state == "refused" and not (self.changing and (snapshot.data or {})["permits"] > 1):
            raise Violation(f"{snapshot.id} was refused, though there were always permits for it")
        if state in ("cancelled", "timed_out", "refused"):
            if state != "cancelled" and snapshot.id not in self.timed:
                raise Violation(f"{snapshot.id} {state}, and its task did not run")
        elif snapshot.id not in self.whole and snapshot.id not in self.cancelling:
            raise Violation(f"{snapshot.id} was {state}, and its continuation never ran to its end")
