"""Calls of two objects by many at once: at once, posted, for later, on results, with continuations; and deletions.

In some worlds many large continuations follow one delayed call. In some, objects are deleted; the checks do not see the
calls of a deleted object if one turn did both. In some worlds queries are not at one instant, functions of an older
deployment answer, calls are slow or have a time limit, or the queue cannot look as far ahead as calls are delayed. In
some, the queue of wake-ups is purged once; hours later, sweeps have woken what waits.

Some callers wait for the outcome: their process applies their calls together, or posts them and may apply what others
have posted. Callers repeat a call that was not answered, under the same id, as a redelivered task does; in some worlds
one does not. Some callers use an id that is taken. Methods send to the other object, raise, or kill their process.
Pages are small, so turns end early and runs share wake-ups.

Whenever a header is written, no call is applied twice, before its time or after its limit. At rest, every committed
call has its effect and its outcome; a call that began after another was committed is applied after it; what a call sent
ran once, in order; continuations ran with the outcome; nothing waits; no healthy call was given up. Callers were
answered with the outcome that was committed, and a deadly call of another ended the process of each at most once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from random import Random

from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Ports, unlimited
from signalbox.core.problems import OtherBody, Problem, Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery
from signalbox.objects import service
from signalbox.objects import sweep as objects_sweep
from signalbox.objects.limits import LIMITS as OBJECTS_LIMITS
from signalbox.objects.model import Applied, Apply, CallPlace, CallRecord, Message
from signalbox.testing.replaced_limits import replaced
from tests.compatibility.last_release import TODAY
from tests.simulation.fault_rates import FaultRates
from tests.simulation.processes import Killed
from tests.simulation.reached_counts import (
    APPLIED_BY_OTHERS,
    CALLERS_ENDED,
    CALLS_GIVEN_UP,
    REACHED,
    SLOW_CALLS,
    UPGRADED,
)
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.torn_queries import TornStore
from tests.simulation.versions import version_now, versions_of
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import faults
from tests.simulation.worlds.objects.callers import (
    Act,
    Planner,
    Worlds,
    groups_of,
    large_acts,
    let_wait,
    set_limits,
    vary,
)
from tests.simulation.worlds.objects.observed_objects import History
from tests.simulation.worlds.objects.properties import Rest, Tasks
from tests.simulation.worlds.objects.remembering_class import CLASS, MISTAKEN, NEW, OLD, Version

PAGE = 2
REPEATS_MAX = 12
SWEEPS = 4
OUT_OF_SIGHT_SECONDS = 1.5
"""The horizon of the queue in some worlds: a delayed call is woken several times before its time."""

DELETING_SHARE, DEADLY_SHARE, UPGRADING_SHARE, SHORT_SIGHT_SHARE, TORN_SHARE = 0.2, 0.15, 0.2, 0.3, 0.2
LIMITED_SHARE = 0.3
CONTENDED_SHARE = 0.2
"""Of the seeds, those in which a run that lost a race is left to its next delivery."""

NEVER_SECONDS = 10**9
"""Longer than any world: older code never takes a call of an unknown method for an error."""

LARGE_SHARE = 0.2
SMALL = {"outbox_bytes_max": 1_500, "turn_task_bytes_max": 700, "turn_bytes_max": 2_000}
"""Limits of the worlds with large continuations, of which one or two fit into a turn."""

KINDS = (Worlds.MIXED,) * 6 + (Worlds.SOON,) + (Worlds.RESULTS,) * 2 + (Worlds.SLOW,)
OUT_OF_HOUR_SECONDS = 3_600
"""Delayed calls are found by the hour in which they are due."""

WAITING_SHARE, DEADLY_WHILE_WAITING_SHARE = 0.2, 0.4
"""Of the seeds, those whose callers wait for one object; and of those, the ones with a deadly call."""

PURGED_SHARE = 0.2
"""Of the mixed seeds, and of those with calls on results: those in which the queue of wake-ups is purged once."""

STEPS, STEPS_OF_RESULTS, STEPS_SOON = (300, 3_000, 30_000), (30_000, 100_000), (1_000, 3_000)
SLOW_STEPS = (5, 20, 60)
OLD_CALLS, OLD_SHARES = (2, 8, 40), (0.5, 0.9)
MISTAKEN_SHARE = 0.3
"""Of the seeds with another deployment: those in which it is a mistaken one instead of an older one."""

ATTEMPTS_OF_SLOW = 1
"""In a world of slow calls nothing fails, so a healthy call is started once, no matter how many races its run loses
and how often its wake-up is delivered meanwhile."""

ONLY_DUPLICATES = FaultRates(0, 0, 0, 0.3, 0, 0, 0)
"""The faults of a world of slow calls."""

ATTEMPTS_OF_LOSERS = 2
"""Of slow calls where a delivery ends with the first race that it loses, or processes of the last release run, which
count each lost race as a start."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    own = Random(f"objects {seed}")
    kind = own.choice(KINDS)
    if Random(f"{seed}-waiting").random() < WAITING_SHARE:
        kind = Worlds.WAITING
    slow = kind is Worlds.SLOW
    sight = {"delay_seconds_max": OUT_OF_SIGHT_SECONDS} if own.random() < SHORT_SIGHT_SHARE else {}
    large = kind is Worlds.MIXED and Random(f"{seed}-sizes").random() < LARGE_SHARE
    small = {"rounds_max": 1} if Random(f"{seed}-rounds").random() < CONTENDED_SHARE else {}
    losers = "rounds_max" in small or versions_of(seed) is not None
    attempts_of_slow = ATTEMPTS_OF_LOSERS if losers else ATTEMPTS_OF_SLOW
    attempts = attempts_of_slow if slow else faults(5) + 4
    careful = {"careful_deliveries": 0 if slow else 2, "call_attempts_max": attempts}
    small |= {"deployment_seconds": NEVER_SECONDS, **(SMALL if large else {})}
    with replaced(mailbox_page=PAGE, **careful, **sight, **small):
        world = ObjectsWorld(seed, own, kind, trace)
        if kind is Worlds.MIXED:
            vary(world.acts, Random(f"{seed}-varied"), upgrading=world.old_left > 0)
        if large:
            world.acts += large_acts(Random(f"{seed}-large"))
        purging = Random(f"{seed}-purge")
        if kind in (Worlds.MIXED, Worlds.RESULTS) and purging.random() < PURGED_SHARE:
            world.purge_at(purging)
        world.run()


class ObjectsWorld:
    """Two objects and their callers. `own` draws what the draws of the world do not depend on."""

    def __init__(self, seed: int, own: Random, kind: Worlds, trace: Callable[[str], None] | None) -> None:
        self.seed = seed
        self.world = World(seed, FaultRates(left=5), trace)
        self._set_up(kind)
        self.own = own
        self.deadly = {"c1"} if own.random() < DEADLY_SHARE and kind is Worlds.MIXED else set[str]()
        if kind is Worlds.WAITING and Random(f"{seed}-deadly").random() < DEADLY_WHILE_WAITING_SHARE:
            self.deadly = {"c1"}
        self.slow = {"c0"} if kind is Worlds.SLOW else set[str]()
        self.old_left = own.choice(OLD_CALLS) if own.random() < UPGRADING_SHARE else 0
        self.old_share = own.choice(OLD_SHARES)
        self.other = MISTAKEN if Random(f"{seed}-mistaken").random() < MISTAKEN_SHARE else OLD
        if own.random() < TORN_SHARE:
            self.world.ports = replace(self.world.ports, store=TornStore(self.world))
        self.gone = {f"c{own.randint(0, 9)}"}
        self.history = History(self.world.now, own.random() < DELETING_SHARE)
        self.acts = Planner(self.world.random, kind, self.history.deleting).acts()
        if own.random() < LIMITED_SHARE and kind is Worlds.MIXED:
            set_limits(self.acts, own)
        self.too_late = set[str]()
        self.ended_by_others: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.world.observers.append(self.history.observed)
        self.deliveries: Counter[str] = Counter()
        self.purged_at: int | None = None
        self.tasks = Tasks()

    def _set_up(self, kind: Worlds) -> None:
        world, random, slow, soon = self.world, self.world.random, kind is Worlds.SLOW, kind is Worlds.SOON
        world.fault_rates.left = 0 if random.random() < 0.3 or slow or soon else faults(random.choice((3, 6)))
        if slow and LIMITS.rounds_max > 1 and not self.world.versions:
            world.fault_rates = replace(ONLY_DUPLICATES)
        steps = {Worlds.RESULTS: STEPS_OF_RESULTS, Worlds.SOON: STEPS_SOON}
        world.step_microseconds_max = random.choice(steps.get(kind, STEPS))
        world.time_jumps = (0.05, 0.2, 1.0) if slow else (0.05, 0.2, 1.0, 70.0)
        world.time_jumps_left = 0 if soon else random.choice((0, 3, 8))
        world.queue.ahead_seconds = random.choice((0.0, 0.05, 0.3))
        world.task_handlers |= {"user": self._user_task, "logs": self._turn}
        world.queue.on_reuse = self._check_reuse
        world.queue.shard("objects", self.seed)

    # --- what happens ---

    def run(self) -> None:
        """Run all acts, then pass hours, then sweep; and check what is left."""
        grouping = Random(f"{self.seed}-groups")
        let_wait(self.acts, grouping)
        beginnings = [self._begin(group) for group in groups_of(self.acts, grouping)]
        if self.purged_at is not None:
            beginnings.insert(min(self.purged_at, len(beginnings)), lambda: self.world.queue.purge(_is_wake_up))
        self.world.run(beginnings)
        self.world.pass_an_outage()
        self.world.fault_rates.left = 0
        for _ in range(SWEEPS):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        if self.purged_at is not None:
            self._wake_what_is_silent()
        world = self.world
        late, starts = self.too_late, self.starts
        Rest(world.store, self.history, self.acts, self.tasks, self.deadly, late, starts, world.faults).check()
        if twice := [id_ for id_, times in self.ended_by_others.items() if times > 1]:
            raise Violation(f"the processes of {twice} were ended twice by calls of others")

    def purge_at(self, random: Random) -> None:
        """Purge the queue of wake-ups once, after some of the acts have begun."""
        self.purged_at = random.randint(1, len(self.acts))

    def _wake_what_is_silent(self) -> None:
        """Sweep objects, and lose nothing: one sweep wakes each, since no page is full. A run may send to another."""
        for _ in range(SWEEPS):
            self.world.pass_time(OBJECTS_LIMITS.call_silent_seconds + OUT_OF_HOUR_SECONDS)
            self.world.start("sweep", self._sweep_objects)
            self.world.run()

    def _sweep_objects(self) -> None:
        objects_sweep.sweep(self.world.ports, {CLASS: "logs"})

    def _begin(self, group: Sequence[Act]) -> Callable[[], None]:
        def begin() -> None:
            for act in group:
                act.began = act.began or self.world.now()
            name = f"{' '.join(act.id for act in group)} of {group[0].key}"
            self.world.start(name, lambda: self._calls(group), lambda done: self._ended(group, done))

        return begin

    def _calls(self, group: Sequence[Act]) -> None:
        """Call for callers of one process. Those of the last release do not wait."""
        if group[0].waits and version_now() == TODAY:
            self._call_together(*group)
            return
        for act in group:
            self._call(act)

    def _call_together(self, *group: Act) -> None:
        """Call for callers of one process that wait. Their process begins what others have posted once at most."""
        calls = {act.record: act.message for act in group}
        code = self._code()
        instance = replace(code, apply=self._noting(code.apply, group))
        address = ObjectAddress(CLASS, group[0].key)
        called = service.call_together(self.world.ports, instance, address, calls, unlimited)
        for act in group:
            answer = called[act.record]
            act.refused = isinstance(answer, OtherBody)
            act.answer = answer if isinstance(answer, CallRecord) else None

    def _noting(self, apply: Apply, group: Sequence[Act]) -> Apply:
        """Return code that notes which callers' processes a call of another caller ends."""
        own = {act.id for act in group}

        def noted(address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
            id_ = message.body["arguments"]["id"]
            if id_ in self.deadly - own:
                REACHED[CALLERS_ENDED] += 1
                self.ended_by_others.update(act.id for act in group)
            if id_ not in own:
                REACHED[APPLIED_BY_OTHERS] += 1
            return apply(address, state, message, now)

        return noted

    def _call(self, act: Act) -> None:
        place, ports = CallPlace(ObjectAddress(CLASS, act.key), act.record), self.world.ports
        try:
            if act.fast and act.id not in self.deadly:
                act.answer = service.call_at_once(ports, self._code(), place, act.message)
            else:
                act.answer = service.post_call(ports, _function_of, place, act.message, act.timing)
        except OtherBody:
            act.refused = True

    def _ended(self, group: Sequence[Act], done: bool) -> None:
        left = []
        for act in group:
            if done and (act.answer is not None or act.refused):
                act.answered = act.answered or self.world.now()
            elif act.repeats < REPEATS_MAX and act.id not in self.gone:
                act.repeats += 1
                left.append(act)
        if left:
            self._begin(left)()

    # --- deliveries ---

    def _turn(self, ports: Ports, effect: Effect) -> None:
        delivery = Delivery(WakeUp.from_payload(effect.payload), effect.name, self.deliveries[effect.name])
        self.deliveries[effect.name] += 1
        try:
            service.run(ports, self._code(), delivery, unlimited)
        except Problem as problem:
            raise Unavailable(problem.detail) from problem

    def _code(self) -> service.Code:
        """Return the code of an instance. Some are of another deployment, which ends after a while."""
        version = NEW
        if self.old_left and self.own.random() < self.old_share:
            self.old_left -= 1
            REACHED[UPGRADED] += 1
            version = self.other
        instance = Version(version, self._begins, self.too_late)
        return service.Code("logs", instance.apply, _function_of, instance.check, instance.knows)

    def _begins(self, id_: str) -> None:
        """Begin a method: a deadly one kills its process, a slow one first lets time pass."""
        self.starts[id_] += 1
        if id_ in self.deadly:
            REACHED[CALLS_GIVEN_UP] += 1
            raise Killed
        if id_ in self.slow:
            REACHED[SLOW_CALLS] += 1
            for _ in range(self.own.choice(SLOW_STEPS)):
                self.world.step("works")

    def _user_task(self, _: Ports, effect: Effect) -> None:
        id_ = effect.payload["id"]
        self.tasks.names[effect.task, id_].add(effect.name)
        if effect.task == "told":
            self.tasks.told[id_].append(effect.context["outcome"])

    def _check_reuse(self, effect: Effect) -> None:
        if effect.function == "user":
            allow_from_an_old_outbox_record(self.world, effect)


def _is_wake_up(effect: Effect) -> bool:
    return effect.queue == "objects"


def _function_of(_: str) -> str:
    return "logs"


def _sweep(ports: Ports) -> None:
    try:
        outbox.sweep(ports)
    except Unavailable:
        return
