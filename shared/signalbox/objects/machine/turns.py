"""A turn of an object: messages applied in order, in memory, to be committed together under the header's guard.

Calls change the state, deletions empty it. A message that follows a call (a continuation, a call on its result) is
resolved with the call's outcome: at once if the call has one, else the message is held until then.

    message     if                             record     outcome        sends
    ----------  -----------------------------  ---------  -------------  -----------------------------------
    then        started ten times              done       gave-up        its task, with gave-up
    others      started ten times              done       gave-up        -
    call        after its time limit           done       call-too-late  -
    call        the method returns             done       result         what it sent
    call        the method raises              done       its error      -
    call        it sends more than a turn may  done       too-large      -
    delete      -                              done       no result      -
    then        the target has an outcome      done       no result      its task
    then        the target is unknown          done       no result      its task, with not-found
    then        the target was forwarded       done       no result      the message, to that object
    then        the target is pending          held       -              -, the target keeps the message
    then        the target keeps forty         done       no result      its task, with too-large
    on result   the result is an object        forwarded  -              the call, to that object
    on result   the result is not an object    done       no-object      -
    on result   the target failed              done       its error      -
    on result   the target is unknown          done       not-found      -
    on result   the target was forwarded       forwarded  -              the call on its result, to that object
    on result   the target is pending          held       -              -, the target keeps the message
    on result   the target keeps forty         done       too-large      -

"done": the message's continuations run with its outcome, and the messages that it holds wait again, before all later
ones. If it holds any, the turn ends there, since the rest of the page could overtake them. A held message stays in its
own record, so any number of large ones fits. A turn also ends before a message whose effects do not fit into its commit
any more, and before a call whose method raises `Unavailable`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta

from signalbox.core.calls import Call
from signalbox.core.effects import Effect, name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import GaveUp, NotFound, Problem, TooLarge
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.limits import LIMITS
from signalbox.objects.machine.large_values import claimed_effects, copied, copied_outcome, place_of_call
from signalbox.objects.machine.turn_sizes import Size
from signalbox.objects.model import (
    CALL_IDS,
    Applied,
    Apply,
    CallPlace,
    CallRecord,
    Kind,
    Message,
    Post,
    call_on_result,
    continuation_message,
    method_call,
)
from signalbox.objects.problems import CallTooLate, NoObject
from signalbox.payloads.model import Outgoing, Place, place_of_tasks


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that the turn's commit creates in the mailbox of `address`."""

    address: ObjectAddress
    id: str
    message: Message
    due_at: datetime | None = None


@dataclass(slots=True)
class Turn:
    """A turn of the object at `address`.

    - `state` is the object's state as text.
    - `calls` are the calls that the turn has read, by id.
    - `revision` is the revision of the header that the turn will write.
    - `changed` are the calls that the turn has changed. Those in `held` wait for another call's outcome from now on.
    - `resumed` are calls that were held and wait in the mailbox again, each with its `since`.
    - `posted` are the messages and `tasks` the tasks that the turn sends.
    - `outgoing` collects the payloads that the commit names.
    """

    address: ObjectAddress
    state: str | None
    revision: int
    now: datetime
    calls: dict[str, CallRecord]
    changed: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    resumed: dict[str, datetime] = field(default_factory=dict)
    posted: list[Posted] = field(default_factory=list)
    tasks: list[Effect] = field(default_factory=list)
    size: Size = field(default_factory=Size)
    outgoing: Outgoing = field(default_factory=Outgoing)
    _ids: int = 0

    def take(self, id_: str, since: datetime, apply: Apply, *, gave_up: bool = False) -> bool:
        """Apply one message, which has waited since `since`.

        If the turn ends before it, do nothing and return False.
        """
        if self.is_cut():
            return False
        message = self.calls[id_].message
        applied = self._applied(id_, message, apply, gave_up=gave_up)
        continuations = (*message.then, message.continuation) if message.kind is Kind.THEN else message.then
        size = self.size + Size.of(applied, continuations) + self._forwarded(message)
        size += Size(writes=1) if self.calls[id_].kept_wake_up else Size()
        if self.changed and not size.fits:
            return False
        self.size = size
        self.outgoing |= applied.outgoing
        match message.kind:
            case Kind.THEN if gave_up:
                self._run(message.target, message.continuation, applied.outcome)
                self._resolve(id_, since, applied.outcome)
            case _ if gave_up:
                self._resolve(id_, since, applied.outcome)
            case Kind.CALL | Kind.DELETE:
                self._send(applied)
                self._resolve(id_, since, applied.outcome)
            case Kind.THEN:
                self.follow(message, id_, since)
            case Kind.ON_RESULT:
                self._call_result_of(message.target, id_, since)
        return True

    def is_cut(self) -> bool:
        """Return whether held calls wait again.

        If so, the turn ends here, since the rest of the page could overtake them.
        """
        return bool(self.resumed)

    # --- calls and deletions ---

    def _applied(self, id_: str, message: Message, apply: Apply, *, gave_up: bool) -> Applied:
        """Return the result of applying a call or a deletion.

        For a message that follows a call, return that call's outcome.
        """
        if refused := self.refused(message, gave_up=gave_up):
            return Applied(self.state, CallOutcome.from_problem(refused))
        if message.kind is Kind.DELETE:
            return Applied(None, CallOutcome())
        if message.kind is not Kind.CALL:
            target = self.calls.get(message.target)
            return Applied(self.state, (target and target.outcome) or CallOutcome())
        applied = apply(self.address, self.state, message, self.now)
        posts = [replace(post, id=self.message_id()) for post in applied.sent.posts]
        with suppress(TooLarge):
            claimed = claimed_effects(applied, posts, self._place_of_outcome(id_), self.revision)
            if Size.of(claimed, message.then).fits:
                return claimed
        return Applied(self.state, CallOutcome.from_problem(TooLarge("The call sends more than one turn may.")))

    def _forwarded(self, message: Message) -> Size:
        """Return the share of a message that is passed on to another object: the new message and its wake-up."""
        target = self.calls.get(message.target) if message.kind in (Kind.THEN, Kind.ON_RESULT) else None
        if target is None or not (target.forwarded or (target.outcome and target.outcome.object)):
            return Size()
        return Size(writes=1, tasks=1, size_bytes=message.size_bytes)

    def refused(self, message: Message, *, gave_up: bool) -> Problem | None:
        """Return the problem because of which a call is not run, or None if the call is run."""
        if gave_up:
            return GaveUp(f"Gave up after {LIMITS.call_attempts_max} attempts.")
        if message.not_after is not None and self.now > message.not_after:
            return CallTooLate("Its turn came after `not_after`.")
        return None

    def _send(self, applied: Applied) -> None:
        self.state = applied.state
        for post in applied.sent.posts:
            self.post(post)
        for task in applied.sent.tasks:
            effect = task.effect(self._task_name(), self.now)
            self.tasks.append(self.outgoing.claimed_task(effect, place_of_tasks(self.now)))

    def post(self, post: Post) -> None:
        """Add a message for an object, which the turn's commit writes."""
        due_at = self.now + timedelta(seconds=post.delay_seconds) if post.delay_seconds else None
        self.posted.append(Posted(post.address, post.id or self.message_id(), post.message, due_at))

    def _task_name(self) -> str:
        """Return a name that no other turn uses: because of the header's guard, only one turn commits the revision."""
        self._ids += 1
        return name_of(self.address.base, self.revision, self._ids)

    def message_id(self) -> str:
        """Return an id that sorts after the ids of the turn's earlier messages.

        All messages of a commit have the same create time, so their ids decide the order.
        """
        self._ids += 1
        return CALL_IDS.derived(f"{name_of(self.address.base, self.revision)[:-4]}{self._ids:04x}")

    # --- ends of calls ---

    def _resolve(self, id_: str, since: datetime, outcome: CallOutcome) -> None:
        """Record a call's outcome, and run its continuations in order.

        The calls on its result wait in the mailbox again.
        """
        call = self.calls[id_]
        self.end(id_, since, replace(call, outcome=outcome))
        for continuation in call.message.then:
            self._run(id_, continuation, outcome)

    def end(self, id_: str, since: datetime, call: CallRecord) -> None:
        """Record the end of a call.

        The calls that waited for its outcome get its `since`, in order, so they precede later calls.
        """
        self.resumed |= {held: since + timedelta(microseconds=place) for place, held in enumerate(call.held)}
        self.calls[id_] = replace(call, held=())
        self.changed.add(id_)

    def _run(self, id_: str, continuation: Call, outcome: CallOutcome) -> None:
        own = copied_outcome(outcome, place_of_tasks(self.now), self.outgoing)
        context = {"called": self.address.to_json(), "call": id_, **own.to_json()}
        self.tasks.append(continuation.effect(self._task_name(), self.now, outcome=context))

    def _place_of_outcome(self, id_: str) -> Place:
        return place_of_call(self.address, id_, str(self.revision))

    # --- messages that follow a call ---

    def follow(self, message: Message, id_: str, since: datetime) -> None:
        """Run a task with the outcome of a call, now or when the call has one.

        If the call was forwarded, the message is sent to the object that the call was forwarded to.
        """
        target, continuation = message.target, message.continuation
        call = self.calls.get(target)
        if call is None:
            self._run(target, continuation, _unknown(target))
        elif call.forwarded is not None:
            following = continuation_message(call.forwarded.id, continuation, receipt=False)
            self.post(Post(call.forwarded.address, following))
        elif call.outcome is not None:
            self._run(target, continuation, call.outcome)
        elif len(call.held) >= LIMITS.call_followers_max:
            self._run(target, continuation, _too_many())
        else:
            self._hold(target, call, id_)
            return
        self._resolve(id_, since, CallOutcome())

    def _hold(self, target: str, call: CallRecord, id_: str) -> None:
        """Let a message wait for the outcome of a call. The message stays in its own record."""
        self.calls[target] = call.holding(id_)
        self.changed |= {target, id_}
        self.held.add(id_)

    def _call_result_of(self, target: str, id_: str, since: datetime) -> None:
        """Call the object that is the result of a call, now or when the result exists.

        If the call was forwarded, the message is sent to the object that the call was forwarded to.
        """
        call = self.calls.get(target)
        if call is None:
            self._resolve(id_, since, _unknown(target))
        elif call.forwarded is not None:
            self.forward(id_, since, call.forwarded.address, call_on_result, call.forwarded.id)
        elif call.outcome is not None:
            self._call_object(call.outcome, id_, since)
        elif len(call.held) >= LIMITS.call_followers_max:
            self._resolve(id_, since, _too_many())
        else:
            self._hold(target, call, id_)

    def _call_object(self, outcome: CallOutcome, id_: str, since: datetime) -> None:
        """Forward a call to the object in an outcome. An outcome that is an error is also the outcome of the call."""
        if outcome.error is not None:
            self._resolve(id_, since, outcome)
        elif outcome.object is None:
            no_object = NoObject("Only a result that is an object has methods.")
            self._resolve(id_, since, CallOutcome.from_problem(no_object))
        else:
            self.forward(id_, since, outcome.object, method_call)

    def forward(
        self, id_: str, since: datetime, address: ObjectAddress, message: Callable[..., Message], *target: str
    ) -> None:
        """Post a call to another object.

        The call's record names that object, and messages that follow the call are sent there.
        """
        call, place = self.calls[id_], CallPlace(address, self.message_id())
        body, others = call.message.body, {"then": call.message.then, "not_after": call.message.not_after}
        forwarded = message(*target, body["method"], body["arguments"], **others)
        own = copied(forwarded, place_of_call(address, place.id, str(self.revision)), self.outgoing)
        self.posted.append(Posted(address, place.id, own))
        self.end(id_, since, replace(call, forwarded=place))


def _too_many() -> CallOutcome:
    detail = f"At most {LIMITS.call_followers_max} messages may wait for one call's outcome."
    return CallOutcome.from_problem(TooLarge(detail))


def _unknown(target: str) -> CallOutcome:
    detail = f"No call {target!r} is known: it never existed, or its receipt has expired."
    return CallOutcome.from_problem(NotFound(detail))
