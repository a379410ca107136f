"""Batches of a few units, loaded, sealed, done, failed, tried again, cancelled and removed by processes that die.

Bounds are so small that a dozen units make a tree with all its levels. Held at every write: nothing is announced before
every unit that was accepted has its outcome; an outcome is not overwritten but by a later attempt at what failed; no
record of a removed life comes back. Held once quiet: every sealed batch has ended, was announced once under one name,
and its counts are those of its records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from shared.batches.rules.batches import Unit

from shared.batches.operations import batches
from shared.batches.rules import batches as rules
from shared.batches.rules import requests, units
from shared.batches.rules.requests import Order
from shared.core.operations import outbox
from shared.core.operations.ports import Ports
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from tests.simulation.batches_checks import Checks
from tests.simulation.batches_kinds import ANNOUNCE, HURRIED_SECONDS, KINDS, SMALL, WORK
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reuse import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Let one seed's world come to rest. Raises `Violation` when a property does not hold."""
    BatchesWorld(seed, trace).run()


class BatchesWorld:
    """One batch `b` (and its sub-batch), its callers, its units and its sweepers."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(kill=0.03, lose_answer=0.04, duplicate=0.08), trace)
        self.kind = self.world.random.choice(KINDS)
        self.world.task_handlers["batch_expand"] = lambda ports, effect: batches.follow(
            ports, effect.task, effect.payload
        )
        self.world.task_handlers["painter"] = self._paint
        self.world.queue.on_reuse = self._reuse
        self.checks = Checks(self.world.store, self.kind)
        self.world.observers.append(self.checks.check_write)
        self.deliveries: Counter[str] = Counter()
        self.unit_tasks: list[Effect] = []
        self.results = 0

    def run(self) -> None:
        with LIMITS.replaced(**SMALL):
            self._first_life()
            if self.kind.failing:
                self._try_again()
            if self.kind.removed:
                self._second_life()
            self.checks.check_nothing_left_behind()

    def _first_life(self) -> None:
        random = self.world.random
        size = random.randint(0, self.kind.units_max)
        beginnings = [*self._loading(size)]
        if self.kind.from_outside:
            lost = random.choice((0, 0, 1, 2)) if self.kind.hurried else 0
            beginnings += [partial(self._outside, index) for index in random.sample(range(size), max(0, size - lost))]
            beginnings.append(self._look)
        if (self.kind.hurried or self.kind.walked) and random.random() < 0.7:
            beginnings += [self._look] * random.randint(1, 2)
        if self.kind.cancelled and random.random() < 0.8:
            beginnings.append(lambda: self._call("cancels", lambda: batches.cancel(self.world.ports, "b")))
        if self.kind.failing and random.random() < 0.5:
            beginnings.append(
                lambda: self._call("asks for retries", lambda: batches.retry(self.world.ports, "b", None))
            )
        self.world.run(beginnings)
        if self.kind.paged:
            self._seal(len([page for page in self.checks.records(f"{rules.path_of('b')}/pages") if "size" in page]))
            self.world.run()
        self._settle()

    def _look(self) -> None:
        """The sweeper comes while units are being completed."""
        self.world.pass_time(HURRIED_SECONDS / 2 if self.kind.hurried else LIMITS.batch_look_seconds)
        self.world.start("sweep", lambda: self._swept(batches.sweep))

    # --- what callers do ---

    def _order(self, size: int, sealed: bool) -> Order:
        return Order(
            units=[{"n": number} for number in range(size)],
            task=None if self.kind.from_outside else WORK,
            on_complete=ANNOUNCE,
            sealed=sealed,
            failures_max=self.kind.failures_max,
            deadline_seconds=HURRIED_SECONDS if self.kind.hurried else LIMITS.batch_deadline_seconds,
        )

    def _loading(self, size: int) -> list[Callable[[], None]]:
        """Load all in one call, or begin, add pages and seal: by callers who repeat what is not known to be done."""
        if not self.kind.paged:
            order = self._order(size, sealed=True)
            return [lambda: self._call("populates", lambda: batches.populate(self.world.ports, "b", order))]
        first = self.world.random.randint(0, size // 2)
        order = self._order(first, sealed=False)
        cut = requests.cut([{"n": number} for number in range(size - first)])
        begun = len(requests.cut(order.units))
        self._call("populates", lambda: batches.populate(self.world.ports, "b", order))
        self.world.run()
        adding = [partial(self._add, begun + at, page) for at, page in enumerate(cut)]
        at = self.world.random.randint(max(0, len(adding) - 1), len(adding))
        pages = begun + self.world.random.randint(max(0, len(cut) - 1), len(cut))
        return [*adding[:at], partial(self._seal, pages), *adding[at:], partial(self._seal, begun + len(cut))]

    def _add(self, number: int, page: Any) -> None:
        self._call(f"adds page {number}", lambda: batches.add_page(self.world.ports, "b", number, page), patient=True)

    def _seal(self, pages: int) -> None:
        self._call(f"seals at {pages}", lambda: batches.seal(self.world.ports, "b", pages), patient=True)

    def _outside(self, index: int) -> None:
        """Complete a unit and never ask twice, unless it was not loaded yet."""
        outcome = units.succeeded({"result": self._next_result()})
        work = lambda: batches.complete_from_outside(self.world.ports, "b", index, outcome)  # noqa: E731
        self.world.start(f"completes unit {index}", work)

    def _call(self, name: str, work: Callable[[], object], patient: bool = False) -> None:
        """Begin a call that is repeated until its answer is known; a patient one also repeats what is out of order."""
        tries = [0]

        def once() -> None:
            tries[0] += 1
            try:
                work()
            except Problem as problem:
                if not patient or tries[0] > 4:
                    raise
                self.world.log(f"asks again after: {problem.detail}")
                once()

        self.world.start(name, once, lambda done: None if done else self._call(name, work, patient))

    # --- what tasks do ---

    def _next_result(self) -> int:
        self.results += 1
        return self.results

    def _reuse(self, effect: Effect) -> None:
        """A task under a name that was free again is a new one, whose deliveries count from one."""
        self.deliveries[effect.name] = 0
        if effect.task == ANNOUNCE.task:
            allow_from_an_old_outbox_record(self.world, effect)

    def _paint(self, ports: Ports, effect: Effect) -> None:
        self.deliveries[effect.name] += 1
        if effect.task == "announce":
            self.checks.announce(effect.name, effect.context["batch"])
            return
        unit = Unit.of(effect.context["unit"])
        self.unit_tasks.append(effect)
        if self.deliveries[effect.name] > 1 and batches.resume_unit(ports, unit):
            return
        if self.world.random.random() < 0.5 and not batches.unit_is_wanted(ports, unit):
            return  # else what a process knew some seconds ago said yes
        if self.kind.nested and unit.batch == "b" and unit.index == 0:
            order = Order(units=[{"n": 0}, {"n": 1}], task=WORK, sealed=True)
            batches.populate(ports, unit.child, order, parent=unit)
            return
        batches.complete_unit(ports, unit, self._outcome(unit))

    def _outcome(self, unit: Unit) -> units.Outcome:
        if self.kind.failing and unit.index % 2 == 0 and unit.attempt < 1:
            return units.failed(f"attempt {self._next_result()}")
        return units.succeeded({"result": self._next_result()})

    # --- how a world comes to rest ---

    def _settle(self) -> None:
        """Let the outbox's sweeper do its part; only where callers do not ask twice, the batches' sweeper too."""
        self.world.pass_an_outage()
        self.world.fault_rates.left = 0
        for _ in range(2):
            self._later(LIMITS.outbox_patience_seconds + 1, outbox.sweep)
        if self.kind.from_outside and not self.kind.hurried:
            self._complete_what_got_lost()
        if self.kind.from_outside or self.kind.hurried:
            self._later(LIMITS.batch_look_seconds, batches.sweep)
        for _ in range(2):
            self._later(LIMITS.outbox_patience_seconds + 1, outbox.sweep)
        self.checks.check_rest()

    def _later(self, seconds: float, sweep: Callable[[Ports], object]) -> None:
        self.world.pass_time(seconds)
        self.world.start("sweep", lambda: self._swept(sweep))
        self.world.run()

    def _swept(self, sweep: Callable[[Ports], object]) -> None:
        sweep(self.world.ports)

    def _complete_what_got_lost(self) -> None:
        """A commit that did not land is its caller's to repeat; one that landed is not repeated."""
        loaded = self.checks.loaded("b")
        for index in sorted(set(range(loaded)) - set(self.checks.done("b"))):
            self._outside(index)
            self.world.run()

    def _try_again(self) -> None:
        header = self.checks.header("b")
        if header is None or header.state == "cancelled":
            return
        self.world.fault_rates.left = 3
        for _ in range(2):
            self._call("asks for retries", lambda: batches.retry(self.world.ports, "b", None))
        self.world.run()
        self.world.fault_rates.left = 0
        if self.checks.failed("b"):
            raise Violation("what failed was tried again and is still failed")
        self.checks.check_rest(retried=True)

    def _second_life(self) -> None:
        """Long after the end the batch is removed, its id used again, perhaps at once, and old tasks come once more."""
        self.world.fault_rates.left = 3
        late = self.world.random.sample(self.unit_tasks, min(2, len(self.unit_tasks)))
        for task in late:
            self.deliveries[task.name] = 0  # as if the queue had kept it all the time
        self.world.pass_time(LIMITS.batch_keep_seconds + LIMITS.batch_deadline_seconds)
        old = self.checks.header("b")
        order = self._order(self.world.random.randint(1, 4), sealed=True)
        self.checks.announced.clear()
        self.world.run(self._removing(late, order))
        self.world.fault_rates.left = 0
        for _ in range(3):
            self._later(LIMITS.batch_look_seconds, batches.sweep)
        now = self.checks.header("b")
        if now is not None and old is not None and now.incarnation == old.incarnation:
            raise Violation("a batch that ended long ago was not removed")
        self.checks.check_nothing_left_behind()
        self.world.fault_rates.left = 3
        self._call("populates again", lambda: batches.populate(self.world.ports, "b", order))
        self.world.run([partial(self.world.tasks.append, task) for task in late])
        self._settle()

    def _removing(self, late: list[Effect], order: Order) -> list[Callable[[], None]]:
        """Sweepers, deliveries from the life before, and somebody who wants the id again: in some order."""
        again: list[Callable[[], None]] = [partial(self.world.tasks.append, task) for task in late]
        sweeps: list[Callable[[], None]] = [self._clean] * 3
        if self.world.random.random() < 0.5:
            return [*sweeps[:1], partial(self._populate_anew, order, 8), *sweeps[1:], *again]
        return [*again, *sweeps] if self.world.random.random() < 0.5 else [*sweeps, *again]

    def _populate_anew(self, order: Order, tries: int) -> None:
        """Ask for the id until it is free, but not for ever."""

        def work() -> None:
            try:
                batches.populate(self.world.ports, "b", order)
            except Problem as taken:
                raise Unavailable(taken.detail) from taken

        again = partial(self._populate_anew, order, tries - 1)
        self.world.start("populates anew", work, lambda done: None if done or not tries else again())

    def _clean(self) -> None:
        self.world.pass_time(LIMITS.batch_look_seconds)
        self.world.start("sweep", lambda: self._swept(batches.sweep))
