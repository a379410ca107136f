"""Runs that fail and are retried in place, alone and with the parents that wait for them, while all else goes on.

Steps fail in the first executions of their run. People ask for retries, two of them at once and each until there is an
answer, always under the same key; they send events, terminate runs, and remove them. Tasks are delivered twice, and
processes die.

Checked whenever a header is written: a request rewinds once, and an execution begins once; a log has no result of
another execution than the one that its position belongs to; accepted events are in the log in their order. Checked
when a run is removed: its last end is archived. Checked at rest: no run waits forever, no event of a run that goes on
is lost, each end was announced, no permit is held, no sub-flow has completed for a parent that did not receive it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any

from signalbox.core import outbox
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import CANCELLED, COMPLETED, FAILED, FlowHeader
from signalbox.flows.model.messages import Event, Message, Result, message_from_record
from signalbox.flows.model.retention import Keeping
from signalbox.flows.problems import CannotRetry
from signalbox.flows.service import messages, retries, starts
from signalbox.flows.service.retries import RetryOptions
from signalbox.flows.storage.commits import UNREAD
from signalbox.flows.storage.log import read_log
from signalbox.flows.tasks import archives, steps, turns
from signalbox.mailboxes.model.messages import HEADER, Delivery
from signalbox.semaphores import sweep as semaphores_sweep
from signalbox.semaphores import tasks as semaphore_tasks
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings
from signalbox.tasks.api import Call
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import REACHED, REWOUND
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import faults
from tests.simulation.worlds.flows.inline_step_code import InlineSteps, SimulatedWorkers
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns

FUNCTION, PLACE, LOCK = "shop", "gs://archive/of/flows", "till"
LEASE_SECONDS = 86_400
RIDE, TRIP, GUARDED = "ride", "trip", "guarded"
EVENTS_MAX, ROUNDS, LAST_RETRIES_MAX, STARTS_MAX = 4, 3, 8, 100
SMALL = {"flow_tail_bytes_max": 300, "flow_live_tail_bytes_max": 100, "flow_chunk_bytes_max": 900}


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"rewinds {seed}")
    small = SMALL if own.random() < 0.4 else {}
    swept = {"flow_removal_commits_max": 3, "flow_removal_page": 2, "flow_removed_at_once_max": own.choice((1, 90))}
    with replaced(**small, **swept, mailbox_page=own.choice((2, 4))):
        RewindsWorld(seed, own, trace).run()


async def ride() -> list[Any]:
    """Run a step, receive an event, then run two steps at once. What comes later is kept, or left unread."""
    first = await Call[Any](FUNCTION, "a", {})
    value = await flow.event("e", int)
    flow.send(Call(FUNCTION, "sent", {"mark": str(flow.uuid())}))
    both = await flow.all(Call[Any](FUNCTION, "b", {}), Call[Any](FUNCTION, "c", {}))
    return [first, value, *both]


async def trip(handles: bool) -> list[Any]:
    """Run a sub-flow, and undo its work if it fails, in some worlds."""
    try:
        return list(await SubFlow[Any](FUNCTION, RIDE, {}))
    except Problem:
        if handles:
            await Call[Any](FUNCTION, "undo", {})
        raise


async def guarded() -> list[Any]:
    """Run a step under a lock that another run wants, too."""
    value = await flow.event("e", int)
    async with flow.lock(LOCK, lease_seconds=LEASE_SECONDS):
        return [value, await Call[Any](FUNCTION, "b", {})]


KEEPING = Keeping.checked(None, PLACE)
CODE = (ride, trip, guarded)
FLOWS = Flows(FUNCTION, {of.__name__: FlowDefinition.from_function(of, keeping=KEEPING) for of in CODE})


@dataclass
class RewindsWorld:
    """One run, or a run with a sub-flow, or two runs that want one lock; and the people who care for them."""

    seed: int
    own: Random
    trace: Callable[[str], None] | None
    headers: dict[str, FlowHeader] = field(default_factory=dict)
    accepted: dict[str, dict[str, int]] = field(default_factory=dict)
    """The values of the events of a run, by their messages. One that a removed run has left is the next run's."""
    ran: dict[str, tuple[str, str]] = field(default_factory=dict)
    rewinds: dict[tuple[str, str, str], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], str] = field(default_factory=dict)
    broken: bool = False
    told: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    written: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    deliveries: Counter[str] = field(default_factory=Counter)
    numbers: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        own = self.own
        rates = FaultRates(abort=0.03, lose_answer=0.05, kill=0.06, left=faults(own.choice((0, 3, 6))))
        rates.duplicate = own.choice((0.1, 0.6))
        self.world = World(self.seed, rates, self.trace)
        self.world.step_microseconds_max = own.choice((300, 30_000))
        self.world.time_jumps, self.world.time_jumps_left = (0.05, 0.3, 1.0), own.choice((0, 4))
        self.world.task_handlers |= {FUNCTION: self._deliver, "semaphore_admit": _admit}
        self.world.sweeper = sweep_all
        self.world.observers.append(self._observe)
        self.inline = InlineSteps(self.world, InlineRuns(), Random(0))
        name = own.choice((RIDE, RIDE, TRIP, TRIP, TRIP, GUARDED))
        self.root = FlowAddress(name, "r")
        self.other = FlowAddress(GUARDED, "o") if name == GUARDED else None
        self.arguments = {"handles": own.random() < 0.5} if name == TRIP else {}
        self.fails = {task: own.choice((0, 1, 2, 4)) for task in "abc"}
        self.broken = own.random() < 0.3
        self.removes = own.random() < 0.25
        self.ends_it = own.random() < 0.15
        settings.put(self.world.reliable_ports(), LOCK, SemaphoreSettings(1, LEASE_SECONDS))

    # --- people ---

    def _act(self, name: str, work: Callable[[], object]) -> Callable[[], None]:
        """Return the beginning of what a person does, and repeats until there is an answer."""

        def begin() -> None:
            self.world.start(name, answered, lambda done: None if done else begin())

        def answered() -> None:
            try:
                work()
            except Problem as problem:
                self.world.log(f"refused: {problem.detail}")

        return begin

    def _start(self, address: FlowAddress) -> None:
        arguments = self.arguments if address == self.root else {}
        told: Call[Any] | None = Call(FUNCTION, "told", {}) if address == self.root else None
        starts.start(self.world.ports, FLOWS, FUNCTION, address, arguments, told)

    def _post(self, number: int) -> None:
        """Send an event to the run that waits for it, once there is one."""
        for _ in range(20):
            base = next((base for base in self.headers if not base.startswith(f"flows/{TRIP}~")), "")
            if base:
                messages.post_event(self.world.ports, FlowAddress.of_base(base), "e", number, f"e{number}")
                return
            self.world.ports.clock.sleep(0.3)

    def _retry(self, key: str, options: RetryOptions, *, below: bool, patient: bool) -> None:
        """Retry a run once it has failed. A repeat asks at once."""
        for _ in range(15):
            address = self._below() if below else self.root
            header = self.headers.get(address.base) if address else None
            if address and header and (header.state == FAILED or not patient):
                self._asked(self.world.ports, address, key, options)
                return
            self.world.ports.clock.sleep(0.3)

    def _asked(self, ports: Ports, address: FlowAddress, key: str, options: RetryOptions) -> None:
        if self.own.random() < 0.7:
            retries.retry(ports, FLOWS, address, key, options)
        else:  # by a process without the code
            retries.retry(ports, Flows(""), address, key, options)

    def _below(self) -> FlowAddress | None:
        found = (base for base in self.headers if base.startswith(f"flows/{RIDE}~") and base != self.root.base)
        base = next(found, None)
        return FlowAddress.of_base(base) if base else None

    def _retries(self) -> Iterable[Callable[[], None]]:
        for key in ("R1", "R2", "R3")[: self.own.randint(1, 3)]:
            below = self.root.name == TRIP and self.own.random() < 0.6
            family = below and self.own.random() < 0.5
            entry = None if family or self.own.random() < 0.5 else self.own.randint(0, 3)
            options = RetryOptions(entry, family)
            for number in range(self.own.choice((1, 2, 2, 3))):
                patient = number == 0 or self.own.random() < 0.5
                yield self._act(
                    f"{key} {number}",
                    partial(self._retry, key, options, below=below, patient=patient),
                )

    def _wait_and(self, work: Callable[[], object], *, failed: bool) -> None:
        for _ in range(10):
            header = self.headers.get(self.root.base)
            if header and (not failed or header.state == FAILED):
                work()
                return
            self.world.ports.clock.sleep(0.5)

    # --- tasks ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, before, *what))
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            turns.run_turn(ports, FLOWS, wake, SimulatedWorkers(self.world, wake.wake.mailbox, self.inline))
        elif archives.is_archive(effect.payload):
            archives.archive(ports, effect.payload, self._write)
        elif effect.task in steps.OWN_TASKS:
            steps.run_own_task(ports, delivered)
        elif "step" in effect.context:
            steps.run_step(ports, FLOWS, delivered, RetryLimits(STARTS_MAX), lambda *_: self._step(effect))
        elif effect.task == "told":
            outcome = effect.context["outcome"]
            self.told[outcome.get("rewinds", 0)] = outcome

    def _step(self, effect: Effect) -> str:
        step, number = effect.context["step"], str(next(self.numbers))
        base, life = step["flow"], step["life"]
        header = self.headers.get(base)
        is_current = header is not None and header.execution_id == life and not header.end
        if header and is_current and header.address.name == GUARDED:
            [semaphore] = self.world.store.read(f"semaphores/{LOCK}")
            leases = [lease["granted"]["id"].partition("~")[0] for lease in header.leases.values()]
            if not any(lease in str(semaphore.data) for lease in leases):
                raise Violation(f"{base} runs a step without its lock")
        self.ran[number] = base, life
        self.world.step(f"step {effect.task} of {base} {life} ends as {number}")
        if int(life.partition(".")[2] or 0) < self.fails.get(effect.task, 0):
            raise Problem(number)
        return number

    def _write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        content = list(rows)
        if self.broken and content[0].get("rewinds"):
            raise OSError("the storage is not there")
        self.world.step(f"write {name}")
        self.written.setdefault(name, content)

    # --- what is seen ---

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        base, _, name = path.partition("/mailbox/")
        if not name or not base.startswith(f"{FlowAddress.COLLECTION}/"):
            return
        if name != HEADER:
            accepted = self.accepted.setdefault(base, {})
            if after.data is None:
                accepted.pop(name, None)
            elif before.data is None and isinstance(message := message_from_record(after.data), Event):
                accepted[name] = message.value
            return
        known = self.headers.get(base)
        if after.data is None:
            assert known is not None, "it was there"
            self._check_removed(known)
            del self.headers[base]
            return
        header = self.headers[base] = FlowHeader.from_record(FlowAddress.of_base(base), after.data)
        for retry in header.retries:
            begun = self.rewinds.setdefault((base, header.incarnation, retry.key), retry.rewind)
            if begun != retry.rewind:
                raise Violation(f"{retry.key}, asked for once, has rewound {base} twice")
        if [retry.rewind for retry in header.retries] != [*range(1, header.rewinds + 1)]:
            raise Violation(f"an execution of {base} was begun twice: {header.retries}")
        REACHED[REWOUND] += bool(header.rewound and not (known and known.rewound))
        if known and known.rewinds > header.rewinds and known.incarnation == header.incarnation:
            raise Violation(f"{base} has gone back to an earlier execution")
        if header.end and base == self.root.base:
            self.ends[header.incarnation, header.rewinds] = header.state

    def _check_removed(self, header: FlowHeader) -> None:
        if not header.end:
            raise Violation(f"{header.address.base} was removed while it was {header.state}")
        rows = self.written.get(header.archive)
        if rows is None or rows[0]["state"] != header.state or len(rows) - 1 != header.log_length:
            raise Violation(f"{header.address.base} was removed without an archive of its last end")

    # --- the run ---

    def run(self) -> None:
        """Let people act; then, without faults, retry until the run completes; then remove everything."""
        acts = [self._act("start", partial(self._start, self.root)) for _ in range(2)]
        acts += [self._act("other", partial(self._start, self.other))] if self.other else []
        later = [self._act(f"e{n}", partial(self._post, n)) for n in range(self.own.randint(1, EVENTS_MAX))]
        later += self._retries()
        if self.removes:
            delete = partial(sweep.delete, self.world.ports, self.root)
            later.append(self._act("delete", partial(self._wait_and, delete, failed=True)))
        if self.ends_it:
            end = partial(sweep.terminate, self.world.ports, self.root)
            later.append(self._act("terminate", partial(self._wait_and, end, failed=False)))
        self.world.run([*acts, *self.own.sample(later, len(later))])
        self.world.fault_rates.left = 0
        self._rest(CORE_LIMITS.outbox_patience_seconds + 1)
        self._check()
        for number in range(LAST_RETRIES_MAX):
            header = self.headers.get(self.root.base)
            if header is None or header.state != FAILED or header.removing:
                break
            self._retry_at_rest(f"last {number}")
            self._rest(CORE_LIMITS.outbox_patience_seconds + 1)
            self._check()
        self._check_ended()
        for base in [base for base, header in self.headers.items() if not header.end]:  # they wait for events
            sweep.terminate(self.world.reliable_ports(), FlowAddress.of_base(base))
        self._rest(LIMITS.flow_archive_seconds + 1)
        for _ in range(2):
            self._rest(LIMITS.flow_kept_seconds + 3600, 1)
        self.broken = False
        self._rest(LIMITS.flow_archive_seconds + 1)
        for _ in range(20):
            self._rest(LIMITS.flow_kept_seconds + 3600, 1)
        if left := [each.path for each in self.world.store.query(Query(FlowAddress.COLLECTION))]:
            raise Violation(f"{left} are left")

    def _rest(self, seconds: float, rounds: int = ROUNDS) -> None:
        for _ in range(rounds):
            self.world.pass_time(seconds)
            self.world.start("sweep", lambda: sweep_all(self.world.ports))
            self.world.run()

    def _retry_at_rest(self, key: str) -> None:
        ports = self.world.reliable_ports()
        try:
            retries.retry(ports, FLOWS, self.root, key, RetryOptions())
        except CannotRetry as refused:
            entry = refused.from_entry if refused.reason == "holds-lock" else 0
            retries.retry(ports, FLOWS, self.root, key, RetryOptions(entry))

    # --- what must hold at rest ---

    def _check(self) -> None:
        for base, header in list(self.headers.items()):
            if not header.end and (header.rewound or not self._waits_for_event(header)):
                raise Violation(f"{base} waits forever: {header.state}, {dict(header.pending)}, {header.rewound}")
            self._check_log(base, header, read_log(self.world.store, header).entries)
        root = self.headers.get(self.root.base)
        below = [each for each in self.headers.values() if root and is_below(root, each) and each.state != CANCELLED]
        if len(below) > 1:
            raise Violation(f"{self.root.base} has begun {len(below)} sub-flows, and the work of the first is lost")
        for base, header in self.headers.items():
            if header.address.name == RIDE and header.parent:
                if root and root.end and not header.end:
                    raise Violation(f"{base} runs on, and its parent has ended as {root.state}")
                if root and root.end and header.state == COMPLETED and root.state == FAILED and header.rewinds:
                    raise Violation(f"{base} was retried and has completed, and its parent is {root.state}")
        for (_, rewinds), state in self.ends.items():
            outcome = self.told.get(rewinds)
            if outcome is None or ("error" in outcome) != (state != COMPLETED):
                raise Violation(f"the end {rewinds} of the run, {state}, was announced as {outcome}")

    def _waits_for_event(self, header: FlowHeader) -> bool:
        """Return whether a run waits for an event that nobody has sent, or for a sub-flow that does."""
        kinds = {wait.signature.partition(" ")[0] for wait in header.pending.values()}
        if kinds == {"flow"}:
            below = [each for each in self.headers.values() if each.parent and not each.end]
            return any(self._waits_for_event(each) for each in below)
        return kinds == {"event"} and not self.accepted.get(header.address.base)

    def _check_log(self, base: str, header: FlowHeader, log: tuple[Message, ...]) -> None:
        for position, entry in enumerate(log, 1):
            is_step = isinstance(entry, Result) and entry.wait.signature.startswith("step ")
            if is_step and isinstance(entry, Result) and (ran := self.ran.get(str(_outcome(entry)))):
                owners = (each.execution_id for each in header.origins if position <= each.entries)
                if ran != (base, owner := next(owners, header.execution_id)):
                    raise Violation(f"entry {position} of {base} is of {ran}, and its position of {owner}")
        in_log = [entry.value for entry in log if isinstance(entry, Event)]
        accepted = [*self.accepted.get(base, {}).values()]
        if in_log != accepted[: len(in_log)]:
            raise Violation(f"the log of {base} has the events {in_log}, and {accepted} were accepted in this order")
        records = {each.id: each for each in self.world.store.query(Query(f"{base}/mailbox", limit=500))}
        receipts = [each for each in records.values() if (each.data or {}).get("kind") == Event.kind]
        if len(receipts) != len(accepted):
            raise Violation(f"{base} has {len(receipts)} receipts of its events, and {accepted} were accepted")
        unread = [each for each in receipts if UNREAD in (each.data or {})]
        if header.state == FAILED and len(in_log) + len(unread) != len(accepted):
            raise Violation(f"{base} has failed; {in_log} of {accepted} were read, and {len(unread)} are marked")
        if not header.end and len(in_log) != len(accepted):
            raise Violation(f"{base} goes on, and has received {in_log} of {accepted}")

    def _check_ended(self) -> None:
        header = self.headers.get(self.root.base)
        if header and header.state == FAILED and not header.removing:
            raise Violation(f"{self.root.base} still fails: {header.end}")
        for semaphore in self.world.store.query(Query("semaphores")):
            if (semaphore.data or {}).get("in_use"):
                raise Violation(f"{semaphore.path} has permits in use at the end")


def is_below(root: FlowHeader, header: FlowHeader) -> bool:
    """Return whether a run is a sub-flow of a run, and not of an earlier one under its id."""
    return header.parent is not None and header.parent.wait.execution_id.startswith(f"{root.incarnation}-")


def _outcome(entry: Result) -> object:
    return entry.outcome.error["detail"] if entry.outcome.error else entry.outcome.result


def sweep_all(ports: Ports) -> None:
    """Run the sweepers of flows and of what they use."""
    for part in (outbox.sweep, sweep.sweep, semaphores_sweep.sweep):
        try:
            part(ports)
        except Unavailable:
            continue


def _admit(ports: Ports, effect: Effect) -> None:
    semaphore_tasks.TASKS[effect.task](ports, effect.payload)
