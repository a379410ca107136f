"""A turn: replay the log, apply the messages of the mailbox in memory, and decide what the commit contains.

The pending commands after the replay must be those of the header. Otherwise the code has diverged from its log, and the
flow is stuck until the code is fixed. The commands that are pending after the last message, and were not before, are
the ones that the commit schedules.

The states of the header; a flow has ended in state completed, failed or cancelled:

    command    in state               if                              state
    ---------  ---------------------  ------------------------------  ----------------
    start      none                   the code waits                  running
    start      none                   the code returns                completed
    start      running, stuck, ended  with the same arguments         same
    start      running, stuck, ended  with other arguments            OtherBody
    start      suspended              with the same arguments         same
    start      suspended              with other arguments            OtherBody
    turn       running, stuck         the code waits                  running
    turn       running, stuck         the code returns                completed
    turn       running, stuck         the code raises a Problem       failed
    turn       running, stuck         the code raises Cancelled       cancelled
    turn       running, stuck         the code continues as new       running
    turn       running, stuck         the code diverged from its log  stuck
    turn       running, stuck         the code raises another error   stuck
    turn       running, stuck         its code was started ten times  stuck
    turn       suspended, ended       -                               same
    event      none                   -                               NoFlow
    event      running, stuck         fewer than 1,000 are kept       same
    event      running, stuck         1,000 are kept                  TooManyEvents
    event      ended                  -                               FlowEnded
    event      suspended              -                               same
    update     none                   -                               NoFlow
    update     running, stuck         fewer than 100 are unanswered   same
    update     running, stuck         100 are unanswered              TooManyUpdates
    update     ended                  -                               FlowEnded
    update     suspended              -                               same
    cancel     none                   -                               NoFlow
    cancel     running, stuck, ended  -                               same
    cancel     suspended              -                               same
    suspend    none                   -                               NoFlow
    suspend    running, stuck         -                               suspended
    suspend    suspended              -                               same
    suspend    ended                  -                               FlowEnded
    fork       none                   -                               NoFlow
    fork       running, suspended     the code waits at the entry     same
    fork       stuck, ended           the code waits at the entry     same
    fork       ended                  the code has ended there        CannotFork
    resume     none                   -                               NoFlow
    resume     suspended              -                               running
    resume     running, stuck, ended  -                               same
    terminate  none                   -                               NoFlow
    terminate  running, stuck         -                               cancelled
    terminate  suspended              -                               cancelled
    terminate  ended                  -                               same
    retry      none                   -                               NoFlow
    retry      running, suspended     -                               CannotRetry
    retry      stuck                  with `from_entry`               running
    retry      ended                  it has failed                   running
    retry      ended                  it has not failed               CannotRetry
    delete     none                   -                               NoFlow
    delete     running, suspended     -                               FlowRunning
    delete     stuck, ended           -                               none
    sweep      stuck                  ten minutes later               same
    sweep      ended                  32 days later                   none

What a turn does with each message. A lease in a dropped result is released, unless the flow holds it already:

    message  if                                            it is
    -------  --------------------------------------------  -------
    result   a success of a pending command                applied
    result   a success of an earlier attempt               applied
    result   a failure of the current attempt, not last    retried
    result   a refused lock, and the flow is stuck          retried
    result   the task of the current attempt was given up  applied
    result   a failure of the current attempt, `no_retry`  applied
    result   a failure of the current attempt, the last    applied
    result   a failure of an earlier attempt               dropped
    result   of an earlier execution                       dropped
    result   of a path that is not pending                 dropped
    result   the flow has ended                            dropped
    event    the flow has not ended                        applied
    event    no code waits for it, and too many are kept   refused
    event    the flow has ended                            dropped
    update   the flow has not ended                        applied
    update   too many are unanswered, or kept              refused
    update   the flow has ended                            dropped
    cancel   the first one                                 applied
    cancel   a later one                                   dropped
    cancel   the flow has ended                            dropped
"""

import json
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.codec.json_forms import JSON, Codec
from signalbox.core.error_notes import LAST_ERROR
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import GaveUp, Problem, text_of
from signalbox.core.times import rfc3339
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.claims import (
    NOBODY,
    Carrier,
    after_error,
    due_at,
    is_free,
    is_given_up,
    kept_claims,
    new_claims,
)
from signalbox.flows.machine.commands import Command, ContinueAsNew, Inline, Lock, RatePermits, Sleep, Step, SubFlow
from signalbox.flows.machine.driver import Driver, Position, replay
from signalbox.flows.machine.retries import Retried
from signalbox.flows.machine.stuck import diverged
from signalbox.flows.machine.tree import PendingCommand
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import (
    Cancel,
    Event,
    Incoming,
    Message,
    Result,
    Update,
    parent_key,
    sub_flow_address,
)
from signalbox.flows.model.payloads import is_of_run
from signalbox.flows.model.waits import Claim, Wait
from signalbox.flows.problems import CannotFork, CannotRetry, FlowExists, TooManyEvents, TooManyUpdates
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.model import Outgoing

LOG_SHARE = 0.75
"""The part of a log's limits up to which events that no code waits for are kept. The code has the rest."""

ENTRY_BYTES = 70
"""Bytes of an entry of the log besides the name and the value of its event."""


@dataclass(slots=True)
class FlowTurn:
    """A turn of a flow at the server's time `now`, which is None if no record was read (at a start).

    - `before` are the commands that were pending before the turn, and `pending` the waits now.
    - `applied` are the new entries of the log.
    - `retried` are the paths of steps that are scheduled again.
    - `repeats` is whether the turn schedules again all commands that were pending before, since their tasks may be
      lost.
    - `leases` are the leases that were held before, by the paths of their locks, and `dropped_leases` are the leases in
      dropped results.
    - `carrier` is the delivery that runs inline steps after the commit, `running` has the claims of all inline steps,
      and `claimed` has the claims that the turn makes for the carrier.
    - `result` is the codec of the flow's result.
    - `adopted` has the ids of sub-flows of earlier executions that an opening turn adopts, by path.
    - `updates` has the names of the updates that the turn has taken from the mailbox, by their ids.
    - `refused` has the ids of the messages with the events that the run has no room for, and `misdirected` those of
      messages to an earlier run of the id.
    - `incoming_bytes` are the bytes of the events and updates that it has applied.
    - `counted` are the bytes that the run would pass on, after the number of applied messages and of their bytes at
      which they were counted.
    - `outgoing` collects the payloads that the commit names.
    """

    header: FlowHeader
    driver: Driver
    now: datetime | None
    before: dict[str, PendingCommand] = field(default_factory=dict)
    pending: dict[str, Wait] = field(default_factory=dict)
    applied: list[Message] = field(default_factory=list)
    retried: set[str] = field(default_factory=set)
    repeats: bool = False
    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    dropped_leases: list[dict[str, Any]] = field(default_factory=list)
    carrier: Carrier = NOBODY
    running: dict[str, Claim] = field(default_factory=dict)
    claimed: dict[str, Claim] = field(default_factory=dict)
    cancels_left: int = 0
    moves_claims: bool = False
    result: Codec = JSON
    adopted: dict[str, str] = field(default_factory=dict)
    updates: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    misdirected: list[str] = field(default_factory=list)
    incoming_bytes: int = 0
    counted: tuple[int, int, int] | None = None
    outgoing: Outgoing = field(default_factory=Outgoing)

    @classmethod
    def begin(
        cls,
        definition: FlowDefinition,
        header: FlowHeader,
        log: Sequence[Message],
        now: datetime | None,
        carrier: Carrier = NOBODY,
    ) -> Self:
        """Replay a flow. The caller must close the turn. Raises `Stuck`."""
        turn = cls._at_start(definition, header, Position.of(header), now)
        turn.running, turn.carrier = dict(header.running), carrier
        try:
            return turn.replay_log(log)
        except BaseException:
            turn.close()
            raise

    @classmethod
    def fork(cls, definition: FlowDefinition, header: FlowHeader, log: Sequence[Message], now: datetime) -> Self:
        """Return the first turn of a fork, whose log begins with the entries of another run.

        Tasks that the code sent during these entries are not sent again. Commands that the code waits for after these
        entries are scheduled. The caller must close the turn. Raises `Stuck`, or `CannotFork` if the code has ended
        there, or holds a lock there: the lock's lease belongs to the other run.
        """
        position = replace(Position.of(header), committed=1 + len(log))
        turn = cls._at_start(definition, header, position, now)
        try:
            replay(turn.driver, header.start_at, log)
            turn.check_fork()
            turn.applied += log
            turn._update_pending()
        except BaseException:
            turn.close()
            raise
        return turn

    @classmethod
    def open(
        cls,
        definition: FlowDefinition,
        header: FlowHeader,
        kept: Sequence[Message],
        dropped: Sequence[Message],
        now: datetime,
    ) -> Self:
        """Return the opening turn of a rewound run, whose log is cut: `kept` entries stay, the others are `dropped`.

        Events and updates of dropped entries are applied again, as new ones, so what the code sends behind them is
        sent. The caller must close the turn. Raises `Stuck`, or `CannotRetry` if the code holds a lock there that the
        run does not hold.
        """
        turn = cls._at_start(definition, header, Position.of(header), now)
        try:
            replay(turn.driver, header.start_at, kept, began_before=header.begun)
            turn.leases = {path: dict(lease) for path, lease in header.leases.items()}
            turn.check_locks(kept)
            turn._update_pending()
            for entry in dropped:
                if isinstance(entry, Incoming):
                    turn._apply(replace(entry, at=now))
        except BaseException:
            turn.close()
            raise
        return turn

    def check_locks(self, kept: Sequence[Message]) -> None:
        """Raise `CannotRetry` if the code holds a lock that the run does not hold any more."""
        if self.driver.ended is not None:
            return
        for path, lease in self.driver.held.items():
            if path in self.leases and self.leases[path]["granted"]["id"] == lease["granted"]["id"]:
                continue
            grants = (n for n, entry in enumerate(kept) if isinstance(entry, Result) and entry.wait.path == path)
            before, semaphore = next(grants), lease["granted"]["semaphore"]
            where = f"After the entries that stay, the code holds a lock of {semaphore!r}, which was released."
            detail = f"{where} Name `from_entry` {before}, which is before the lock."
            raise CannotRetry(detail, "holds-lock", field="from_entry", from_entry=before)

    def adopt(self, path: str, id_: str) -> Wait:
        """Wait for a sub-flow that exists, instead of a new one. Return the wait."""
        self.adopted[path] = id_
        self.pending[path] = replace(self.pending[path], child=id_)
        return self.pending[path]

    @classmethod
    def _at_start(
        cls, definition: FlowDefinition, header: FlowHeader, position: Position, now: datetime | None
    ) -> Self:
        return cls(header, Driver.of(definition, header, position), now, result=definition.signature.result)

    def close(self) -> None:
        """Close the code (`Driver.drop`)."""
        self.driver.drop()

    @property
    def start_at(self) -> datetime | None:
        """The server's time of the start."""
        return self.header.start_at if self.header.begun else self.now

    @property
    def continued(self) -> ContinueAsNew | None:
        """The arguments of the next execution, if the flow continues as new."""
        ended = self.driver.ended
        return ended.result if ended and isinstance(ended.result, ContinueAsNew) else None

    @property
    def is_over(self) -> bool:
        """Whether the flow continues as new. The remaining messages are then for its next execution."""
        return self.continued is not None

    def replay_log(self, log: Sequence[Message]) -> Self:
        """Replay a log, and compare the pending commands with those in the header. Raises `Stuck`."""
        replay(self.driver, self.start_at, log, began_before=self.header.begun)
        if self.header.begun:
            self.compare_waits()
            self.before = dict(self.driver.pending)
            self.pending = dict(self.header.pending)
        self.leases = {path: dict(lease) for path, lease in self.header.leases.items()}
        self._update_pending()
        return self

    def check_fork(self) -> None:
        """Raise `CannotFork` if the code has ended, or holds a lock."""
        if self.driver.ended is not None:
            raise CannotFork("The code has ended at this entry. Choose an earlier one.", field="from_entry")
        for lease in self.driver.held.values():
            semaphore = lease["granted"]["semaphore"]
            detail = f"The code holds {semaphore!r} at this entry. Choose one before the lock was granted."
            raise CannotFork(detail, field="from_entry")

    def following(self, now: datetime, carrier: Carrier) -> "FlowTurn":
        """Return the next turn of the same driver, with the header of the last commit. Nothing is replayed."""
        header = self.header
        self.driver.committed(header.committed_positions)
        return FlowTurn(
            header,
            self.driver,
            now,
            before=dict(self.driver.pending),
            pending=dict(header.pending),
            leases={path: dict(lease) for path, lease in header.leases.items()},
            carrier=carrier,
            running=dict(header.running),
            cancels_left=int(header.cancel_waits),
            result=self.result,
        )

    def compare_waits(self) -> None:
        """Raise `Stuck` if the code does not wait for the commands that the last commit has scheduled."""
        now = {path: pending.command.signature for path, pending in self.driver.pending.items()}
        scheduled = {path: wait.signature for path, wait in self.header.pending.items()}
        for path in sorted(now.keys() | scheduled.keys()):
            if now.get(path) != scheduled.get(path):
                pending = self.driver.pending.get(path)
                recorded = f"`{scheduled[path]}` was" if path in scheduled else "no command was"
                calls = f"calls `{now[path]}`" if path in now else "does not wait there"
                location = pending.location if pending else self.driver.location
                raise diverged(f"{recorded} recorded at step {path}", calls, location)

    def take(self, message: Message, id_: str = "") -> None:
        """Apply a message, or drop it. `id_` is that of its record. Raises `Stuck`."""
        if self.driver.ended is not None:
            self.drop(message)
            return
        assert self.now is not None, "messages were read from a record, so the time is known"
        match message:
            case Result():
                self.take_result(message, self.now)
            case Event() | Update() if not is_of_run(message, self.header):
                self.misdirected.append(id_)
            case Event() if message.incarnation not in ("", self.header.incarnation):
                pass
            case Event() if not self.driver.awaits(message.name) and self.has_no_room(message):
                self.refused.append(id_)
            case Event():
                self._apply(replace(message, at=self.now))
            case Update() if self.has_too_many(message):
                detail = f"The flow had {len(self.unanswered):,} updates that its code had not answered."
                self._refuse(message, TooManyUpdates(detail))
            case Update() if self.has_no_room(message):
                self._refuse(message, TooManyUpdates(f"The flow had {self._kept()}, which its code had not received."))
            case Update():
                self.updates[message.id] = message.name
                self._apply(replace(message, at=self.now))
            case Cancel() if not self.driver.cancelling and self._is_for_this(message):
                self._apply(replace(message, at=self.now))

    def has_too_many(self, update: Update) -> bool:
        """Return whether the header would have too many ids with an update, which its sender could not know."""
        unanswered = self.unanswered
        return update.id not in unanswered and len(unanswered) >= LIMITS.flow_updates_max

    def has_no_room(self, message: Incoming) -> bool:
        """Return whether the run would keep more than it can pass on, or its log be full, which no sender can know."""
        log, bytes_ = self.header.log, _bytes_of(message)
        if isinstance(message, Event) and self.driver.kept_count >= LIMITS.flow_events_passed_on_max:
            return True
        if log.held_bytes + self.incoming_bytes + bytes_ > LOG_SHARE * LIMITS.flow_log_bytes_max:
            return True
        if log.length + len(self.applied) >= LOG_SHARE * LIMITS.flow_log_entries_max:
            return True
        most = LIMITS.flow_events_passed_on_bytes_max - bytes_
        return self._passed_on_bytes(most) > most

    def _passed_on_bytes(self, most: int) -> int:
        """Return the bytes of the events and updates that `continue_as_new` would pass on, or more up to `most`.

        They are counted once in a turn, and again only if the count with the messages since then is above `most`.
        """
        if self.counted:
            number, incoming_bytes, counted = self.counted
            at_most = counted + self.incoming_bytes - incoming_bytes
            if at_most <= most or number == len(self.applied):
                return at_most
        driver = self.driver
        names = sum(len(json.dumps(name)) * len(values) for name, values in driver.kept.items())
        others = names + ENTRY_BYTES * (driver.kept_count + len(driver.unanswered))
        self.counted = len(self.applied), self.incoming_bytes, driver.kept_bytes + others
        return self.counted[2]

    def refusal(self) -> TooManyEvents:
        """Return the problem of the senders of the events that the turn has refused."""
        return TooManyEvents(f"The flow had {self._kept()}, so it has not received the event.")

    def _kept(self) -> str:
        return (
            f"{self.driver.kept_count:,} events and {len(self.unanswered):,} updates ({self.driver.kept_bytes:,} bytes)"
        )

    def _refuse(self, update: Update, problem: Problem) -> None:
        """Answer an update that the code does not receive, and that its log does not contain."""
        self.updates[update.id] = update.name
        self.driver.replies[update.id] = CallOutcome.from_problem(problem)

    def _is_for_this(self, cancel: Cancel) -> bool:
        """Return whether a cancel is for this run.

        A cancel by a caller is. A cancel by a parent flow is if the parent waits for this run, and not for an earlier
        run.
        """
        parent = self.header.parent
        return not cancel.parent or (parent is not None and cancel.parent == parent_key(parent.base, parent.wait))

    def take_result(self, message: Result, now: datetime) -> None:
        """Apply a success of any attempt, or a failure of the current attempt."""
        path, failed = message.wait.path, message.outcome.failed
        wait = self.pending.get(path)
        if (
            message.wait.execution_id != self.header.execution_id
            or wait is None
            or (failed and message.wait.attempt != wait.attempt)
        ):
            self.drop(message)
            return
        command = self.driver.pending[path].command
        if failed and isinstance(command, Inline) and not self.counts_failure(message, now):
            return
        if failed and self._is_retried(command, wait, message.outcome):
            error = _short_error(message.outcome)
            self.pending[path] = replace(wait, attempt=wait.attempt + 1, scheduled_at=rfc3339(now), last_error=error)
            self.retried.add(path)
            return
        applied = replace(message.wait, signature=command.signature, attempt=wait.attempt, last_error=wait.last_error)
        self._apply(Result(applied, message.outcome, now))

    def _is_retried(self, command: Command[Any], wait: Wait, outcome: CallOutcome) -> bool:
        """Return whether a command whose current attempt failed is scheduled again.

        A refused wait of a stuck flow is scheduled again: perhaps its semaphore or rate has been created in the
        meantime.
        """
        if isinstance(command, Lock | RatePermits):
            return self.header.stuck is not None and command.is_refusal(str((outcome.error or {}).get("type")))
        return isinstance(command, Retried) and command.is_retried(wait.attempt, outcome)

    # --- inline steps ---

    @property
    def inline_steps(self) -> dict[str, tuple[Inline[Any], Wait]]:
        """The inline steps that the code waits for, by path."""
        waits = self.driver.pending.items()
        return {path: (one.command, self.pending[path]) for path, one in waits if isinstance(one.command, Inline)}

    def counts_failure(self, message: Result, now: datetime) -> bool:
        """Return whether a failure ends the attempt of an inline step.

        The failure must come from the delivery that has the claim. An error other than a `Problem` ends only the start,
        unless it was the last start.
        """
        path, raised = message.wait.path, message.outcome.raised
        claim = self.running.get(path)
        if claim is None or claim.delivery != message.delivery:
            return False
        if raised is None:
            return True
        text = f"{type(raised).__name__}: {text_of(raised)}"[: CORE_LIMITS.error_letters_max]
        self.running[path] = after_error(claim, text, now)
        return False

    def see_all(self) -> None:
        """Note that the turn applies all messages that wait. Give up the inline steps whose starts are all used up."""
        if self.carrier is not NOBODY:
            self.carrier = replace(self.carrier, sees_all=True)
        self.give_up_steps()

    def give_up_steps(self) -> None:
        """Give up the inline steps whose starts are all used up."""
        if self.now is None or self.driver.ended is not None:
            return
        for path, (_, wait) in self.inline_steps.items():
            claim = self.running.get(path)
            if claim and is_given_up(claim, self.now):
                error = f"{LAST_ERROR}{claim.error}" if claim.error else ""
                gave_up = GaveUp(f"Gave up after {claim.starts} starts of the step's code.{error}")
                self.take(Result(wait, CallOutcome.from_problem(gave_up), delivery=claim.delivery))

    def must_wait(self, message: Message) -> bool:
        """Return whether a message stays in the mailbox, and count it in `cancels_left` if so.

        Only a cancel stays, and only while the code of an inline step may still run. The commit of this turn notes the
        waiting cancel in the header. The delivery that runs the step then loses the race for its next commit, reads the
        mailbox, and claims no more steps.
        """
        if not isinstance(message, Cancel) or self.now is None or not self._is_for_this(message):
            return False
        claims = [(path, self.running[path]) for path in self.inline_steps if path in self.running]
        waits = not all(self.carrier.may_interrupt(claim, path, self.now) for path, claim in claims)
        self.cancels_left += waits
        return waits

    def claim_steps(self) -> None:
        """Claim the inline steps that the carrier runs after the commit. Call this once no message is left to apply."""
        steps = self.inline_steps
        if not steps or self.now is None:
            self.running = {}
            return
        known = {path: claim for path, claim in self.header.running.items() if path not in self.retried}
        current = {path: claim for path, claim in self.running.items() if path not in self.retried}
        kept = kept_claims(current, steps, self.carrier, self.now)
        if self.carrier is not NOBODY and not self.cancels_left:
            self.claimed = new_claims(kept, steps, self.carrier, self.now)
        self.running = {**kept, **self.claimed}
        self.moves_claims = any(self.running.get(path) != claim for path, claim in known.items() if path in steps)

    def wake_times(self) -> list[datetime | None]:
        """Return the times at which the inline steps that the commit leaves need a carrier; None means at once.

        A delivery that runs a step looks for other steps after it, and the end of a claim has its own wake-up.
        """
        steps, now = self.inline_steps, self.now
        if not steps or self.driver.ended is not None:
            return []
        times: list[datetime | None] = [
            due_at(step, wait) for path, (step, wait) in steps.items() if path in self.retried or self.repeats
        ]
        before = {} if self.repeats else self.header.running
        times += [one.until for path, one in self.running.items() if not one.delivery and before.get(path) != one]
        later = [at for at in times if at is not None and (now is None or at >= now)]
        if any(claim.delivery and (now is None or claim.until > now) for claim in self.running.values()):
            return [*later]
        waits = any(now is None or is_free(self.running.get(path), *steps[path], now) for path in steps)
        return [*later, *([None] if waits else [])]

    def drop(self, message: Message) -> None:
        """Drop a message, and release the lease in it.

        If the message duplicates a grant, and the flow holds the lease, nothing is released.
        """
        held = {lease["granted"]["id"] for lease in self.driver.held.values()}
        if isinstance(message, Result) and message.lease and message.lease["id"] not in held:
            self.dropped_leases.append(message.lease)

    def _apply(self, entry: Message) -> None:
        self.driver.apply(entry)
        self.applied.append(entry)
        self.incoming_bytes += _bytes_of(entry) if isinstance(entry, Incoming) else 0
        self._update_pending()

    def _update_pending(self) -> None:
        """Add the waits of new commands, and remove the waits of commands that are no longer pending."""
        scheduled_at = rfc3339(self.now) if self.now else ""
        new = {
            path: Wait(self.header.execution_id, path, 1, pending.command.signature, scheduled_at, _id_in(pending))
            for path, pending in self.driver.pending.items()
        }
        self.pending = {path: self.pending.get(path, wait) for path, wait in new.items()}

    # --- what follows from it ---

    @property
    def scheduled(self) -> list[PendingCommand]:
        """The commands that the commit schedules, including retried steps."""
        waits = self.driver.pending
        known = self.before.keys() | self.adopted.keys()
        return [pending for path, pending in waits.items() if path not in known or path in self.retried]

    @property
    def new_sub_flows(self) -> dict[str, FlowAddress]:
        """The addresses of new sub-flows whose ids the code has chosen, by path.

        There may already be runs with these ids.
        """
        new = [self.pending[pending.path] for pending in self.scheduled if _id_in(pending)]
        found = {wait.path: sub_flow_address(self.header.address, wait) for wait in new}
        return {path: address for path, address in found.items() if address}

    def refuse_sub_flow(self, path: str, address: FlowAddress) -> None:
        """Complete the command of a new sub-flow with an error: its id is in use."""
        detail = f"There is a run {address.key!r} of {address.name}. Choose another id, or delete it if it has ended."
        self.take(Result(self.pending[path], CallOutcome.from_problem(FlowExists(detail, field="id"))))

    @property
    def repeated(self) -> list[PendingCommand]:
        """The commands that are pending as before, and are scheduled again because their tasks may be lost."""
        waits = self.driver.pending if self.repeats else {}
        return [pending for path, pending in waits.items() if path in self.before and path not in self.retried]

    @property
    def abandoned(self) -> list[PendingCommand]:
        """The commands that the code stopped waiting for before they ended."""
        ended = {entry.wait.path for entry in self.applied if isinstance(entry, Result)}
        waits = self.driver.pending
        return [pending for path, pending in self.before.items() if path not in waits and path not in ended]

    @property
    def released(self) -> list[dict[str, Any]]:
        """The leases that the commit releases. At the end of the flow, these are all of its leases."""
        kept = {} if self.driver.ended else self.driver.held
        had = self.leases | self.driver.granted
        return [*(dict(lease["granted"]) for path, lease in had.items() if path not in kept), *self.dropped_leases]

    def replies(self) -> dict[str, CallOutcome]:
        """Return the answers that the commit stores, by the ids of their updates.

        The header and the mailbox decide which updates have no answer yet: those of a fork's beginning belong to
        another run, and a retry of the run gives answered updates to the code again.
        """
        waiting = self.header.unanswered.keys() | self.updates.keys()
        return {id_: reply for id_, reply in self.driver.replies.items() if id_ in waiting}

    @property
    def unanswered(self) -> dict[str, str]:
        """The names of the updates that have no answer after the commit, by their ids."""
        waiting, replies = {**self.header.unanswered, **self.updates}, self.replies()
        return {id_: name for id_, name in waiting.items() if id_ not in replies}

    @property
    def sent(self) -> list[Call]:
        """The tasks that the code has sent."""
        return self.driver.sent

    @property
    def needs_time(self) -> bool:
        """Whether a part of the turn needs the server's time although no record was read."""
        commands = [pending.command for pending in self.scheduled]
        sleeps = any(isinstance(command, Sleep) for command in commands)
        delays = any(isinstance(command, Step) and command.call.delay_seconds for command in commands)
        needs = sleeps or delays or self.driver.position.needs_time or self.driver.ended is not None
        return self.now is None and needs

    @property
    def changes_anything(self) -> bool:
        """Whether there is anything to commit, apart from the messages that the turn drops."""
        claims = self.claimed or self.moves_claims or (self.cancels_left and not self.header.cancel_waits)
        changes = self.applied or self.retried or self.repeated or not self.header.begun or self.header.stuck
        return bool(changes or claims)


def _id_in(pending: PendingCommand) -> str:
    """Return the id that the code has given to a sub-flow, or an empty string."""
    return pending.command.id if isinstance(pending.command, SubFlow) else ""


def _bytes_of(message: Message) -> int:
    """Return the bytes of an event or an update in the log."""
    return len(json.dumps(message.body())) + ENTRY_BYTES


def _short_error(outcome: CallOutcome) -> str:
    """Return the error of an attempt as the header and the log keep it: its title and the beginning of its detail."""
    error = outcome.error or {}
    text = f"{error.get('title')}: {error.get('detail')}" if error else text_of(outcome.raised)
    return text[: LIMITS.flow_last_error_letters]
