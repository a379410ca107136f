"""Flows whose programs nest all that a flow can wait for, at random, under small limits.

The world is that of `world.py`, with programs of `Kind.NESTED`: an `any` of groups inside a list of branches, locks,
sub-flows, clean-ups that send and wait, events, objects, and cancels at any time. A turn's commit may have room for a
few messages only, and its tasks need several outbox records.

In addition to the checks of `world.py`: no clean-up runs outside of its flow, no `any` waits for a command that ends by
itself, and each event is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from unittest import mock

from signalbox.core import validation
from signalbox.testing.limits import replaced
from tests.simulation.worlds.flows.kinds import Kind
from tests.simulation.worlds.flows.program import LEASE_SECONDS
from tests.simulation.worlds.flows.world import PAGE, SMALL, FlowsWorld

COMMIT_BYTES = (None, 8_500, 9_000)
"""Bytes of a turn's commit: room for any one message of a nested program, and for few together."""

ENVELOPE_BYTES = 2_000
OUTBOX: tuple[dict[str, float], ...] = ({}, {"outbox_tasks_max": 3}, {"outbox_bytes_max": 2_500})


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"nested flows {seed}")
    small: dict[str, float] = {**own.choice(({}, SMALL)), **own.choice(OUTBOX)}
    most = own.choice(COMMIT_BYTES)
    if most:
        small |= {"flow_commit_bytes_max": most}
    small |= {"lease_seconds_max": LEASE_SECONDS, "mailbox_page": own.choice((PAGE, 50))}
    store_max = most + ENVELOPE_BYTES if most else validation.COMMIT_BYTES_MAX
    with replaced(**small), mock.patch.object(validation, "COMMIT_BYTES_MAX", store_max):
        FlowsWorld(seed, own, Kind.NESTED, trace).run()
