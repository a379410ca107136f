"""One seeded world in which the kit's own operations run: server time, a store, a queue, events, processes that die.

Every operation runs in a greenlet and stops before each call of a port; the seed decides who goes on next. So all
interleavings of all round trips are possible, the code under test is the real one, and a seed replays to the letter.
What the platform may do to a process, the world does: deliver twice, late and out of order, abort a call, lose the
answer of one that took effect, kill a process before or after any step. Faults are few a seed, so that every world
comes to rest.

The server's clock creeps on with every step. It leaps where a world asks for it (`leaps`), and to the next task that
is due when nothing else can happen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from greenlet import greenlet

from shared.core.operations.ports import DocumentEvent, Ports, Snapshot
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Problem, Unavailable
from shared.testing.memory_store import MemoryStore
from tests.simulation.ports import SimulatedClock, SimulatedLog, SimulatedQueue, SimulatedStore

STEPS_MAX = 20_000
"""A world that takes more steps never comes to rest."""

TOGETHER_MAX = 5
"""Processes at once: races of the protocols need two or three."""

PACES = (0.002, 0.05, 1.0)
"""How eagerly a process goes on. Most bad interleavings have one that stands still while others run to their end."""

PACE_CHANGES = 0.15
"""How often, a step, a process changes its pace."""

RETRY_SECONDS = 0.5
"""Before a task that was due at some time is tried again: so one that came too early does not come at once."""

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


PACE_OF_TIME = 0.05
"""How eagerly the clock leaps, where it may."""


class Violation(AssertionError):
    """A property does not hold in this world."""


class Killed(BaseException):
    """The process is gone. Not an `Exception`: nothing in the code under test may live on."""


@dataclass(slots=True)
class Process:
    """A greenlet at work; `ended` hears whether its work is done or should be asked for again."""

    name: str
    run: greenlet
    ended: Callable[[bool], None]
    pace: float


@dataclass(slots=True)
class Chances:
    """How likely each misfortune is at each opportunity, and how many a world has in all."""

    abort: float = 0.02
    lose_answer: float = 0.03
    kill: float = 0.02
    twice: float = 0.1
    without_data: float = 0.03
    left: int = 5


class World:
    """A place where operations run. Subclass nothing: give it processes, call `run`, then look at `store`."""

    def __init__(self, seed: int, chances: Chances | None = None, trace: Callable[[str], None] | None = None) -> None:
        self.random = Random(seed)
        self.chances = chances or Chances()
        self.trace = trace
        self._microseconds = 0
        self.store = MemoryStore(self._now, self._observed, self._new_id)
        self.observers: list[Callable[[str, Snapshot, Snapshot], None]] = []
        self.events: list[DocumentEvent] = []
        self.tasks: list[Effect] = []
        self.names: set[str] = set()
        self.refusing = False
        self.processes: list[Process] = []
        self.handlers: dict[str, Callable[[Ports, dict[str, Any]], None]] = {}
        self.task_handlers: dict[str, Callable[[Ports, Effect], None]] = {}
        self.due: dict[str, datetime] = {}
        self.queue_ahead_seconds = 0.0
        self.step_microseconds_max = 50
        self.leaps: tuple[float, ...] = ()
        self.leaps_left = 0
        self.on_event: Callable[[Ports, DocumentEvent], None] | None = None
        self.ports = Ports(SimulatedStore(self), SimulatedQueue(self), SimulatedClock(self), SimulatedLog(self))
        self._main = greenlet.getcurrent()
        self._current = ""
        self._event_number = 0
        self._pace_of_users, self._pace_of_events, self._pace_of_tasks = (
            self.random.choice((0.03, 0.2, 1.0)) for _ in range(3)
        )

    # --- time, chance and the trace ---

    def _now(self) -> datetime:
        return EPOCH + timedelta(microseconds=self._microseconds)

    def ports_of_store(self) -> Ports:
        """Give ports whose store never fails and never waits: for setting a world up."""
        return Ports(self.store, self.ports.queue, self.ports.clock, self.ports.log)

    def pass_time(self, seconds: float) -> None:
        """Let the server's clock move on."""
        self._microseconds += int(seconds * 1e6)

    def now(self) -> datetime:
        """Tell the server's time."""
        return self._now()

    def _new_id(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    def misfortune(self, chance: float) -> bool:
        """Draw whether something goes wrong here, as long as the world has misfortunes left."""
        if self.chances.left <= 0 or self.random.random() >= chance:
            return False
        self.chances.left -= 1
        return True

    def say(self, text: str) -> None:
        """Put a line into the trace."""
        if self.trace:
            self.trace(f"{self._microseconds:>12} {self._current:<28} {text}")

    # --- what the store tells ---

    def _observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        self.say(f"  {path} is now {dict(after.data) if after.data is not None else None}")
        for observer in self.observers:
            observer(path, before, after)
        if path.startswith("documents/") and self.on_event:
            self._event_number += 1
            collection, _, key = path.rpartition("/")
            self.events.append(DocumentEvent(f"e{self._event_number}", collection, key, path, before.data, after.data))

    # --- processes ---

    def start(self, name: str, work: Callable[[], None], ended: Callable[[bool], None] = lambda _: None) -> None:
        """Begin a process; `ended` hears whether its work is done, or should be asked for again."""
        self.processes.append(Process(name, greenlet(work, self._main), ended, self.random.choice(PACES)))

    def stop_here(self, what: str) -> None:
        """Called by a process before each step: let others go first; perhaps die."""
        self._main.switch()
        self._microseconds += self.random.randrange(1, self.step_microseconds_max)
        self.say(what)

    def _resume(self, process: Process) -> None:
        self._current = process.name
        try:
            if self.misfortune(self.chances.kill):
                self.say("dies")
                process.run.throw(Killed)
            else:
                process.run.switch()
        except Killed:
            self._end(process, done=False)
        except Unavailable as error:
            self.say(f"unavailable: {error}")
            self._end(process, done=False)
        except Problem as problem:
            self.say(f"problem: {problem.detail}")
            self._end(process, done=True)
        else:
            if process.run.dead:
                self._end(process, done=not self.misfortune(self.chances.kill))

    def _end(self, process: Process, *, done: bool) -> None:
        self.processes.remove(process)
        self.say("is done" if done else "is not known to be done")
        process.ended(done)

    # --- deliveries ---

    def _deliver_event(self) -> None:
        event = self._draw(self.events)
        assert self.on_event
        handle = self.on_event
        if self.misfortune(self.chances.without_data):
            event = DocumentEvent(event.id, event.collection, event.key, event.path, None, None)
        self.start(
            f"event {event.id} of {event.key}", lambda: handle(self.ports, event), self._again(self.events, event)
        )

    def _dispatch_task(self) -> None:
        task = self.random.choice(self._tasks_due())
        self.tasks.remove(task)
        if self.misfortune(self.chances.twice):
            self.tasks.append(task)
        self.start(f"task {task.task} {task.name[:6]}", self._work_of(task), self._retried(task))

    def _work_of(self, task: Effect) -> Callable[[], None]:
        if task.function in self.task_handlers:
            return partial(self.task_handlers[task.function], self.ports, task)
        return partial(self.handlers[task.function], self.ports, dict(task.payload))

    def _retried(self, task: Effect) -> Callable[[bool], None]:
        def ended(done: bool) -> None:
            if not done:
                self.tasks.append(task)
                if task.not_before is not None:
                    self.due[task.name] = self._now() + timedelta(seconds=RETRY_SECONDS)

        return ended

    def _due_at(self, task: Effect) -> datetime:
        """Say when a task may run, by the queue's clock, which may be ahead of the server's."""
        ahead = timedelta(seconds=self.queue_ahead_seconds)
        return max(self.due.get(task.name, EPOCH), (task.not_before or EPOCH + ahead) - ahead)

    def _tasks_due(self) -> list[Effect]:
        return [task for task in self.tasks if self._due_at(task) <= self._now()]

    def _draw(self, waiting: list[Any]) -> Any:
        item = waiting.pop(self.random.randrange(len(waiting)))
        if self.misfortune(self.chances.twice):
            waiting.append(item)
        return item

    @staticmethod
    def _again(waiting: list[Any], item: object) -> Callable[[bool], None]:
        return lambda done: None if done else waiting.append(item)

    # --- the run ---

    def run(self, beginnings: Sequence[Callable[[], None]] = ()) -> None:
        """Run until nothing is left to do. `beginnings` start in their order, whenever there is room."""
        waiting = list(beginnings)
        for _ in range(STEPS_MAX):
            moves = self._moves(waiting)
            if not moves:
                return
            self.random.choices([move for move, _ in moves], [weight for _, weight in moves])[0]()
        raise Violation(f"no rest after {STEPS_MAX:,} steps")

    def _moves(self, waiting: list[Callable[[], None]]) -> list[tuple[Callable[[], None], float]]:
        moves: list[tuple[Callable[[], None], float]]
        moves = [(partial(self._go_on, process), process.pace) for process in self.processes]
        if len(self.processes) < TOGETHER_MAX:
            moves += [(partial(self._begin, waiting), self._pace_of_users)] if waiting else []
            moves += [(self._deliver_event, self._pace_of_events)] if self.events else []
            moves += [(self._dispatch_task, self._pace_of_tasks)] if self._tasks_due() else []
        if not moves and self.tasks:
            return [(self._wait_for_a_task, 1.0)]
        if moves and self.leaps_left > 0:
            moves += [(self._leap, PACE_OF_TIME)]
        return moves

    @staticmethod
    def _begin(waiting: list[Callable[[], None]]) -> None:
        waiting.pop(0)()

    def _wait_for_a_task(self) -> None:
        self.pass_time(max(0.0, (min(map(self._due_at, self.tasks)) - self._now()).total_seconds()) + 1e-6)

    def _leap(self) -> None:
        self.leaps_left -= 1
        self.pass_time(self.random.choice(self.leaps))

    def _go_on(self, process: Process) -> None:
        if self.random.random() < PACE_CHANGES:
            process.pace = self.random.choice(PACES)
        self._resume(process)
