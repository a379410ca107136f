"""One seeded world in which the kit's own operations run: server time, a store, a queue, events, processes that crash.

Every operation runs in a greenlet that yields to the scheduler before each round trip, and the seed decides who takes
the next step. So all interleavings of all round trips are possible, the code under test is the real one, and a seed
replays exactly. Faults of the platform are injected: duplicate, late and reordered delivery, aborted calls, lost
answers of calls that took effect, processes killed before or after any step.

The server's clock advances a little with every step. It jumps where a world sets it (`time_jumps`), and to the
next task or delayed event when nothing else can happen.
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any

from signalbox.core import outbox
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.times import MICROSECOND
from signalbox.core.user_code import ProcessEnded
from tests.simulation.cloud_tasks import TaskQueue
from tests.simulation.eventarc import Events
from tests.simulation.expiring_records import Expiry
from tests.simulation.fault_rates import FaultRates
from tests.simulation.faulty_ports import SimulatedClock, SimulatedLog, SimulatedQueue, SimulatedStore
from tests.simulation.forgeries import current_forger
from tests.simulation.half_commits import HalfCommitStore
from tests.simulation.processes import EXITS, Process, Processes
from tests.simulation.reached_counts import OUTAGES, REACHED
from tests.simulation.server_time import server_time_strays
from tests.simulation.transient_refusals import PassingRefusals
from tests.simulation.versions import versions_of

STEPS_MAX = 20_000
"""The largest number of steps: a world that takes more is assumed never to come to rest."""

STEPS_FORGED_MAX = 400
"""The largest number of steps in a world with a forger: the kit retries for ever what a forged record prevents."""

PROCESSES_MAX = 5
"""Processes at once: races of the protocols need two or three."""

TIME_JUMP_PACE = 0.05
"""Weight of a jump of the clock in the draw of the next step."""

FORGERY_PACE = 0.02
"""Weight of a forged record in the draw of the next step, in a world with a forger."""

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

SWEEP_SECONDS = 60
"""The scheduler calls the sweeper so often; it runs at least once before the clock jumps further than this."""

OUTAGE_RATE = 0.25
OUTAGE_HOURS = (2, 6, 30)
"""How long no sweep runs: Cloud Scheduler is paused, or every run of the sweeper fails."""


class Violation(ProcessEnded):
    """A property does not hold in this world. Not an `Exception`: the code under test catches those of a queue."""


class World:
    """A place where operations run. Add handlers and processes, call `run`, then check what `store` holds."""

    def __init__(
        self, seed: int, fault_rates: FaultRates | None = None, trace: Callable[[str], None] | None = None
    ) -> None:
        self.random = Random(seed)
        self.fault_rates = fault_rates or FaultRates()
        self.faults = 0
        self.faults_before: dict[str, int] = {}
        """The number of faults before each outbox record was written, by its path."""
        self.trace = trace
        self.epoch = EPOCH
        self._microseconds = 0
        self.store = HalfCommitStore(self.now, self._observed, self._new_id, server_time_strays(seed))
        self.store.draw_from(seed)
        self.versions = versions_of(seed)
        self.forger = current_forger()
        self.observers: list[Callable[[str, Snapshot, Snapshot], None]] = []
        self.processes = Processes(self)
        self.queue = TaskQueue(self)
        self.tasks = self.queue.waiting
        self.handlers, self.task_handlers = self.queue.handlers, self.queue.task_handlers
        self.refusals = PassingRefusals(self, seed)
        self.events = Events(self)
        self.expiry = Expiry(self, seed)
        self.step_microseconds_max = 50
        self.time_jumps: tuple[float, ...] = ()
        self.time_jumps_left = 0
        self.sweeper: Callable[[Ports], Any] | None = None
        self._swept_before_jump = False
        self.ports = Ports(SimulatedStore(self), SimulatedQueue(self), SimulatedClock(self), SimulatedLog(self))
        self._pace_of_users, self._pace_of_events, self._pace_of_tasks = (
            self.random.choice((0.03, 0.2, 1.0)) for _ in range(3)
        )

    def reliable_ports(self) -> Ports:
        """Return ports whose store never fails and never yields: for setting a world up."""
        return Ports(self.store, self.ports.queue, self.ports.clock, self.ports.log)

    # --- time, faults and the trace ---

    def now(self) -> datetime:
        """Return the server's time."""
        return EPOCH + self._microseconds * MICROSECOND

    def pass_time(self, seconds: float) -> None:
        """Advance the server's clock."""
        self._microseconds += int(seconds * 1e6)
        self.expiry.pass_time(seconds)

    def pass_an_outage(self) -> None:
        """Pass hours without a sweeper, if the seed draws it. Only at rest: no function runs for hours."""
        assert not self.processes.running, "a function ends within minutes"
        self.processes.current = "scheduler"
        if self.random.random() < OUTAGE_RATE:
            hours = self.random.choice(OUTAGE_HOURS)
            self.log(f"no sweep for {hours} h")
            REACHED[OUTAGES] += hours
            self.pass_time(hours * 3600)

    def _new_id(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    def inject_fault(self, rate: float) -> bool:
        """Draw whether a fault happens here, as long as the world has faults left."""
        if self.fault_rates.left <= 0 or self.random.random() >= rate:
            return False
        self.fault_rates.left -= 1
        self.faults += 1
        return True

    def log(self, text: str) -> None:
        """Add a line to the trace: microseconds, process, text."""
        if self.trace:
            self.trace(f"{self._microseconds:>12} {self.processes.current:<28} {text}")

    def _observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if self.trace:
            self.log(f"  {path} is now {dict(after.data) if after.data is not None else None}")
        self.expiry.note(path, after)
        if path.startswith(f"{outbox.COLLECTION}/"):
            self.faults_before.setdefault(path, self.faults)
        for observer in () if self.forger else self.observers:  # what they check holds for honest records
            observer(path, before, after)
        self.events.add(path, before, after)

    # --- processes ---

    def start(self, name: str, work: Callable[[], None], ended: Callable[[bool], None] = lambda _: None) -> None:
        """Start a process. `ended` is called with whether its work is done, or must be retried."""
        self.processes.start(name, work, ended)

    def step(self, what: str) -> None:
        """Yield to other processes, or crash. A process calls this before each round trip."""
        self.processes.yield_to_others()
        self._microseconds += self.random.randrange(1, self.step_microseconds_max)
        self.log(what)

    # --- the run ---

    def run(self, beginnings: Sequence[Callable[[], None]] = ()) -> None:
        """Run until nothing is left to do. `beginnings` start in their order, whenever there is room."""
        waiting = list(beginnings)
        for _ in range(STEPS_FORGED_MAX if self.forger else STEPS_MAX):
            moves = self._moves(waiting)
            if not moves:
                return
            self.processes.current = "scheduler"
            self._drawn(moves)()
        raise Violation(f"no rest after {STEPS_MAX:,} steps")

    def _drawn(self, moves: list[tuple[Callable[[], None], float]]) -> Callable[[], None]:
        """Draw a move by its weight, as `random.choices` does, but faster."""
        reached = list(accumulate([weight for _, weight in moves]))
        return moves[bisect(reached, self.random.random() * reached[-1], 0, len(moves) - 1)][0]

    def _step_of(self, process: Process) -> None:
        try:
            self.processes.step(process)
        except EXITS as error:
            raise Violation(f"{process.name} has ended with all of its requests: {error!r}") from error

    def _moves(self, waiting: list[Callable[[], None]]) -> list[tuple[Callable[[], None], float]]:
        """Return the possible next steps, each with its weight."""
        running = self.processes.running
        moves: list[tuple[Callable[[], None], float]]
        moves = [(partial(self._step_of, process), process.pace) for process in running]
        if len(running) < PROCESSES_MAX:
            if waiting:
                moves.append((partial(self._begin, waiting), self._pace_of_users))
            if events := self.events.due():
                moves.append((partial(self.events.deliver, events), self._pace_of_events))
            if tasks := self.queue.due():
                moves.append((partial(self.queue.dispatch, tasks), self._pace_of_tasks))
        if moves and self.time_jumps_left > 0:
            moves.append((self._jump, TIME_JUMP_PACE))
        if not moves and (self.queue.waiting or self.events.delayed):
            return [(self._wait_for_the_next, 1.0)]
        if self._only_users_and_late_events(moves):
            moves.append((self._wait_for_the_next, self._pace_of_events))
        if self.forger and self.forger.left > 0:
            moves.append((self._forge, FORGERY_PACE))
        return moves

    def _only_users_and_late_events(self, moves: list[Any]) -> bool:
        """Return whether hours may pass before the next call of a user: nothing runs, and an event is delayed."""
        return len(moves) == 1 and bool(self.events.delayed) and not self.processes.running

    @staticmethod
    def _begin(waiting: list[Callable[[], None]]) -> None:
        waiting.pop(0)()

    def _wait_for_the_next(self) -> None:
        """Advance the clock until a task or a delayed event is due; the sweeper runs first if that takes long."""
        due = min([*self.queue.next_due(), *(at for at, _ in self.events.delayed)])
        seconds = max(0.0, (due - self.now()).total_seconds())
        if self.sweeper and seconds > SWEEP_SECONDS and not self._swept_before_jump:
            self._swept_before_jump = True
            self.pass_time(SWEEP_SECONDS)
            sweep = self.sweeper
            self.start("sweep", lambda: sweep(self.ports))
        else:
            self._swept_before_jump = False
            self.pass_time(seconds + 1e-6)

    def _forge(self) -> None:
        assert self.forger is not None, "only a forger forges"
        if path := self.forger.forge(self.store, self.store.records()):
            self.log(f"FORGED {path}")

    def _jump(self) -> None:
        self.time_jumps_left -= 1
        self.pass_time(self.random.choice(self.time_jumps))
