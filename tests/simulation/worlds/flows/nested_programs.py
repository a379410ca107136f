"""Flows whose programs nest all that a flow can wait for, at random, under small limits.

The world is that of `world.py`, most often with programs of `Kind.NESTED`: an `any` of groups in a list of branches,
locks in groups that fail, sub-flows, clean-ups that send and wait, events, objects, later generations, and cancels at
any time. People also end flows, resume them, remove them and start others under their ids. In some seeds most steps
fail; in some, flows without a turn for a second are silent, and sweeps run next to everything else; in some, older code
holds locks for longer; in some, queues are purged at any time, or refuse wake-ups. A turn's commit may have room for a
few messages only, and its tasks need several outbox records.

Some seeds also run a second, small world: two flows share a permit, and are ended, or their queues are purged.

In addition to the checks of `world.py`: no clean-up runs outside of its flow, no `any` waits for a command that ends by
itself, each event is in the log, no flow holds a lock that its code has released or never receives, and a sweep looks
at every silent flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from unittest import mock

from signalbox.core import write_checks
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.ports import Query
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS as FLOWS_LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import STEP_FAILS_OFTEN_RATE
from tests.simulation.reached_counts import REACHED, TASKS_REFUSED
from tests.simulation.world import Violation
from tests.simulation.world_lengths import faults
from tests.simulation.worlds.flows.callers import Act
from tests.simulation.worlds.flows.interpreted_programs import LEASE_SECONDS, Code
from tests.simulation.worlds.flows.kinds import Kind
from tests.simulation.worlds.flows.world import (
    PAGE,
    SECOND_WORLD,
    SMALL,
    STARTS_UNLIMITED,
    SWEPT_SLOWLY,
    FlowsWorld,
    sweep_all,
)

COMMIT_BYTES = (None, 9_800, 10_300)
"""The most bytes of a turn's commit: room for any one message, but not for many together.

The largest turn with one message that a seed has found writes 9,650 bytes (20057851).
"""

ENVELOPE_BYTES = 2_000
OUTBOX: tuple[dict[str, float], ...] = ({}, {"outbox_tasks_max": 3}, {"outbox_bytes_max": 2_500})
SMALLEST = {"flow_tail_bytes_max": 60, "flow_chunk_bytes_max": 200}
KINDS = {
    Kind.OVERSIZED: 0.06,
    Kind.AGAIN: 0.06,
    Kind.RETRIES: 0.04,
    Kind.LOCKS: 0.14,
    Kind.FLOWS: 0.1,
    Kind.NESTED: 0.6,
}
"""Each kind of programs with its share of the seeds."""

PAGES = (PAGE // 2, PAGE, PAGE, 50)
PURGED_SHARE, UPGRADED_SHARE, FAILING_SHARE = 0.25, 0.2, 0.3
SILENT_SECONDS, SWEEPS_MAX, SWEEPS_AT_ONCE, PURGES_MAX = 1, 6, 3, 4
QUIET_SHARE, OFTEN_SHARE, OFTEN = 0.2, 0.4, (0.05, 0.08, 0.05, 0.5)
FAULTS_OFTEN, REFUSED_MAX, REFUSED_SHARE = 12, 3, 0.5
OLD_DELIVERIES = (3, 10, 40)
PERMIT_RATE = 0.4
"""Of the seeds, those that also run a world of two flows and one permit."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"nested flows {seed}")
    small: dict[str, float] = {**own.choice(({}, SMALL, SMALLEST)), **own.choice(OUTBOX)}
    most = own.choice(COMMIT_BYTES)
    more = Random(f"nested limits {seed}")
    kind = more.choices(list(KINDS), list(KINDS.values()))[0]
    if kind is not Kind.NESTED:
        most = COMMIT_BYTES[-1] if kind is Kind.OVERSIZED else None
    if most:
        small |= {"flow_commit_bytes_max": most}
    small |= {"lease_seconds_max": LEASE_SECONDS, "mailbox_page": own.choice((PAGE // 2, PAGE, PAGE, 50))} | _limits(
        more
    )
    store_max = most + ENVELOPE_BYTES if most else write_checks.COMMIT_BYTES_MAX
    with replaced(**small), mock.patch.object(write_checks, "COMMIT_BYTES_MAX", store_max):
        NestedWorld(seed, own, kind, trace).run()
    if Random(f"{seed}-permit").random() < PERMIT_RATE:
        small = {"lease_seconds_max": LEASE_SECONDS, "mailbox_page": PAGE, "flow_starts_max": STARTS_UNLIMITED}
        with replaced(**small, rounds_max=1 + seed % 2):
            _share_a_permit(seed, trace)


def _share_a_permit(seed: int, trace: Callable[[str], None] | None) -> None:
    """Run a world of two flows and one permit: people end both while time jumps, or queues are purged."""
    own = Random(f"permit {seed}")
    second = FlowsWorld(seed + SECOND_WORLD, own, Kind.LOCKS, trace)
    second.world.step_microseconds_max = 30_000
    if seed % 2:
        second.purge_often(own.randint(1, PURGES_MAX), own)
    else:
        second.world.fault_rates.duplicate = 0.5
        second.world.time_jumps, second.world.time_jumps_left = (0.2, 1.0), 30
        for address in second.flows:
            second.acts.insert(own.randint(1, len(second.acts)), second.people.termination_of(address))
    second.run()


def _limits(random: Random) -> dict[str, float]:
    return {
        "flow_events_kept_max": random.choice((1_000, 1_000, 2)),
        "flow_silent_seconds": random.choice((FLOWS_LIMITS.flow_silent_seconds,) * 2 + (SILENT_SECONDS,)),
        "flow_siblings_max": random.choice((FLOWS_LIMITS.flow_siblings_max, 0, 50)),
        **random.choice(({}, {}, SWEPT_SLOWLY)),
    }


class NestedWorld(FlowsWorld):
    """A world of nested flows. Its own acts come among the others."""

    def __init__(self, seed: int, own: Random, kind: Kind, trace: Callable[[str], None] | None) -> None:
        super().__init__(seed, own, kind, trace)
        more = Random(f"nested acts {seed}")
        if kind is Kind.NESTED and not self.purged and more.random() < QUIET_SHARE:
            self._keep_quiet(more)
        else:
            self._add_acts(kind, more)
        if more.random() < FAILING_SHARE:
            self.deliveries.failing = STEP_FAILS_OFTEN_RATE
        if more.random() < UPGRADED_SHARE:
            before = Code(1, early=False, consumed=self.code.consumed, outside=self.code.outside)
            before.mixes_contexts = self.code.mixes_contexts
            before.keeping = self.code.keeping
            self.others = [before]
            self.others_left = more.choice(OLD_DELIVERIES)

    def _keep_quiet(self, random: Random) -> None:
        """Leave the starts alone, and let the queue refuse some wake-ups: nothing else then finds what waits."""
        self.acts = [act for act in self.acts if act.name.startswith("start")]
        left = [random.randint(1, REFUSED_MAX)]

        def refuses(effect: Effect) -> bool:
            may_refuse = effect.task == WAKE_UP_TASK and left[0] > 0 and not self.code.fixed
            refused = may_refuse and random.random() < REFUSED_SHARE
            left[0] -= refused
            return refused

        self.world.queue.refuses = refuses

    def _add_acts(self, kind: Kind, more: Random) -> None:
        acts = [act for address in self.flows for act in self.people.more_acts_of(address, more)]
        if kind is not Kind.OVERSIZED and more.random() < PURGED_SHARE:
            acts += [Act("purge", self._purge) for _ in range(more.randint(1, PURGES_MAX))]
            self.purged = True
            self.rest = replace(self.rest, purged=True)
        for act in acts:
            self.acts.insert(more.randint(1, len(self.acts)), act)
        if FLOWS_LIMITS.flow_silent_seconds == SILENT_SECONDS:
            self._sweep_often(more)
        if more.random() < OFTEN_SHARE:
            self._fail_often()

    def _sweep_often(self, random: Random) -> None:
        """Sweep between the acts, several at once, and let time pass."""
        self.world.time_jumps_left += SWEEPS_MAX
        for _ in range(random.randint(1, SWEEPS_MAX)):
            place = random.randint(1, len(self.acts))
            self.acts[place:place] = [Act("sweep", self._sweep_silent) for _ in range(SWEEPS_AT_ONCE)]

    def _fail_often(self) -> None:
        rates = self.world.fault_rates
        rates.abort, rates.lose_answer, rates.kill, rates.duplicate = OFTEN
        rates.left = rates.left and faults(FAULTS_OFTEN)

    def _sweep_silent(self) -> bool:
        """Sweep, and check that each silent flow was looked at if no call has failed."""
        world = self.world
        failed, due = world.faults + REACHED[TASKS_REFUSED], self._silent()
        sweep_all(world.ports)
        left = due & self._silent()
        if left and world.faults + REACHED[TASKS_REFUSED] == failed:
            raise Violation(f"the sweep has left {left}, which are silent")
        return True

    def _silent(self) -> set[tuple[str, object]]:
        """Return the listings that are due, each by its version."""
        now = self.world.now()
        found = self.world.store.query(Query(FlowAddress.COLLECTION))
        checked = ((listing, (listing.data or {}).get(sweep.CHECKED_AT)) for listing in found)
        silent = timedelta(seconds=FLOWS_LIMITS.flow_silent_seconds)
        return {(listing.path, listing.update_time) for listing, at in checked if at and at <= now - silent}
