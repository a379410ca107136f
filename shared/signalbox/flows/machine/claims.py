"""The deliveries that run the code of inline steps: the claims in a flow's header. All pure.

A *carrier* is a delivery of a flow's wake-up. The commit that ends one inline step claims the next ones for it, and it
runs their code after that commit. A claim decides only which delivery runs the code: the log is protected by the
header's guard.

A turn and each inline step that the code waits for:

    its claim                                 a carrier's turn        another turn
    ----------------------------------------  ----------------------  ----------------------
    none                                      claims it               leaves it
    of this delivery, whose code runs         renews it               -
    of this delivery, whose code did not      claims it, same start   -
    of another delivery, not over             leaves it               leaves it
    of another delivery, over                 claims it, next start   leaves it
    of another, over, but messages are left   leaves it               leaves it
    of no delivery, not over                  leaves it               leaves it
    of no delivery, over                      claims it, next start   leaves it
    over, after ten starts                    gives it up             gives it up

A claim is of no delivery after an error of its code, during the pause before the next start.

A step is not claimed while a cancel waits, nor before the pause of its attempt is over, nor if it may take longer than
the delivery has left. Messages that a turn does not apply may have the outcome that another delivery has left. From its
second start on a step is claimed alone: another one must not be given up for the deaths that it causes.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import Inline
from signalbox.flows.model.waits import Claim, Wait

Steps = Mapping[str, tuple[Inline[object], Wait]]
"""The inline steps that the code waits for, by path."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A delivery that can run inline steps.

    - `busy` are the paths of the steps whose code the delivery runs now.
    - `seconds_left` is the time that the delivery has left, and `seconds` is its whole time.
    - `identify` draws the delivery's id at the first step.
    - `sees_all` is whether the turn applies all messages that wait.
    """

    identify: Callable[[], str]
    busy: frozenset[str] = frozenset()
    seconds_left: float = LIMITS.inline_timeout_seconds_max
    seconds: float = LIMITS.inline_timeout_seconds_max
    sees_all: bool = False

    @property
    def delivery(self) -> str:
        """The id of the delivery."""
        return self.identify()

    def has_time_for(self, step: Inline[object]) -> bool:
        """Return whether enough time is left for a step.

        Enough is the step's time-out and a margin, or half of the delivery's whole time if that is less.
        """
        return self.seconds_left >= min(step.timeout_seconds + LIMITS.inline_margin_seconds, self.seconds / 2)

    def owns(self, claim: Claim) -> bool:
        """Return whether a claim belongs to this delivery."""
        return bool(claim.delivery) and claim.delivery == self.delivery

    def may_start_again(self, claim: Claim) -> bool:
        """Return whether no outcome of the last start can wait in the mailbox."""
        return self.sees_all or not claim.delivery or self.owns(claim)

    def may_interrupt(self, claim: Claim, path: str, now: datetime) -> bool:
        """Return whether a cancel may be applied now, because no code runs under the claim."""
        if self.owns(claim):
            return path not in self.busy
        return not claim.delivery or claim.until <= now


NOBODY = Carrier(str, seconds_left=0)
"""The carrier of a turn that runs no inline steps: the turn of a start or of a step's task. It claims nothing."""


def due_at(step: Inline[object], wait: Wait) -> datetime | None:
    """Return the end of the pause before an attempt, or None if the attempt has no pause."""
    pause_seconds = step.pause_before(wait.attempt)
    return datetime.fromisoformat(wait.scheduled_at) + timedelta(seconds=pause_seconds) if pause_seconds else None


def kept_claims(claims: Mapping[str, Claim], steps: Steps, carrier: Carrier, now: datetime) -> dict[str, Claim]:
    """Return the claims of steps for which the code still waits. Claims whose code runs here are renewed.

    If the carrier has a claim but has not begun the step's code, the claim is released: the answer of the commit that
    made the claim was lost.
    """
    kept: dict[str, Claim] = {}
    for path, claim in claims.items():
        if path in steps and not carrier.owns(claim):
            kept[path] = claim
        elif path in steps and path in carrier.busy:
            kept[path] = replace(claim, until=now + timedelta(seconds=LIMITS.inline_claim_seconds))
        elif path in steps and claim.starts > 1:
            kept[path] = Claim("", claim.starts - 1, now, claim.error)
    return kept


def new_claims(claims: Mapping[str, Claim], steps: Steps, carrier: Carrier, now: datetime) -> dict[str, Claim]:
    """Return the new claims that a carrier's turn makes, by path, in addition to the kept claims."""
    until = now + timedelta(seconds=LIMITS.inline_claim_seconds)
    free = {
        path: Claim(carrier.delivery, claims[path].starts + 1 if path in claims else 1, until)
        for path, (step, wait) in steps.items()
        if path not in carrier.busy
        and is_free(claims.get(path), step, wait, now)
        and not (path in claims and is_given_up(claims[path], now))
        and (path not in claims or carrier.may_start_again(claims[path]))
        and carrier.has_time_for(step)
    }
    if any(claims[path].starts > 1 for path in carrier.busy if path in claims):
        return {}
    if first := {path: claim for path, claim in free.items() if claim.starts == 1}:
        return dict(list(first.items())[: LIMITS.inline_steps_max - len(carrier.busy)])
    if carrier.busy or not free:
        return {}
    path = min(free, key=lambda path: (free[path].starts, path))
    return {path: free[path]}


def is_free(claim: Claim | None, step: Inline[object], wait: Wait, now: datetime) -> bool:
    """Return whether a carrier may begin a step now."""
    pause_ends_at = due_at(step, wait)
    if pause_ends_at is not None and now < pause_ends_at:
        return False
    return claim is None or claim.until <= now


def is_given_up(claim: Claim, now: datetime) -> bool:
    """Return whether all starts of a step have been made, and the claim of the last start has expired."""
    return claim.starts >= LIMITS.inline_starts_max and claim.until <= now


def after_error(claim: Claim, error: str, now: datetime) -> Claim:
    """Return the claim of a step whose code has raised an error other than a `Problem`."""
    is_last = claim.starts >= LIMITS.inline_starts_max
    pause_seconds = 0 if is_last else min(2 ** (claim.starts - 1), LIMITS.inline_pause_seconds_max)
    return Claim("", claim.starts, now + timedelta(seconds=pause_seconds), error)
