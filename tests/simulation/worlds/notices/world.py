"""Notices of the flows, batches and tasks that need a person, while calls and processes fail.

Runs of one flow end by an event: they return, fail, or get stuck until their code is fixed, some inside a lock, and
some break again; a step, a sub-flow or a batch of theirs fails, or their time-out is over. Batches have units that
fail, deadlines and a function of each option; tasks without a context are given up. People fix the code, cancel,
terminate, retry and delete, while all else goes on. The code of the pager fails, dies, and is delivered twice.

`model` decides which notices the pager must receive, from what users see and do. Each notice reports a failure that has
happened, with its fields, under an operation that only its repetitions share. At rest, the pager has a notice of every
such failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from signalbox.batches import sweep as batches_sweep
from signalbox.batches import tasks as batch_tasks
from signalbox.batches.model.headers import Header, header_of
from signalbox.batches.model.tree import header_path as batch_path
from signalbox.batches.requests import BatchSpec, RetryRequest
from signalbox.batches.service import lifecycle, population, units
from signalbox.batches.service import retries as batch_retries
from signalbox.core import outbox
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.kit_names import FAILURE_NOTICE_TASK
from signalbox.core.limits import DECLARED, LIMITS
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.user_code import CodeExited
from signalbox.core.wake_ups import WakeUp
from signalbox.flows import sweep as flows_sweep
from signalbox.flows.api import flow
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.service import messages, retries, starts
from signalbox.flows.service.retries import RetryOptions
from signalbox.flows.tasks import steps, turns
from signalbox.mailboxes.model.messages import HEADER, Delivery
from signalbox.semaphores import sweep as semaphores_sweep
from signalbox.semaphores import tasks as semaphore_tasks
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings
from signalbox.tasks.api import Call as UserCall
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import TaskSubject, parsed
from signalbox.tasks.model.failures import FAILURES, Failure
from signalbox.tasks.service import failures, runs
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import FLOWS_STUCK, NOTICES, REACHED
from tests.simulation.world import Violation, World
from tests.simulation.worlds.flows.inline_step_code import InlineSteps, SimulatedWorkers
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns
from tests.simulation.worlds.notices.model import (
    NOTICE_TASK,
    BatchEnded,
    Fact,
    Notice,
    Receiver,
    RunEnded,
    RunStuck,
    TaskGivenUp,
)

FUNCTION, OTHER, SILENT = "shop", "painter", "job"
"""Two functions with an `on_failure`, and one without."""

FLOW, INNER, LOCK = "errand", "inner", "till"
LEASE_SECONDS, TIMEOUT_SECONDS, DEADLINE_SECONDS, STARTS_MAX = 86_400, 900, 1_200, 2
OWN_ENDS = ("return", "fail", "stuck", "locked", "again", "sleep", "undone")
RUN_ENDS = (*OWN_ENDS, "step", "handled", "sub", "sub handled", "sub stuck", "batch")
UNIT_ENDS = ("return", "fail", "raise")
PAGED = ", ".join(f'"{function}": {{"{FAILURE_NOTICE_TASK}": ["notice"]}}' for function in (FUNCTION, OTHER))


class Refused(Problem):
    title = "Refused"


class Broken(Exception):
    """What a user's code raises."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold."""
    with mock.patch.dict(DECLARED, {"task_parameters": f"{{{PAGED}}}"}):
        NoticesWorld(seed, trace).run()


class NoticesWorld:
    """Functions with flows, tasks and a pager; `receiver` has what happened, and what the pagers received."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        rates = FaultRates(abort=0.06, lose_answer=0.06, kill=0.08, duplicate=0.1, left=6)
        self.world = World(seed, rates, trace)
        self.world.task_handlers |= dict.fromkeys((FUNCTION, OTHER, SILENT), self._deliver)
        self.world.task_handlers |= {"batch_expand": _run_batch_task, "semaphore_admit": _admit}
        self.world.observers.append(self._observe)
        self.deliveries: Counter[str] = Counter()
        self.inline = InlineSteps(self.world, InlineRuns(), self.world.random)
        self.own = Random(f"notices {seed}")
        self.receiver = Receiver((FUNCTION, OTHER))
        self.headers: dict[str, FlowHeader] = {}
        self.batches: dict[str, BatchSpec] = {}
        self.ended: set[tuple[str, str]] = set()
        self.pager_does: dict[str, str] = {}
        self.pager_fails = self.own.choice((0.0, 0.0, 0.3))
        self.is_fixed = self.breaks_again = False
        code = {FLOW: self._errand(), INNER: self._inner()}
        self.flows = Flows(FUNCTION, {name: FlowDefinition.from_function(each) for name, each in code.items()})
        settings.put(self.world.reliable_ports(), LOCK, SemaphoreSettings(9, LEASE_SECONDS))

    def run(self) -> None:
        own = self.own
        begun: list[Callable[[], object]] = []
        for number in range(own.randint(0, 2)):
            begun += self._run_of(FlowAddress(FLOW, f"r{number}"), own.choice(RUN_ENDS))
        for number in range(own.randint(0, 2)):
            begun += self._batch_of(f"b{number}")
        for number in range(own.randint(0, 2)):
            payload = {"does": own.choice(UNIT_ENDS)}
            function = own.choice((FUNCTION, FUNCTION, OTHER, SILENT))
            self.world.queue.take(Effect(f"plain{number}", "q", function, "work", payload, path="/tasks/work"))
        self.world.run([partial(self._act, each) for each in begun])
        self.world.pass_an_outage()
        self.is_fixed = own.random() < 0.5
        self.breaks_again = own.random() < 0.5
        self.world.run([partial(self._act, each) for each in self._later()])
        self.world.fault_rates.left = 0
        for _ in range(3):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 600)
            self.world.start("sweep", lambda: _sweep(self.world.ports))
            self.world.run()
        if missing := self.receiver.missing():
            raise Violation(f"the pager has no notice of {missing}")

    # --- the code of users ---

    def _errand(self) -> Callable[..., Any]:
        async def errand() -> Any:
            does = await flow.event("end", str)
            match does:
                case "fail":
                    raise Refused(does)
                case "stuck":
                    self._raise_unless(does, self.is_fixed)
                case "locked":
                    async with flow.lock(LOCK, lease_seconds=LEASE_SECONDS):
                        self._raise_unless(does, self.is_fixed)
                case "again":
                    self._raise_unless(does, self.is_fixed)
                    await flow.event("more", str)
                    self._raise_unless(does, not self.breaks_again)
                case "step":
                    await UserCall[Any](FUNCTION, "work", {"does": "fail"})
                case "handled":
                    with suppress(Problem):
                        await UserCall[Any](FUNCTION, "work", {"does": "fail"})
                case "sub" | "sub stuck":
                    await SubFlow[Any](FUNCTION, INNER, {"does": "stuck" if does == "sub stuck" else "fail"})
                case "sub handled":
                    with suppress(Problem):
                        await SubFlow[Any](FUNCTION, INNER, {"does": "fail"})
                case "batch":
                    await flow.batch([UserCall[Any](FUNCTION, "work", {"does": "fail"})])
                case "sleep":
                    await flow.sleep(10 * TIMEOUT_SECONDS)
                case "undone":
                    try:
                        await flow.sleep(10 * TIMEOUT_SECONDS)
                    finally:
                        raise Refused(does)

        return errand

    def _inner(self) -> Callable[..., Any]:
        async def inner(does: str) -> None:
            if does == "stuck":
                self._raise_unless(does, self.is_fixed)
            else:
                raise Refused(does)

        return inner

    def _raise_unless(self, does: str, is_fixed: bool) -> None:
        if not is_fixed:
            raise ValueError(does)

    # --- what people do ---

    def _run_of(self, address: FlowAddress, does: str) -> list[Callable[[], object]]:
        ports = self.world.ports
        timeout = TIMEOUT_SECONDS if self.own.random() < 0.3 else None
        acts = [
            lambda: starts.start(ports, self.flows, FUNCTION, address, {}, timeout_seconds=timeout),
            lambda: messages.post_event(ports, address, "end", does, "e"),
        ]
        if self.own.random() < 0.15:
            acts.append(lambda: messages.cancel(ports, address))
        if self.own.random() < 0.15:
            acts.append(lambda: flows_sweep.terminate(ports, address))
        return acts

    def _batch_of(self, id_: str) -> list[Callable[[], object]]:
        own = self.own
        function, *others = (own.choice((FUNCTION, OTHER, SILENT)) for _ in range(3))
        is_outside = own.random() < 0.2
        hears_failures, hears_ends = (is_outside and own.random() < 0.5) or own.random() < 0.3, own.random() < 0.3
        self.batches[id_] = spec = BatchSpec(
            task=None if is_outside else Call(function, "work", {}),
            units=[{"does": own.choice(UNIT_ENDS)} for _ in range(own.randint(1, 3))],
            sealed=own.random() < 0.85,
            failures_max=own.choice((None, 0, 1, 2)),
            deadline_seconds=DEADLINE_SECONDS,
            on_failure=Call(others[0], "heard", {}) if hears_failures else None,
            on_complete=Call(others[1], "heard", {}) if hears_ends else None,
        )
        acts: list[Callable[[], object]] = [lambda: population.populate(self.world.ports, id_, spec)]
        if own.random() < 0.2:
            acts.append(lambda: lifecycle.cancel(self.world.ports, id_))
        return acts

    def _later(self) -> list[Callable[[], object]]:
        """Return what people do about all that failed, and about what did not."""
        ports, own = self.world.ports, self.own
        acts: list[Callable[[], object]] = []
        for header in list(self.headers.values()):
            address = header.address
            act = own.choice(("none", "more", "retry", "cancel", "terminate", "delete", "last entry"))
            entry = header.log_length if act == "last entry" else None
            todo: dict[str, Callable[[], object]] = {
                "more": partial(messages.post_event, ports, address, "more", "now", "m"),
                "retry": partial(retries.retry, ports, self.flows, address, "k", RetryOptions(entry)),
                "last entry": partial(retries.retry, ports, self.flows, address, "k", RetryOptions(entry)),
                "cancel": partial(messages.cancel, ports, address),
                "terminate": partial(flows_sweep.terminate, ports, address),
                "delete": partial(flows_sweep.delete, ports, address),
            }
            acts += [todo[act]] * own.randint(1, 2) if act in todo else []
        for snapshot in self.world.store.query(Query(FAILURES)):
            act = own.choice(("none", "retry", "delete"))
            if act != "none":
                acts.append(partial(failures.retry if act == "retry" else failures.delete, ports, snapshot.id))
        for id_ in self.batches:
            if own.random() < 0.4:
                acts.append(partial(batch_retries.retry, ports, id_, RetryRequest(), "again"))
        return acts

    def _act(self, work: Callable[[], object]) -> None:
        """Let a person act, and repeat it until there is an answer."""

        def answered() -> None:
            try:
                work()
            except Problem as problem:
                if isinstance(problem, Unavailable):
                    raise
                self.world.log(f"refused: {problem.detail}")

        def ended(done: bool) -> None:
            if not done:
                self._act(work)

        self.world.start("person", answered, ended)

    # --- tasks ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            turns.run_turn(ports, self.flows, wake, SimulatedWorkers(self.world, wake.wake.mailbox, self.inline))
            return
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, before, *what))
        if effect.task in steps.OWN_TASKS:
            steps.run_own_task(ports, delivered)
            return

        def code(_: TaskSubject | None, __: Start) -> str:
            return self._receive(delivered, effect) if effect.task == FAILURE_NOTICE_TASK else _work(effect)

        try:
            if "step" in effect.context:
                steps.run_step(ports, self.flows, delivered, RetryLimits(STARTS_MAX), lambda *_: _work(effect))
            else:
                runs.run(ports, delivered, RetryLimits(STARTS_MAX), partial(units.unit_is_live, ports), code)
        except (Broken, CodeExited) as error:
            raise Unavailable("the code raised") from error

    def _receive(self, delivered: Delivered[Any], effect: Effect) -> str:
        self.world.step("the pager receives the notice")
        self._received(delivered.operation, effect.function, effect.payload)
        REACHED[NOTICES] += 1
        fails = self.own.random() < self.pager_fails
        does = self.pager_does.setdefault(effect.name, self.own.choice(UNIT_ENDS) if fails else "return")
        return _end(does)

    def _received(self, operation: str, function: str, payload: Any) -> None:
        received = payload["notice"]
        notice = Notice(function, **received | {"locks": tuple(received["locks"])})
        if wrong := self.receiver.receive(operation, notice):
            raise Violation(wrong)

    # --- what users see ---

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        base, __, name = path.partition("/mailbox/")
        if name == HEADER and base.startswith(f"{FlowAddress.COLLECTION}/"):
            if after.data is None:
                self.headers.pop(base, None)
            else:
                header = FlowHeader.from_record(FlowAddress.of_base(base), after.data)
                self._seen_run(self.headers.get(base), header)
                self.headers[base] = header
        elif after.data is None:
            return
        elif path.startswith(f"{FAILURES}/"):
            self._seen_failure(before, after)
        elif path == batch_path(after.id):
            batch = header_of(after.data)
            if batch and batch.ended and (after.id, batch.incarnation) not in self.ended:
                self.ended.add((after.id, batch.incarnation))
                self._happens(self._seen_batch(after.id, batch))

    def _seen_failure(self, before: Snapshot, after: Snapshot) -> None:
        states = [(each.data or {}).get("state") for each in (before, after)]
        if states[1] == states[0] or states[1] == "deleted":
            return
        failure = Failure.from_record(after.id, after.data or {})
        is_of_notice = failure.call.task == FAILURE_NOTICE_TASK
        if states == ["failed", "retried"] and is_of_notice:
            self.receiver.is_retried(failure.id)
        elif states == [None, "failed"]:
            if is_of_notice:  # a person finds it in the list of failures
                self._received(failure.id, failure.call.function, failure.call.payload)
            task = NOTICE_TASK if is_of_notice else failure.call.task
            self._happens(TaskGivenUp(failure.call.function, task, failure.id, failure.problem, failure.detail))

    def _seen_run(self, before: FlowHeader | None, header: FlowHeader) -> None:
        address = header.address
        if header.end and (before is None or before.end is None or before.ended_as != header.ended_as):
            error = header.end.outcome.error or {}
            has = error.get("type", ""), error.get("detail", "")
            timed_out = "time-out" in has[1]
            what = header.state, *has, timed_out, header.parent is not None
            self._happens(RunEnded(FUNCTION, address.name, address.key, *what))
        if header.stuck:
            REACHED[FLOWS_STUCK] += 1
            why = _reason(header)
            if before is None or why != _reason(before):
                locks = (LOCK,) if why[1].startswith("ValueError: locked") else ()
                self._happens(RunStuck(FUNCTION, address.name, address.key, *why, locks))

    def _seen_batch(self, id_: str, batch: Header) -> BatchEnded:
        counts = batch.size or 0, batch.failed, batch.reason, len(batch.missing)
        if (spec := self.batches.get(id_)) is None:  # a flow has made it
            return BatchEnded(id_, batch.state, *counts, None, FUNCTION, for_flow=True)
        task, on_failure, on_complete = (
            call.function if call else "" for call in (spec.task, spec.on_failure, spec.on_complete)
        )
        return BatchEnded(id_, batch.state, *counts, spec.failures_max, task, on_failure, on_complete)

    def _happens(self, fact: Fact) -> None:
        self.world.log(f"{fact}")
        self.receiver.happens(fact)


def _reason(header: FlowHeader) -> tuple[str, str, str]:
    stuck = header.stuck or {}
    return stuck.get("type", ""), stuck.get("detail", ""), stuck.get("place", "")


def _work(effect: Effect) -> str:
    return _end(effect.payload.get("does", "return"))


def _end(does: str) -> str:
    if does == "fail":
        raise Refused("as its payload says")
    if does == "raise":
        raise Broken("as its payload says")
    return "done"


def _run_batch_task(ports: Ports, effect: Effect) -> None:
    batch_tasks.run_batch_task(ports, effect.task, effect.payload)


def _admit(ports: Ports, effect: Effect) -> None:
    semaphore_tasks.TASKS[effect.task](ports, effect.payload)


def _sweep(ports: Ports) -> None:
    for part in (outbox.sweep, batches_sweep.sweep, flows_sweep.sweep, semaphores_sweep.sweep):
        with suppress(Unavailable):
            part(ports)
