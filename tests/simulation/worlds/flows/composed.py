"""Flows that begin commands and await them later, inside everything else that a flow can wait for.

The world is that of `inline.py`: nested programs and inline steps under small limits, with programs of `Kind.COMPOSED`.
What is begun ends before, while or after the code awaits it, is cancelled by its handle, or is left to the end of the
code, next to cancels of the run, failing groups, shields, sub-flows and later generations.

In addition to the checks of `inline.py`: no flow waits for nothing, no first success raises the problem of one command
alone, and handles are received in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from signalbox.testing.limits import replaced
from tests.simulation.versions import versions_of
from tests.simulation.worlds.flows import inline
from tests.simulation.worlds.flows.kinds import Kind

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
    """A world of flows that begin commands and await them later."""
