"""The clock, the log and the task queue of a test, and a store that knows the composite indexes of the cloud.

Nothing moves and nothing is delivered unless the test does it. Google's emulator and the in-memory store do not use
indexes, so a query without its index would fail in the cloud only: `IndexedStore` refuses it. The problem contains the
entry to add to the catalogue. The cloud's error is translated into the same problem.
"""

import sys
import traceback
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from signalbox.adapters import tracing
from signalbox.adapters.firestore.messages import needs_index
from signalbox.adapters.logs import current_trace
from signalbox.core.effects import Effect, RecordedSpan
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Budget, OutOfTime, Query, Snapshot, Store
from signalbox.core.problems import Problem
from signalbox.core.queries import Index, lacking
from signalbox.core.validation import check_query, full_order

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that only a test moves: the server's time `now`, and a `Clock`. A sleep advances it at once.

    `slept_seconds` are the sleeps so far.
    """

    def __init__(self, now: datetime = EPOCH) -> None:
        self.now = now
        self.slept_seconds: list[float] = []

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        self.now += timedelta(seconds=seconds)

    def advance_to(self, time: datetime | None) -> None:
        """Advance the time to `time`, unless it is past or None."""
        self.now = max(self.now, time or self.now)

    def sleep(self, seconds: float) -> None:
        self.slept_seconds.append(seconds)
        self.advance(seconds)

    def jitter(self) -> float:
        """Return the mean of a real clock's jitter."""
        return 0.5


def budget_of(records: int) -> Budget:
    """Return a budget of the sweeper that is used up after `records` records."""

    def begin() -> OutOfTime:
        read = count()
        return lambda: next(read) >= records  # it is read before each record

    return begin


Line = tuple[str, dict[str, object]]
"""A message and its values."""


class RecordedLog:
    """A log that a test can read: its lines in order, in `infos` and `errors`; `notes` are the durations of requests.

    Exceptions are also written to standard error, where pytest shows them with a failure.
    """

    def __init__(self) -> None:
        self.infos: list[Line] = []
        self.errors: list[Line] = []
        self.notes: list[dict[str, float]] = []
        self.spans: list[RecordedSpan] = []

    def note(self, **seconds: float) -> None:
        self.notes.append(seconds)

    def span(self, recorded: RecordedSpan) -> None:
        self.spans.append(recorded)
        tracing.record(recorded)

    def info(self, message: str, /, **values: object) -> None:
        self.infos.append((message, values))

    def error(self, message: str, /, **values: object) -> None:
        self.errors.append((message, values))
        exception = values.get("exception")
        if isinstance(exception, Exception) and not isinstance(exception, Problem):
            traceback.print_exception(exception, file=sys.stderr)


RETRY_SECONDS = 1.0
"""Pause before a failed delivery of a task is repeated."""


@dataclass(slots=True)
class Attempts:
    """Earlier deliveries of a task as its headers count them, and when the next one is due."""

    executions: int = 0
    retries: int = 0
    due_at: datetime | None = None


class HeldTaskQueue:
    """A `TaskQueue` whose tasks wait in the list `tasks`, oldest first, until a test delivers them.

    A name is taken once. A test may remove, reorder or add tasks. While `refusal` is an exception, the queue raises it
    instead of accepting tasks.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.tasks: list[Effect] = []
        self.names: set[str] = set()
        self.refusal: Exception | None = None
        self._clock = clock
        self._attempts: dict[str, Attempts] = {}

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Accept tasks, except those whose name was taken before. Return these names.

        A task without a trace has that of the request.
        """
        if self.refusal:
            raise self.refusal
        taken = []
        for effect in effects:
            if effect.name in self.names:
                taken.append(effect.name)
            else:
                self.names.add(effect.name)
                self.tasks.append(replace(effect, trace=effect.trace or current_trace()))
        return taken

    def attempts(self, task: Effect) -> Attempts:
        """Return the counts of a task, which a test may change."""
        return self._attempts.setdefault(task.name, Attempts())

    def due_at(self, task: Effect) -> datetime:
        """Return the time at which a task may be delivered: its own, or that of its retry; now if it has none."""
        times = (task.not_before, self.attempts(task).due_at, self._clock.now)
        return max(time for time in times if time is not None)

    def due(self) -> list[Effect]:
        """Return the tasks that may be delivered now, oldest first."""
        return [task for task in self.tasks if self.due_at(task) <= self._clock.now]

    def next_at(self) -> datetime:
        """Return the time at which the next task is due; there must be one."""
        return min(map(self.due_at, self.tasks))

    def advance_to_next(self) -> None:
        """Move the clock to the time at which the next task is due."""
        self._clock.advance_to(self.next_at())

    def postpone(self, task: Effect, seconds: float) -> None:
        """Put a task back, to be delivered later."""
        self.attempts(task).due_at = self._clock.now + timedelta(seconds=seconds)
        self.tasks.append(task)

    def retry(self, task: Effect, *, executed: bool) -> None:
        """Put a task back after a failed delivery. `executed`: whether a process responded to it."""
        attempts = self.attempts(task)
        attempts.executions += executed
        attempts.retries += 1
        self.postpone(task, RETRY_SECONDS)


class IndexedStore:
    """A store with only these composite indexes, on top of another store."""

    def __init__(self, store: Store, declared: Collection[Index]) -> None:
        self._store, self._declared = store, declared
        self.read, self.read_some = store.read, store.read_some
        self.commit, self.write_each, self.new_id = store.commit, store.write_each, store.new_id

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        self._check(query)
        return self._store.query(query)

    def count(self, query: Query) -> int:
        self._check(query)
        return self._store.count(query)

    def _check(self, query: Query) -> None:
        check_query(query)
        if index := lacking(query.collection, query.where, full_order(query), self._declared):
            raise needs_index(index)
