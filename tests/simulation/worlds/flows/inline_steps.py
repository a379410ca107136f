"""Flows with inline steps, in chains and next to everything else that a flow waits for.

The world is that of `nested_programs.py`, with programs most of whose steps are inline. Claims are short in some seeds,
so that they run out under live code; deliveries end soon in some; a delivery looks often or seldom for messages.

In addition to the checks of `nested_programs.py`: no code begins without a claim, none runs twice at once unless a
claim is over, no cancel is received while code runs under a live claim, each outcome in a log is one that the code had,
a failure is of the delivery that had the claim, a step is started again alone, and none waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from signalbox.flows.limits import LIMITS
from signalbox.testing.replaced_limits import replaced
from tests.simulation.world import Violation
from tests.simulation.world_lengths import faults
from tests.simulation.worlds.flows.inline_step_code import InlineSteps
from tests.simulation.worlds.flows.interpreted_programs import LEASE_SECONDS
from tests.simulation.worlds.flows.kinds import Kind
from tests.simulation.worlds.flows.nested_programs import SMALLEST, NestedWorld
from tests.simulation.worlds.flows.world import PAGE, SMALL, STARTS_MAX, STARTS_UNLIMITED

DEADLY_SHARE, CALM_SHARE = 0.15, 0.5
CLAIMS = (LONG := 60.0, LONG, 1.0, 0.1)
"""Seconds of a claim. A third of it is the time after which it is renewed."""

LASTS = (540.0, 2.0, 0.2)
MARGIN_SECONDS = 0.05
LOOKS = (1.0, 0.05)
STEP_STARTS = (2, 2, 4)
DUPLICATES = (0.1, 0.1, 0.6)


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"inline {seed}")
    kind = Kind.INLINE_DEADLY if own.random() < DEADLY_SHARE else Kind.INLINE
    limits, lasts_seconds = limits_of(own, kind), own.choice(LASTS)
    with replaced(**limits):
        InlineWorld(seed, own, kind, trace, lasts_seconds).run()


def limits_of(own: Random, kind: Kind) -> dict[str, float]:
    """Return the limits of a world."""
    claim_seconds = own.choice(CLAIMS)
    return {
        **own.choice(({}, SMALL, SMALLEST)),
        "inline_claim_seconds": claim_seconds,
        "inline_renewal_seconds": claim_seconds / 3,
        "inline_look_seconds": own.choice(LOOKS),
        "inline_margin_seconds": MARGIN_SECONDS,
        "inline_steps_max": own.choice((8, 8, 2)),
        "inline_starts_max": own.choice(STEP_STARTS),
        "inline_pause_seconds_max": 2,
        "lease_seconds_max": LEASE_SECONDS,
        "mailbox_page": own.choice((PAGE // 2, PAGE, 50)),
        "flow_starts_max": STARTS_MAX if kind is Kind.INLINE_DEADLY else STARTS_UNLIMITED,
    }


class InlineWorld(NestedWorld):
    """A world of flows with inline steps, whose deliveries last for some seconds."""

    def __init__(
        self, seed: int, own: Random, kind: Kind, trace: Callable[[str], None] | None, lasts_seconds: float
    ) -> None:
        super().__init__(seed, own, kind, trace)
        self.deliveries.inline = InlineSteps(
            self.world, self.history.inline, Random(f"inline steps {seed}"), lasts_seconds
        )
        self.world.fault_rates.duplicate = own.choice(DUPLICATES)
        if lasts_seconds < 1:
            self.world.time_jumps, self.world.time_jumps_left = (0.05, 0.2, 1.0), own.choice((0, 20))
        if kind is Kind.INLINE_DEADLY and own.random() < CALM_SHARE:
            self.world.fault_rates.left = self.world.time_jumps_left = 0
        is_steady = self.world.time_jumps_left == 0 and LIMITS.inline_claim_seconds == LONG
        self.history.inline.is_calm = lambda: is_steady and self.world.faults == 0
        self.rest = replace(self.rest, nested=True)
        self.code.runs = self.deliveries.inline.run
        self.others = [replace(other, runs=self.code.runs) for other in self.others]

    def _check_deaths(self) -> None:
        """Check that code which ends its process does not have an inline step repeated that went well."""
        super()._check_deaths()
        most = LIMITS.inline_starts_max + faults(self.world.faults)
        if often := [place for place, number in self.history.inline.starts.items() if number > most]:
            raise Violation(f"the inline steps {often} were started too often")
