"""Replay: a flow's code is a coroutine, and applying the entries of its log in order restores its position. All pure.

The commands that the code awaits become pending, each under its path. An entry of the log resumes the code. The driver
schedules nothing: a turn compares the pending commands before and after, and its commit schedules the difference.

    await command         its result, or its error is raised
    await all             the results; the first error is raised once the others are cancelled and have ended
    await first           (which, result) of the first; the others are abandoned
    await settled         all: each as a `Settled`
    await first_success   (which, result) of the first that succeeds; the others are abandoned
    await shield          that of the command; a cancel is raised at the next `await` that is not shielded
    begin                 at once a handle: its command is pending until it ends, or the code does
    await handle          the result of the command that was begun

    entry   if                                             the code                 afterwards
    ------  ---------------------------------------------  -----------------------  ---------------
    result  its command is pending, and succeeded          receives the result      not pending
    result  its command is pending, and failed             receives the error       not pending
    result  its command was begun, and is not awaited      is not resumed           not pending
    result  its command is a lock, and succeeded           receives a held lock     not pending, held
    result  its command renews a held lock                 receives a held lock     not pending, held
    result  its command renews a lock that was released    receives LeaseEnded      not pending
    result  the kit refused its lock, which ends the code  is stuck                 -
    result  another command is pending under its path      is stuck                 -
    result  no command is pending under its path           is stuck                 -
    event   a command waits for its name                   receives the value       not pending
    event   several commands wait for its name             the first receives it    the other is pending
    event   no command waits for its name                  is not resumed           kept
    update  a command waits for it, the value fits         receives the update      not pending
    update  a command waits for it, the value does not     is not resumed           refused
    update  no command waits for its name                  is not resumed           kept
    cancel  the first one                                  receives Cancelled       cancelling
    cancel  the first one, while a shield is awaited       is not resumed           cancelling
    cancel  a later one                                    is not resumed           cancelling
    cancel  the code has ended                             is not resumed           ended
    blank   -                                              is not resumed           pending

An execution that begins with a cancel, which the last execution has not received, receives it at its first `await`.

The code may also read its position in the log: the server's time there, random numbers and patches are the same in
every replay.
"""

import inspect
import json
import sys
from bisect import bisect
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from itertools import islice
from logging import LogRecord
from operator import itemgetter
from types import CoroutineType, GeneratorType
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.codec.annotations import encode_unannotated
from signalbox.core.codec.json_forms import WrongValue, decode, is_plain
from signalbox.core.codec.json_types import copied
from signalbox.core.effects import name_of
from signalbox.core.flow_hooks import check_plain
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import LeaseEnded, Problem
from signalbox.core.times import EPOCH
from signalbox.core.user_code import ends_process
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.combinations import Group, Mode
from signalbox.flows.machine.commands import (
    AllOf,
    AnyOf,
    ContinueAsNew,
    FirstSuccessOf,
    HeldLock,
    Lock,
    NextEvent,
    NextUpdate,
    ReceivedUpdate,
    Renew,
    SettledOf,
    Shield,
    command_of,
)
from signalbox.flows.machine.stuck import (
    NO_EVENT_LOOP,
    Stuck,
    diverged,
    failed,
    location_of,
    misused,
    storable_json,
    stored_json,
    too_large,
)
from signalbox.flows.machine.tree import (
    Branch,
    Handle,
    HandleWait,
    Node,
    Parent,
    PendingCommand,
    Shielded,
    cancelled,
    close_generator,
)
from signalbox.flows.model.addresses import FLOW_NAME
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.headers import FlowContext, FlowHeader, Origin
from signalbox.flows.model.labels import check_label
from signalbox.flows.model.log import time_of
from signalbox.flows.model.messages import Blank, Cancel, Event, Incoming, Message, Result, Update
from signalbox.flows.problems import BadFlow
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.model import PayloadUnread, opened, opened_members

Code = Callable[[], Coroutine[Any, Any, Any]]

UNNAMED = FlowContext("", "")

REFUSED_PATCH = "signalbox.refused"
"""The patch with which a replay checks the arguments of calls. If a call is refused, the code takes another path."""

UNKNOWN_FIELDS = "signalbox.unknown_fields"
"""The patch with which a replay refuses events with unknown fields: one of them was refused there."""

DUE_PATCH = "signalbox.due"
"""The patch of an execution that begins with a cancel which the last execution has not received.

Its position is that of the cancel, the first entry of the log.
"""

BRANCHES_MAX = 2 * LIMITS.flow_advances_max
"""Outcomes that all coroutines and groups together receive in one turn without an entry of the log."""

HEX_DIGITS = 13
"""Digits of a random number: 52 bits."""


@dataclass(eq=False, slots=True)
class Position:
    """The position `number` in the log: the start is position 1, and each entry adds one.

    - `seed` is the execution id.
    - `committed` is the number of positions that earlier commits contain.
    - `patches` has the position from which each patch holds, by its name.
    - `origins` are the origins of a fork: at their entries, the fork draws the same numbers as the runs that it comes
      from.
    - `at` is the server's time at the position, or None if no record was read. `needs_time` is whether the code has
      asked for the time nevertheless.
    """

    seed: str = ""
    committed: int = 0
    patches: dict[str, int] = field(default_factory=dict)
    origins: Sequence[Origin] = ()
    number: int = 0
    at: datetime | None = None
    needs_time: bool = False
    draws: int = 0

    @classmethod
    def of(cls, header: FlowHeader) -> Self:
        """Return the position before the start of a run."""
        return cls(header.execution_id, header.committed_positions, dict(header.patches), header.origins)

    def advance(self, at: datetime | None) -> None:
        """Move to the next position."""
        self.number += 1
        self.at, self.draws = at, 0

    def time(self) -> datetime:
        """Return the time of the last applied entry."""
        if self.at is None:
            self.needs_time = True
        return self.at or EPOCH

    def random(self) -> float:
        """Return a random number from 0 to 1."""
        return int(self.draw()[:HEX_DIGITS], 16) / float(16**HEX_DIGITS)

    def draw(self) -> str:
        """Return random hexadecimal digits."""
        self.draws += 1
        drawn_by = (origin.execution_id for origin in self.origins if self.number <= 1 + origin.entries)
        return name_of("random", next(drawn_by, self.seed), self.number, self.draws)

    def patched(self, name: str) -> bool:
        """Return whether the new code of a patch runs here.

        The new code runs from the first uncommitted position at which this method was called for the patch.
        """
        if name not in self.patches and self.number > self.committed:
            self.patches[name] = self.number
        return self.number >= self.patches.get(name, self.number + 1)


@dataclass(eq=False)
class Driver:
    """A flow's code at its position.

    - `pending` are the commands that it waits for, and `held` the leases of its locks, both by path.
    - `kept` are the events that no command waits for, in the order of their arrival, and `reclaimed` those of commands
      whose outcome the code never receives: their numbers, names and values. `events` counts all events and updates.
    - `updates` are the updates that no command waits for, and `received` those that the code has received and not
      answered, both with their numbers. `replies` has the answers, by the ids of their updates.
    - `sent` are the tasks that it has sent, and `granted` the leases that it has received, since the replay.
    - `logged` are the lines that it has logged for the first time.
    - `refusals` are the errors of commands that the kit refused.
    - `ended` is its outcome, or None.
    - `encode` returns arguments of the code as JSON, and raises an error for arguments that do not fit the code.
    - `runs` is the branch whose code runs, and `continuing` is whether a branch below the flow's own code has returned
      `flow.continue_as_new()`.
    - `labels` has the labels that the code has set; the value None removes a label.
    - `left_generators` are the errors of asynchronous generators that the code has left although their clean-ups wait.
    - `handles` are the begun commands, and `completed` counts the begun commands that have ended.
    - `answers` are the functions that answer queries, by name, and `answering` is the query that is being answered.
    """

    code: Code
    position: Position
    context: FlowContext = UNNAMED
    pending: dict[str, PendingCommand] = field(default_factory=dict)
    kept: dict[str, list[Any]] = field(default_factory=dict)
    kept_numbers: dict[str, list[int]] = field(default_factory=dict)
    reclaimed: list[tuple[int, str, Any]] = field(default_factory=list)
    events: int = 0
    updates: list[tuple[int, Update]] = field(default_factory=list)
    received: dict[int, Update] = field(default_factory=dict)
    replies: dict[str, CallOutcome] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: list[Call] = field(default_factory=list)
    granted: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: list[Problem] = field(default_factory=list)
    logged: list[LogRecord] = field(default_factory=list)
    progress: Any = None
    labels: dict[str, str | None] = field(default_factory=dict)
    ended: CallOutcome | None = None
    encode: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    created: list[Any] = field(default_factory=list)
    runs: Branch | None = None
    handles: list[Handle[Any]] = field(default_factory=list)
    completed: int = 0
    answers: dict[str, Callable[..., Any]] = field(default_factory=dict)
    answering: str = ""
    continuing: bool = False
    branches: list[Branch] = field(default_factory=list)
    ready: deque[tuple[Any, int, CallOutcome]] = field(default_factory=deque)
    left_generators: list[Stuck] = field(default_factory=list)
    dropped: bool = False
    cancelling: bool = False

    @classmethod
    def of(cls, definition: FlowDefinition, header: FlowHeader, position: Position | None = None) -> Self:
        """Return the code of a run before its start."""
        encode, begin = definition.signature.encode, definition.begin

        def code() -> Coroutine[Any, Any, Any]:
            return begin(opened_members(header.arguments))

        return cls(code, position or Position.of(header), header.context, encode=encode)

    # --- commands of a turn ---

    def start(self, at: datetime | None, log: Sequence[Message] = ()) -> "Driver":
        """Start the code. `at` is the server's time if a record was read, else None.

        If the log begins with a cancel that the last execution has not received, the code begins with it. Raises
        `Stuck`, as `apply` does.
        """
        self.position.advance(at)
        branch = Branch(self, "", self.code(), self, 0)
        self.ready.append((branch, 0, CallOutcome()))
        match log:
            case [Cancel() as due, *_] if DUE_PATCH in self.position.patches:
                self.cancelling = True
                branch.pass_on(cancelled(due.reason))
        return self.resume()

    def apply(self, entry: Message) -> "Driver":
        """Resume the code with an entry of the log."""
        self.position.advance(time_of(entry))
        match entry:
            case Result():
                self.apply_result(entry)
            case Event():
                self.apply_event(entry)
            case Update():
                self.events += 1
                self._receive_update(self.events, entry)
            case Blank():
                return self
            case Cancel() if not self.cancelling and self.ended is None:
                self.cancelling = True
                self.branches[0].cancel(cancelled(entry.reason))
        return self.resume()

    def committed(self, positions: int) -> None:
        """Note that a commit has landed: the code's tasks are sent, its grants and its lines are stored."""
        self.position.committed = positions
        self.sent, self.granted, self.logged = [], {}, []

    def drop(self) -> None:
        """Close the code. Python runs the ``finally`` blocks of closed code; nothing that they do has an effect.

        Raises `Stuck` for code that never ends.
        """
        self.dropped, stuck = True, None
        for branch in self.branches:
            try:
                branch.close()
            except Stuck as error:
                stuck = error
        if stuck:
            raise stuck

    @property
    def location(self) -> str:
        """The place in the flow's own code where it waits."""
        return self.branches[0].location

    @property
    def due_cancel(self) -> str | None:
        """The reason of a cancel that the flow's own code has not received yet, or None."""
        due = self.branches[0].cancel_due
        return None if due is None else str(due.exception())

    def resume(self) -> "Driver":
        """Resume the code with the outcomes that are ready, until all of it waits. Raises `Stuck`."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, self.close_generator)
        try:
            return self._resume()
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def _resume(self) -> "Driver":
        resumed: Counter[int] = Counter()
        self.pass_groups(0)
        for _ in range(BRANCHES_MAX):
            self.keep_reclaimed()
            if not self.ready:
                break
            parent, slot, outcome = self.ready.popleft()
            before = len(self.ready)
            if isinstance(parent, Branch):
                resumed[id(parent)] += 1
                if resumed[id(parent)] > LIMITS.flow_advances_max:
                    raise self._loops(LIMITS.flow_advances_max)
            try:
                parent.got(slot, outcome)
            except (Stuck, PayloadUnread):
                raise
            except BaseException as error:
                if ends_process(error):
                    raise
                raise failed(error, self.location) from error
            if not isinstance(parent, Branch):
                self.pass_groups(before)
            if self.left_generators:
                raise self.left_generators[0]
        else:
            raise self._loops(BRANCHES_MAX)
        if len(self.pending) > LIMITS.flow_pending_max:
            detail = f"A flow can wait for at most {LIMITS.flow_pending_max} commands at once. Use a batch for more."
            raise too_large(detail, self.location)
        return self

    def deliver(self, first: int) -> None:
        """Deliver the outcomes of `ready` from a position on, up to code, or a group that is still adding an item."""
        at = first
        while at < len(self.ready):
            parent, slot, outcome = self.ready[at]
            if isinstance(parent, Branch) or (isinstance(parent, Group) and parent.adds):
                at += 1
                continue
            del self.ready[at]
            later = self._taken_from(at)
            parent.got(slot, outcome)
            self.ready.extend(later)

    def _taken_from(self, at: int) -> list[tuple[Any, int, CallOutcome]]:
        """Remove the outcomes of `ready` from a position on, and return them."""
        taken = [self.ready.pop() for _ in range(len(self.ready) - at)]
        return taken[::-1]

    def pass_groups(self, first: int) -> None:
        """Deliver these outcomes before the code runs that is ready, however deep its groups are.

        So code runs in the order in which its waits end.
        """
        if len(self.ready) <= first:
            return
        goes_to_code = all(isinstance(parent, Branch) for parent, _, _ in islice(self.ready, first, None))
        if not goes_to_code and (len(self.ready) > 1 or self.reclaimed):
            self.deliver(first)

    def _loops(self, times: int) -> Stuck:
        return too_large(f"The code was resumed {times:,} times without waiting: it loops.", self.location)

    def close_generator(self, generator: Any) -> None:
        """Close an asynchronous generator that the code has left early. If its clean-up waits, the run is stuck."""
        location, created = location_of(generator), [*self.created]
        if close_generator(generator) and not self.dropped:
            detail = (
                f"The code left {generator.__name__}() early, and the clean-up of this asynchronous generator waits"
            )
            advice = "Write `async with contextlib.aclosing(…)` around its loop"
            self.left_generators.append(misused(f"{detail}. {advice}", location))
        self.created[:] = created

    def got(self, _: int, outcome: CallOutcome) -> None:
        """Receive the outcome of the flow's own code.

        Raises `Stuck` if the outcome is a refusal, since a deployment may fix the code.
        """
        for refusal in self.refusals:
            if outcome.raised is refusal:
                raise failed(refusal) from refusal
        if self.continuing and not outcome.failed and not isinstance(outcome.value, ContinueAsNew):
            detail = "A branch returned `flow.continue_as_new()`, and the flow's own code did not. Return it there"
            raise misused(detail, self.location)
        self.ended = outcome
        for handle in reversed(self.handles):  # a later one may await an earlier one
            handle.abandon()

    def repeat_cancel(self, _: Node) -> None:
        raise AssertionError("the code's own branch repeats its cancel")

    def apply_result(self, entry: Result) -> None:
        """Complete the command of a result. Raises `Stuck` if the code does not wait for it."""
        path, signature = entry.wait.path, entry.wait.signature
        pending = self.pending.get(path)
        if pending is None or pending.command.signature != signature:
            now = f"calls `{pending.command.signature}`" if pending else "does not wait there"
            location = pending.location if pending else self.location
            raise diverged(f"`{signature}` was recorded at step {path}", now, location)
        self.complete(pending, self._outcome(pending, entry))

    def _outcome(self, pending: PendingCommand, entry: Result) -> CallOutcome:
        """Return the outcome that the code receives: for a lock the `HeldLock`, else the outcome in the entry."""
        if problem := entry.outcome.problem():
            if pending.command.is_refusal(str((entry.outcome.error or {}).get("type"))):
                self.refusals.append(problem)
            return CallOutcome(raised=problem)
        match pending.command:
            case Renew() as renew:
                return self._renewed(renew, str(entry.outcome.result))
            case Lock():
                self.held[pending.path] = self.granted[pending.path] = dict(entry.outcome.to_json()["result"])
                return CallOutcome(HeldLock.of(self, pending.path))
        return _for_code(pending, entry.outcome)

    def _renewed(self, renew: Renew, ends_at: str) -> CallOutcome:
        if renew.path not in self.held:
            error = LeaseEnded(f"The lock of {renew.semaphore} was released before it was renewed.")
            return CallOutcome(raised=error)
        self.held[renew.path] = self.held[renew.path] | {"ends_at": ends_at}
        return CallOutcome(HeldLock.of(self, renew.path))

    def apply_event(self, entry: Event) -> None:
        """Complete the first command that waits for an event, or keep it."""
        self.events += 1
        self._receive(self.events, entry.name, entry.value)

    def _receive(self, number: int, name: str, value: Any) -> None:
        if isinstance(value, Update):
            self._receive_update(number, value)
            return
        first = next((pending for pending in self.pending.values() if waits_for(pending, name)), None)
        if first is not None:
            self._complete_event(first, number, value)
            return
        numbers = self.kept_numbers.setdefault(name, [])
        at = bisect(numbers, number)
        numbers.insert(at, number)
        self.kept.setdefault(name, []).insert(at, value)

    def _receive_update(self, number: int, update: Update) -> None:
        """Complete the first command that waits for an update, or keep the update."""
        for pending in [*self.pending.values()]:
            if isinstance(pending.command, NextUpdate) and pending.command.update == update.name:
                self._complete_update(pending, number, update)
                return
        self.updates.insert(bisect(self.updates, number, key=itemgetter(0)), (number, update))

    def _complete_update(self, pending: PendingCommand, number: int, update: Update) -> bool:
        """Complete a command with an update, or refuse the update if its value is of another type."""
        decoded = self._value(pending, update.value)
        if decoded.raised:
            assert isinstance(decoded.raised, Problem), "a value that does not fit is a problem"
            self.replies[update.id] = CallOutcome.from_problem(decoded.raised)
            return False
        pending.event, self.received[number] = (number, update), update
        self.complete(pending, CallOutcome(ReceivedUpdate(update.name, decoded.result, number, self)))
        return True

    def _complete_event(self, pending: PendingCommand, number: int, value: Any) -> None:
        pending.event = (number, value)
        self.complete(pending, self._value(pending, value))

    def _value(self, pending: PendingCommand, value: Any) -> CallOutcome:
        """Return the outcome of the value of an event or of an update for the command that waits for it.

        A field that the type does not have may be a misspelt one, so it is an error. A replay by newer code ignores
        fields that the type had when the event was applied.
        """
        assert isinstance(pending.command, NextEvent | NextUpdate), "only these commands wait for a value"
        value = opened(value)
        strict = pending.command.outcome_of(value, stored=False)
        if not strict.failed:
            return strict
        lenient = pending.command.outcome_of(value, stored=True)
        return strict if lenient.failed or self.position.patched(UNKNOWN_FIELDS) else lenient

    # --- for the nodes of the tree ---

    @property
    def replayed(self) -> bool:
        """Whether an earlier turn has passed the position at which the code runs, and no call was refused before it."""
        committed = self.position.committed
        return self.position.number < min(committed, self.position.patches.get(REFUSED_PATCH, committed))

    @property
    def begun(self) -> bool:
        """Whether an earlier turn has run the code."""
        return self.position.committed > 0

    @property
    def branch(self) -> str:
        """The path of the branch whose code runs."""
        return self.runs.path if self.runs else ""

    @property
    def cancels(self) -> bool:
        """Whether a cancel has reached the branch whose code runs."""
        return self.runs is not None and self.runs.cancelled

    def place(self, item: Any, path: str, parent: Parent, slot: int, location: str) -> Node:
        """Add an awaited item to the tree. Raises `Stuck` if it cannot be waited for."""
        match item:
            case Handle():
                if item.tree is not self:
                    raise misused("The code awaits a handle of another run. Begin the command in this one", location)
                return HandleWait(item, parent, slot).begin()
            case FirstSuccessOf():
                return Group(self, parent, slot, Mode.SUCCESS, item.keys).begin(item.items, path, location)
            case AnyOf():
                return Group(self, parent, slot, Mode.FIRST, item.keys).begin(item.items, path, location)
            case SettledOf():
                return Group(self, parent, slot, Mode.SETTLED).begin(item.items, path, location)
            case Shield():
                return Shielded(self, parent, slot).begin(item.item, path, location)
            case AllOf():
                return Group(self, parent, slot, Mode.ALL).begin(item.items, path, location)
            case GeneratorType() if item.gi_code.co_name == "<genexpr>":
                raise misused("The code waits for a generator expression. Give its items: `flow.all(*[…])`", location)
            case GeneratorType():
                detail = f"The code waits for the generator {item.__name__}(). Write `async def`, with `await`"
                raise misused(detail, location)
            case CoroutineType():
                branch = Branch(self, path, item, parent, slot, location)
                self.ready.append((branch, 0, CallOutcome()))
                return branch
        if (command := command_of(item)) is None:
            is_foreign = item is None or hasattr(item, "_asyncio_future_blocking")
            advice = NO_EVENT_LOOP if is_foreign else "Await a command of `flow`, a call or a coroutine"
            raise misused(f"The code waits for {type(item).__name__}, which is not a command. {advice}", location)
        return self._add(PendingCommand(self, path, command, parent, slot, location))

    def _add(self, pending: PendingCommand) -> PendingCommand:
        """Add a pending command. If it waits for an event or an update that was kept, that is its result at once."""
        if self.reclaimed and isinstance(pending.command, NextEvent | NextUpdate):
            self.keep_reclaimed()
        self.pending[pending.path] = pending
        if isinstance(pending.command, NextUpdate):
            self._add_update(pending, pending.command.update)
            return pending
        event = pending.command.name if isinstance(pending.command, NextEvent) else ""
        if event and self.kept.get(event):
            self._complete_event(pending, self.kept_numbers[event].pop(0), self.kept[event].pop(0))
        return pending

    def _add_update(self, pending: PendingCommand, name: str) -> None:
        for number, update in [kept for kept in self.updates if kept[1].name == name]:
            self.updates.remove((number, update))
            if self._complete_update(pending, number, update):
                return

    def complete(self, pending: PendingCommand, outcome: CallOutcome) -> None:
        """Send the outcome of a command to its parent."""
        del self.pending[pending.path]
        self.ready.append((pending.parent, pending.slot, outcome))

    def reclaim(self, pending: PendingCommand) -> None:
        """Release the lock, or keep the event or the update, that a command has received for code that never receives
        it.
        """
        event, pending.event = pending.event, None
        match pending.command:
            case Lock():
                self.release(pending.path)
            case NextEvent(event=name) if event:
                self.reclaimed.append((event[0], name, event[1]))
            case NextUpdate(update=name) if event:
                self.reclaimed.append((event[0], name, self.received.pop(event[0])))

    def passed_on(self, unanswered: Collection[str]) -> list[Incoming]:
        """Return what the next execution receives, in the order of its arrival.

        These are the kept events and updates, and the updates among `unanswered` that the code has received.
        """
        kept: list[tuple[int, Incoming]] = [
            (number, Event(name, value))
            for name, values in self.kept.items()
            for number, value in zip(self.kept_numbers[name], values, strict=True)
        ]
        received = ((number, update) for number, update in self.received.items() if update.id in unanswered)
        return [each for _, each in sorted([*kept, *self.updates, *received], key=itemgetter(0))]

    def awaits(self, event: str) -> bool:
        """Return whether a command waits for an event of this name."""
        return any(waits_for(pending, event) for pending in self.pending.values())

    @property
    def kept_count(self) -> int:
        """The number of events that the code has not waited for."""
        return sum(map(len, self.kept.values()))

    @property
    def kept_bytes(self) -> int:
        """The bytes of the events that the code has not waited for, and of the updates that it has not answered."""
        events = len(json.dumps(self.kept)) if any(self.kept.values()) else 0
        return events + sum(len(json.dumps(update.body())) for update in self.unanswered)

    @property
    def unanswered(self) -> list[Update]:
        """The updates that the code has not answered, received or not."""
        return [*(update for _, update in self.updates), *self.received.values()]

    def keep_reclaimed(self) -> None:
        """Keep the reclaimed events, unless a command waits for them."""
        while self.reclaimed:
            earliest = min(self.reclaimed, key=itemgetter(0))
            self.reclaimed.remove(earliest)
            before = len(self.ready)
            self._receive(*earliest)
            self.deliver(before)

    # --- for the code ---

    def begin(self, item: Any, location: str) -> Handle[Any]:
        """Begin a command in the branch whose code runs. Code that is being closed begins nothing."""
        assert self.runs is not None, "the code of a branch runs"
        handle: Handle[Any] = Handle(self, item, self.runs.next_path())
        if not self.dropped:
            self.handles.append(handle)
            handle.begin(location)
        return handle

    def send(self, call: Call) -> None:
        """Send a task without waiting for it."""
        if not self.dropped:
            self.sent.append(call)

    def log(self, line: LogRecord) -> None:
        """Log a line when the turn commits, unless an earlier turn has run the code from this position of the log."""
        if not self.dropped and self.position.number > self.position.committed:
            try:
                line.msg, line.args = line.getMessage(), ()  # the arguments may change until the commit
            except (
                KeyError,
                TypeError,
                ValueError,
            ) as error:  # a wrong format is not the flow's failure, as elsewhere in logging
                line.msg, line.args = f"{line.msg!r} % {line.args!r}: {error}", ()
            line.msg = f"{self.context.flow}/{self.context.id}: {line.msg}"
            self.logged.append(line)

    def refused(self) -> None:
        """Note that the kit has refused a call: a replay also refuses it.

        Other commands that the same line created are dropped.
        """
        self.position.patches.setdefault(REFUSED_PATCH, self.position.number)
        self.created.clear()

    def release(self, path: str) -> bool:
        """Release the lease of a lock; return whether the lease was held."""
        return not self.dropped and self.held.pop(path, None) is not None

    def show(self, progress: Any) -> None:
        """Set the progress that the flow's status shows. Raises `Stuck` if it is not JSON or too large."""
        if not self.dropped:
            self.progress = copied(stored_json(progress, "the progress of a flow", CORE_LIMITS.task_bytes_max))

    def answer(self, query: str, function: Callable[..., Any]) -> None:
        """Let a function answer a query from now on.

        Raises `BadFlow`, which each replay raises again, and `TypeError`.
        """
        if not isinstance(query, str) or not FLOW_NAME.fullmatch(query):
            raise BadFlow(f"The name of a query must match {FLOW_NAME.pattern}; {query!r:.80} does not.", field="query")
        if not inspect.isroutine(function):
            raise BadFlow(f"The query {query!r} needs a function that returns the answer.", field="function")
        check_plain(function, "query")
        if query not in self.answers and len(self.answers) >= LIMITS.flow_answers_max:
            raise BadFlow(f"The code of a run can answer at most {LIMITS.flow_answers_max} queries.")
        self.answers[query] = function

    def reply(self, number: int, outcome: CallOutcome) -> None:
        """Answer an update that the code has received. Raises `BadFlow` for a second answer, and `Stuck`."""
        if self.dropped:
            return
        update = self.received.get(number)
        if update is None:
            raise BadFlow("The code has answered this update before. Answer it once.")
        self.replies[update.id] = _reply(update, outcome)
        del self.received[number]

    def label(self, name: str, value: str | None) -> None:
        """Set or remove a label.

        Raises `BadFlow`, which each replay raises again, since earlier executions do not count.
        """
        check_label(name, "-" if value is None else value)
        if name not in self.labels and len(self.labels) >= LIMITS.flow_labels_max:
            raise BadFlow(f"The code of one execution can set at most {LIMITS.flow_labels_max} labels.")
        if not self.dropped:
            self.labels[name] = value


def _reply(update: Update, outcome: CallOutcome) -> CallOutcome:
    """Return the answer to an update as its record contains it. Raises `Stuck`."""
    if isinstance(outcome.raised, Problem):
        return CallOutcome.from_problem(outcome.raised)
    name = f"the answer to the update {update.name}"
    try:
        written = encode_unannotated(outcome.result, name)
    except WrongValue as error:
        raise Stuck("flow-failed", f"{error}.") from error
    return CallOutcome(copied(storable_json(written, name, CORE_LIMITS.result_bytes_max)))


def _for_code(pending: PendingCommand, outcome: CallOutcome) -> CallOutcome:
    """Return an outcome of the log, with a new result object that the code may change. Raises `Stuck`."""
    codec, result = pending.command.codec, opened(outcome.result)
    if result is not outcome.result:
        outcome = CallOutcome(result, object=outcome.object)
    if is_plain(codec):
        return CallOutcome(copied(result)) if isinstance(result, list | dict) else outcome
    try:
        return outcome if outcome.object else CallOutcome(decode(codec, result, "the result", stored=True))
    except WrongValue as error:
        detail = f"The log has a result of `{pending.command.signature}` that is not of the code's type: {error}"
        raise misused(detail, pending.location) from error


def waits_for(pending: PendingCommand, event: str) -> bool:
    return isinstance(pending.command, NextEvent) and pending.command.event == event


def replay(driver: Driver, at: datetime | None, log: Sequence[Message], *, began_before: bool = True) -> Driver:
    """Start a driver and apply a log. Raises `Stuck`.

    If the execution `began_before`, earlier turns have already sent the tasks that the code sends during the replay.
    """
    driver.start(at, log)
    for entry in log:
        driver.apply(entry)
    if began_before:
        driver.sent.clear()
        driver.granted.clear()
    return driver
