"""Flows that begin commands and await them later, inside everything else that a flow can wait for.

The world is that of `inline_steps.py`: nested programs and inline steps under small limits, with programs of
`Kind.COMPOSED`. What is begun ends before, while or after the code awaits it, is cancelled by its handle, or is left to
the end of the code, next to cancels of the run, failing groups, shields, sub-flows and later generations. Some runs
have a time-out. Sub-flows have ids of which there are two, so most are in use, and people remove such runs. In some
worlds people suspend runs, and resume them, the last ones when nothing moves any more. In some, people fork runs and
their forks, or query them.

In addition to the checks of `inline_steps.py`: no flow waits for nothing, no first success raises the problem of one
command alone, handles are received in the order of the log, and a run is cancelled at its deadline, once and not
before. While a run is suspended, nothing of it changes. Queries write nothing, do not act, and what a later one answers
continues what an earlier one has answered.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from signalbox.core.ports import Snapshot
from signalbox.flows.model.addresses import FlowAddress
from signalbox.testing.replaced_limits import replaced
from tests.simulation.reached_counts import REACHED, SUSPENDED
from tests.simulation.versions import versions_of
from tests.simulation.world import Violation
from tests.simulation.worlds.flows import inline_steps
from tests.simulation.worlds.flows.interpreted_programs import FLOW
from tests.simulation.worlds.flows.kinds import SUB_FLOWS, Kind

TIMED_SHARE = 0.5
TIMEOUTS = (0.02, 0.3, 2.0, 600.0, 400_000.0)
"""The last one is longer than the sweeps of a purged world take."""

SUSPENDED_SHARE = 0.4

QUERIED_SHARE = 0.2

FORKED_SHARE = 0.4
FORKS = ("fork-a", "fork-b")

BEGUN = 2_000_000
"""Added to the seed: the world of inline steps of that seed is another."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"composed {seed}")
    kind = Kind.COMPOSED if versions_of(seed) is None else Kind.INLINE  # the last release cannot begin commands
    limits, lasts_seconds = inline_steps.limits_of(own, kind), own.choice(inline_steps.LASTS)
    with replaced(**limits):
        ComposedWorld(seed + BEGUN, own, kind, trace, lasts_seconds).run()


class ComposedWorld(inline_steps.InlineWorld):
    """A world of flows that begin commands and await them later, some of them with a time-out."""

    def __init__(
        self, seed: int, own: Random, kind: Kind, trace: Callable[[str], None] | None, lasts_seconds: float
    ) -> None:
        super().__init__(seed, own, kind, trace, lasts_seconds)
        more = Random(f"time-outs {seed}")
        timed = [address.key for address in self.flows if more.random() < TIMED_SHARE]
        if self.world.versions is None:  # the last release knows of no time-out
            self.people.timeouts.update({key: more.choice(TIMEOUTS) for key in timed})
        suspending = Random(f"suspended {seed}")
        if self.world.versions is None and suspending.random() < SUSPENDED_SHARE:  # the last release would continue
            self._suspend_often(suspending)
        forking = Random(f"forked {seed}")
        if self.world.versions is None and forking.random() < FORKED_SHARE:  # the last release knows of no origins
            self._fork_often(forking)
        querying = Random(f"questions {seed}")
        if self.world.versions is None and querying.random() < QUERIED_SHARE:  # the last release answers nothing
            self._query_often(querying)
        self._has_waited = False
        for _ in range(more.choice((0, 2, 6))):
            removal = self.people.removal_of(FlowAddress(FLOW, more.choice(SUB_FLOWS)))
            self.acts.insert(more.randint(1, len(self.acts)), removal)

    def _suspend_often(self, random: Random) -> None:
        """Suspend runs among the acts, and resume some of them. Each act is repeated until it is answered."""
        for _ in range(random.choice((1, 2, 5))):
            address = random.choice(self.flows)
            for act in (self.people.suspension_of(address), self.people.resumption_of(address)):
                self.acts.insert(random.randint(1, len(self.acts)), act)
        self.world.observers.append(_check_unchanged)

    def _query_often(self, random: Random) -> None:
        """Query runs among the acts."""
        self.code.answers = True
        for _ in range(random.choice((2, 6, 12))):
            self.acts.insert(random.randint(1, len(self.acts)), self.people.query_of(random.choice(self.flows)))

    def _fork_often(self, random: Random) -> None:
        """Fork runs and their forks among the acts, under few ids."""
        ids = [*(address.key for address in self.flows), *FORKS]
        for _ in range(random.choice((1, 2, 4))):
            source, id_ = FlowAddress(FLOW, random.choice(ids)), random.choice(FORKS)
            if source.key != id_:
                act = self.people.fork_of(source, id_, random.choice((0.0, random.random(), random.random(), 1.0)))
                self.acts.insert(random.randint(1, len(self.acts)), act)
        more = [act for id_ in FORKS for act in self.people.messages_to(FlowAddress(FLOW, id_), random)]
        self.acts += random.sample(more, len(more))

    def _release(self) -> None:
        """Resume the runs that people have left suspended."""
        left = [header.address for header in self.rest.headers() if header.suspended]
        REACHED[SUSPENDED] += len(left)
        self.world.run([self._begin(self.people.resumption_of(address)) for address in left])

    def _sweep(self, seconds: float) -> None:
        """Sweep. The first time, let the longest time-out pass then: a wake-up that was lost is enqueued again."""
        super()._sweep(seconds)
        if not self._has_waited:
            self._has_waited = True
            self.world.pass_time(TIMEOUTS[-1])
            self.world.run()


def _check_unchanged(path: str, before: Snapshot, after: Snapshot) -> None:
    """Raise `Violation` if a header changes while it is suspended, unless the run is ended."""
    held, now = before.data or {}, after.data or {}
    if "suspended" not in held or now.get("end", "null") != "null":
        return
    changed = {name for name in held.keys() | now.keys() if held.get(name) != now.get(name)}
    if changed - {"suspended", "revision"}:
        raise Violation(f"{path} has changed while it was suspended: {sorted(changed)}")
