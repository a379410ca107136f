"""One queue: its tasks, which of them are due, and which are being delivered.

Whenever something changes (a task is stored, a delivery ends, the queue is resumed) `pump` starts every delivery that
rate and concurrency allow, and sets one timer for the next moment at which they may allow more.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from signalbox_tools.local.cloud_tasks.due_tasks import DueTasks, QueuedTask
from signalbox_tools.local.cloud_tasks.protobuf_messages import (
    RUNNING,
    Message,
    new_progress,
    rates_of,
    retries_of,
    seconds_of,
)
from signalbox_tools.local.cloud_tasks.queue_rules import Counts, Throttle
from signalbox_tools.local.cloud_tasks.shared_by_queues import QueueContext
from signalbox_tools.local.cloud_tasks.task_attempts import UNAVAILABLE, DispatchResult, Progress

MINUTE_SECONDS = 60.0
ENDED_MAX = 100_000  # times that are kept: above 1,600 attempts a second the count is too small


class LocalQueue:
    """A queue. `message` is its configuration and state. It dispatches from `begin` to `stop`."""

    def __init__(self, message: Message, context: QueueContext) -> None:
        self.message = message
        self.tasks: dict[str, QueuedTask] = {}
        self.counts = Counts()
        self._context = context
        self._due = DueTasks()
        self._timer: asyncio.TimerHandle | None = None
        self._deliveries: set[asyncio.Task[None]] = set()
        self._attempts = 0
        self._ended_at: deque[float] = deque(maxlen=ENDED_MAX)
        self._dispatching = False
        self._throttle = Throttle.full(rates_of(message), context.clock())

    @property
    def name(self) -> str:
        return str(self.message.name)

    @property
    def waiting(self) -> int:
        """The number of tasks that are not being delivered."""
        return self._due.length

    @property
    def running(self) -> int:
        """The number of deliveries in progress."""
        return len(self._deliveries)

    @property
    def next_due_at(self) -> float | None:
        """The time of the pending task that is due first, in seconds since 1970, or None if there is none."""
        return self._due.next_due_at()

    @property
    def ended_last_minute(self) -> int:
        """The number of attempts that ended in the last minute, as `executed_last_minute_count` of the API."""
        since = self._context.clock() - MINUTE_SECONDS
        while self._ended_at and self._ended_at[0] < since:
            self._ended_at.popleft()
        return len(self._ended_at)

    def configure(self, message: Message) -> None:
        """Apply another configuration."""
        self.message = message
        self._throttle = replace(self._throttle.refilled(self._context.clock()), rates=rates_of(message))
        self.pump()

    def begin(self) -> None:
        """Start dispatching."""
        self._dispatching = True
        self.pump()

    def add(self, spec: Message, named: bool) -> QueuedTask:
        """Accept a task. When its `stored` is done it is on disk, and due."""
        task = self._put(spec, new_progress(spec), named)
        task.stored = self._context.storage.add_task(self.name, named, spec, task.progress)
        task.stored.add_done_callback(lambda stored: self._stored(task, stored))
        return task

    def restore(self, spec: Message, progress: Progress, named: bool) -> None:
        """Restore a task from the storage."""
        self._due.put(self._put(spec, progress, named), progress.due_at)

    def remove(self, name: str) -> asyncio.Future[None]:
        """Remove a task; the result of a delivery in progress is ignored."""
        return self._context.storage.remove_task(name, self._end(name))

    def clear(self) -> asyncio.Future[None]:
        """Remove all tasks."""
        ends_at = self._context.clock() + self._context.tombstone_seconds
        for name, task in self.tasks.items():
            self._due.remove(task)
            if task.named:
                self._context.tombstones.add(name, ends_at)
        self.tasks.clear()
        return self._context.storage.remove_tasks(self.name, ends_at)

    def force(self, task: QueuedTask) -> None:
        """Deliver a task now, regardless of the limits and the state of the queue."""
        self._due.cancel(task)  # its result reschedules it
        self._start(task, began_at=self._context.clock())

    def pump(self) -> None:
        """Start the deliveries that are allowed, and set the timer for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wait_seconds = self._wait_seconds()
        while wait_seconds == 0:
            self._throttle = self._throttle.taken()
            self._start(self._due.pop())
            wait_seconds = self._wait_seconds()
        if wait_seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(wait_seconds, self.pump)

    def stop(self) -> None:
        """Stop dispatching and cancel deliveries in progress: the tasks stay in the storage."""
        if self._timer is not None:
            self._timer.cancel()
        self._dispatching = False
        for delivery in self._deliveries:
            delivery.cancel()

    def _end(self, name: str) -> float | None:
        """Remove a task from memory. If its caller named it, reserve the name, and return the time until then."""
        task = self.tasks.pop(name)
        self._due.remove(task)
        if not task.named:
            return None
        ends_at = self._context.clock() + self._context.tombstone_seconds
        self._context.tombstones.add(name, ends_at)
        return ends_at

    def _complete(self, name: str) -> None:
        self._context.storage.complete_task(name, self._end(name))

    def _put(self, spec: Message, progress: Progress, named: bool) -> QueuedTask:
        task = self.tasks[spec.name] = QueuedTask(spec, progress, named)
        return task

    def _stored(self, task: QueuedTask, stored: asyncio.Future[None]) -> None:
        if self.tasks.get(task.spec.name) is not task:
            return
        if stored.cancelled() or stored.exception() is not None:
            del self.tasks[task.spec.name]
            return
        self.counts.created += 1
        self._enqueue(task)
        self.pump()

    def _enqueue(self, task: QueuedTask) -> None:
        self._due.put(task, task.progress.due_at + self._context.chaos.delay_seconds())

    def _wait_seconds(self) -> float | None:
        """Return the seconds until the next dispatch: 0 means now, None that nothing is due."""
        due_at = self._due.next_due_at()
        if due_at is None or not self._may_start():
            return None
        now = self._context.clock()
        if due_at > now:
            return due_at - now
        self._throttle = self._throttle.refilled(now)
        return self._throttle.wait_seconds()

    def _may_start(self) -> bool:
        is_running = self._dispatching and self.message.state == RUNNING
        return is_running and self._attempts < self._throttle.rates.concurrent_max

    def _start(self, task: QueuedTask, began_at: float | None = None) -> None:
        task.progress = task.progress.dispatched(self._context.clock())
        self.counts.dispatched += 1
        self._attempts += 1
        self._spawn(self._attempt(task, began_at))
        again_seconds = self._context.chaos.second_delivery_seconds()
        if again_seconds is not None:
            self._spawn(self._repeat(task.spec, task.progress, again_seconds))

    def _spawn(self, delivery: Coroutine[Any, Any, None]) -> None:
        running = asyncio.get_running_loop().create_task(delivery)
        self._deliveries.add(running)
        running.add_done_callback(self._ended)

    def _ended(self, delivery: asyncio.Task[None]) -> None:
        self._deliveries.discard(delivery)
        self.pump()

    async def _repeat(self, spec: Message, progress: Progress, after_seconds: float) -> None:
        """Deliver a task once more; the worker's response is ignored."""
        await asyncio.sleep(after_seconds)
        await self._context.deliver(spec, progress)

    async def _attempt(self, task: QueuedTask, began_at: float | None) -> None:
        try:
            answer = await self._context.deliver(task.spec, task.progress)
        finally:
            self._attempts -= 1
        now = self._context.clock()
        self._ended_at.append(now)
        if answer.throttles:
            self._throttle = self._throttle.throttled(now)
        if task.gone:
            return
        if answer.succeeded and self._context.chaos.loses_answer():
            answer = DispatchResult(None, UNAVAILABLE)
        if answer.succeeded:
            self.counts.done += 1
            self._complete(task.spec.name)
        else:
            self._retry(task, answer, began_at if began_at is not None else now, now)

    def _retry(self, task: QueuedTask, answer: DispatchResult, began_at: float, now: float) -> None:
        own = task.spec.HasField("retry_config")
        retries = retries_of(task.spec.retry_config if own else self.message.retry_config)
        task.progress = task.progress.failed(answer, retries, began_at, now)
        if task.progress.expired(retries, seconds_of(task.spec.create_time), now):
            self.counts.dropped += 1
            self._complete(task.spec.name)
            return
        self._context.storage.advance_task(task.spec.name, task.progress)
        self._enqueue(task)
