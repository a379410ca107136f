"""What Google Cloud does around functions, in this process and only when a test calls for it.

The store is the in-memory one; its events and the queue's tasks wait in two lists until they are delivered to the
functions' real entry points. The clock does not move by itself: it is moved by a test or to the time of the next task.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from infra.catalogue import CATALOGUE
from shared.adapters import runtime, settings
from shared.adapters.cloud_tasks import task_request
from shared.adapters.meter import Cost, metered
from shared.adapters.settings import from_environment
from shared.core.operations.ports import DocumentEvent, Ports, Query, Snapshot
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Problem
from shared.kit import batch_liveness_cache
from shared.testing.clock import ManualClock
from shared.testing.delivery import Delivery, Run, succeeded
from shared.testing.document_events import body_of, event_of, headers_of
from shared.testing.faults import Faults
from shared.testing.loading import FunctionTable
from shared.testing.memory_store import MemoryStore
from shared.testing.recorded_log import RecordedLog
from shared.testing.task_queue import HeldTaskQueue

RECORDS_MAX = 1_000_000


class Platform:
    """Store, queue, events, clock and log, and deliveries to the functions of a catalogue.

    `tasks` and `events` wait for their delivery, oldest first; a test may look at them, remove or reorder them.
    `abandoned` are the deliveries that ended with a `Problem`, so that they are not retried.
    """

    def __init__(self, catalogue: Path = CATALOGUE) -> None:
        self.clock = ManualClock()
        self.queue = HeldTaskQueue(self.clock)
        self.log = RecordedLog()
        self.store = MemoryStore(lambda: self.clock.now, self._observe)
        self.ports = metered(Ports(self.store, self.queue, self.clock, self.log))
        self.functions = FunctionTable(catalogue)
        self.events: list[DocumentEvent] = []
        self.abandoned: list[Delivery] = []
        self._events_seen = 0

    @property
    def tasks(self) -> list[Effect]:
        return self.queue.tasks

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Use this store, queue and clock in all functions of this process while the context is entered."""
        before = runtime.bind(self.ports)
        settings_before = settings.bind(self.functions.settings())
        if before is None or before.store is not self.ports.store:
            batch_liveness_cache.clear()
        try:
            yield
        finally:
            settings.bind(settings_before)
            runtime.bind(before)

    def advance(self, seconds: float) -> None:
        """Move the time on. Nothing is delivered by that."""
        self.clock.advance(seconds)
        batch_liveness_cache.clear()

    def record(self, path: str) -> Any:
        """Return what the record at a path holds; None where there is none."""
        return self.store.read(path)[0].data

    def ids(self, collection: str) -> list[str]:
        """Return the ids of all records of a collection, in order."""
        return [snapshot.id for snapshot in self.store.query(Query(collection, limit=RECORDS_MAX))]

    # --- one delivery ---

    def deliver_task(self, task: Effect, *, executions: int | None = None, retries: int | None = None) -> Delivery:
        """Deliver a task once, due or not, and return how that ended; an error is not raised, and not retried.

        The headers count earlier deliveries as the queue does, unless they are passed.
        """
        if task in self.tasks:
            self.tasks.remove(task)
        attempts = self.queue.attempts(task)
        counts = {
            "X-CloudTasks-QueueName": task.queue,
            "X-CloudTasks-TaskName": task.name,
            "X-CloudTasks-TaskExecutionCount": str(attempts.executions if executions is None else executions),
            "X-CloudTasks-TaskRetryCount": str(attempts.retries if retries is None else retries),
        }
        call = task_request(from_environment({}), task, task.trace)["task"]["http_request"]
        headers = {**call["headers"], **counts}
        return self._deliver(f"{task.function}/{task.task}", task.function, task.path, call["body"], headers)

    def deliver_event(self, event: DocumentEvent) -> list[Delivery]:
        """Deliver an event once to each function with a trigger that fits, as `deliver_task` does."""
        if event in self.events:
            self.events.remove(event)
        functions = [trigger.function for trigger in self.functions.triggers if trigger.fits(event)]
        what = f"event of {event.path}"
        return [self._deliver(what, each, "/", body_of(event), headers_of(event)) for each in functions]

    def run_schedule(self, schedule: str) -> Delivery:
        """Call what a schedule of the catalogue calls, now. Raises `TaskFailed`."""
        headers = {"X-CloudScheduler-JobName": schedule, "X-CloudScheduler-ScheduleTime": self.clock.now.isoformat()}
        entry = self.functions.scheduled(schedule)
        headers |= {"Content-Type": "application/json"} if entry.body else {}
        return succeeded(self._deliver(schedule, entry.called, "/", entry.body, headers))

    def take(self, task: str) -> Effect:
        """Take the one waiting task of that name out of the queue, for the test to deliver it."""
        [taken] = [each for each in self.tasks if each.task == task]
        self.tasks.remove(taken)
        return taken

    # --- all deliveries ---

    def run(self, faults: Faults | None = None, *, raise_errors: bool = True, due_only: bool = False) -> None:
        """Deliver all events and tasks, and those that follow from them, until nothing waits.

        The clock moves to each task's time; with `due_only` it does not move, and later tasks keep waiting. Raises
        `TaskFailed` when the function's code raises, with its traceback; without `raise_errors` such a task is retried
        until it is given up.
        """
        Run(self, faults or Faults(), raise_errors).all(self.clock.now if due_only else None)

    def travel(self, seconds: float, faults: Faults | None = None, *, raise_errors: bool = True) -> None:
        """Move the time on so far, and deliver on the way what becomes due, each at its time. Raises as `run` does.

        A month of a flow passes in milliseconds: ``harness.travel(30 * 86_400)``.
        """
        end = self.clock.now + timedelta(seconds=seconds)
        Run(self, faults or Faults(), raise_errors).all(end)
        self.advance(max(0.0, (end - self.clock.now).total_seconds()))

    # --- what both need ---

    def call(self, function: str, path: str, **request: Any) -> TestResponse:
        """Send an HTTP request to a function's entry point, with the arguments of werkzeug's test client."""
        app = self.functions.app(function)
        with self.bound():
            return app.test_client().open(path, **request)

    def _deliver(self, what: str, function: str, path: str, body: bytes, headers: Mapping[str, str]) -> Delivery:
        lines = len(self.log.infos), len(self.log.errors)
        status = self.call(function, path, method="POST", data=body, headers=headers).status_code
        exceptions = [values.get("exception") for _, values in self.log.errors[lines[1] :]]
        raised = next((each for each in reversed(exceptions) if isinstance(each, Exception)), None)
        delivery = Delivery(what, status, self._cost(lines[0]), raised)
        if isinstance(raised, Problem):
            self.abandoned.append(delivery)
        return delivery

    def _cost(self, first: int) -> Cost:
        """Read from the line that every handled call logs what it has cost."""
        names = [field.name for field in fields(Cost)]
        counted = [values for _, values in self.log.infos[first:] if values.keys() >= set(names)]
        return Cost(**{name: int(str(counted[-1][name])) for name in names}) if counted else Cost()

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        event = event_of(f"event-{self._events_seen}", path, before, after)
        if any(trigger.fits(event) for trigger in self.functions.triggers):
            self._events_seen += 1
            self.events.append(event)
