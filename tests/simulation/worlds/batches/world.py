"""Batches of a few units: loaded, sealed, completed, failed, retried, cancelled and removed by processes that crash.

In some worlds whose units fail, retries have keys (`keyed_retries.py`). In some worlds the units run under permits of a
semaphore (`semaphore_permits.py`), in some others they take permits of a rate when they start (`rate_permits.py`).

In some worlds the queues are purged at any point (`purges.py`): then all ends within two hours after the day on which
the names of the purged tasks become free. In some worlds a unit's task is purged, and a person completes the unit. In
some with chains, people complete units that may not have been enqueued yet, and tasks are delivered once more when all
names are free again: no unit that had its outcome when it was delivered may run.

In some worlds in which the kit makes batches, a caller tries to take them (`rivals.py`).

Limits are so small that a dozen units make a tree with all its levels. Checked at every write: no batch completes
before every loaded unit has an outcome; an outcome is overwritten only by a later attempt of a unit that failed; an
ended batch does not change its end; no more units of `b` are under way than it allows at once. Checked at rest: every
sealed batch has ended, its completion task ran under one name, its counts are those of its records, and no record of a
removed run is left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from signalbox.batches import storage, tasks
from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.batches.model.units import FirstRuns, PlacedUnit, UnitOutcome, failed, succeeded
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import units
from signalbox.batches.sweep import sweep as sweep_batches
from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import OfUnit, TaskSubject, context_of
from signalbox.tasks.service import unit_runs
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import OPERATIONS_LONG, operations_max
from tests.simulation.worlds.batches import keyed_retries, rate_permits
from tests.simulation.worlds.batches.callers import Callers
from tests.simulation.worlds.batches.kinds import (
    ALARM,
    ANNOUNCE,
    KINDS,
    PAINT,
    SHORT_DEADLINE_SECONDS,
    SMALL_LIMITS,
    Kind,
)
from tests.simulation.worlds.batches.properties import Checks
from tests.simulation.worlds.batches.purges import Purges
from tests.simulation.worlds.batches.removal import run_again_after_removal
from tests.simulation.worlds.batches.rivals import Rival, has_rival
from tests.simulation.worlds.batches.semaphore_permits import NAME, Permits, deliver, permits_of
from tests.simulation.worlds.batches.units_under_way import UnderWay

PARTS_MAX = 4
"""Units of a sub-batch: up to two pages."""

PURGED_RATE = 0.3
"""The share of worlds in which a unit's task is purged, of those with such a limit and no other special event."""

HELPED_RATE = 0.7
"""The share of worlds with chains and no other special event in which people complete some units."""

CHAINED_RATE = 0.3
"""The share of worlds that limit how many units run at once."""

FOLLOWED_RATE = 0.3
"""The share of worlds in which another batch, or an alarm, follows the batch `b`."""

SECOND_RATE = 0.5
"""The share of worlds with a sub-batch in which another run of the unit's code may return a result, or raise."""

SWEEPS_OF_EMPTIED = 2
"""The sweeps after a purge before the names are free again, and the sweeps after that: in these all must end."""

NAMES_KEPT_SECONDS = 24 * 3_600
"""After this time the names of all purged tasks are free."""

EMPTIED_RATE, EMPTIED_SUB_RATE = 0.2, 0.6
"""The share of worlds without people in which the queues are purged; the second, with a sub-batch and a cancel."""

SILENT_SECONDS = (1, 60, 3_600)
"""The time after which a page counts as silent, in worlds whose queues are purged: its units may still run."""

UNSWEPT_RATE = 0.3
"""The share of worlds without a sweeper of batches, of those with a deadline: the deadline's task is enough."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world to rest. Raises `Violation` when a property does not hold."""
    BatchesWorld(seed, trace).run()


class BatchesWorld:
    """One batch `b` (and its sub-batch), its callers, its units and its sweepers."""

    kinds: Sequence[Kind] = KINDS
    limits: Mapping[str, int] = SMALL_LIMITS
    may_have_permits = True

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(kill=0.03, lose_answer=0.04, duplicate=0.08), trace)
        self.kind = self.world.random.choice(self.kinds)
        self.unswept = self.kind.hurried and Random(f"unswept {seed}").random() < UNSWEPT_RATE
        self.callers = Callers(self.world, self.kind, _concurrency(seed), _follows(seed))
        self.keyed = keyed_retries.Keyed(self, seed) if self.kind.failing and keyed_retries.is_keyed(seed) else None
        if self.keyed:
            self.callers.on_retry = self.keyed.note_request
        self.purged = _purged(seed) if self.callers.concurrency and self.kind.calm else None
        self.helped = Random(f"helped {seed}") if self.callers.concurrency and self.kind.calm else None
        self.own = Random(f"purge {seed}")
        second = Random(f"second deliveries {seed}")
        self.second = second if second.random() < SECOND_RATE else None
        kind = self.kind
        plain = not (kind.from_outside or kind.removed or self.unswept or self.keyed)
        self.emptied = (
            plain
            and self.purged is None
            and self.own.random() < (EMPTIED_SUB_RATE if kind.nested and kind.cancelled else EMPTIED_RATE)
        )
        self.purges = Purges(self.world, self.own, seed) if self.emptied else None
        self.under_way = UnderWay(self.world.store, self.callers.concurrency)
        self.checks = Checks(self.world.store, self.kind)
        has_none = self.kind.from_outside or self.purged is not None
        permits = 0 if has_none or not self.may_have_permits else permits_of(seed)
        self.permits = Permits(self, seed, permits) if permits else None
        self.callers.semaphore = NAME if permits else ""
        self.rated = None if has_none or permits or not rate_permits.is_rated(seed) else rate_permits.Rated(self, seed)
        if self.rated:
            self.callers.rated = {"rate": rate_permits.NAME, "weight": self.rated.weight}
        made = self.kind.nested or self.callers.follows
        others = self.permits or self.rated or self.purges or self.helped or self.purged is not None
        self.rival = Rival(self.world, self.callers, seed) if made and not others and has_rival(seed) else None
        if self.kind.failing and (limiter := self.permits or self.rated):
            self.world.sweeper = lambda ports: (outbox.sweep(ports), limiter.sweep(ports))
        self.world.task_handlers["batch_expand"] = _run_batch_task
        self.world.task_handlers["painter"] = self._paint
        self.world.queue.on_reuse = self._reuse
        self.world.observers.append(self.checks.check_write)
        self.deliveries: Counter[str] = Counter()
        self.unit_tasks: list[Effect] = []

    def run(self) -> None:
        silent = self.own.choice(SILENT_SECONDS)
        changed = {"unit_silent_seconds": silent, "end_silent_seconds": silent} if self.emptied else {}
        with replaced(**self.limits, **changed):
            self._run_first()
            if self.helped:
                self._deliver_late(self.helped)
            if self.kind.failing:
                self._retry_failed()
            if self.kind.removed:
                run_again_after_removal(self)
            self.checks.check_no_earlier_run_left()

    def _run_first(self) -> None:
        self.world.run(self._beginnings())
        if self.kind.paged:
            self.callers.seal(len(self.checks.pages("b")))
            self.world.run()
        self.come_to_rest()

    def _beginnings(self) -> list[Callable[[], None]]:
        random = self.world.random
        named_max = (
            BATCHES_LIMITS.walk_nodes_max * BATCHES_LIMITS.page_units_max
        )  # of a larger batch, a deadline names some only
        long = named_max if self.kind.hurried else OPERATIONS_LONG
        size = random.randint(0, operations_max(self.kind.units_max, long))
        beginnings = [*self.callers.loading(size)]
        if self.kind.from_outside:
            lost = random.choice((0, 0, 1, 2)) if self.kind.hurried else 0
            indexes = random.sample(range(size), max(0, size - lost))
            beginnings += [partial(self.callers.complete, index) for index in indexes]
            beginnings.append(self._sweep_meanwhile)
        if (self.kind.hurried or self.kind.walked) and random.random() < 0.7:
            beginnings += [self._sweep_meanwhile] * random.randint(1, 2)
        if self.helped and self.helped.random() < HELPED_RATE:
            for index in self.helped.sample(range(size), min(size, self.helped.randint(1, 4))):
                beginnings.insert(self.helped.randint(1, len(beginnings)), partial(self.callers.help, index))
        if self.purges:
            beginnings += [self._sweep_meanwhile] * 2 + self.purges.beginnings()
        if self.kind.cancelled and random.random() < 0.8:
            beginnings.append(self.callers.cancel)
        if self.rival:
            beginnings += self.rival.beginnings()
        if self.keyed:
            beginnings += self.keyed.early_calls(size)
        elif self.kind.failing and random.random() < 0.5:
            beginnings.append(self.callers.retry)
        limiter = self.permits or self.rated if self.purges is None or self.purges.meets_operators else None
        return beginnings + (limiter.by_hand() if limiter else [])

    def _deliver_late(self, random: Random) -> None:
        """Deliver a unit's task once more when the names of all tasks are free again."""
        late = random.sample(self.unit_tasks, min(1, len(self.unit_tasks)))
        self.world.pass_an_outage()
        self.world.tasks.extend(late)
        self.come_to_rest()

    # --- what tasks do ---

    def _reuse(self, effect: Effect) -> None:
        """A task under a name that was free again is a new one, whose deliveries count from one."""
        self.deliveries[effect.name] = 0
        [kept] = self.world.store.read(storage.completion_path(effect.name))
        if effect.task in (ANNOUNCE.task, ALARM.task) and kept.data is None:
            allow_from_an_old_outbox_record(self.world, effect)

    def _paint(self, ports: Ports, effect: Effect) -> None:
        self.deliveries[effect.name] += 1
        if effect.task == ANNOUNCE.task:
            self.checks.note_completion(effect.name, effect.context["batch"])
            storage.forget_completion(ports, effect.name)
            return
        if effect.task == ALARM.task:
            self.checks.alarms.add(effect.name)
            storage.forget_completion(ports, effect.name)
            return
        unit = unit_of(effect)
        if unit.batch == "b" and unit.index == self.purged:
            return
        self.unit_tasks.append(effect)
        if self.permits or self.rated:
            self._paint_with_permits(ports, effect)
            return
        parts = self._stored_parts(effect)
        had_outcome = bool(self.world.store.read(unit.path)[0].data)
        if units.need_not_run(ports, unit, is_repeated=self.deliveries[effect.name] > 1):
            return
        if had_outcome and self.helped and isinstance(unit.chain, FirstRuns):
            raise Violation(f"unit {unit.index} has its outcome, and runs")
        if self.world.random.random() < 0.5 and not units.unit_is_live(ports, unit):
            return  # otherwise the cache of this process, some seconds old, says that it is live
        if unit.batch != "b" and self._parent_was_cancelled(unit):
            return  # this code has no outcome: it runs until its own batch is cancelled
        self.under_way.begin(unit)
        if self.purges:
            self.purges.may_raise(unit)
        if self.kind.nested and unit.batch == "b" and unit.index == 0:
            unit_runs.run_unit(ports, unit, lambda: self._parts(unit, parts))
            return
        units.complete_unit(ports, unit, self._outcome(unit))

    def _paint_with_permits(self, ports: Ports, effect: Effect) -> None:
        unit = unit_of(effect)
        granted = "lease" in effect.context or effect.context.get("unit", {}).get("granted", False)
        parts = self._stored_parts(effect) if not granted else self._stored()
        had_outcome = granted and bool(self.world.store.read(unit.path)[0].data)
        claims = self.permits.claims_of(effect) if self.permits else 0

        def is_live(unit: PlacedUnit) -> bool:
            return self.world.random.random() < 0.5 or units.unit_is_live(ports, unit)

        def code(_: TaskSubject | None, __: Start) -> Any:
            if not granted:
                raise Violation(f"unit {unit.index} runs without a permit")
            if had_outcome and unit.attempt == 0:
                raise Violation(f"unit {unit.index} has its outcome, and runs")
            self.under_way.begin(unit)
            if self.purges:
                self.purges.may_raise(unit)
            if self.rated:
                self.rated.begin(unit, effect)
                return self._painted(unit, parts)
            assert self.permits, "a unit runs with permits of a semaphore or of a rate"
            if self.permits.claims_of(effect) == claims:
                raise Violation(f"unit {unit.index} runs under a grant that this delivery has not claimed")
            with self.permits.running(unit):
                return self._painted(unit, parts)

        deliver(ports, effect, self.deliveries[effect.name], code, is_live)

    def _painted(self, unit: PlacedUnit, parts: set[str]) -> Any:
        if self.kind.nested and unit.batch == "b" and unit.index == 0:
            return self._parts(unit, parts)
        outcome = self._outcome(unit)
        if outcome.state == "failed":
            raise Problem(outcome.text)
        return json.loads(outcome.text)

    def _stored_parts(self, effect: Effect) -> set[str]:
        """Return the ids of the sub-batches that are stored completely when a task is delivered again."""
        return self._stored() if self.deliveries[effect.name] > 1 else set()

    def _stored(self) -> set[str]:
        return self.checks.stored_sub_batches()

    def _parts(self, unit: PlacedUnit, stored: set[str]) -> Any:
        """Return another sub-batch at each run, and in some worlds perhaps a result or an error.

        The code does not run if a sub-batch was stored completely when it was redelivered.
        """
        if stored & self.checks.stored_sub_batches():  # it is not replaced
            raise Violation(f"the code of unit {unit.index} ran again, though its sub-batch was stored completely")
        run = self.callers.next_result()
        if self.second is not None and (returned := self.second.choice((None, "result", "error"))):
            text = f"run {run}"
            if returned == "error":
                self.checks.returned.add(text)
                raise Problem(text)
            self.checks.returned.add(json.dumps(text))
            return text
        parts = [{"n": number, "run": run} for number in range(self.world.random.randint(0, PARTS_MAX))]
        return BatchSpec(units=parts, task=PAINT, sealed=True, **self.callers.options)

    def _parent_was_cancelled(self, unit: PlacedUnit) -> bool:
        """Return whether the batch `b` was cancelled, and the sub-batch of this unit not yet."""
        parent, own = self.checks.header("b"), self.checks.header(unit.batch)
        return parent is not None and parent.state == "cancelled" and own is not None and not own.ended

    def _outcome(self, unit: PlacedUnit) -> UnitOutcome:
        if self.keyed:
            self.keyed.begin(unit)
        if (
            unit.batch == "b"
            and self.kind.failing
            and unit.index % 2 == 0
            and unit.attempt < self._failing_attempts(unit)
        ):
            return failed(f"attempt {self.callers.next_result()}")
        return succeeded({"result": self.callers.next_result()})

    def _failing_attempts(self, unit: PlacedUnit) -> int:
        """Return how many attempts fail. In chains retries fail too: the same call must not retry them again."""
        if self.keyed:
            return self.keyed.failing_attempts(unit.index)
        return 1 + (unit.chain is not None and unit.index % 4 == 0)

    # --- sweepers ---

    def _sweep_meanwhile(self) -> None:
        """The sweeper runs while units are completed."""
        self.world.pass_time(SHORT_DEADLINE_SECONDS / 2 if self.kind.hurried else BATCHES_LIMITS.batch_idle_seconds)
        if not self.unswept:
            self.start_sweep(sweep_batches)

    def start_sweep(self, sweep: Callable[[Ports], object]) -> None:
        def work() -> None:
            sweep(self.world.ports)

        self.world.start("sweep", work)

    def sweep_later(self, seconds: float, sweep: Callable[[Ports], object]) -> None:
        self.world.pass_time(seconds)
        self.start_sweep(sweep)
        self.world.run()

    def come_to_rest(self) -> None:
        """Run the outbox's sweeper; the batches' sweeper only where it is part of the protocol.

        Elsewhere the tasks alone must bring the batch to its end.
        """
        self.world.pass_an_outage()
        self.world.fault_rates.left = 0
        for _ in range(2):
            self.sweep_later(CORE_LIMITS.outbox_patience_seconds + 1, outbox.sweep)
        if self.kind.from_outside and not self.kind.hurried:
            self._complete_what_did_not_land()
        if self.purged is not None and self.purged < self.checks.loaded("b"):
            self.callers.complete(self.purged)
            self.world.run()
        if (self.kind.from_outside or self.kind.hurried) and not self.unswept:
            self.sweep_later(BATCHES_LIMITS.batch_idle_seconds, sweep_batches)
        for _ in range(2):
            self.sweep_later(CORE_LIMITS.outbox_patience_seconds + 1, outbox.sweep)
        if self.checks.open_sub_batches():  # the process that loaded one died, and its unit has another outcome
            self.sweep_later(BATCHES_LIMITS.batch_idle_seconds, sweep_batches)
            self.sweep_later(CORE_LIMITS.outbox_patience_seconds + 1, outbox.sweep)
        limiter = self.permits or self.rated
        if self.purges:
            self._sweep_after_purges()
        if limiter:
            self.sweep_later(1, limiter.sweep)
            limiter.check_rest()
        self.checks.check_rest()

    def _sweep_after_purges(self) -> None:
        """Let an hour pass before each sweep, and a day when all names of purged tasks become free again."""
        assert self.purges
        self.purges.end()
        limiter = self.permits or self.rated
        hour = max(BATCHES_LIMITS.batch_idle_seconds, BATCHES_LIMITS.unit_silent_seconds) + 1
        for pause in (hour,) * SWEEPS_OF_EMPTIED + (NAMES_KEPT_SECONDS,) + (hour,) * SWEEPS_OF_EMPTIED:
            self.sweep_later(pause, sweep_batches)
            self.sweep_later(1, outbox.sweep)
            if limiter:
                self.sweep_later(1, limiter.sweep)
        if limiter and self.purges.meets_operators:  # the clean-up of one that was deleted may be lost
            self.world.start("deletes again", limiter.delete_again)
            self.world.run()

    def _complete_what_did_not_land(self) -> None:
        """A commit that did not land is its caller's to repeat; one that landed is not repeated."""
        for index in sorted(set(range(self.checks.loaded("b"))) - set(self.checks.finished("b"))):
            self.callers.complete(index)
            self.world.run()

    def _retry_failed(self) -> None:
        header = self.checks.header("b")
        if header is None or header.state == "cancelled":
            return
        self.world.fault_rates.left = 3
        if self.keyed:
            self.world.run(self.keyed.calls(self.checks.loaded("b")))
        else:
            if self.purges:
                self.purges.of_retries()
            self.callers.retry()
            self.callers.retry()
            self.world.run()
        self.world.fault_rates.left = 0
        if self.purges:  # units whose retry is lost are still failed: a person retries them when the names are free
            self._sweep_after_purges()
            self.callers.retry()
            self.world.run()
        if limiter := self.permits or self.rated:
            self.sweep_later(CORE_LIMITS.outbox_patience_seconds + 1, outbox.sweep)
            self.sweep_later(1, limiter.sweep)
        if self.keyed:
            self.keyed.check_rest()
        for _ in range(
            keyed_retries.FAILING_ATTEMPTS_MAX if self.keyed else bool(self.callers.concurrency or self.purges)
        ):
            self.callers.retry()
            self.world.run()
        if self.checks.failed("b"):
            raise Violation("a failed unit was retried and is still failed")
        self.checks.check_rest(retried=True)


def _concurrency(seed: int) -> int | None:
    chained = Random(f"chained {seed}")
    return chained.randint(1, 3) if chained.random() < CHAINED_RATE else None


def _purged(seed: int) -> int | None:
    """Return the unit whose task is purged before it is delivered, or None."""
    purged = Random(f"purged {seed}")
    return purged.randint(0, 4) if purged.random() < PURGED_RATE else None


def _follows(seed: int) -> int:
    """Return one more than the units of the batch that follows, or 0 for none."""
    followed = Random(f"followed {seed}")
    return followed.randint(1, 4) if followed.random() < FOLLOWED_RATE else 0


def _run_batch_task(ports: Ports, effect: Effect) -> None:
    tasks.run_batch_task(ports, effect.task, effect.payload)


def unit_of(effect: Effect) -> PlacedUnit:
    """Return the unit that a task runs for, or for which it waits."""
    context = context_of(effect.context)
    assert isinstance(context, OfUnit), "a task of a unit"
    return context.unit
