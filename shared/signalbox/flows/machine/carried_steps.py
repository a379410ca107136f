"""The inline steps that one delivery carries, and its next action, by the times that it has noted. All pure.

A delivery carries the steps whose claims its last commit has made: it runs their code, commits the outcomes, and so on.
Times are in seconds since the delivery began. The first row that fits decides (`CarriedSteps.next`):

    if                                                       the delivery
    -------------------------------------------------------  ------------
    its commit was answered late, and has made claims        reads
    a message other than a cancel waits                      reads
    another turn has changed the header                      reads
    the code of a repeated start has ended                   leaves
    code has ended, and a cancel waits                       reads
    code has ended                                           commits
    code runs, and its claims are to be renewed              commits
    no code runs                                             ends
    code runs                                                waits

`reads`: it stops, and its mailbox is read again. `leaves`: it leaves the outcome in the mailbox first, since the flow's
own code perhaps ends the process when it receives it. The step must not be started again for that. `ends`: the steps
that are left are carried by other deliveries. `waits`: until code ends, or the next of these times:

    time                                  then
    ------------------------------------  ----------------------------------------------------------
    the end of a step's time              its outcome is `StepTimedOut`, and its thread counts as lost
    1 second after the last look          the delivery looks for messages
    20 seconds after the last commit      the claims are renewed

A cancel waits until the running code has ended. After a step that took too long, no more steps are begun.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.messages import Cancel, Message, Result
from signalbox.flows.model.waits import Claim, Wait
from signalbox.flows.problems import StepTimedOut
from signalbox.mailboxes.model.outcomes import CallOutcome


class Next(Enum):
    """The next action of a delivery."""

    READS = auto()
    LEAVES = auto()
    COMMITS = auto()
    ENDS = auto()
    WAITS = auto()


@dataclass(frozen=True, slots=True)
class BegunStep:
    """A step whose code has begun under a claim. The step times out at `ends_at`."""

    wait: Wait
    claim: Claim
    ends_at: float

    @property
    def is_repeated(self) -> bool:
        """Whether an earlier start of the code has had no outcome."""
        return self.claim.starts > 1


@dataclass(frozen=True, slots=True)
class CarriedSteps:
    """The inline steps that a delivery runs, and the times that the delivery has noted."""

    begun: Mapping[str, BegunStep] = field(default_factory=dict)
    """The steps by path, including the steps that have ended."""
    ended: tuple[Result, ...] = ()
    """The outcomes that no commit has applied yet."""
    sent_at: float = 0.0
    """The time just before the last commit. A fixed interval after this time, the claims are renewed."""
    answered_at: float = 0.0
    """The time at which the last commit was answered."""
    looked_at: float = 0.0
    """The time of the last look for messages."""
    must_read: bool = False
    cancel_waits: bool = False
    has_lost_thread: bool = False
    """Whether a step has timed out. Its code may still run in its thread."""
    has_left: bool = False
    """Whether outcomes have been left in the mailbox."""

    # --- what happens ---

    def read(self, now: float) -> Self:
        """Return the steps after a read of the mailbox."""
        return replace(self, looked_at=now, must_read=False)

    def applied(self, *, cancel_waits: bool, complete: bool) -> Self:
        """Return the steps after the turn of a read. If the turn is `complete`, it has applied the outcomes."""
        return replace(self, cancel_waits=cancel_waits, ended=() if complete else self.ended)

    def committed(self, sent_at: float, answered_at: float, *, claims: bool) -> Self:
        """Return the steps after a commit.

        If the commit has made `claims` and its answer is late, the claims may expire soon, so the mailbox must be read.
        """
        is_slow = answered_at - sent_at >= LIMITS.inline_renewal_seconds
        return replace(self, sent_at=sent_at, answered_at=answered_at, must_read=claims and is_slow)

    def with_begun(self, path: str, wait: Wait, claim: Claim, ends_at: float) -> Self:
        """Return the steps with one more step, whose code has begun."""
        return replace(self, begun={**self.begun, path: BegunStep(wait, claim, ends_at)})

    def with_outcomes(self, outcomes: Mapping[str, CallOutcome], delivery: str) -> Self:
        """Return the steps with these outcomes of code that has ended or timed out."""
        results = (Result(self.begun[path].wait, outcome, delivery=delivery) for path, outcome in outcomes.items())
        return replace(self, ended=(*self.ended, *results))

    def with_timed_out(self, paths: Collection[str], delivery: str) -> Self:
        """Return the steps with `StepTimedOut` as the outcome of the steps at `paths`, which have timed out."""
        if not paths:
            return self
        error = CallOutcome.from_problem(StepTimedOut("The step did not end within its time-out."))
        after = self.with_outcomes(dict.fromkeys(paths, error), delivery)
        return replace(after, has_lost_thread=True)

    def looked(self, at: float, messages: Sequence[Message] = (), *, changed: bool = False) -> Self:
        """Return the steps after a look for messages. `changed` is whether another turn has changed the header."""
        others = any(not isinstance(message, Cancel) for message in messages)
        cancel_waits = self.cancel_waits or any(isinstance(message, Cancel) for message in messages)
        return replace(self, looked_at=at, cancel_waits=cancel_waits, must_read=others or changed)

    def left(self, result: Result) -> Self:
        """Return the steps after an outcome was left in the mailbox."""
        return replace(self, ended=tuple(other for other in self.ended if other is not result), has_left=True)

    # --- what is decided ---

    def next(self, running: Collection[str], now: float) -> Next:
        """Return the next action. `running` are the paths of the steps whose code runs."""
        if self.must_read:
            return Next.READS
        if self.repeated:
            return Next.LEAVES
        if self.ended:
            return Next.READS if self.cancel_waits else Next.COMMITS
        if now - self.sent_at >= LIMITS.inline_renewal_seconds:
            return Next.COMMITS
        return Next.WAITS if running else Next.ENDS

    @property
    def repeated(self) -> Sequence[Result]:
        """The outcomes of repeated starts.

        Errors other than a `Problem` are left out, since their steps are retried.
        """
        return [one for one in self.ended if self.begun[one.wait.path].is_repeated and one.outcome.raised is None]

    def waits_until(self, running: Collection[str]) -> float:
        """Return the time until which the delivery waits for running code to end."""
        ends_at = min(self.begun[path].ends_at for path in running)
        return min(self.looked_at + LIMITS.inline_look_seconds, self.sent_at + LIMITS.inline_renewal_seconds, ends_at)

    def timed_out(self, running: Collection[str], now: float) -> Iterator[str]:
        """Iterate over the paths of running steps that have exceeded their time."""
        return (path for path in running if self.begun[path].ends_at <= now)

    def must_look(self, now: float) -> bool:
        """Return whether a look for messages is due."""
        return now - self.looked_at >= LIMITS.inline_look_seconds

    def server_time(self, answered: datetime, now: float) -> datetime:
        """Return the server's present time. `answered` is the server's time at the last commit."""
        return answered + timedelta(seconds=now - self.answered_at)
