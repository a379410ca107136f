"""The Cloud Tasks of a simulated world: at least once, out of order, each name taken once until it is free again.

A name stays taken while its task waits or runs, and for an hour to a day afterwards, chosen by the seed. Then the name
is free: a create under it succeeds, and the task runs again. Google documents up to 24 hours, and promises no minimum;
the kit counts on one hour.

A queue may have several shards, each with its own names. While a deployment changes their number, each process counts
them as its deployment does, so a task that is enqueued again may find its name free in another shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from signalbox.core import effects
from signalbox.core.effects import Effect
from signalbox.core.kit_names import queue_of, shard_names
from signalbox.core.ports import Ports
from signalbox.core.problems import Unavailable
from tests.compatibility.last_release import TODAY
from tests.simulation.reached_counts import NAMES_REUSED, REACHED, RESHARDED, TASKS_PURGED
from tests.simulation.versions import Versions, library_of_process

if TYPE_CHECKING:
    from tests.simulation.world import World

RETRY_SECONDS = 0.5
"""Backoff of a task that had a due time: one that was delivered too early is not retried at once."""

NAME_KEPT_SECONDS = (3_600, 4 * 3_600, 24 * 3_600)
"""How long a name stays taken after its task."""

SHARDS, OTHER_SHARDS = 3, (1, 2, 5)
"""The shards of a queue that has several, and their numbers in another deployment."""

SHARDED_SHARE, RESHARDED_SHARE = 0.5, 0.5
"""Of the worlds whose queue may have shards, those where it has some; and of these, those that change their number."""


class TaskQueue:
    """Tasks that wait, and names that are taken."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.waiting: list[Effect] = []
        self.names: dict[str, datetime | None] = {}
        self.handlers: dict[str, Callable[[Ports, dict[str, Any]], None]] = {}
        self.task_handlers: dict[str, Callable[[Ports, Effect], None]] = {}
        self.refuses: Callable[[Effect], bool] = lambda _: False
        self.on_reuse: Callable[[Effect], None] = lambda _: None
        self.ahead_seconds = 0.0
        self.retry_seconds = 0.0
        self.forgets_acknowledged = False
        self.acknowledged: set[str] = set()
        self._retry_at: dict[str, datetime] = {}
        self._enqueued_by: dict[str, str] = {}
        self._sharded: tuple[str, ...] = ()
        self._shards: tuple[int, ...] = ()
        self._draw = Random(0)
        self.resharded = 0

    def shard(self, queue: str, seed: int) -> None:
        """Give a queue shards in half of the worlds. In half of these, a deployment changes their number."""
        self._draw = Random(f"shards {seed}")
        if self._draw.random() < SHARDED_SHARE:
            changed = (self._draw.choice(OTHER_SHARDS),) if self._draw.random() < RESHARDED_SHARE else ()
            self._sharded, self._shards = (queue,), (SHARDS, *changed)

    @staticmethod
    def key(effect: Effect) -> str:
        """Return the key in `names` of a task that waits or has run."""
        return f"{effect.queue}/{effect.name}"

    def _placed(self, effect: Effect) -> Effect:
        """Return a task in its shard, as the process counts them that enqueues it."""
        if effect.queue not in self._sharded:
            return effect
        last = self._world.fault_rates.left <= 0
        counted = self._shards[-1] if last else self._draw.choice(self._shards)
        return replace(effect, queue=effects.shard_of(effect, counted))

    def _note_others(self, effect: Effect) -> None:
        """Count a second creation in another shard as a fault, which only a change of their number causes."""
        others = {self.key(replace(effect, queue=each)) for each in self._all_shards(effect)} - {self.key(effect)}
        if len(self._shards) > 1 and others & self.names.keys():
            self._world.log("  FAULT: its name is taken in another shard only")
            self._world.faults += 1
            self.resharded += 1
            REACHED[RESHARDED] += 1

    def _all_shards(self, effect: Effect) -> tuple[str, ...]:
        return shard_names(queue_of(effect.queue), max(self._shards, default=1))

    def take(self, effect: Effect) -> bool:
        """Create a task, or return False if its name is taken. Raises `Unavailable` when the queue refuses."""
        if self._world.forger:
            self._world.forger.check(effect)
        if self.refuses(effect):
            self._world.log("  the queue refuses")
            raise Unavailable("the queue refuses")
        placed = self._placed(effect)
        if self.key(placed) in self.names:
            free_at = self.names[self.key(placed)]
            if free_at is None or self._world.now() < free_at:
                self._world.log("  the name is taken: no second task")
                return False
            self._world.log(f"  the name {effect.name[:6]} was free again")
            REACHED[NAMES_REUSED] += 1
            self.on_reuse(effect)
        else:
            self._note_others(placed)
        self.names[self.key(placed)] = None
        self.acknowledged.discard(effect.name)
        self._enqueued_by[effect.name] = library_of_process()
        self.waiting.append(placed)
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
        task = replace(task, queue=queue_of(task.queue))
        if task.function in self.task_handlers:
            return partial(self.task_handlers[task.function], self._world.ports, task)
        return partial(self.handlers[task.function], self._world.ports, dict(task.payload))

    def purge(self, is_lost: Callable[[Effect], bool]) -> None:
        """Lose tasks that wait, as a purge of their queue does. Their names stay taken, as after their end."""
        lost = [task for task in self.waiting if is_lost(replace(task, queue=queue_of(task.queue)))]
        self._world.log(f"{len(lost)} tasks are purged")
        REACHED[TASKS_PURGED] += len(lost)
        for task in lost:
            self.waiting.remove(task)
            if task not in self.waiting:
                self._free_later(task)

    def _free_later(self, task: Effect) -> None:
        kept = timedelta(seconds=self._world.random.choice(NAME_KEPT_SECONDS))
        self.names[self.key(task)] = self._world.now() + kept

    def _ended(self, task: Effect, done: bool) -> None:
        if done:
            self.acknowledged |= {task.name} if self.forgets_acknowledged else set()
            self._free_later(task)
            return
        if task.name in self.acknowledged:
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
