"""The wake-up of a flow: it applies the messages of the mailbox, and carries inline steps.

    read, turn: commit, claim inline steps ──► run their code ──► turn without a read: commit, claim the next ones ──┐
      ▲                                          ▲                    │ another turn was faster, or a message waits  │
      │                                          └────────────────────┼──────────────────────────────────────────────┘
      └───────────────────────────────────────────────────────────────┘

So a chain of inline steps costs one commit a step. While code runs, the delivery renews its claims and looks for
messages. It hands over to another delivery in time: a commit that leaves an inline step has a wake-up. What comes next
is decided in `machine/carried_steps.py`; this module reads, commits, and runs the code.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from signalbox.core import user_code
from signalbox.core.effects import Effect, name_of
from signalbox.core.flow_hooks import check_ran
from signalbox.core.idempotency_keys import idempotent_calls
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import AlreadyExists, Conflict, Ports, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.carried_steps import CarriedSteps, Next
from signalbox.flows.machine.claims import Carrier
from signalbox.flows.machine.commands import Inline
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.machine.stuck import Stuck, step_outcome
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import RUNNING_STEPS
from signalbox.flows.model.messages import message_from_record, message_to_record
from signalbox.flows.model.payloads import place_of_execution
from signalbox.flows.model.waits import Claim, Wait
from signalbox.flows.service.turns import Advanced, FlowMailbox, LiveTurn, advance, advance_without_read, mark_stuck
from signalbox.flows.tasks.steps import post_result
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import Delivery
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.service import run
from signalbox.mailboxes.storage import Mailbox, message_put, read_mailbox
from signalbox.payloads.model import Outgoing
from signalbox.payloads.service import store as store_payloads
from signalbox.tasks.model.attempts import TaskContext
from signalbox.tasks.storage import count_start, uncount_start

Code = Callable[[], CallOutcome]


class Workers(Protocol):
    """Runs the code of inline steps next to the delivery that carries them. The path of a step identifies its code."""

    @property
    def running(self) -> Collection[str]:
        """The paths whose code has begun, and whose outcome was neither received nor abandoned."""
        ...

    def begin(self, path: str, code: Code) -> None: ...

    def wait(self, seconds: float) -> Mapping[str, CallOutcome]:
        """Wait until code has ended, and return the outcomes by path.

        After `seconds`, return an empty mapping.
        """
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
    FlowDelivery(ports, flows, delivery, workers).run()


class FlowDelivery:
    """One delivery of a flow's wake-up, with the inline steps that it carries."""

    def __init__(self, ports: Ports, flows: Flows, delivery: Delivery, workers: Workers) -> None:
        self.ports, self.flows, self.delivery, self._workers = ports, flows, delivery, workers
        self._base = delivery.wake.mailbox
        self._address = FlowAddress.of_base(self._base)
        self._id, self._has_turned = "", False
        self._steps = CarriedSteps()

    def run(self) -> None:
        """Run the mailbox. Outcomes that cannot be applied here are left in the mailbox."""
        try:
            wake = self._wake(self.delivery.wake.until)
            run(self.ports, self.delivery, wake, self._turn, self.has_work)
        except Exception:
            self.leave_outcomes()
            raise
        self.leave_outcomes()

    def has_work(self, header: Snapshot) -> bool:
        """Return whether inline steps are claimed, or outcomes have been left: an expired claim must be taken over."""
        has_outcomes = self._steps.ended or self._steps.has_left
        return bool(has_outcomes or self._workers.running or (header.data or {}).get(RUNNING_STEPS))

    # --- turns ---

    def _turn(self, mailbox: Mailbox) -> bool:
        """Commit a turn that was read, then run inline steps. Return whether to read again."""
        began_at, repeats = self._workers.seconds(), self.delivery.wake.repeats
        self._steps = self._steps.read(began_at)
        advanced = self.advance(FlowMailbox(self._address, mailbox, None, repeats, self._carrier(), self._steps.ended))
        self._steps = self._steps.applied(cancel_waits=advanced.cancel_waits, complete=advanced.complete)
        if advanced.live:
            return self._carry(advanced.live, began_at)
        if advanced.complete:
            self._abandon(self._workers.running)
        self.wake_for(advanced.claims, mailbox.read_time)
        if advanced.leaves_steps:
            self.ports.queue.create(complete_wake_ups([self._wake()], mailbox.read_time))
        return False

    def _wake(self, at: datetime | None = None) -> Effect:
        return wake_flow(self._base, self.flows.function, at)

    def advance(self, read: FlowMailbox) -> Advanced:
        """Commit a turn. If the wake-up has been delivered often, count the start of the flow's code."""
        is_first, self._has_turned = not self._has_turned, True
        header, is_careful = read.header, self.delivery.deliveries >= LIMITS.flow_careful_deliveries
        if header is None or header.end or not is_careful or not is_first:
            return advance(self.ports, self.flows, read)
        self.flows.check_revision(header.written_by)
        self.flows.of(header.address.name)
        if count_start(self.ports, self.delivery.id).number > LIMITS.flow_starts_max:
            detail = f"The code ended the process, or took too long, in {LIMITS.flow_starts_max} starts of one turn."
            mark_stuck(self.ports, read, header, Stuck("flow-failed", detail))
            return Advanced(complete=False)
        try:
            return advance(self.ports, self.flows, read)
        except (Conflict, Unavailable):
            uncount_start(self.ports, self.delivery.id)  # the code returned
            raise

    def _carrier(self) -> Carrier:
        left, seconds = self._workers.seconds_left(), self._workers.seconds()
        usable = 0 if self._steps.has_lost_thread else left
        return Carrier(self.identify, frozenset(self._workers.running), usable, left + seconds)

    def identify(self) -> str:
        """Return the id of this delivery. Two deliveries of one task have different ones."""
        self._id = self._id or self.ports.store.new_id()
        return self._id

    # --- inline steps ---

    def _carry(self, live: LiveTurn, sent_at: float) -> bool:
        """Run the claimed steps, commit their outcomes, and so on. Return whether to read the mailbox."""
        try:
            self._begin(live, sent_at)
            while True:
                match self._steps.next(self._workers.running, self._workers.seconds()):
                    case Next.WAITS:
                        self._wait()
                        self._look(live)
                    case Next.COMMITS:
                        sent_at = self._workers.seconds()
                        now = self._steps.server_time(live.now, sent_at)
                        carrier, ended = self._carrier(), self._steps.ended
                        following = advance_without_read(self.ports, self.flows, live, now, carrier, ended)
                        self._steps = replace(self._steps, ended=())
                        if following is None:
                            self._abandon(self._workers.running)
                            return False
                        live = following
                        self._begin(live, sent_at)
                    case Next.LEAVES:
                        self.leave_repeated()
                        return True
                    case Next.READS:
                        return True
                    case Next.ENDS:
                        self.wake_for(live.turn.running, live.now)
                        return False
        except (Conflict, Unavailable, Stuck, Problem):
            return True
        finally:
            live.close()

    def _abandon(self, paths: Collection[str]) -> None:
        for path in list(paths):
            self._workers.abandon(path)

    def _begin(self, live: LiveTurn, sent_at: float) -> None:
        """Begin the code of the steps that the last commit has claimed.

        Abandon running code whose step the flow no longer waits for.
        """
        turn = live.turn
        self._steps = self._steps.committed(sent_at, self._workers.seconds(), claims=bool(turn.claimed))
        if self._steps.must_read:
            return
        self._abandon([path for path in self._workers.running if path not in turn.pending])
        for path, claim in turn.claimed.items():
            step, wait = turn.inline_steps[path]
            seconds = min(step.timeout_seconds, self._workers.seconds_left() - LIMITS.inline_margin_seconds)
            ends_at = self._workers.seconds() + seconds
            self._steps = self._steps.with_begun(path, wait, claim, ends_at)
            self._workers.begin(path, self._code(step, wait, claim, ends_at))

    def _code(self, step: Inline[Any], wait: Wait, claim: Claim, ends_at: float) -> Code:
        operation = name_of("run", self._base, wait.execution_id, wait.path, wait.attempt)
        context = TaskContext(
            operation,
            claim.starts,
            LIMITS.inline_starts_max,
            _seconds_left=lambda: ends_at - self._workers.seconds(),
            _cancelled=lambda: self._steps.cancel_waits or wait.path not in self._workers.running,
        )

        def code() -> CallOutcome:
            try:
                with idempotent_calls(operation, is_repeated=claim.starts > 1):
                    returned = check_ran(user_code.run(partial(step.code, context)), "step", step.name)
            except Problem as problem:
                return CallOutcome.from_problem(problem)
            except Exception as error:  # noqa: BLE001  the start has failed, and the next one may not
                self.ports.log.error(
                    "inline step raised", flow=self._base, step=wait.path, of=step.name, exception=error
                )
                return CallOutcome(raised=error)
            outgoing, place = Outgoing(), place_of_execution(self._address, wait.execution_id)
            outcome = step_outcome(returned, outgoing, place, step.result)
            try:
                store_payloads(self.ports, outgoing)
            except Unavailable as error:
                return CallOutcome(raised=error)
            return outcome

        return code

    def _wait(self) -> None:
        """Wait until the code of a step ends, until its time is over, or until a renewal or a look is due."""
        seconds = self._steps.waits_until(self._workers.running) - self._workers.seconds()
        outcomes = self._workers.wait(max(0.0, seconds))
        self._steps = self._steps.with_outcomes(outcomes, self.identify())
        late = list(self._steps.timed_out(self._workers.running, self._workers.seconds()))
        self._abandon(late)
        self._steps = self._steps.with_timed_out(late, self.identify())

    def _look(self, live: LiveTurn) -> None:
        """Look for messages, at most once a second."""
        now = self._workers.seconds()
        if not self._steps.must_look(now):
            return
        try:
            mailbox = read_mailbox(self.ports.store, self._base, MAILBOXES_LIMITS.mailbox_page)
        except Unavailable:
            self._steps = self._steps.looked(now)
            return
        messages = [message_from_record(message.data) for message in mailbox.waiting]
        is_changed = mailbox.header.update_time != live.snapshot.update_time
        self._steps = self._steps.looked(now, messages, changed=is_changed)

    def leave_repeated(self) -> None:
        """Leave outcomes of repeated starts in the mailbox, which the delivery reads next."""
        for result in self._steps.repeated:
            message = message_put(self._base, result.id_for(self._address), message_to_record(result))
            with suppress(AlreadyExists):
                self.ports.store.commit([message])
            self._steps = self._steps.left(result)

    # --- the end of the delivery ---

    def wake_for(self, claims: Mapping[str, Claim], now: datetime) -> None:
        """Enqueue a wake-up for the end of another delivery's claim, since perhaps nothing else wakes the flow then."""
        untils = [claim.until for claim in claims.values() if claim.delivery and claim.delivery != self._id]
        if later := [until for until in untils if until > now]:
            self.ports.queue.create(complete_wake_ups([self._wake(min(later))], now))

    def leave_outcomes(self) -> None:
        """Wait for running code, and leave all outcomes in the mailbox, since this delivery cannot apply them."""
        while self._workers.running and self._workers.seconds_left() > LIMITS.inline_margin_seconds:
            self._wait()
        for result in self._steps.ended:
            if result.outcome.raised is None:
                with suppress(Unavailable):
                    post_result(self.ports, self._base, self.flows.function, result)
