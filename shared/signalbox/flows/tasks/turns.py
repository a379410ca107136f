"""The wake-up of a flow: it applies the messages of the mailbox, and carries inline steps.

    read, turn: commit, claim inline steps ──► run their code ──► turn without a read: commit, claim the next ones ──┐
      ▲                                          ▲                    │ another turn was faster, or a message waits  │
      │                                          └────────────────────┼──────────────────────────────────────────────┘
      └───────────────────────────────────────────────────────────────┘

So a chain of inline steps costs one commit a step. While code runs, the delivery renews its claims and looks for
messages. It hands over to another delivery in time: a commit that leaves an inline step has a wake-up.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

from signalbox.core.effects import Effect, name_of
from signalbox.core.flow_hooks import check_ran
from signalbox.core.idempotency_keys import idempotent_calls
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import AlreadyExists, Conflict, Ports, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.claims import Carrier
from signalbox.flows.machine.commands import Inline
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.machine.stuck import Stuck, step_outcome
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import RUNNING_STEPS
from signalbox.flows.model.messages import Cancel, Result, message_from_record, message_to_record
from signalbox.flows.model.waits import Claim, Wait
from signalbox.flows.problems import StepTimedOut
from signalbox.flows.service.turns import Advanced, FlowMailbox, LiveTurn, advance, advance_without_read, mark_stuck
from signalbox.flows.tasks.steps import post_result
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import Delivery
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.service import run
from signalbox.mailboxes.storage import Mailbox, message_put, read_mailbox
from signalbox.tasks.model.attempts import TaskContext
from signalbox.tasks.storage import count_start, uncount_start

Code = Callable[[], CallOutcome]


class Workers(Protocol):
    """Run the code of inline steps next to the delivery that carries them, each under its path."""

    @property
    def running(self) -> Collection[str]:
        """The paths whose code has begun, and whose outcome was neither received nor abandoned."""
        ...

    def begin(self, path: str, code: Code) -> None: ...

    def wait(self, seconds: float) -> Mapping[str, CallOutcome]:
        """Return the outcomes of code that has ended, as soon as there is one, or none after `seconds`."""
        ...

    def abandon(self, path: str) -> None:
        """Do not wait for the outcome any more. The code may continue."""
        ...

    def seconds(self) -> float:
        """Return the seconds since the delivery began."""
        ...

    def seconds_left(self) -> float:
        """Return the seconds until the delivery is ended by the platform."""
        ...


def run_turn(ports: Ports, flows: Flows, delivery: Delivery, workers: Workers) -> None:
    """Apply the messages that are due to a flow, and run inline steps.

    Raises `Unavailable` if the wake-up must be delivered again.
    """
    _Delivered(ports, flows, delivery, workers).run()


class _Delivered:
    """One delivery of a wake-up. `ended` are the results of inline steps that no commit has applied yet."""

    def __init__(self, ports: Ports, flows: Flows, delivery: Delivery, workers: Workers) -> None:
        self._ports, self._flows, self._delivery, self._workers = ports, flows, delivery, workers
        self._base = delivery.wake.mailbox
        self._address = FlowAddress.of_base(self._base)
        self._ended: list[Result] = []
        self._begun: dict[str, tuple[Wait, Claim, float]] = {}
        self._id = ""
        self._read_at = self._looked_at = self._renewed_at = 0.0
        self._turns, self._cancelled, self._over, self._left = 0, False, False, False

    def run(self) -> None:
        """Run the mailbox. Outcomes that cannot be applied here are left in it."""
        try:
            wake = self._wake(self._delivery.wake.until)
            run(self._ports, self._delivery, wake, self._turn, self._has_work)
        except Exception:
            self._leave_outcomes()
            raise
        self._leave_outcomes()

    def _has_work(self, header: Snapshot) -> bool:
        """Return whether inline steps are claimed, or outcomes were left: a claim that is over must be taken over."""
        return bool(self._ended or self._left or self._workers.running or (header.data or {}).get(RUNNING_STEPS))

    # --- turns ---

    def _turn(self, mailbox: Mailbox) -> bool:
        """Commit a turn that was read, then run inline steps. Return whether to read again."""
        self._looked_at = began_at = self._workers.seconds()
        repeats = self._delivery.wake.repeats
        read = FlowMailbox(self._address, mailbox, None, repeats, self._carrier(), tuple(self._ended))
        advanced = self._advance(read)
        self._cancelled = advanced.cancel_waits
        if advanced.complete:
            self._ended = []
        if advanced.live:
            return self._carry(advanced.live, began_at)
        if advanced.complete:
            self._abandon(self._workers.running)
        self._wake_for(advanced.claims, mailbox.read_time)
        if advanced.leaves_steps:
            self._ports.queue.create(complete_wake_ups([self._wake()], mailbox.read_time))
        return False

    def _wake(self, at: datetime | None = None) -> Effect:
        return wake_flow(self._base, self._flows.function, at)

    def _advance(self, read: FlowMailbox) -> Advanced:
        """Commit a turn; if the wake-up was delivered often, count the start of the flow's code."""
        self._turns += 1
        header, is_careful = read.header, self._delivery.deliveries >= LIMITS.flow_careful_deliveries
        if header is None or header.end or not is_careful or self._turns > 1:
            return advance(self._ports, self._flows, read)
        self._flows.check_revision(header.written_by)
        self._flows.of(header.address.name)
        if count_start(self._ports, self._delivery.id).number > LIMITS.flow_starts_max:
            detail = f"The code ended the process, or took too long, in {LIMITS.flow_starts_max} starts of one turn."
            mark_stuck(self._ports, read, header, Stuck("flow-failed", detail))
            return Advanced(complete=False)
        try:
            return advance(self._ports, self._flows, read)
        except (Conflict, Unavailable):
            uncount_start(self._ports, self._delivery.id)  # the code returned
            raise

    def _carrier(self) -> Carrier:
        left, seconds = self._workers.seconds_left(), self._workers.seconds()
        return Carrier(self._identify, frozenset(self._workers.running), 0 if self._over else left, left + seconds)

    def _identify(self) -> str:
        """Return the id of this delivery. Two deliveries of one task have different ones."""
        self._id = self._id or self._ports.store.new_id()
        return self._id

    # --- inline steps ---

    def _carry(self, live: LiveTurn, sent_at: float) -> bool:
        """Run the claimed steps, commit their outcomes, and so on. Return whether to read the mailbox."""
        try:
            while True:
                self._renewed_at = sent_at
                if live.turn.claimed and self._is_due(sent_at, LIMITS.inline_renewal_seconds):
                    return True  # the answer came late, and the claims may be over soon
                answered_at = self._workers.seconds()
                self._begin(live)
                while not self._ended and not self._is_due(self._renewed_at, LIMITS.inline_renewal_seconds):
                    if not self._workers.running:
                        self._wake_for(live.turn.running, live.now)
                        return False
                    self._wait()
                    if self._looks(live):
                        return True
                if self._leave_repeated() or (self._cancelled and self._ended):
                    return True
                sent_at = self._workers.seconds()
                now = live.now + timedelta(seconds=sent_at - answered_at)
                carrier, ended = self._carrier(), self._ended
                following = advance_without_read(self._ports, self._flows, live, now, carrier, ended)
                self._ended = []
                if following is None:
                    self._abandon(self._workers.running)
                    return False
                live = following
        except (Conflict, Unavailable, Stuck, Problem):
            return True
        finally:
            live.close()

    def _abandon(self, paths: Collection[str]) -> None:
        for path in list(paths):
            self._workers.abandon(path)

    def _begin(self, live: LiveTurn) -> None:
        """Begin the code of the steps that the last commit has claimed; abandon those it does not wait for."""
        self._abandon([path for path in self._workers.running if path not in live.turn.pending])
        for path, claim in live.turn.claimed.items():
            step, wait = live.turn.inline_steps[path]
            seconds = min(step.timeout_seconds, self._workers.seconds_left() - LIMITS.inline_margin_seconds)
            ends_at = self._workers.seconds() + seconds
            self._begun[path] = wait, claim, ends_at
            self._workers.begin(path, self._code(step, wait, claim, ends_at))

    def _code(self, step: Inline[Any], wait: Wait, claim: Claim, ends_at: float) -> Code:
        operation = name_of("run", self._base, wait.execution_id, wait.path, wait.attempt)
        context = TaskContext(
            operation,
            claim.starts,
            LIMITS.inline_starts_max,
            _seconds_left=lambda: ends_at - self._workers.seconds(),
            _cancelled=lambda: self._cancelled or wait.path not in self._workers.running,
        )

        def code() -> CallOutcome:
            try:
                with idempotent_calls(operation, is_repeated=claim.starts > 1):
                    returned = check_ran(step.code(context), "step", step.name)
            except Problem as problem:
                return CallOutcome.from_problem(problem)
            except Exception as error:  # noqa: BLE001  the start has failed, and the next one may not
                self._ports.log.error(
                    "inline step raised", flow=self._base, step=wait.path, of=step.name, exception=error
                )
                return CallOutcome(raised=error)
            return step_outcome(returned, CORE_LIMITS.result_bytes_max, step.result)

        return code

    def _wait(self) -> None:
        """Wait for the code of a step to end, until its time is over, or until it is time to renew or to look."""
        ends_at = min(self._begun[path][2] for path in self._workers.running)
        looks_at = self._looked_at + LIMITS.inline_look_seconds
        renews_at = self._renewed_at + LIMITS.inline_renewal_seconds
        seconds = min(looks_at, renews_at, ends_at) - self._workers.seconds()
        for path, outcome in self._workers.wait(max(0.0, seconds)).items():
            self._end(path, outcome)
        now = self._workers.seconds()
        for path in [path for path in self._workers.running if self._begun[path][2] <= now]:
            self._abandon([path])
            self._over = True  # its thread is not free
            self._end(path, CallOutcome.from_problem(StepTimedOut("The step did not end within its time-out.")))

    def _end(self, path: str, outcome: CallOutcome) -> None:
        self._ended.append(Result(self._begun[path][0], outcome, delivery=self._identify()))

    def _is_due(self, since: float, seconds: float) -> bool:
        return self._workers.seconds() - since >= seconds

    def _looks(self, live: LiveTurn) -> bool:
        """Look for messages, at most once a second. Return whether to read them; a cancel waits for running code."""
        if not self._is_due(self._looked_at, LIMITS.inline_look_seconds):
            return False
        self._looked_at = self._workers.seconds()
        try:
            mailbox = read_mailbox(self._ports.store, self._base, MAILBOXES_LIMITS.mailbox_page)
        except Unavailable:
            return False
        messages = [message_from_record(message.data) for message in mailbox.waiting]
        self._cancelled |= any(isinstance(message, Cancel) for message in messages)
        others = [message for message in messages if not isinstance(message, Cancel)]
        return bool(others) or mailbox.header.update_time != live.snapshot.update_time

    def _leave_repeated(self) -> bool:
        """Leave outcomes of repeated starts in the mailbox; return whether there are any.

        Perhaps the flow's own code ends the process when it receives them: the step must not be started again for that.
        """
        repeated = [one for one in self._ended if self._begun[one.wait.path][1].starts > 1 and not one.outcome.raised]
        for result in repeated:
            message = message_put(self._base, result.id_for(self._address), message_to_record(result))
            with suppress(AlreadyExists):
                self._ports.store.commit([message])
            self._ended.remove(result)
        self._left |= bool(repeated)
        return bool(repeated)

    # --- the end of the delivery ---

    def _wake_for(self, claims: Mapping[str, Claim], now: datetime) -> None:
        """Enqueue a wake-up for the time at which another delivery's claim is over: perhaps nothing else comes then."""
        untils = [claim.until for claim in claims.values() if claim.delivery and claim.delivery != self._id]
        if later := [until for until in untils if until > now]:
            self._ports.queue.create(complete_wake_ups([self._wake(min(later))], now))

    def _leave_outcomes(self) -> None:
        """Leave the outcomes of steps in the mailbox, those of running code included: this code cannot apply them."""
        if not self._ended and not self._workers.running:
            return
        while self._workers.running and self._workers.seconds_left() > LIMITS.inline_margin_seconds:
            self._wait()
        for result in self._ended:
            if result.outcome.raised is None:
                with suppress(Unavailable):
                    post_result(self._ports, self._base, self._flows.function, result)
        self._ended = []
