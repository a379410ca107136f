"""Units that take permits of the rate `r` when they start, in some worlds of batches.

In some of these, an operator changes the limits, cancels a wait, or deletes the rate and perhaps creates it again.
Checked when a unit's code starts: it has permits, and no other task runs this attempt of the unit. Checked at each
grant: the rate is the one that the wait was made for, and is not paused; no attempt of a unit, and no group, takes
permits twice; a group takes those of all its units, at most the burst; and
no wait that a batch had at its cancel takes any after the task that ends them. Checked when a unit's outcome is
recorded: a unit that has permits does not fail because the rate was deleted. Checked at rest: no wait is left, and that
task ran for each cancelled batch.

A unit that has failed may still take permits: an expand run that is delivered again a day later enqueues the unit's
task again, and the rate may exist again by then. These permits are lost, and the unit does not run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import GroupRuns, PlacedUnit
from signalbox.core.effects import Effect
from signalbox.core.kit_names import RATE_DROP
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import Problem
from signalbox.rates import service, sweep, tasks
from signalbox.rates.model import RateSettings, RateWait, path_of, waits_of
from signalbox.rates.problems import NoRate
from signalbox.rates.storage import wait_of
from tests.simulation.reached_counts import (
    RATED_GROUPS,
    RATED_UNITS,
    RATES_AGAIN,
    RATES_PAUSED,
    REACHED,
    UNITS_FAILED_BY_HAND,
)
from tests.simulation.world import Violation
from tests.simulation.worlds.rates import check_granting

if TYPE_CHECKING:
    from tests.simulation.worlds.batches.world import BatchesWorld

NAME = "r"

RATED_RATE = 0.3
"""The share of worlds without permits whose units take permits of a rate."""

BY_HAND_RATE = 0.7
"""The share of those in which an operator interferes, if they have no other special event."""

STEPS_MAX = 60
"""Round trips before an operator acts."""

PAUSED_HOURS = (3, 8, 30)
"""The hours for which an operator may pause the rate."""

DELETED_RATE = 0.5
"""The share of the others, without a special event, in which the rate is deleted between grants."""

DELETED_SECONDS = (0.3, 1.5)
"""The time after which this happens: an admit run has granted ahead by then."""

OPERATOR = "operator"

FAST, SLOWER, SLOW = RateSettings(600, 2), RateSettings(60, 1), RateSettings(1 / 4, 1)
"""Of a world, of an operator who lowers it, and of a world whose batch is cancelled: a permit every four minutes."""

BURST_OF_GROUPS = 6
"""Of a world whose units are grouped: some groups take more permits than this, if it did not limit them."""


def is_rated(seed: int) -> bool:
    """Return whether the units of a world without permits take permits of a rate."""
    return Random(f"rated {seed}").random() < RATED_RATE


class Rated:
    """The rate of a world, the units that take its permits, and the operator."""

    def __init__(self, batches: BatchesWorld, seed: int) -> None:
        self._batches, self._world = batches, batches.world
        self._random = Random(f"rated by hand {seed}")
        self._deleted = Random(f"rated and deleted {seed}")
        self._granted: dict[str, str] = {}
        self._ended: dict[str, datetime] = {}
        self._dropped: set[str] = set()
        self._ran_as: dict[tuple[str, int], str] = {}
        self.weight = self._random.randint(1, 2)
        burst = FAST.burst if batches.may_have_permits else BURST_OF_GROUPS
        slow = RateSettings(SLOW.per_minute, self.weight)
        self._settings = slow if batches.kind.cancelled else RateSettings(FAST.per_minute, burst)
        self._bursts = {self._settings.burst}
        service.put(self._world.reliable_ports(), NAME, self._settings)
        self._world.task_handlers["semaphore_admit"] = self._admit
        self._world.task_handlers[OPERATOR] = self._operate
        self._world.observers.append(self._observe)

    # --- units ---

    def begin(self, unit: PlacedUnit, effect: Effect) -> None:
        """Note that a unit's code runs. Raises `Violation` if it has no permits, or has run in another task."""
        if not effect.context["unit"].get("granted"):
            raise Violation(f"unit {unit.index} runs without permits")
        ran_as = self._ran_as.setdefault((unit.path, unit.attempt), effect.name)
        if ran_as != effect.name:
            raise Violation(f"unit {unit.index} has permits once, and runs in two tasks")
        REACHED[RATED_UNITS] += 1
        self._world.step(f"runs unit {unit.index} of {unit.batch}")

    def begin_group(self, effect: Effect) -> None:
        """Note that a unit's code runs in the task of its group. Raises `Violation` if that has no permits."""
        if not effect.context["group"].get("granted"):
            raise Violation(f"a group runs without permits: {effect.context['group']}")
        REACHED[RATED_GROUPS] += 1

    # --- what must hold ---

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        collection, _, id_ = path.rpartition("/")
        if collection == "batches" and after.data and after.data["state"] == "cancelled":
            header = Header.from_record(after.data)
            self._ended.setdefault(BatchRun(id_, header.incarnation).key, self._world.now())
        if collection == "batches/b/units" and after.data:
            self._check_recorded(after.data)
        if collection != waits_of(NAME):
            return
        old, new = wait_of(before), wait_of(after)
        if new is not None and new.is_of_group:
            self._check_weight(new)
        if new is None or new.state != "granted" or (old and old.state == "granted"):
            return
        assert old is not None, "a wait was granted"
        check_granting(self._world.store, new)
        operation = _operation(old)
        if self._granted.setdefault(operation, new.id) != new.id or old.state != "waiting":
            raise Violation(f"{new.id} and {self._granted[operation]} take permits for one attempt of a unit")
        if old.batch in self._dropped and old.created_at and old.created_at <= self._ended[old.batch]:
            raise Violation(f"{new.id} takes permits, although the waits of its cancelled batch were ended")

    def _check_recorded(self, record: Mapping[str, Any]) -> None:
        unit = PlacedUnit.from_record(record)
        operation = _group_of(unit).operation if unit.per_task and not unit.attempt else unit.operation
        if "does not exist" in str(record["text"]) and operation in self._granted:
            raise Violation(f"unit {record['index']} has permits, and failed: {record['text']}")

    def _check_weight(self, wait: RateWait) -> None:
        """Check that the task of a group takes the permits of all its units, at most the burst."""
        group = Group.from_record(_unit(wait.unit)["group"])
        if wait.weight not in {min(group.size * self.weight, burst) for burst in self._bursts}:
            raise Violation(f"{group.size} units of {self.weight} permits take {wait.weight} in one task")

    def _admit(self, ports: Ports, effect: Effect) -> None:
        tasks.TASKS[effect.task](ports, effect.payload)
        if effect.task == RATE_DROP:
            self._dropped.add(effect.payload["batch"])

    # --- the operator ---

    def by_hand(self) -> list[Callable[[], None]]:
        """Return the operator's actions."""
        if not self._batches.kind.calm:
            return []
        if self._random.random() >= BY_HAND_RATE:
            return [self._delete_between_grants] if self._deleted.random() < DELETED_RATE else []
        actions = [self._lower, self._cancel_a_wait, self._delete, self._delete_and_create]
        return self._random.sample(actions, self._random.randint(1, 2))

    def pause_for_hours(self) -> None:
        """Have an operator pause the rate, and resume it hours later, when the names of ended tasks are free again."""
        hours = self._random.choice(PAUSED_HOURS)

        def act() -> None:
            at = self._world.now() + timedelta(hours=hours)
            self._world.tasks.append(Effect("resume the rate", "people", OPERATOR, "resume", {}, not_before=at))
            service.pause(self._world.ports, NAME)

        REACHED[RATES_PAUSED] += 1
        self._world.start("pauses the rate", act)

    def _operate(self, ports: Ports, effect: Effect) -> None:
        if effect.task == "delete":
            self._delete_now()
        else:
            service.resume(ports, NAME)

    def _lower(self) -> None:
        def act() -> None:
            with suppress(NoRate):
                service.get(self._world.ports, NAME)
                self._bursts.add(SLOWER.burst)
                service.put(self._world.ports, NAME, SLOWER)

        self._later("lowers the rate", act)

    def _cancel_a_wait(self) -> None:
        def act() -> None:
            for wait in self._waiting()[:1]:
                with suppress(Problem):
                    service.cancel(self._world.ports, NAME, wait)
                    REACHED[UNITS_FAILED_BY_HAND] += 1

        self._later("cancels a wait", act)

    def _delete(self) -> None:
        self._later("deletes the rate", self._delete_now)

    def _delete_now(self) -> None:
        with suppress(NoRate):
            service.delete(self._world.ports, NAME)
        own = [task for task in self._batches.unit_tasks if task.name in self._granted]
        self._world.tasks.extend(own[-1:])  # a late delivery of a unit's own task, whose permits were granted

    def _delete_between_grants(self) -> None:
        """Have an operator delete the rate when some units have run, and others have permits for times soon after."""
        at = self._world.now() + timedelta(seconds=self._deleted.uniform(*DELETED_SECONDS))
        self._world.tasks.append(Effect("delete the rate", "people", OPERATOR, "delete", {}, not_before=at))

    def _delete_and_create(self) -> None:
        def act() -> None:
            REACHED[RATES_AGAIN] += bool(self._waiting())
            with suppress(NoRate):
                service.delete(self._world.ports, NAME)
            self._bursts.add(FAST.burst)
            service.put(self._world.ports, NAME, FAST)

        self._later("deletes the rate and creates it again", act)

    def _waiting(self) -> list[str]:
        waits = [wait_of(snapshot) for snapshot in self._world.store.query(Query(waits_of(NAME)))]
        return [wait.id for wait in waits if wait and wait.state == "waiting"]

    def _later(self, what: str, act: Callable[[], None]) -> None:
        steps = self._random.randint(0, STEPS_MAX)

        def work() -> None:
            for _ in range(steps):
                self._world.step("does other work")
            act()

        self._world.start(what, work)

    # --- rest ---

    def delete_again(self) -> None:
        """Have the operator delete the rate once more, if it does not exist."""
        if self._world.store.read(path_of(NAME))[0].data is None:
            with suppress(NoRate):
                service.delete(self._world.ports, NAME)

    def sweep(self, ports: Ports) -> None:
        """Run the rates' part of the sweeper."""
        sweep.sweep(ports)

    def check_rest(self) -> None:
        """Check that no wait is left, and that for each cancelled batch the task ran that ends its waits."""
        left = self._ended.keys() - self._dropped
        if left and not self._batches.emptied:
            raise Violation(f"the batches {left} were cancelled, and no task ended their waits")
        if waiting := self._waiting():
            raise Violation(f"{waiting} wait for a rate for ever")


def _unit(text: str) -> dict[str, Any]:
    unit: dict[str, Any] = json.loads(text)
    return unit


def _operation(wait: RateWait) -> str:
    """Return the task that waits: it runs a unit, or a group of units."""
    record = _unit(wait.unit)
    return (
        Group.from_record(record["group"]).operation if wait.is_of_group else PlacedUnit.from_record(record).operation
    )


def _group_of(unit: PlacedUnit) -> Group:
    return Group.of_unit(unit, GroupRuns(1, 0))
