"""One request acts on all runs that match, while people start, label, suspend, end, remove and start them again.

A request and its repeats, two of them at once, have one key. There are two requests with keys of their own in some
worlds, for instance a cancel and a resume of the same runs. Pages are small, so a process that dies leaves a batch that
is loaded in part. The tasks of units are delivered twice, at once or hours later.

Checked when a unit acts: it acts on its own run, which was there at the request, and which matched at some time of the
unit's delivery. Checked whenever a cancel is stored: it is the request's only one to this run. Checked at rest: all
answers to a key are equal; the batch has ended, with each run once and the number of the answer; and a run that matched
from the request on, until its unit, was acted on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import count
from random import Random
from typing import Any

from greenlet import greenlet

from signalbox.batches import sweep as batches_sweep
from signalbox.batches import tasks
from signalbox.batches.model.headers import Header, header_of
from signalbox.batches.model.pages import Page, loaded
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.tree import header_path as batch_path
from signalbox.batches.service import lifecycle, units
from signalbox.core import outbox
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.kit_names import ACT_ON_RUN
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import CANCELLED, COMPLETED, RUNNING, SUSPENDED, FlowHeader
from signalbox.flows.model.messages import Cancel, message_from_record
from signalbox.flows.service import lists, messages, starts, suspensions
from signalbox.flows.tasks import bulk, turns
from signalbox.mailboxes.model.messages import HEADER, Delivery
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import OfUnit, parsed
from signalbox.tasks.service import group_runs
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import ACTED_ON, REACHED, SKIPPED
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max
from tests.simulation.worlds.batches.kinds import SMALL_LIMITS
from tests.simulation.worlds.flows.inline_step_code import InlineSteps, SimulatedWorkers
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns

FLOW, FUNCTION, LABEL = "errand", "office", "of"
LABELS = ("a", "b")
RUNS_MAX, ACTS_MAX = 9, 12
STARTS_MAX = 100
"""Of a unit's task: more than a world has faults, so none is given up."""

CUT_RATE, FLUSH_RATE = 0.1, 0.3
SECOND_RATE, LATE_RATE = 0.4, 0.3
"""The share of worlds with a second request; of the tasks of units, those that are delivered hours later once more."""

ROUNDS = 3


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until it is idle. Raises `Violation` when a property does not hold."""
    own = Random(f"bulk acts {seed}")
    small = {**SMALL_LIMITS, "page_units_max": own.choice((2, 3)), "flow_bulk_page": own.choice((1, 2, 5))}
    with replaced(**small, flow_bulk_per_task=2):
        BulkWorld(seed, own, trace).run()


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its header has it now."""

    header: FlowHeader
    created_at: datetime

    @property
    def since(self) -> datetime:
        """Since when the run is in its state: the time at which that was decided, a little before its commit."""
        if self.header.end:
            return self.header.end.at
        return datetime.fromisoformat(self.header.suspended["at"]) if self.header.suspended else self.created_at


@dataclass(slots=True)
class Request:
    """A request with its key. `answers` are those of all its repeats.

    `created_at` is the time of the batch, `steady` the runs that have matched since the first call and that only units
    have changed, and `acted` how often units have acted on each run of an incarnation. `refused` are the runs that have
    refused the action, since they were changed between the unit's read and its act.
    """

    key: str
    wanted: bulk.ActionOnRuns
    batch: str = ""
    created_at: datetime | None = None
    answers: list[bulk.Begun] = field(default_factory=list)
    steady: set[str] | None = None
    acted: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)

    def matches(self, run: Run | None, until: datetime) -> bool:
        """Return whether a run is one that was there at a time and matches now, in a state that it had then."""
        wanted = self.wanted.runs
        if run is None or run.created_at > until:
            return False
        header, (name, value) = run.header, wanted.label or ("", "")
        is_chosen = not name or header.labels.get(name) == value
        by_state = wanted.state is not None or self.wanted.action == "resume"
        is_chosen &= wanted.state in (None, header.state)
        if by_state:
            is_chosen &= run.since <= until
        return is_chosen and header.address.key.startswith(wanted.prefix)

    def changes(self, run: Run | None) -> bool:
        """Return whether the action changes a run in this state."""
        if run is None:
            return False
        changed = {"cancel": (RUNNING, SUSPENDED), "terminate": (RUNNING, SUSPENDED), "resume": (SUSPENDED,)}
        return run.header.state in changed.get(self.wanted.action, (COMPLETED, CANCELLED))


@dataclass(slots=True)
class Unit:
    """The delivery of a unit that acts now. `has_matched`: its run matched at some time of the delivery."""

    request: Request
    id: str
    has_matched: bool = False


def requests(random: Random) -> Iterator[Request]:
    """Iterate over the requests of a world, each with its own key."""
    for key in ("k", "l")[: 1 + (random.random() < SECOND_RATE)]:
        action = random.choice(("cancel", "cancel", "resume", "terminate", "delete"))
        states = {"resume": (SUSPENDED, None), "delete": (COMPLETED, CANCELLED)}
        state = random.choice(states.get(action, (RUNNING, SUSPENDED, None)))
        label = random.choice(((LABEL, "a"), None))
        chosen = lists.Runs(FLOW, state, label, "" if state or label else "r")
        yield Request(key, bulk.ActionOnRuns(action, chosen, f"for {key}"))


async def errand() -> None:
    """Take labels, until one ends the run."""
    while (label := await flow.event("label", str)) != "end":
        flow.label(LABEL, label)


FLOWS = Flows(FUNCTION, {FLOW: FlowDefinition.from_function(errand)})


class BulkWorld:
    """The runs of one flow, people who change them, and requests to act on all that match."""

    def __init__(self, seed: int, own: Random, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.03, lose_answer=0.05, kill=0.06, duplicate=0.3, left=8)
        self.world = World(seed, rates, trace)
        self.own = own
        self.world.step_microseconds_max = own.choice((300, 30_000))
        self.world.task_handlers |= {FUNCTION: self._deliver, "batch_expand": _run_batch_task}
        self.world.observers.append(self._observe)
        self.runs: dict[str, Run] = {}
        self.requests = list(requests(own))
        self.units: dict[Any, Unit] = {}
        self.deliveries: Counter[str] = Counter()
        self.unit_tasks: dict[str, Effect] = {}
        self.inline = InlineSteps(self.world, InlineRuns(), Random(0))
        self._numbers = count()

    def run(self) -> None:
        """Start runs, then act on them while people change them, then let all of it come to its end."""
        left, self.world.fault_rates.left = self.world.fault_rates.left, 0
        ids = [f"r{number}" for number in range(self.own.randint(1, operations_max(RUNS_MAX)))]
        self.world.run([partial(self._act, act) for id_ in ids for act in self._beginning_of(id_)])
        self.world.fault_rates.left = left
        acts = [self._people(ids) for _ in range(self.own.randint(0, operations_max(ACTS_MAX)))]
        calls = [partial(self._request, each) for each in self.requests for _ in range(self.own.choice((1, 1, 2)))]
        mixed = [partial(self._act, act) for act in acts] + calls
        self.world.run(self.own.sample(mixed, len(mixed)))
        self._come_to_rest()
        if self.own.random() < LATE_RATE:
            self.world.pass_an_outage()
            self.world.tasks.extend(self.unit_tasks.values())
            self._come_to_rest()
        for request in self.requests:
            self._check_rest(request)

    def _come_to_rest(self) -> None:
        self.world.fault_rates.left = 0
        for _ in range(ROUNDS):
            self.world.pass_time(CORE_LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", lambda: _swept(self.world.ports))
            self.world.run()

    # --- people ---

    def _beginning_of(self, id_: str) -> list[Callable[[], object]]:
        """Return what people have done with a run before the request."""
        address, label = FlowAddress(FLOW, id_), self.own.choice(LABELS)
        acts: list[Callable[[], object]] = [partial(self._start, address, label)]
        done = self.own.choice(("", "", "suspend", "terminate"))
        return [*acts, partial(self._do, done, address)] if done else acts

    def _people(self, ids: list[str]) -> Callable[[], object]:
        """Return what a person does with one of the runs, or with a new one, whose id is before or among the others."""
        id_ = self.own.choice([*ids, *ids, f"{self.own.choice(ids)}+", "r"])
        address, label = FlowAddress(FLOW, id_), self.own.choice(LABELS)
        done = ("label", "label", "end", "suspend", "resume", "terminate", "again", "again", "start")
        if (what := self.own.choice(done)) == "start":
            return partial(self._start, address, label)
        return partial(self._do, what, address)

    def _act(self, work: Callable[[], object]) -> None:
        """Let a person act, and repeat it until there is an answer."""

        def answered() -> None:
            try:
                work()
            except Problem as problem:
                self.world.log(f"refused: {problem.detail}")

        def ended(done: bool) -> None:
            if not done:
                self._act(work)

        self.world.start("person", answered, ended)

    def _start(self, address: FlowAddress, label: str) -> None:
        starts.start(self.world.ports, FLOWS, FUNCTION, address, {}, labels={LABEL: label})

    def _do(self, what: str, address: FlowAddress) -> None:
        ports = self.world.ports
        match what:
            case "suspend":
                suspensions.suspend(ports, address, "by a person")
            case "resume":
                suspensions.resume(ports, address)
            case "terminate":
                sweep.terminate(ports, address)
            case "again":
                sweep.terminate(ports, address)
                sweep.delete(ports, address)
                self._start(address, self.own.choice(LABELS))
            case _:
                value = what if what == "end" else self.own.choice(LABELS)
                messages.post_event(ports, address, "label", value, str(next(self._numbers)))

    def _request(self, request: Request) -> None:
        """Send a request, and repeat it until there is an answer."""

        def call() -> None:
            if request.steady is None:
                now = self.world.now()
                request.steady = {
                    id_
                    for id_, run in self.runs.items()
                    if request.matches(run, now) and request.changes(run) and run.created_at < now
                }
            try:
                request.answers.append(bulk.act_on_all(self.world.ports, FUNCTION, request.wanted, request.key))
            except Problem as problem:
                raise Violation(f"{request.wanted} was refused: {problem.detail}") from problem

        def ended(done: bool) -> None:
            if not done:
                self._request(request)

        self.world.start(f"request {request.key}", call, ended)

    # --- tasks ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            turns.run_turn(ports, FLOWS, wake, SimulatedWorkers(self.world, wake.wake.mailbox, self.inline))
            return
        assert effect.task == ACT_ON_RUN, "a flow without steps has no other tasks"
        self.unit_tasks[effect.name] = effect
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, before, *what))
        pace = group_runs.GroupTime(
            lambda: self.own.random() < CUT_RATE, lambda: lambda: self.own.random() < FLUSH_RATE
        )
        is_live = partial(units.unit_is_live, ports)
        group_runs.run_group(ports, delivered, RetryLimits(STARTS_MAX), is_live, self._act_on_run, pace)

    def _act_on_run(self, own: Delivered[OfUnit], *_: object) -> str:
        request, here = self._request_of(own.payload), greenlet.getcurrent()
        unit = Unit(request, own.payload["id"])
        self.units[here] = unit
        self._look(unit)
        try:
            result = bulk.act_on_run(self.world.ports, own.payload)
        except Problem as problem:
            if request.matches(self.runs.get(unit.id), request.created_at or self.world.now()):
                raise Violation(f"{request.wanted} is refused by {unit.id}, which matches") from problem
            request.refused.add(unit.id)
            raise
        finally:
            del self.units[here]
        REACHED[SKIPPED] += result == bulk.SKIPPED
        return result

    def _request_of(self, payload: Mapping[str, Any]) -> Request:
        """Return the request that a batch, or a unit, is of."""
        [request] = [each for each in self.requests if each.wanted.reason == payload["reason"]]
        return request

    def _look(self, unit: Unit) -> None:
        assert unit.request.created_at is not None, "a unit is loaded into a batch that exists"
        unit.has_matched |= unit.request.matches(self.runs.get(unit.id), unit.request.created_at)

    # --- what is seen ---

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path == batch_path(path.rpartition("/")[2]) and before.data is None and (header := header_of(after.data)):
            assert header.settings.task is not None, "its units act on runs"
            request = self._request_of(header.settings.task.payload)
            request.batch, request.created_at = after.id, request.created_at or self.world.now()
        base, _, name = path.partition("/mailbox/")
        if not name or not base.startswith(f"{FlowAddress.COLLECTION}/"):
            return
        address = FlowAddress.of_base(base)
        if name == HEADER:
            self._observe_header(address, after)
        elif before.data is None and after.data is not None:
            message = message_from_record(after.data)
            if isinstance(message, Cancel) and message.reason:
                self._note_act(address)

    def _observe_header(self, address: FlowAddress, after: Snapshot) -> None:
        before = self.runs.get(address.key)
        if greenlet.getcurrent() in self.units and before:
            self._note_act(address)
        if after.data is None:
            del self.runs[address.key]
        else:
            self._note(address, before, FlowHeader.from_record(address, after.data))
        now = self.runs.get(address.key)
        for unit in self.units.values():
            if unit.id == address.key:
                self._look(unit)
        for request in self.requests:
            until = request.created_at or self.world.now()
            is_over = before and not request.acted[address.key, before.header.incarnation]
            if is_over and request.steady and not (request.matches(now, until) and request.changes(now)):
                request.steady.discard(address.key)

    def _note(self, address: FlowAddress, before: Run | None, header: FlowHeader) -> None:
        is_same = before is not None and before.header.incarnation == header.incarnation
        created_at = before.created_at if before and is_same else self.world.now()
        self.runs[address.key] = Run(header, created_at)

    def _note_act(self, address: FlowAddress) -> None:
        """Note that a unit changes a run or cancels it, and check that it may."""
        unit, run = self.units.get(greenlet.getcurrent()), self.runs.get(address.key)
        if unit is None or run is None:
            return
        if unit.id != address.key:
            raise Violation(f"the unit of {unit.id} acts on {address.key}")
        if not unit.has_matched:
            raise Violation(f"a unit of {unit.request.wanted} acts on {address.key}, which does not match: {run}")
        REACHED[ACTED_ON] += 1
        unit.request.acted[address.key, run.header.incarnation] += 1
        if unit.request.acted[address.key, run.header.incarnation] > 1:
            raise Violation(f"{unit.request.wanted} has acted twice on {address.key}")

    # --- what must hold ---

    def _check_rest(self, request: Request) -> None:
        [read] = self.world.store.read(batch_path(request.batch))
        status = lifecycle.get(self.world.reliable_ports(), request.batch)
        if status.state != "completed":
            raise Violation(f"the batch of {request.wanted} is {status.state}")
        ids = list(self._ids(BatchRun(request.batch, Header.from_record(read.data or {}).incarnation)))
        if len(ids) != len({*ids}) or {each.count for each in request.answers} != {len(ids)}:
            raise Violation(f"{request.answers} were answered, and the batch has {ids}")
        if {each.batch for each in request.answers} != {request.batch}:
            raise Violation(f"{request.answers} have several batches")
        if status.counts.failed > len(request.refused) or status.counts.remaining or status.counts.size != len(ids):
            raise Violation(f"of {len(ids)} units, the batch has {status.counts}")
        acted = {id_ for id_, _ in request.acted}
        if lost := (request.steady or set()) - acted:
            raise Violation(f"{request.wanted} has not acted on {sorted(lost)}")

    def _ids(self, run: BatchRun) -> Iterator[str]:
        """Iterate over the ids of the runs that a batch has."""
        for number in count():
            page = loaded(self.world.store.read(run.page_path(number))[0].data)
            if not isinstance(page, Page):
                return
            yield from (unit["id"] for unit in json.loads(page.text))


def _run_batch_task(ports: Ports, effect: Effect) -> None:
    tasks.run_batch_task(ports, effect.task, effect.payload)


def _swept(ports: Ports) -> None:
    for part in (outbox.sweep, batches_sweep.sweep, sweep.sweep):
        try:
            part(ports)
        except Unavailable:
            continue
