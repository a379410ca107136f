"""Runs with large arguments, results and events, while calls fail, processes die, and the sweeper removes and collects.

Steps return large values, sub-flows return them to their parents, a run carries them to its next generation, events
have them, and runs await batches of them. People start runs, also by an event, fork them, retry the failed ones, delete
the ended ones and start others under their ids, or replace them while others send them events. The sweeper runs among
all that.

Checked whenever a record is written or a payload is deleted: what a run that exists names is its own, and is in the
store. Checked at rest, a week later: each payload that is older than a day has a run. After the removal of all runs
none is left, and in the end none that only a task named. A run that has completed has a value that a step returned or a
person sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from signalbox.batches import sweep as batches_sweep
from signalbox.batches.tasks import run_batch_task
from signalbox.core import outbox
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.limits import DECLARED, LIMITS
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import Problem
from signalbox.core.wake_ups import WakeUp
from signalbox.flows import sweep as flows_sweep
from signalbox.flows.api import flow
from signalbox.flows.machine.commands import SubFlow, batch_of
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import COMPLETED, FlowHeader
from signalbox.flows.model.messages import Event, Message, Result, message_from_record, payload_of
from signalbox.flows.requests import REPLACE, REPLACE_ENDED
from signalbox.flows.service import messages, retries, sends, starts
from signalbox.flows.service.retries import RetryOptions
from signalbox.flows.tasks import steps, turns
from signalbox.function.deliveries import opened_subject
from signalbox.mailboxes.model.messages import HEADER, Delivery, header_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads import sweep as payloads_sweep
from signalbox.payloads.limits import LIMITS as PAYLOADS_LIMITS
from signalbox.payloads.model import REMOVALS, Payload, opened, opened_members, payload_in, payloads_in
from signalbox.payloads.service import opening_those_of
from signalbox.tasks.api import Call
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import OfUnit, TaskSubject, is_named, parsed
from signalbox.tasks.service import runs
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.faulty_ports import SimulatedPayloads
from tests.simulation.reached_counts import ORPHANS, PAYLOADS, REACHED
from tests.simulation.world import Violation, World
from tests.simulation.worlds.named_payloads import DAY_SECONDS, LARGE, SMALL, WALK_SECONDS, ObservedPayloads

FUNCTION = "shop"
ENDS_SECONDS = 33 * DAY_SECONDS
IDS = ("1", "2")
SWEPT_AT_ONCE = 0.3
"""The share of removals that a sweeper finds while the process that has committed them still runs."""

IF_EXISTS = (REPLACE, REPLACE_ENDED)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    with ExitStack() as entered:
        entered.enter_context(mock.patch.dict(DECLARED, {"payloads": "on"}))
        removed_max = Random(f"removals {seed}").choice((1, 90))
        entered.enter_context(replaced(**SMALL, flow_batch_bytes_max=900, flow_removed_at_once_max=removed_max))
        PayloadsWorld(seed, trace).run()


# --- the code of the runs ---


async def relay(text: str) -> str:
    """Pass a large argument to a step, and the step's large result to another one, which may fail."""
    made = await Call[str](FUNCTION, "make", {"text": text})
    again: str = await Call[str](FUNCTION, "check", {"text": made})
    return again


async def parent(text: str) -> str:
    """Receive the result of a sub-flow, and stay a while: the sub-flow may be deleted."""
    made: str = await SubFlow[str](FUNCTION, "relay", {"text": text})
    await flow.event("go", str)
    return made


async def inbox(text: str, left: int) -> Any:
    """Receive a large event in each generation, and carry it over."""
    received = await flow.event("go", str)
    made = await flow.run(lambda: received)
    if left:
        return flow.continue_as_new(text=made, left=left - 1)
    return [text, received]


async def many(text: str) -> str:
    """Await a batch of large units, and stay a while."""
    await batch_of([Call(FUNCTION, "check", {"text": each}) for each in (text, text, text[:1])], None, "")
    await flow.event("go", str)
    return text


CODE = (relay, parent, inbox, many)
FLOWS = Flows(FUNCTION, {code.__name__: FlowDefinition.from_function(code) for code in CODE})


class Workers:
    """Runs the code of inline steps when their delivery waits for it."""

    def __init__(self, world: World) -> None:
        self.codes: dict[str, turns.Code] = {}
        self._world, self._began_at = world, world.now()

    @property
    def running(self) -> list[str]:
        return list(self.codes)

    def begin(self, path: str, code: turns.Code) -> None:
        self.codes[path] = code

    def wait(self, _: float) -> dict[str, CallOutcome]:
        path = next(iter(self.codes))
        self._world.step("an inline step runs")
        return {path: self.codes.pop(path)()}

    def abandon(self, path: str) -> None:
        self.codes.pop(path, None)

    def seconds(self) -> float:
        return (self._world.now() - self._began_at).total_seconds()

    def seconds_left(self) -> float:
        return 540 - self.seconds()


class PayloadsWorld:
    """A few runs, the people who care for them, and a sweeper. `values` are all large values that were ever passed."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.05, lose_answer=0.05, kill=0.08, duplicate=0.1, left=6)
        self.world = World(seed, rates, trace)
        self.kept = ObservedPayloads(self.world.now, self._check_all)
        self.ports = replace(self.world.ports, payloads=SimulatedPayloads(self.world, self.kept))
        self.world.ports = self.ports
        self.world.task_handlers[FUNCTION] = self._deliver
        self.world.task_handlers["batch_expand"] = lambda ports, task: run_batch_task(ports, task.task, task.payload)
        self.world.observers.append(self._observe)
        self.deliveries: Counter[str] = Counter()
        self.values: set[str] = set()
        self.keys = 0
        self.failures = self.world.random.choice((0, 0, 1))
        self.sweeping = Random(f"sweeping {seed}")

    def run(self) -> None:
        random = self.world.random
        first = [self._act_of_a_person() for _ in range(random.randint(3, 8))]
        self.world.run([*(self._start(id_) for id_ in IDS), *first])
        self._rest()
        if random.random() < 0.7:
            self.world.pass_time(random.choice((2 * DAY_SECONDS, WALK_SECONDS)))
            self.world.fault_rates.left = random.choice((0, 4))
            self.world.run([self._act_of_a_person() for _ in range(random.randint(1, 6))])
            self._rest()
        self.world.fault_rates.left = 0
        self.world.pass_time(WALK_SECONDS)
        self._sweep_until_done()
        self._check_owners()
        self._end_all()
        self.world.pass_time(ENDS_SECONDS)
        self._sweep_until_done()
        self.world.pass_time(PAYLOADS_LIMITS.payload_task_seconds + WALK_SECONDS)
        self._sweep_until_done()
        if self.kept.stored or self.world.store.query(Query(REMOVALS)):
            raise Violation(f"payloads are left: {sorted(self.kept.stored)}")

    def _rest(self) -> None:
        """Let the tasks end that dead processes have left."""
        before, self.world.fault_rates.left = self.world.fault_rates.left, 0
        for _ in range(2):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("outbox", self._sweep_outbox)
            self.world.run()
        self.world.fault_rates.left = before

    def _sweep_until_done(self) -> None:
        for _ in range(6):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", self._sweep)
            self.world.run()

    def _sweep_outbox(self) -> None:
        outbox.sweep(self.ports)

    def _sweep(self) -> None:
        for part in (outbox.sweep, flows_sweep.sweep, batches_sweep.sweep, payloads_sweep.sweep):
            part(self.ports)

    # --- what people do ---

    def _value(self) -> str:
        value = f"{LARGE}{len(self.values)}"
        self.values.add(value)
        return value

    def _act_of_a_person(self) -> Callable[[], None]:
        random = self.world.random
        id_ = random.choice(IDS)
        match random.randrange(9):
            case 0:
                return self._start(id_)
            case 1 | 2:
                return self._send(id_)
            case 3:
                return partial(self._begin, "person", partial(self._fork, id_))
            case 4:
                return partial(self._begin, "person", partial(self._delete, id_))
            case 5:
                return partial(self._begin, "person", self._delete_any)
            case 6:
                return partial(self._begin, "person", partial(self._retry, id_))
            case 7:
                return self._replace(id_)
        return partial(self._begin, "sweep", self._sweep)

    def _begin(self, name: str, work: Callable[[], object]) -> None:
        """Let a person act, and repeat it until there is an answer."""

        def answered() -> None:
            try:
                work()
            except Problem as problem:
                self.world.log(f"refused: {problem.detail}")

        self.world.start(name, answered, lambda done: None if done else self._begin(name, work))

    def _start(self, id_: str) -> Callable[[], None]:
        code, value = self.world.random.choice(CODE).__name__, self._value()
        arguments = {"text": value, **({"left": 1} if code == "inbox" else {})}
        follow = Call[Any](FUNCTION, "told", {}) if self.world.random.random() < 0.4 else None
        address = FlowAddress(code, id_)
        local = FLOWS if self.world.random.random() < 0.5 else Flows("", {})

        def start() -> object:
            return starts.start(self.ports, local, FUNCTION, address, arguments, follow)

        return lambda: self._begin("person", start)

    def _send(self, id_: str) -> Callable[[], None]:
        code, value = self.world.random.choice(("inbox", "inbox", "parent", "many")), self._value()
        self.keys += 1
        key = f"event {self.keys}"
        address = FlowAddress(code, id_)
        return lambda: self._begin("person", lambda: messages.post_event(self.ports, address, "go", value, key))

    def _replace(self, id_: str) -> Callable[[], None]:
        """Send an event that starts its run, instead of the one that is there, to which another person sends one."""
        code, value, argument = self.world.random.choice(("inbox", "parent")), self._value(), self._value()
        self.keys += 2
        arguments = {"text": argument, **({"left": 1} if code == "inbox" else {})}
        local = FLOWS if self.world.random.random() < 0.5 else Flows("", {})
        new = sends.Starting(code, local, FUNCTION, arguments, if_exists=self.world.random.choice(IF_EXISTS))
        address, key, other = FlowAddress(code, id_), f"event {self.keys}", f"event {self.keys - 1}"
        send = partial(sends.send_event, self.ports, address, "go", value, key, new)
        post = partial(messages.post_event, self.ports, address, "go", value, other)

        def both() -> None:
            self._begin("person", post)
            self._begin("person", send)

        return both

    def _fork(self, id_: str) -> None:
        source = FlowAddress(self.world.random.choice(("relay", "inbox")), id_)
        starts.fork(self.ports, FLOWS, source, starts.Fork(f"f{id_}", self.world.random.choice((0, 1))))

    def _delete(self, id_: str) -> None:
        flows_sweep.delete(self.ports, FlowAddress(self.world.random.choice(CODE).__name__, id_))

    def _delete_any(self) -> None:
        ended = [header.address for header in self._headers() if header.end]
        if ended:
            flows_sweep.delete(self.ports, self.world.random.choice(ended))

    def _retry(self, id_: str) -> None:
        retries.retry(self.ports, FLOWS, FlowAddress("relay", id_), "key", RetryOptions())

    def _end_all(self) -> None:
        for header in self._headers():
            if not header.end:
                flows_sweep.terminate(self.world.reliable_ports(), header.address)
        self.world.run()

    # --- tasks ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            turns.run_turn(ports, FLOWS, wake, Workers(self.world))
            return
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, before, *what))
        if effect.task in steps.OWN_TASKS:
            self._check_units(effect)
            steps.run_own_task(ports, delivered)
            return
        if "step" in effect.context:
            steps.run_step(ports, FLOWS, delivered, RetryLimits(50), lambda _, __: self._work(effect))
            return
        with opening_those_of(ports):
            code = partial(self._paint, delivered) if isinstance(delivered.context, OfUnit) else self._told
            runs.run(ports, delivered, RetryLimits(50), lambda _: True, code)

    def _check_units(self, effect: Effect) -> None:
        """Check that the units of a batch that a run awaits are in the store."""
        payload = payload_in(effect.payload.get("units"))
        if payload is None or not steps.is_awaited(self.world.reliable_ports(), effect.payload):
            return
        REACHED[PAYLOADS] += 1
        if payload.key not in self.kept.contents:
            raise Violation(f"a batch of {effect.payload['flow']} names {payload.key}, which is not in the store")

    def _paint(self, delivered: Any, _: TaskSubject | None, __: Start) -> str:
        text = opened(delivered.payload["text"]) if is_named(delivered.context) else delivered.payload["text"]
        if text != LARGE[:1] and text not in self.values:
            raise Violation(f"a unit received {text}")
        return str(text)

    def _work(self, effect: Effect) -> str:
        text = opened_members(effect.payload)["text"]
        self.world.step(f"{effect.task} runs")
        if text not in self.values:
            raise Violation(f"{effect.task} received {text}")
        if effect.task == "check" and self.failures:
            self.failures -= 1
            raise Problem("the check has failed")
        return self._value() if effect.task == "make" else str(text)

    def _told(self, subject: TaskSubject | None, _: Start) -> str:
        outcome: Any = opened_subject(subject)
        if outcome.error is None:
            self._check_value(outcome.result)
        return "told"

    def _check_value(self, value: Any) -> None:
        values = value if isinstance(value, list) else [value]
        if not self.values.issuperset(values):
            raise Violation(f"a run has completed with {values}")

    # --- what is committed ---

    def _headers(self) -> Iterator[FlowHeader]:
        for record in self.world.store.query(Query(FlowAddress.COLLECTION)):
            address = FlowAddress.of_base(record.path)
            [read] = self.world.store.read(f"{record.path}/mailbox/{HEADER}")
            if read.data is not None:
                yield FlowHeader.from_record(address, read.data)

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path.startswith(f"{REMOVALS}/") and before.data is None and self.sweeping.random() < SWEPT_AT_ONCE:
            self._begin("sweep", partial(payloads_sweep.sweep, self.ports))
        base, _, name = path.partition("/mailbox/")
        if after.data is None or not base.startswith(f"{FlowAddress.COLLECTION}/"):
            return
        if name == HEADER:
            header = FlowHeader.from_record(FlowAddress.of_base(base), after.data)
            self._check(header, named_by(header))
            if header.end and header.end.state == COMPLETED and not header.removing:
                with opening_those_of(replace(self.ports, payloads=self.kept)):
                    self._check_value(opened(header.end.outcome.result))
        elif name and "since" in after.data:
            [read] = self.world.store.read(f"{base}/mailbox/{HEADER}")
            if read.data is not None:
                header = FlowHeader.from_record(FlowAddress.of_base(base), read.data)
                self._check(header, named_in(header, message_from_record(after.data)))

    def _check(self, header: FlowHeader, named: list[Payload]) -> None:
        """Check that a run's payloads are in the store, unless its removal has begun."""
        REACHED[PAYLOADS] += len(named)
        if any(header.incarnation not in payload.key for payload in named):
            raise Violation(f"a record of {header.address.base} names a payload of another run")
        for payload in named if not header.removing else ():
            if payload.key not in self.kept.contents:
                raise Violation(f"a record of {header.address.base} names {payload.key}, which is not in the store")

    def _check_all(self) -> None:
        """Check all records, since payloads were deleted."""
        for header in self._headers():
            records = [each.data for each in self.world.store.query(Query(f"{header.address.base}/mailbox"))]
            unread = [message_from_record(data) for data in records if data and "kind" in data]
            in_mailbox = [payload for each in unread for payload in named_in(header, each)]
            self._check(header, [*named_by(header), *in_mailbox])

    def _check_owners(self) -> None:
        """Check that each payload that is older than a day has a run. Raises `Violation`."""
        held = {(header_path(header.address.base), header.incarnation) for header in self._headers()}
        held |= {(each.path, (each.data or {})["incarnation"]) for each in self.world.store.query(Query("batches"))}
        for key, stored in self.kept.stored.items():
            if stored.owner and (stored.owner, key.split("/")[2]) not in held:
                raise Violation(f"{key} stays: {stored.owner} does not have it")
        REACHED[ORPHANS] += 1


def named_by(header: FlowHeader) -> list[Payload]:
    """Return the payloads that a header names."""
    stored = [*header.arguments.values(), *([header.end.outcome.result] if header.end else [])]
    return [*payloads_in(*stored), *filter(None, map(payload_of, header.log.tail))]


def named_in(header: FlowHeader, message: Message) -> list[Payload]:
    """Return the payload that a message names, unless the run drops the message."""
    if isinstance(message, Result):
        dropped = header.awaited(message.wait) is None
    else:
        dropped = isinstance(message, Event) and f"/{header.incarnation}/" not in str(message.value)
    payload = None if dropped or header.end else payload_of(message)
    return [payload] if payload else []
