"""Flows that begin commands and await them later, inside everything else that a flow can wait for.

The world is that of `inline.py`: nested programs and inline steps under small limits, with programs of `Kind.COMPOSED`.
What is begun ends before, while or after the code awaits it, is cancelled by its handle, or is left to the end of the
code, next to cancels of the run, failing groups, shields, sub-flows and later generations. Some runs have a time-out.
Sub-flows have ids of which there are two, so most are in use, and people remove such runs.

In addition to the checks of `inline.py`: no flow waits for nothing, no first success raises the problem of one command
alone, handles are received in the order of the log, and a run is cancelled at its deadline, once and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from signalbox.flows.model import FlowAddress
from signalbox.testing.limits import replaced
from tests.simulation.versions import versions_of
from tests.simulation.worlds.flows import inline
from tests.simulation.worlds.flows.kinds import SUB_FLOWS, Kind
from tests.simulation.worlds.flows.program import FLOW

TIMED_SHARE = 0.5
TIMEOUTS = (0.02, 0.3, 2.0, 600.0, 400_000.0)
"""The last one is longer than the sweeps of a purged world take."""

BEGUN = 2_000_000
"""Added to the seed: the world of inline steps of that seed is another."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"composed {seed}")
    kind = Kind.COMPOSED if versions_of(seed) is None else Kind.INLINE  # the last release cannot begin commands
    limits, lasts_seconds = inline.limits_of(own, kind), own.choice(inline.LASTS)
    with replaced(**limits):
        ComposedWorld(seed + BEGUN, own, kind, trace, lasts_seconds).run()


class ComposedWorld(inline.InlineWorld):
    """A world of flows that begin commands and await them later, some of them with a time-out."""

    def __init__(
        self, seed: int, own: Random, kind: Kind, trace: Callable[[str], None] | None, lasts_seconds: float
    ) -> None:
        super().__init__(seed, own, kind, trace, lasts_seconds)
        more = Random(f"time-outs {seed}")
        timed = [address.key for address in self.flows if more.random() < TIMED_SHARE]
        if self.world.versions is None:  # the last release knows of no time-out
            self.people.timeouts.update({key: more.choice(TIMEOUTS) for key in timed})
        self._has_waited = False
        for _ in range(more.choice((0, 2, 6))):
            removal = self.people.removal_of(FlowAddress(FLOW, more.choice(SUB_FLOWS)))
            self.acts.insert(more.randint(1, len(self.acts)), removal)

    def _sweep(self, seconds: float) -> None:
        """Sweep. The first time, let the longest time-out pass then: a wake-up that was lost is enqueued again."""
        super()._sweep(seconds)
        if not self._has_waited:
            self._has_waited = True
            self.world.pass_time(TIMEOUTS[-1])
            self.world.run()
