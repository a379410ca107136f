"""The loop of every operation: load, decide, commit under preconditions, enqueue the effects, answer.

This is Firestore's optimistic transaction written out. No lock is held across a round trip. Instead, each commit has
guards: preconditions that the records behind the decision still have the `update_time` with which they were read. An
operation that loses a race loads again after a jittered pause.

    load ──► decide ──► commit: state + outbox ──► enqueue ──► delete outbox record ──► answer
      ▲                   │ lost the race             │ the process dies here:
      └── jittered pause ─┘                           ▼ the sweeper enqueues (see `outbox.py`)
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Protocol, TypeVar, overload

from signalbox.core import outbox
from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Committed, Conflict, Ports, Snapshot, Store, Write
from signalbox.core.problems import Contended

Answer = TypeVar("Answer")
Loaded = TypeVar("Loaded")
Loaded_co = TypeVar("Loaded_co", covariant=True)

Snapshots = tuple[Snapshot, ...]

Writes = tuple[Write, ...]


class ReadPlan(Protocol[Loaded_co]):
    """The reads of an attempt: some records first, then follow-up queries that depend on those records."""

    @property
    def path(self) -> str:
        """The path of the record whose precondition may fail."""
        ...

    def load(self, store: Store, attempt: int) -> Loaded_co:
        """Return everything that the decision of this attempt, counted from 0, needs."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """The plain read plan: records, at one instant."""

    paths: Sequence[str]

    @property
    def path(self) -> str:
        """The first path."""
        return self.paths[0]

    def load(self, store: Store, attempt: int) -> Snapshots:  # noqa: ARG002  each attempt reads the same
        """Return the snapshots, in the order of the paths."""
        return store.read(*self.paths)


@overload
def perform(
    ports: Ports, reads: Sequence[str], decide: Callable[[Snapshots], Decision[Writes, Answer]]
) -> tuple[Answer, Committed | None]: ...


@overload
def perform(
    ports: Ports,
    reads: ReadPlan[Loaded],
    decide: Callable[[Loaded], Decision[Writes, Answer]],
    *,
    attempts_max: int | None = ...,
    retry_on: tuple[type[Exception], ...] = ...,
) -> tuple[Answer, Committed | None]: ...


def perform(
    ports: Ports,
    reads: Sequence[str] | ReadPlan[Any],
    decide: Callable[[Any], Decision[Writes, Answer]],
    *,
    attempts_max: int | None = None,
    retry_on: tuple[type[Exception], ...] = (Conflict,),
) -> tuple[Answer, Committed | None]:
    """Load, decide, and commit the writes that the decision contains as its state.

    `reads` are the paths of records, or a read plan. `decide` must be pure: it runs again on newly loaded records after
    a commit raised one of `retry_on`. If the decision can recognise its own earlier commit in the records, the caller
    may also retry on `Unavailable`, which is raised after a lost answer. A decision without writes commits nothing.

    `attempts_max` is `LIMITS.rounds_max` by default. Raises `Contended` after the last attempt, and `Unavailable` if
    it is not known whether a commit landed.
    """
    plan = Records(reads) if isinstance(reads, Sequence) else reads
    for attempt in range(LIMITS.rounds_max if attempts_max is None else attempts_max):
        began = ports.clock.steady()
        decision = decide(plan.load(ports.store, attempt))
        if not decision.state:
            return decision.answer, None
        try:
            return decision.answer, outbox.commit(ports, decision.state, decision.effects)
        except retry_on as error:
            pause(ports, attempt, ports.clock.steady() - began if isinstance(error, Conflict) else inf)
    raise Contended(f"{plan.path} is written by many at once")


PAUSE_SECONDS_MIN = 0.001
"""The least first pause: a store in memory may lose a race in no time."""

SHORT_PAUSES = 2
"""The pauses that are shorter after short attempts. With more of them, an operation that keeps losing would use up its
attempts while the others still collide: twice as many would fail."""


def pause(ports: Ports, attempt: int, attempt_seconds: float = inf) -> None:
    """Sleep before the next attempt: twice as long each time, with jitter to keep colliding operations apart.

    With `attempt_seconds`, the time that the lost attempt took, the first pause is about as long, and the second one
    four times as long, but at most the usual pause. Operations collide while their attempts overlap, so a longer pause
    would only leave the record unused.
    """
    usual = LIMITS.pause_seconds * 2**attempt
    short = max(attempt_seconds, PAUSE_SECONDS_MIN) * 4**attempt if attempt < SHORT_PAUSES else inf
    ports.clock.sleep(min(usual, short) * (0.5 + ports.clock.jitter()))
