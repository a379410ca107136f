"""The way of every operation: load, decide, commit under a guard, hand over the effects, answer.

This is Firestore's optimistic transaction written out. No lock is held across a round trip: the commit carries the
`update_time` of what the decision rests on, and whoever was overtaken loads again after a jittered pause.

    load ──► decide ──► commit: state + outbox ──► hand over ──► forget ──► answer
      ▲                   │ guard lost                │ died here: the sweeper hands over
      └── jittered pause ─┘                           ▼ (see `outbox.py`)
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from shared.core.operations import outbox
from shared.core.operations.ports import Committed, Conflict, Ports, Snapshot, Write
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable

Answer = TypeVar("Answer")
Writes = tuple[Write, ...]


def perform(
    ports: Ports, paths: Sequence[str], decide: Callable[[tuple[Snapshot, ...]], Decision[Writes, Answer]]
) -> tuple[Answer, Committed | None]:
    """Load `paths` at one instant, decide, and commit the writes the decision gives as its state.

    ``decide`` must be pure: it runs again with fresh snapshots when another commit came first. A decision without
    writes commits nothing. Raises `Unavailable` when the commit kept losing or its answer is not known.
    """
    for attempt in range(LIMITS.rounds_max):
        decision = decide(ports.store.read(*paths))
        if not decision.state:
            return decision.answer, None
        try:
            return decision.answer, outbox.commit(ports, decision.state, decision.effects)
        except Conflict:
            pause(ports, attempt)
    raise Unavailable(f"{paths[0]} is written by many at once")


def pause(ports: Ports, attempt: int) -> None:
    """Wait before starting anew: twice as long each time, spread so that losers do not meet again."""
    ports.clock.sleep(LIMITS.pause_seconds * 2**attempt * (0.5 + ports.clock.jitter()))
