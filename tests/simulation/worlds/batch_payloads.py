"""Batches whose units have large arguments and results, while calls fail, processes die, and the sweeper removes.

People populate two batches, some repeat it, add pages, complete units, retry failed ones, cancel, and use the id again
after the batch was removed. Some batches have grouped units, a rate, or both, and some small values look like the name
of a payload. Batches with large units follow some of them. Tasks with large arguments are enqueued. The sweeper runs
among all that.

Checked whenever a record is written or a payload is deleted: what a page or a unit names is its run's, and is in the
store. Checked at rest, after the walk: each payload has a batch. After the removal of all batches none is left. What a
unit or a task receives, and each result, is a value that was passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from typing import Any
from unittest import mock

from signalbox.batches import storage
from signalbox.batches import sweep as batches_sweep
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.lifecycle import has_succeeded
from signalbox.batches.model.headers import header_of
from signalbox.batches.model.large_values import stored_result
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import Unit
from signalbox.batches.requests import BatchSpec, RetryRequest
from signalbox.batches.service import lifecycle, population, retries
from signalbox.batches.tasks import run_batch_task
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.limits import DECLARED
from signalbox.core.ports import Ports, Query
from signalbox.core.problems import Problem
from signalbox.documents.service import transactions
from signalbox.documents.service.transactions import Transaction
from signalbox.payloads.model import OF_TASKS, opened, opened_members
from signalbox.payloads.service import opening_those_of
from signalbox.rates import service as rates_service
from signalbox.rates import sweep as rates_sweep
from signalbox.rates import tasks
from signalbox.rates.model import RateSettings
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import OfGroup, OfUnit, TaskSubject, is_named, parsed
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues, group_runs, runs
from signalbox.tasks.service.group_runs import GroupTime
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import ORPHANS, REACHED
from tests.simulation.world import Violation, World
from tests.simulation.worlds.named_payloads import DAY_SECONDS, KEY, SMALL, WALK_SECONDS, NamedPayloads

FUNCTION = "painter"
IDS = ("x", "y")
RATE = "r"
LOOK_ALIKE = {"$payload": {"value": "another value"}}
"""A small value that looks like one of a record, which would be read as another value."""

TRANSACTIONS_RATE = 0.5
"""The share of tasks that a transaction enqueues."""

CHANGED_RATE = 0.5
"""The share of retries with a large changed argument."""

KEPT_SECONDS = 2 * LIMITS.batch_keep_seconds


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    with ExitStack() as entered:
        entered.enter_context(mock.patch.dict(DECLARED, {"payloads": "on"}))
        entered.enter_context(replaced(**SMALL, then_bytes_max=1_200))
        BatchPayloadsWorld(seed, trace).run()


class OfBatches(NamedPayloads):
    """The payloads of batches: records below a header name those of its run, and so do the tasks of granted units."""

    def owns(self, path: str, owner: str) -> bool:
        return path == owner or path.startswith((f"{owner}/", "outbox/"))

    def is_over(self, path: str, key: str) -> bool:
        """Return whether a task's batch was removed: the task is dropped."""
        runs_left = {(header.data or {}).get("incarnation") for header in self.world.store.query(Query("batches"))}
        return path.startswith("outbox/") and not key.startswith(f"{OF_TASKS}/") and key.split("/")[2] not in runs_left

    def check_task(self, task: Effect) -> None:
        """Check that what a task names is in the store, unless its batch was removed. Raises `Violation`."""
        for key in KEY.findall(str(task.payload)):
            if key not in self.kept.contents and not self.is_over("outbox/", key):
                raise Violation(f"the task {task.name} names {key}, which is not in the store")

    def check_owners(self) -> None:
        for key, stored in self.kept.stored.items():
            [header] = self.world.store.read(stored.owner) if stored.owner else [None]
            if header is not None and (header.data or {}).get("incarnation") != key.split("/")[2]:
                raise Violation(f"{key} stays: {stored.owner} is not of its run")
        REACHED[ORPHANS] += 1


class BatchPayloadsWorld:
    """Two batches, their callers, tasks, and a sweeper."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.05, lose_answer=0.05, kill=0.08, duplicate=0.1, left=6)
        self.world = World(seed, rates, trace)
        self.payloads = OfBatches(
            self.world, (batches_sweep.sweep, rates_sweep.sweep), "batches", "pages", "units", "outbox"
        )
        # Retries behind another call's look again for hours.
        self.world.sweeper = lambda ports: (outbox.sweep(ports), rates_sweep.sweep(ports))
        self.world.task_handlers["batch_expand"] = lambda ports, task: run_batch_task(ports, task.task, task.payload)
        self.world.task_handlers[FUNCTION] = self._deliver
        self.world.task_handlers["semaphore_admit"] = lambda ports, task: tasks.TASKS[task.task](ports, task.payload)
        self.deliveries: Counter[str] = Counter()
        self._own = Random(f"groups, rates and small values {seed}")
        rates_service.put(self.world.reliable_ports(), RATE, RateSettings(6_000.0, 4))
        self.failures = self.world.random.choice((0, 1, 3))
        self.keys = 0

    def run(self) -> None:
        random = self.world.random
        self.world.run([self._act() for _ in range(random.randint(3, 7))])
        self.payloads.rest()
        self._check_followed()
        for _ in range(random.choice((0, 1, 2))):
            self.world.pass_time(random.choice((DAY_SECONDS, WALK_SECONDS, KEPT_SECONDS)))
            self.world.fault_rates.left = random.choice((0, 4))
            self.world.run([self._sweeping(), *(self._act() for _ in range(random.randint(1, 4)))])
            self.payloads.rest()
        self.world.fault_rates.left = 0
        self.payloads.walk()
        self.payloads.check_owners()
        self._check_results()
        for _ in range(3):
            self.world.pass_time(KEPT_SECONDS)
            self.payloads.rest(4)
        if left := [record.path for record in self.world.store.query(Query("batches"))]:
            raise Violation(f"batches are left: {left}")
        self.payloads.check_nothing_left()

    # --- what people do ---

    def _act(self) -> Callable[[], None]:
        random, id_, value = self.world.random, self.world.random.choice(IDS), self.payloads.value()
        match random.randrange(8):
            case 0 | 1 | 2:
                return self._populate(id_)
            case 3:
                changed = RetryRequest(payload={"text": value} if self._own.random() < CHANGED_RATE else {})
                key = self._own.choice(("", "k"))
                return self.payloads.beginning("retry", lambda: self._retry(id_, changed, key))
            case 4:
                return self.payloads.beginning("cancel", lambda: lifecycle.cancel(self.payloads.ports, id_))
            case 5:
                self.keys += 1
                return self._enqueue(random.choice(("", f"k{self.keys}")), Call(FUNCTION, "told", {"text": value}))
        return self._sweeping()

    def _enqueue(self, key: str, call: Call) -> Callable[[], None]:
        """Enqueue a call, alone or by a transaction that other transactions make run again."""

        def code(t: Transaction) -> None:
            t.put("last", {"of": str((t.get("last") or {}).get("of", ""))[:3] + key})
            t.enqueue(call)

        def by_transaction() -> None:
            transactions.run_transaction(self.payloads.ports, code, key, kind=Transaction)

        if self._own.random() < TRANSACTIONS_RATE:
            return self.payloads.beginning("transaction", by_transaction)
        request = EnqueueRequest(call, key)
        enqueue = enqueues.by_id if key else enqueues.every_time
        return self.payloads.beginning("enqueue", lambda: enqueue(self.payloads.ports, request))

    def _populate(self, id_: str) -> Callable[[], None]:
        random = self.world.random
        texts = [self._value() for _ in range(random.choice((1, 2, 3)))]
        units, concurrency = [{"text": text} for text in texts], random.choice((None, 1))
        spec = BatchSpec(
            task=Call(FUNCTION, "paint", {}),
            units=units,
            sealed=True,
            concurrency=concurrency,
            per_task=self._own.choice((None, 2)),
            rate=self._own.choice(("", RATE)),
            then=self._following(self._own.choice((0, 0, 1, 2))),
        )
        return self.payloads.beginning("person", lambda: population.populate(self.payloads.ports, id_, spec))

    def _following(self, stages: int) -> BatchSpec | None:
        """Return batches that follow each other, some of them with large units in all."""
        if not stages:
            return None
        units = [{"text": self._value()} for _ in range(self._own.choice((0, 1, 2)))]
        then = self._following(stages - 1)
        return BatchSpec(task=Call(FUNCTION, "paint", {}), units=units, sealed=True, then=then)

    def _retry(self, id_: str, request: RetryRequest, key: str) -> None:
        retries.retry(self.payloads.ports, id_, request, key)

    def _sweeping(self) -> Callable[[], None]:
        return self.payloads.beginning("sweep", self.payloads.sweep)

    # --- tasks ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        self.payloads.check_task(effect)
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, before, *what))

        def code(_: TaskSubject | None, __: Start) -> Any:
            return self._work(delivered)

        def code_of_unit(own: Delivered[OfUnit], _: TaskSubject | list[Unit] | None, __: Start) -> Any:
            return self._work(own)

        with opening_those_of(ports):
            if isinstance(delivered.context, OfGroup):
                pace = GroupTime(lambda: self._own.random() < 0.2, lambda: lambda: self._own.random() < 0.2)
                group_runs.run_group(ports, delivered, RetryLimits(50), lambda _: True, code_of_unit, pace)
            else:
                runs.run(ports, delivered, RetryLimits(50), lambda _: True, code)

    def _work(self, delivered: Any) -> Any:
        arguments = opened_members(delivered.payload) if is_named(delivered.context) else delivered.payload
        self._check(arguments["text"])
        self.world.step(f"{delivered.task} runs")
        if delivered.task == "paint" and self.failures:
            self.failures -= 1
            raise Problem("no paint")
        return self._value()

    def _value(self) -> Any:
        if self.world.random.random() < 0.7:
            return self.payloads.value()
        return self._own.choice(("small", LOOK_ALIKE))

    def _check(self, value: Any) -> None:
        if value not in ("small", LOOK_ALIKE):
            self.payloads.check_value(value)

    def _check_followed(self) -> None:
        """Check that the batches that follow exist."""
        for record in self.world.store.query(Query("batches")):
            header = header_of(record.data)
            if header and header.then and header.ended and has_succeeded(header):
                follows = BatchRun(record.id, header.incarnation).then_id
                if self.world.store.read(f"batches/{follows}")[0].data is None:
                    raise Violation(f"{record.id} has succeeded, and {follows} does not follow")

    def _check_results(self) -> None:
        ports = replace(self.world.reliable_ports(), payloads=self.payloads.kept)
        for record in self.world.store.query(Query("batches")):
            run, _ = storage.read_header(ports, record.id)
            for unit in storage.iterate_outcomes(ports, run, "succeeded"):
                with opening_those_of(ports):
                    self._check(opened(stored_result(unit.outcome)))
