"""Runs whose code answers updates, and updates and events that start their run, while all else goes on.

The value of each update is another power of two, and the code answers with the sum: so an answer names all updates that
the code has applied before it. The code answers some at once and some after a step, refuses some, and continues as new,
also with an update in hand. Steps fail in the first executions, and people retry the run. Callers repeat each request
until there is an answer, some of them two at once; some repeat an update whose run was removed. In some worlds a person
deletes the run again and again. Tasks are delivered twice, and processes die.

Checked whenever a record is written: an answer does not change; an event or an update that leaves the mailbox of a
run in progress has a receipt; no run receives an update whose callers were told that there is no run, unless one of
them repeats it. Checked at rest: each accepted update of a run in progress has an answer; each answer contains its
update once, and all answers are sums of one order; the result of a run is the sum of what it has answered; a start that
was refused has started nothing, and one that replaces has replaced one run; no sender that replaces ended runs is told
that such a run receives its update; no caller waits for an answer of an ended run, also if its removal has died; no
record is left after the removal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Committed, Ports, Query, Snapshot, Write
from signalbox.core.problems import Problem
from signalbox.core.wake_ups import WakeUp
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import COMPLETED, FAILED, FlowHeader
from signalbox.flows.model.messages import Incoming, Update, message_from_record
from signalbox.flows.problems import CannotRetry, FlowRunning, NoFlow, NotAnswered, NoUpdate, RunExists
from signalbox.flows.requests import REFUSE, REPLACE, REPLACE_ENDED, SAME
from signalbox.flows.service import retries, sends
from signalbox.flows.service.retries import RetryOptions
from signalbox.flows.service.sends import Starting
from signalbox.flows.storage.commits import REPLY
from signalbox.flows.tasks import steps, turns
from signalbox.mailboxes.model.messages import HEADER, Delivery
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import waits
from signalbox.tasks.api import Call
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import ANSWERED, REACHED
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import faults
from tests.simulation.worlds.flows.inline_step_code import InlineSteps, SimulatedWorkers
from tests.simulation.worlds.flows.observed_inline_steps import InlineRuns
from tests.simulation.worlds.flows.rewinds import sweep_all

FUNCTION, TAB = "shop", "tab"
ROUNDS, UPDATES_MAX, RESTS, STARTS_MAX, LAST_RETRIES_MAX = 3, 6, 3, 100, 8
FAILS_RATE = 0.6
REPEATS_MAX, REPEAT_RATE = 2, 0.5
OFTEN_REMOVED_RATE, REMOVALS, REMOVAL_PATIENCE = 0.25, 4, 0.5
SMALL = {"flow_tail_bytes_max": 300, "flow_live_tail_bytes_max": 100, "flow_chunk_bytes_max": 900}
WRONG = "wrong"
"""A value that is not of the type of the update."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"updates {seed}")
    small = SMALL if own.random() < 0.4 else {}
    removals = {"flow_removed_at_once_max": Random(f"removals {seed}").choice((1, 90))}
    with replaced(**small, **removals, mailbox_page=own.choice((2, 4))):
        UpdatesWorld(seed, own, trace).run()


async def tab(total: int = 0) -> Any:
    """Answer each update with the sum of all, and `slow` ones with the result of a step; refuse `no`.

    The last update of a generation is answered in the next one.
    """
    for number in range(ROUNDS):
        ways = {"add": flow.update("add", int), "slow": flow.update("slow", int), "no": flow.update("no")}
        which, got = await flow.first(**ways, end=flow.event("end"))
        if which == "end":
            return total
        if number == ROUNDS - 1:
            break
        if which == "no":
            got.refuse(Problem(f"{got.value}"))
            continue
        life = await Call[Any](FUNCTION, "step", {}) if which == "slow" else ""
        total += got.value
        got.answer([total, life])
    return flow.continue_as_new(total=total)


FLOWS = Flows(FUNCTION, {TAB: FlowDefinition.from_function(tab)})


@dataclass
class SlowCommits:
    """The store of a process that waits before each commit."""

    ports: Ports
    seconds: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ports.store, name)

    def commit(self, writes: Sequence[Write]) -> Committed:
        if self.seconds:
            self.ports.clock.sleep(self.seconds)
        return self.ports.store.commit(writes)


@dataclass
class UpdatesWorld:
    """One run, which several requests start, and the callers of its updates."""

    seed: int
    own: Random
    trace: Callable[[str], None] | None
    header: FlowHeader | None = None
    incarnations: list[str] = field(default_factory=list)
    accepted: dict[str, Update] = field(default_factory=dict)
    replies: dict[str, str] = field(default_factory=dict)
    received: dict[str, set[str]] = field(default_factory=dict)
    sending: Counter[str] = field(default_factory=Counter)
    late: dict[str, str] = field(default_factory=dict)
    without_run: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    creators: set[str] = field(default_factory=set)
    replacing: str = ""
    started: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        own = self.own
        rates = FaultRates(abort=0.03, lose_answer=0.05, kill=0.06, left=faults(own.choice((0, 3, 6))))
        rates.duplicate = own.choice((0.1, 0.6))
        self.world = World(self.seed, rates, self.trace)
        self.world.step_microseconds_max = own.choice((300, 30_000))
        self.world.time_jumps, self.world.time_jumps_left = (0.05, 0.3, 1.0), own.choice((0, 4))
        self.world.task_handlers |= {FUNCTION: self._deliver}
        self.world.sweeper = sweep_all
        self.world.observers.append(self._observe)
        self.inline = InlineSteps(self.world, InlineRuns(), Random(0))
        self.address = FlowAddress(TAB, "t")
        self.fails = own.choice((0, 1, 1, 2))
        self.choices = own.choice(((SAME,), (SAME, REFUSE), (SAME, REPLACE), (SAME, REPLACE_ENDED)))
        self.replaces = self.choices[-1].startswith("replace")
        self.repeats, self.patience = Random(f"repeats {self.seed}"), Random(f"patience {self.seed}")
        self.is_removed_often = self.repeats.random() < OFTEN_REMOVED_RATE
        if self.is_removed_often:
            self.choices, self.replaces = (SAME,), True

    # --- people ---

    def _act(self, name: str, work: Callable[[], object], patience: float = 1) -> Callable[[], None]:
        """Return the beginning of what a person does, and repeats until there is an answer, or patience is over."""

        def begin() -> None:
            self.world.start(
                name, answered, lambda done: None if done or self.patience.random() > patience else begin()
            )

        def answered() -> None:
            try:
                work()
            except Problem as problem:
                self.refused |= {name.partition(" ")[0]} if isinstance(problem, RunExists) else set()
                self.world.log(f"refused: {problem.detail}")

        return begin

    def _starting(self, if_exists: str) -> Starting:
        flows = FLOWS if self.own.random() < 0.7 else Flows("")  # a process without the code
        return Starting(TAB, flows, FUNCTION, if_exists=if_exists)

    def _update(self, number: int, name: str, if_exists: str) -> None:
        """Send an update and wait for its answer. If its run was removed, send it again, also without a start."""
        key, new = f"u{number}", self._starting(if_exists)
        for again in range(REPEATS_MAX + 1):
            try:
                may_start = (again == 0 and not self.is_removed_often) or self.repeats.random() < REPEAT_RATE
                self._send(number, name, new if may_start else None)
                if answer := sends.answer_of(self.world.ports, self.address, key, self.own.choice((0, 1, 3))):
                    self.received.setdefault(key, set()).add(answer.to_text())
            except (NoFlow, NoUpdate, NotAnswered) as refused:
                if not self.sending[key] and "retry" not in refused.detail:
                    self.without_run.add(key)
                if if_exists == REPLACE or again == REPEATS_MAX or self.repeats.random() < REPEAT_RATE:
                    raise
                self.world.log(f"{key} is sent again: {refused.detail}")
            else:
                return

    def _send(self, number: int, name: str, new: Starting | None) -> None:
        value: Any = WRONG if name == WRONG else 2**number
        key, sent_as = f"u{number}", "add" if name == WRONG else name
        if self.is_removed_often:
            self.world.ports.clock.sleep(self.repeats.choice((0, 0.3, 0.6, 1, 2)))
        self.without_run.discard(key)
        self.sending[key] += 1
        try:
            sent = sends.send_update(self._ports((0, 0.4, 0.8)), self.address, sent_as, value, key, new)
        finally:
            self.sending[key] -= 1
        replaces = new is not None and new.if_exists == REPLACE_ENDED and not sent.started
        if replaces and self.header and self.header.incarnation == self.late.get(key):
            raise Violation(f"{key} was posted after the end of its run, and its sender was told that it is received")

    def _end(self) -> None:
        """Send the event that ends the run, or that starts the run that it ends."""
        sends.send_event(self.world.ports, self.address, "end", None, "end", self._starting(SAME))

    def _wait_and(self, work: Callable[[], object], *, failed: bool) -> None:
        for _ in range(10):
            if self.header and (not failed or self.header.state == FAILED):
                work()
                return
            self.world.ports.clock.sleep(0.5)

    def _ports(self, seconds: Sequence[float]) -> Ports:
        """Return ports; some processes are slow between what they read and their commits.

        So a message may be posted after the end of its run, and even dropped by a turn after a removal has read the
        mailbox.
        """
        ports = self.world.ports
        if not self.is_removed_often and REPLACE_ENDED not in self.choices:
            return ports
        return replace(ports, store=SlowCommits(ports, self.repeats.choice(seconds)))

    def _remove(self) -> None:
        """End and delete the run, some times, while others start it."""
        for _ in range(REMOVALS):
            with suppress(NoFlow, FlowRunning):
                sweep.terminate(self.world.ports, self.address)
                sweep.delete(self._ports((0, 0.5, 0.5)), self.address)
            self.world.ports.clock.sleep(self.repeats.choice((0.01, 0.1, 0.3)))

    def _retry(self, key: str, options: RetryOptions) -> None:
        retries.retry(self.world.ports, FLOWS, self.address, key, options)

    # --- tasks ---

    def _deliver(self, ports: Ports, effect: Effect) -> None:
        before = self.deliveries[effect.name]
        self.deliveries[effect.name] += 1
        what = effect.function, effect.task, effect.payload, effect.queue
        delivered: Any = parsed(Delivered(effect.name, effect.context, 0, before, *what))
        if effect.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(effect.payload), effect.name, before)
            ports = self._ports((0, 0, 0.1))
            turns.run_turn(ports, FLOWS, wake, SimulatedWorkers(self.world, wake.wake.mailbox, self.inline))
        elif effect.task in steps.OWN_TASKS:
            steps.run_own_task(ports, delivered)
        elif "step" in effect.context:
            steps.run_step(ports, FLOWS, delivered, RetryLimits(STARTS_MAX), lambda *_: self._step(effect))

    def _step(self, effect: Effect) -> str:
        life = str(effect.context["step"]["life"])
        self.world.step(f"step of {life}")
        if int(life.partition(".")[2] or 0) < self.fails and self.own.random() < FAILS_RATE:
            raise Problem("no")
        return life

    # --- what is seen ---

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        base, _, name = path.partition("/mailbox/")
        if base != self.address.base or not name:
            return
        if name == HEADER:
            self._observe_header(after)
            return
        is_taken, goes_on = waits(before) and not waits(after), self.header and not self.header.end
        update = message_from_record(after.data or before.data or {})
        if is_taken and goes_on and after.data is None and isinstance(update, Incoming):
            raise Violation(f"{update} left the mailbox of a run in progress without a receipt")
        if not isinstance(update, Update):
            return
        if after.data is None:
            self.accepted.pop(update.id, None)
            self.replies.pop(update.id, None)
            return
        if is_taken and goes_on and update.id in self.without_run:
            raise Violation(f"the callers of {update.id} know that it has no run, and a run has received it")
        if before.data is None and self.header and self.header.end:
            self.late[update.id] = self.header.incarnation
        self.accepted[update.id] = update
        self.started[update.id] += before.data is None
        reply = after.data.get(REPLY, "")
        if (known := self.replies.get(update.id)) and reply != known and before.data:
            raise Violation(f"{update.id} was answered {known}, and now {reply}")
        self.replies[update.id] = reply

    def _observe_header(self, after: Snapshot) -> None:
        if after.data is None:
            self.header = None
            return
        self.header = FlowHeader.from_record(self.address, after.data)
        if self.header.end is None:  # a retried run receives what has been posted after its end
            self.late.clear()
        if self.header.incarnation not in self.incarnations:
            self.incarnations.append(self.header.incarnation)
            self.creators.add(str(self.world.processes.current).partition(" ")[0])

    # --- the run ---

    def run(self) -> None:
        """Let people act; then, without faults, retry until the run goes on; then end and remove it."""
        own = self.own
        acts = []
        for number in range(own.randint(2, UPDATES_MAX)):
            name, choice = own.choice(("add", "add", "slow", "slow", "no", WRONG)), own.choice(self.choices)
            if choice == REPLACE:
                choice, self.replacing = (SAME, self.replacing) if self.replacing else (REPLACE, f"u{number}")
            update = partial(self._update, number, name, choice)
            callers = 3 if choice == REPLACE else own.choice((1, 1, 2))
            acts += [self._act(f"u{number} {again}", update) for again in range(callers)]
        acts += [self._act("end", self._end)] if own.random() < 0.3 else []
        for key in ("R1", "R2")[: own.randint(0, 2)]:
            options = RetryOptions(None if own.random() < 0.5 else own.randint(0, 3))
            retry = partial(self._wait_and, partial(self._retry, key, options), failed=True)
            acts.append(self._act(key, retry))
        if own.random() < 0.1:
            end = partial(sweep.terminate, self.world.ports, self.address)
            acts.append(self._act("terminate", partial(self._wait_and, end, failed=False)))
        acts += [self._act("remove", self._remove, REMOVAL_PATIENCE)] if self.is_removed_often else []
        self.world.run(own.sample(acts, len(acts)))
        self.world.fault_rates.left = 0
        self._rest(CORE_LIMITS.outbox_patience_seconds + 1)
        self._complete_removal()
        self._check()
        for number in range(LAST_RETRIES_MAX):
            if self.header is None or self.header.state != FAILED:
                break
            self._retry_at_rest(f"last {number}")
            self._rest(CORE_LIMITS.outbox_patience_seconds + 1)
            self._check()
        if self.header and self.header.state == FAILED:
            raise Violation(f"the run still fails: {self.header.end}")
        self._check_starts()
        if self.header and not self.header.end:
            sends.send_event(self.world.reliable_ports(), self.address, "end", None, "the end")
            self._rest(CORE_LIMITS.outbox_patience_seconds + 1)
            self._check()
        if self.world.versions:  # the last release leaves a run whose format it does not know to a later sweep
            self.world.versions.end_deployment()
        for _ in range(3):
            self._rest(LIMITS.flow_kept_seconds + 3600, 1)
        if left := [each.path for each in self.world.store.query(Query(FlowAddress.COLLECTION))]:
            raise Violation(f"{left} are left")

    def _rest(self, seconds: float, rounds: int = RESTS) -> None:
        for _ in range(rounds):
            self.world.pass_time(seconds)
            self.world.start("sweep", lambda: sweep_all(self.world.ports))
            self.world.run()

    def _complete_removal(self) -> None:
        """Delete a run whose removal has begun, and whose process has died. No caller waits for its answer."""
        if self.header and self.header.removing:
            self._check_nobody_waits(self.header, self.accepted)
            sweep.delete(self.world.reliable_ports(), self.address)
            self._rest(CORE_LIMITS.outbox_patience_seconds + 1)

    def _retry_at_rest(self, key: str) -> None:
        ports = self.world.reliable_ports()
        try:
            retries.retry(ports, FLOWS, self.address, key, RetryOptions())
        except CannotRetry:
            retries.retry(ports, FLOWS, self.address, key, RetryOptions(0))

    # --- what must hold at rest ---

    def _check(self) -> None:
        header = self.header
        if header is None:
            return
        if not header.end and not any(wait.signature == "event end" for wait in header.pending.values()):
            raise Violation(f"the run waits forever: {header.state}, {dict(header.pending)}, {header.stuck}")
        answers = {key: CallOutcome.from_text(reply) for key, reply in self.replies.items() if reply}
        if not header.end and (unanswered := self.accepted.keys() - answers.keys()):
            raise Violation(f"the run goes on, and {sorted(unanswered)} have no answer")
        if [*header.unanswered] != [key for key in header.unanswered if key in self.accepted and key not in answers]:
            raise Violation(f"the header has {dict(header.unanswered)} without an answer, and the records {answers}")
        total = self._checked_sums(answers)
        REACHED[ANSWERED] += bool(total)
        if header.end and header.state == COMPLETED and header.end.outcome.result != total:
            raise Violation(f"the run has ended with {header.end.outcome.result:b}, and has answered {total:b}")
        self._check_nobody_waits(header, self.accepted.keys() - answers.keys())
        for key, texts in self.received.items():
            if key in answers and len(self.incarnations) == 1 and texts != {answers[key].to_text()}:
                raise Violation(f"the callers of {key} have received {texts}, and its record has {answers[key]}")

    def _check_nobody_waits(self, header: FlowHeader, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                answer = sends.answer_of(self.world.reliable_ports(), self.address, key)
            except NotAnswered:
                continue
            if answer is None:
                raise Violation(f"the run is {header.state}, and the caller of {key} waits for an answer")

    def _checked_sums(self, answers: Mapping[str, CallOutcome]) -> int:
        """Return the sum of all updates that were applied. Each answer is the sum up to its update, in one order."""
        total, applied = 0, []
        for key, answer in answers.items():
            update = self.accepted[key]
            is_refused = update.name == "no" or update.value == WRONG
            if answer.failed != is_refused:
                raise Violation(f"{update} was answered with {answer}")
            if not is_refused:
                applied.append((answer.result[0], update.value))
        for result, value in sorted(applied):
            total += value
            if result != total:
                raise Violation(f"{value:b} was answered with {result:b}, and the updates before it make {total:b}")
        return total

    def _check_starts(self) -> None:
        if both := self.refused & self.creators:
            raise Violation(f"{sorted(both)} have started a run, and were refused because there is one")
        if not self.replaces and len(self.incarnations) > 1:
            raise Violation(f"nobody has replaced the run, and there were {self.incarnations}")
        if self.started[self.replacing] > 1:
            raise Violation(f"{self.replacing}, sent once, has replaced {self.started[self.replacing]} runs by its own")
