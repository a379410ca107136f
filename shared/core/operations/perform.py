"""The loop of every operation: load, decide, commit under a guard, hand over the effects, answer.

This is Firestore's optimistic transaction written out. No lock is held across a round trip: the commit carries the
`update_time` of what the decision rests on, and an operation that lost a race loads again after a jittered pause.

    load ──► decide ──► commit: state + outbox ──► hand over ──► forget ──► answer
      ▲                   │ guard lost                │ died here: the sweeper hands over
      └── jittered pause ─┘                           ▼ (see `outbox.py`)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload

from shared.core.operations import outbox
from shared.core.operations.ports import Committed, Conflict, Ports, Snapshot, Store, Write
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable

Answer = TypeVar("Answer")
Loaded = TypeVar("Loaded")
Loaded_co = TypeVar("Loaded_co", covariant=True)
Snapshots = tuple[Snapshot, ...]
Writes = tuple[Write, ...]


class Contended(Unavailable):
    """The guarded commit lost every race, or its answer was lost each time."""


class ReadPlan(Protocol[Loaded_co]):
    """What an attempt loads: first some records, then follow-up queries chosen from what was read."""

    @property
    def path(self) -> str:
        """Return the path of the record whose guard may fail."""
        ...

    def load(self, store: Store, attempt: int) -> Loaded_co:
        """Return what the decision of this attempt, counted from 0, rests on."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """The plain read plan: records, at one instant."""

    paths: Sequence[str]

    @property
    def path(self) -> str:
        """Return the first path."""
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
    """Load, decide, and commit the writes that the decision has as its state.

    `reads` are the paths of records, or a read plan. `decide` must be pure: it runs again on what is then there, when
    a commit raised one of `retry_on`. A caller whose decision recognises in the records what an earlier commit of its
    own has done can retry on `Unavailable` too, the lost answer of a commit. A decision without writes commits nothing.

    `attempts_max` is by default `LIMITS.rounds_max`. Raises `Contended` after the last attempt, and `Unavailable` when
    a commit's answer is not known.
    """
    plan = Records(reads) if isinstance(reads, Sequence) else reads
    for attempt in range(LIMITS.rounds_max if attempts_max is None else attempts_max):
        decision = decide(plan.load(ports.store, attempt))
        if not decision.state:
            return decision.answer, None
        try:
            return decision.answer, outbox.commit(ports, decision.state, decision.effects)
        except retry_on:
            pause(ports, attempt)
    raise Contended(f"{plan.path} is written by many at once")


def pause(ports: Ports, attempt: int) -> None:
    """Sleep before the next attempt: twice as long each time, with jitter so that losers do not meet again."""
    ports.clock.sleep(LIMITS.pause_seconds * 2**attempt * (0.5 + ports.clock.jitter()))
