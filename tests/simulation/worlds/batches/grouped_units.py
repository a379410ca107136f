"""Batches whose units are grouped: the worlds of `batches`, where one task runs several units and commits them all.

A delivery's time ends at random, and so does the time for which it holds outcomes. The code of some units raises at
first, or every time, or kills its process every time; in worlds with such units no call fails, and no process dies for
other reasons. So a unit that is given up there was started too often itself.

In some worlds the task takes several units at once: a first delivery calls it once, a later one for each unit. Its code
makes a call for each unit, without an id if that is not refused. Each of these calls is made under one name.

Checked as in `batches`; and when a unit's code starts: no more groups are under way than the batch allows at once,
unless people complete units. Checked for each outcome: only a unit whose code raises or kills every time is given up,
and a process that dies has run no more units without an outcome than one task has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import header_of_run
from signalbox.batches.model.tree import PageNode
from signalbox.batches.model.units import PlacedUnit, Unit
from signalbox.batches.service import units
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.idempotency_keys import idempotent_calls
from signalbox.core.ports import Ports, Snapshot, Store
from signalbox.core.problems import BadCall, Unavailable
from signalbox.core.user_code import CodeExited
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import OfUnit, TaskSubject, of_unit, parsed
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues, group_runs
from tests.simulation.processes import Killed
from tests.simulation.reached_counts import CALLS_OF_LISTS, CUT_GROUPS, GIVEN_UP, GROUPS_AGAIN, REACHED
from tests.simulation.user_task_effects import CHILD, effect_of, raise_any, take_effect
from tests.simulation.world import Violation
from tests.simulation.worlds.batches.kinds import KINDS, SMALL_LIMITS
from tests.simulation.worlds.batches.world import BatchesWorld

LIMITS = {**SMALL_LIMITS, "page_units_max": 5, "group_commit_bytes_max": 60}

PER_TASK = (2, 3, 5)

CARRIED_BYTES = (0, 64 * 1024)
"""The largest page whose payloads travel in tasks: in some worlds each group reads its page."""

STARTS_MAX, STARTS_MAX_WITH_FAULTS = 3, 100
"""Starts of a unit: one more for each fault, since each may deliver a task twice at once; many, where calls fail."""

BAD_RATE, CUT_RATE, FLUSH_RATE = 0.4, 0.1, 0.2
"""The share of worlds with units that raise or kill; how likely the time is over after a unit, or a commit is due."""

LISTS_RATE, JOINED_RATE = 0.3, 0.8
"""The share of worlds whose task takes several units at once, and of its groups whose payloads can be joined."""

FINE, FLAKY, RAISING, DEADLY = "fine", "flaky", "raising", "deadly"


class Broken(Exception):
    """What a user's code raises."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world to rest. Raises `Violation` when a property does not hold."""
    GroupedWorld(seed, trace).run()


class GroupedWorld(BatchesWorld):
    """One batch `b` of grouped units (and its sub-batch), its callers and its sweepers."""

    may_have_permits = False

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        self.kinds = [kind for kind in KINDS if not kind.from_outside]
        super().__init__(seed, trace)
        self.grouped = Random(f"grouped {seed}")
        self.callers.per_task = self.grouped.choice(PER_TASK)
        self.limits = {**LIMITS, "group_payloads_bytes_max": self.grouped.choice(CARRIED_BYTES)}
        self.purged = None
        self.bad: dict[int, str] = {}
        if self.grouped.random() < BAD_RATE and not self.kind.failing and not self.emptied:
            rates = self.world.fault_rates
            rates.kill = rates.abort = rates.lose_answer = 0
            kinds = (FINE, FINE, FLAKY, RAISING, DEADLY)
            first = int(self.kind.nested)  # the sub-batch of unit 0 would be given up, too
            self.bad = {index: self.grouped.choice(kinds) for index in range(first, self.kind.units_max)}
        starts_max = STARTS_MAX + self.world.fault_rates.left if self.bad else STARTS_MAX_WITH_FAULTS
        self.retry_limits = RetryLimits(starts_max)
        self.starts: Counter[str] = Counter()
        self.groups_under_way = GroupsUnderWay(self.world.store, self.callers.concurrency)
        self.world.observers.append(self._check_given_up)
        lists = Random(f"lists {seed}")
        of_two = self.world.versions is not None  # a call in the code looks for its task in today's library alone
        self.lists = lists if lists.random() < LISTS_RATE and not (self.kind.nested or of_two) else None
        self.calls: dict[str, str] = {}
        self.world.task_handlers[CHILD] = self._take_call

    def _paint(self, ports: Ports, effect: Effect) -> None:
        if "group" not in effect.context:
            super()._paint(ports, effect)
            return
        self.deliveries[effect.name] += 1
        self.unit_tasks.append(effect)
        group = Group.from_record(effect.context["group"])
        is_repeated = self.deliveries[effect.name] > 1
        REACHED[GROUPS_AGAIN] += is_repeated
        parts = self._stored_parts(effect)
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, self.deliveries[effect.name] - 1, *what))

        def is_live(unit: PlacedUnit) -> bool:
            return self.world.random.random() < 0.5 or units.unit_is_live(ports, unit)

        may_check = group.concurrency is not None and not self.kind.removed
        was_complete = may_check and self.groups_under_way.is_complete(group)

        def code(own: Delivered[OfUnit], _: TaskSubject | list[Unit] | None, __: Start) -> Any:
            if was_complete:
                raise Violation(f"group {group.number} of page {group.page} is complete, and runs")
            if self.rated:
                self.rated.begin_group(effect)
            return self._code(own.context.unit, parts)

        def code_of_lists(own: Delivered[OfUnit], subject: TaskSubject | list[Unit] | None, start: Start) -> Any:
            with idempotent_calls(own.operation, is_repeated=own.is_repeated, has_keys=False):
                placed = [own.context.unit] if not isinstance(subject, list) else group.units()
                results = []
                for unit in placed:
                    self._call_once(ports, unit)
                    results.append(code(replace(own, context=of_unit(unit, delivered.context)), None, start))
                return results if isinstance(subject, list) else results[0]

        pace = group_runs.GroupTime(self._is_cut, lambda: self._is_flushed)
        work, join = (code, None) if self.lists is None else (code_of_lists, self._join)
        try:
            group_runs.run_group(ports, delivered, self.retry_limits, is_live, work, pace, join=join)
        except (Broken, CodeExited) as error:
            raise Unavailable("the code of a unit raised") from error

    def _join(self, _: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        assert self.lists is not None, "only code of several units has its payloads joined"
        return {} if self.lists.random() < JOINED_RATE else None

    def _call_once(self, ports: Ports, unit: PlacedUnit) -> None:
        """Make the call of a unit, without an id if that is not refused."""
        try:
            take_effect(ports, unit.path)
        except BadCall:
            call = Call(CHILD, CHILD, {"what": unit.path})
            enqueues.by_id(ports, EnqueueRequest(call, id=unit.path.replace("/", "-")))

    def _take_call(self, _: Ports, effect: Effect) -> None:
        REACHED[CALLS_OF_LISTS] += 1
        what = effect_of(effect)
        if self.calls.setdefault(what, effect.name) != effect.name:
            raise Violation(f"the call of {what} was made twice")

    def _is_cut(self) -> bool:
        is_over = self.grouped.random() < CUT_RATE
        REACHED[CUT_GROUPS] += is_over
        return is_over

    def _is_flushed(self) -> bool:
        return self.grouped.random() < FLUSH_RATE

    def _code(self, unit: PlacedUnit, parts: set[str]) -> Any:
        if not self.helped:
            self.groups_under_way.begin(unit)
        self.starts[unit.path] += 1
        if self.purges:
            self.purges.may_raise(unit)
        self.world.step(f"runs unit {unit.index} of {unit.batch}")
        does = self.bad.get(unit.index, FINE) if unit.batch == "b" else FINE
        if does == DEADLY:
            raise Killed
        if does == RAISING or (does == FLAKY and self.starts[unit.path] == 1):
            raise_any(self.world, Broken, f"{unit.path} {self.starts[unit.path]}")
        return self._painted(unit, parts)

    def _check_given_up(self, path: str, _: Snapshot, after: Snapshot) -> None:
        """Check that a unit which is given up was started too often, and that it was its own code that did not end."""
        record = after.data or {}
        if "/units/" not in path or not str(record.get("text", "")).startswith("Gave up"):
            return
        REACHED[GIVEN_UP] += 1
        if self.bad and self.bad.get(record["index"], FINE) not in (RAISING, DEADLY):
            raise Violation(f"unit {record['index']} was given up, and its code is well")


class GroupsUnderWay:
    """Observes the groups of the batch `b`: their code was started, and not all of their units have an outcome."""

    def __init__(self, store: Store, concurrency: int | None) -> None:
        self._store = store
        self._concurrency = concurrency
        self._started: dict[str, Group] = {}

    def begin(self, unit: PlacedUnit) -> None:
        """Note that a unit's code starts. Raises `Violation` if too many groups are under way then."""
        if self._concurrency is None or unit.batch != "b" or unit.attempt:
            return
        assert unit.per_task is not None, "all units of the world are grouped"
        place = unit.page, unit.counter.number, unit.counter.first, unit.page_units, unit.per_task
        group = Group(unit.batch, unit.incarnation, *place, ordinal=0)
        self._started[group.task_name] = group
        under_way = [(one.page, one.number) for one in self._started.values() if not self.is_complete(one)]
        if len(under_way) > self._concurrency:
            raise Violation(f"groups {under_way} run at once, and only {self._concurrency} may")

    def is_complete(self, group: Group) -> bool:
        """Return whether all units of a group have an outcome, or its batch was removed."""
        paths = group.run.counter_path(group.counter), group.run.node_path(group.node), group.run.header_path
        counted, node, header = self._store.read(*paths)
        if header_of_run(header.data, group.run) is None or counted.data is None or node.data is None:
            return True
        is_marked = str(group.number) in PageNode.from_record(node.data).passed
        return is_marked or group.counter.with_record(counted.data).is_full
