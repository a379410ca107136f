"""Tasks that follow from commits: each committed change has its task, once under one name, and nothing else has one.

A counter stands for any record: an operation adds one to it and enqueues a few tasks named after the new count. One of
them may be refused for hours while the others are taken, and the sweeper may be away for hours.

In some worlds there are records that the queue never takes: a few, or more than one sweep looks at. A sweep may run out
of time too.

A task runs twice under one name only as `tasks_run_twice.py` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from random import Random
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.limits import LIMITS
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import OutOfTime, Ports, Put, Query, Snapshot, unlimited
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.tasks_run_twice import allow_from_an_old_outbox_record
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max

COUNTERS = ("counters/a", "counters/b")
TASKS_A_CHANGE = 2
SWEEP_PAGE = 2
CROWDED_RATE, POISONED_RATE = 0.2, 0.2
CROWDED_PAGES = 2
CROWD = 8
POISON_MAX = 2
"""The number of records that the queue never accepts, in a world that is not crowded: each sweep reads all records."""

RECORDS_IN_TIME = 3
"""Records that a sweep of some crowded worlds looks at before its time is over."""

CROWDED_SWEEPS_MAX = 2_000
"""A sweep begins at a random record, and here it looks at a third of them."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it comes to rest. Raises `Violation` when a property does not hold."""
    OutboxWorld(seed, trace).run()


class OutboxWorld:
    """Operations that crash anywhere, a queue that refuses for a while, a sweeper that runs repeatedly."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(abort=0.04, lose_answer=0.06, kill=0.06, duplicate=0.05, left=6), trace)
        self.world.handlers["count"] = self._count
        self.world.observers.append(self._changed)
        self.world.queue.refuses = self._refuses
        self.world.queue.shard("q", seed)
        self.world.queue.on_reuse = partial(allow_from_an_old_outbox_record, self.world)
        self.refused: frozenset[int] = frozenset()
        self.committed: list[tuple[str, int]] = []
        self.ran: list[tuple[str, int, int]] = []
        own = Random(f"crowd {seed}")
        self.crowd = [f"{own.getrandbits(64):016x}" for _ in range(CROWD * (own.random() < CROWDED_RATE))]
        self.hurried = bool(self.crowd) and own.random() < 0.5
        poison = own.randint(1, POISON_MAX) if not self.crowd and own.random() < POISONED_RATE else 0
        self.never_taken = [*self.crowd, *(f"{own.getrandbits(64):016x}" for _ in range(poison))]

    def run(self) -> None:
        random = self.world.random
        with replaced(sweep_page=SWEEP_PAGE, **({"sweep_pages_max": CROWDED_PAGES} if self.crowd else {})):
            self._leave_what_is_never_taken()
            calls = [self._operate] * random.randint(2, operations_max(6)) + [self._sweep] * 2 + [self._refuse]
            random.shuffle(calls)
            first = random.randint(0, len(calls))
            self.world.run(calls[:first])
            self.world.pass_an_outage()
            self.world.run(calls[first:])
            self._let_the_sweeper_finish()
            self._check_rest()

    def _leave_what_is_never_taken(self) -> None:
        """Leave records in the outbox that the queue never takes."""
        poison = Effect("poison", "q", "count", "count", {"part": None})
        for id_ in self.never_taken:
            self.world.store.commit([Put(f"{outbox.COLLECTION}/{id_}", outbox.to_record([poison]))])

    def _operate(self) -> None:
        path = self.world.random.choice(COUNTERS)
        self.world.start(f"adds to {path}", lambda: self._add_one(path))

    def _add_one(self, path: str) -> None:
        add_one(self.world.ports, path)

    def _sweep(self) -> None:
        self.world.pass_time(self.world.random.choice((0, LIMITS.outbox_patience_seconds)))
        self.world.start("sweep", self._swept)

    def _swept(self) -> None:
        outbox.sweep(self.world.ports, self._budget if self.hurried else unlimited)

    @staticmethod
    def _budget() -> OutOfTime:
        """Begin a budget that a few records use up."""
        records = count()
        return lambda: next(records) >= RECORDS_IN_TIME

    def _refuse(self) -> None:
        """From now on the queue refuses all tasks, or the last of each change, or none."""
        some = frozenset([TASKS_A_CHANGE - 1])
        self.refused = self.world.random.choice((frozenset(range(TASKS_A_CHANGE)), some, frozenset(), frozenset()))

    def _refuses(self, effect: Effect) -> bool:
        return effect.payload["part"] in {*self.refused, None}

    def _let_the_sweeper_finish(self) -> None:
        """Hours later perhaps, then a minute later, and the next: what any of them left behind, the next finds."""
        self.world.pass_an_outage()
        self.refused = frozenset()
        self.world.fault_rates.left = 0
        for number in range(CROWDED_SWEEPS_MAX if self.crowd else 2):
            if number >= 2 and not self._left():
                break
            self.world.pass_time(LIMITS.outbox_patience_seconds + 50)
            self.world.start("sweep", self._swept)
            self.world.run()

    def _left(self) -> list[str]:
        """Return the ids of the outbox records that the queue does take."""
        return [one.id for one in self.world.store.query(Query(outbox.COLLECTION)) if one.id not in self.never_taken]

    def _count(self, _: Ports, payload: Mapping[str, Any]) -> None:
        self.ran.append((payload["counter"], payload["count"], payload["part"]))

    def _changed(self, path: str, _: Snapshot, after: Snapshot) -> None:
        if path.startswith("counters/") and after.data is not None:
            self.committed.append((path, after.data["count"]))

    def _check_rest(self) -> None:
        expected = {(path, count, part) for path, count in self.committed for part in range(TASKS_A_CHANGE)}
        if missing := expected - set(self.ran):
            raise Violation(f"committed, and their tasks never ran: {sorted(missing)}")
        if invented := set(self.ran) - expected:
            raise Violation(f"tasks of commits that never landed ran: {sorted(invented)}")
        created = len(self.world.queue.names) - self.world.queue.resharded
        if created != len(expected):
            raise Violation(f"{created} names were taken for {len(expected)} tasks")
        if left := self._left():
            raise Violation(f"the outbox still holds {left}")


def add_one(ports: Ports, path: str) -> int:
    """Add one to a counter; enqueue a few tasks named after the count."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, int]:
        count = 1 + (read[0].data["count"] if read[0].data is not None else 0)
        payloads = [{"counter": path, "count": count, "part": part} for part in range(TASKS_A_CHANGE)]
        tasks = tuple(Effect(name_of(path, count, one["part"]), "q", "count", "count", one) for one in payloads)
        return Decision((Put(path, {"count": count}, read[0].guard),), count, tasks)

    count, _ = perform(ports, [path], decide)
    return count
