"""The Cloud Tasks of a simulated world: at least once, out of order, each name taken once until it is free again.

A name stays taken while its task waits or runs, and for an hour to a day afterwards, chosen by the seed. Then the name
is free: a create under it succeeds, and the task runs again. Google documents up to 24 hours, and promises no minimum;
the kit counts on one hour.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from signalbox.core.effects import Effect
from signalbox.core.ports import Ports
from signalbox.core.problems import Unavailable
from tests.compatibility.last_release import TODAY
from tests.simulation.reached_counts import NAMES_REUSED, REACHED, TASKS_PURGED
from tests.simulation.versions import Versions, library_of_process

if TYPE_CHECKING:
    from tests.simulation.world import World

RETRY_SECONDS = 0.5
"""Backoff of a task that had a due time: one that was delivered too early is not retried at once."""

NAME_KEPT_SECONDS = (3_600, 4 * 3_600, 24 * 3_600)
"""How long a name stays taken after its task."""


class TaskQueue:
    """Tasks that wait, and names that are taken."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.waiting: list[Effect] = []
        self.names: dict[str, datetime | None] = {}
        self.faults_before: dict[str, int] = {}
        self.handlers: dict[str, Callable[[Ports, dict[str, Any]], None]] = {}
        self.task_handlers: dict[str, Callable[[Ports, Effect], None]] = {}
        self.refuses: Callable[[Effect], bool] = lambda _: False
        self.on_reuse: Callable[[Effect], None] = lambda _: None
        self.ahead_seconds = 0.0
        self.retry_seconds = 0.0
        self._retry_at: dict[str, datetime] = {}
        self._enqueued_by: dict[str, str] = {}

    def take(self, effect: Effect) -> bool:
        """Create a task, or return False if its name is taken. Raises `Unavailable` when the queue refuses."""
        if self._world.forger:
            self._world.forger.check(effect)
        if self.refuses(effect):
            self._world.log("  the queue refuses")
            raise Unavailable("the queue refuses")
        if effect.name in self.names:
            free_at = self.names[effect.name]
            if free_at is None or self._world.now() < free_at:
                self._world.log("  the name is taken: no second task")
                return False
            self._world.log(f"  the name {effect.name[:6]} was free again")
            REACHED[NAMES_REUSED] += 1
            self.on_reuse(effect)
        self.faults_before[effect.name] = self._world.faults
        self.names[effect.name] = None
        self._enqueued_by[effect.name] = library_of_process()
        self.waiting.append(effect)
        return True

    def due(self) -> list[Effect]:
        """Return the tasks that may run now, by the queue's clock."""
        now = self._world.now()
        return [task for task in self.waiting if self._due_at(task) <= now]

    def next_due(self) -> list[datetime]:
        """Return the times at which the waiting tasks may run."""
        return [self._due_at(task) for task in self.waiting]

    def dispatch(self, due: list[Effect]) -> None:
        """Start one of the due tasks; perhaps it is delivered once more later."""
        task = self._world.random.choice(due)
        self.waiting.remove(task)
        if self._world.inject_fault(self._world.fault_rates.duplicate):
            self._world.log(f"  FAULT: task {task.name[:6]} will be delivered again")
            self.waiting.append(task)
        self._world.start(f"task {task.task} {task.name[:6]}", self._work_of(task), partial(self._ended, task))

    def _work_of(self, task: Effect) -> Callable[[], None]:
        if self._world.versions is None:
            return self._handling(task)
        return partial(self._handle_carried, self._world.versions, task)

    def _handle_carried(self, versions: Versions, task: Effect) -> None:
        self._handling(versions.carried(task, self._enqueued_by.get(task.name, TODAY)))()

    def _handling(self, task: Effect) -> Callable[[], None]:
        if task.function in self.task_handlers:
            return partial(self.task_handlers[task.function], self._world.ports, task)
        return partial(self.handlers[task.function], self._world.ports, dict(task.payload))

    def purge(self, is_lost: Callable[[Effect], bool]) -> None:
        """Lose tasks that wait, as a purge of their queue does. Their names stay taken, as after their end."""
        lost = [task for task in self.waiting if is_lost(task)]
        self._world.log(f"{len(lost)} tasks are purged")
        REACHED[TASKS_PURGED] += len(lost)
        for task in lost:
            self.waiting.remove(task)
            if task not in self.waiting:
                self._free_later(task)

    def _free_later(self, task: Effect) -> None:
        kept = timedelta(seconds=self._world.random.choice(NAME_KEPT_SECONDS))
        self.names[task.name] = self._world.now() + kept

    def _ended(self, task: Effect, done: bool) -> None:
        if done:
            self._free_later(task)
            return
        self.waiting.append(task)
        if task.not_before is not None or self.retry_seconds:
            pause = max(RETRY_SECONDS, self.retry_seconds)
            self._retry_at[task.name] = self._world.now() + timedelta(seconds=pause)

    def _due_at(self, task: Effect) -> datetime:
        """Return when a task may run, by the queue's clock, which may be ahead of the server's."""
        begin = self._world.epoch
        if task.not_before is None and task.name not in self._retry_at:
            return begin
        ahead = timedelta(seconds=self.ahead_seconds)
        return max(self._retry_at.get(task.name, begin), (task.not_before or begin + ahead) - ahead)
