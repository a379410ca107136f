"""Flows with real coroutines, which many callers start, send events, cancel, deploy, delete and start again at once.

Each world is about one thing (`kinds.Kind`). Every run of a step has a different outcome, so that a wrong one in a log
is noticed. Limits are small, so that logs are cut into chunks and turns are split.

Checked whenever a header is written: no event is applied twice, each result of a step is one that the step had, no log
gets shorter, no flow ends twice. Checked at rest: no message waits; each flow is at the position of the same coroutine,
run without turns on the log; a model, which is not the driver, observes the same on that log; no flow waits for an
event that has arrived; at the end each flow has reported its end once, and no permit is held; after the removal no
record is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from signalbox.core import outbox
from signalbox.core.effects import name_of
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports
from signalbox.core.problems import Unavailable
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS as FLOWS_LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.semaphores import sweep as semaphores_sweep
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import STEP_FAILS_OFTEN_RATE, STEP_FAILS_RATE, FaultRates
from tests.simulation.reached_counts import BEGUN_AGAIN, FLOWS_STUCK, LOCKS_AGAIN, REACHED, UPGRADED
from tests.simulation.versions import versions_of
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import faults
from tests.simulation.worlds.batches.semaphore_permits import Refusing
from tests.simulation.worlds.flows import abandoned_batches
from tests.simulation.worlds.flows.archives import keeping_of
from tests.simulation.worlds.flows.callers import Act, People, Visitor
from tests.simulation.worlds.flows.interpreted_programs import FLOW, LEASE_SECONDS, SEMAPHORE, Code
from tests.simulation.worlds.flows.kinds import Kind
from tests.simulation.worlds.flows.observed_flows import FlowsHistory
from tests.simulation.worlds.flows.properties import FlowsAtRest
from tests.simulation.worlds.flows.task_deliveries import FlowDeliveries

PAGE = 4
REPEATS_MAX = 12
SWEEPS = 3
SWEPT_SLOWLY = {"flows_sweep_page": 1, "flow_removal_commits_max": 1, "flow_removal_page": 2}
SWEPT_SLOWLY_SHARE = 0.2
REMOVALS_MAX = 60
"""Sweeps after which a removal of small commits must have ended."""
STARTS_MAX, STARTS_UNLIMITED = 4, 100
STARTS_LIMITED_SHARE = 0.5
RESTARTED_TWICE_SHARE = 0.5
PURGED_SHARE = 0.2
STARTED_LATE_SHARE, DELIVERED_SECONDS = 0.2, 31 * 24 * 3600
ARCHIVED_SHARE = 0.3
"""Of the worlds, those whose runs are archived. The last release has no archives."""

BROKEN_STORAGE_SHARE = 0.3
ARCHIVED_AGAIN_MAX = 10
EVENTS_MAX = 4
FAULTS = (3, FAULTS_MAX := 6)
OLD_DELIVERIES = (3, 10, 40)
DAY_SECONDS = 24 * 3600
OTHERS = (Kind.NESTED, Kind.OVERSIZED, Kind.INLINE, Kind.INLINE_DEADLY, Kind.COMPOSED)
USUAL = tuple(kind for kind in Kind if kind not in OTHERS)
KINDS = (*USUAL, Kind.MIXED, Kind.FIRST, Kind.AGAIN, Kind.LOCKS, Kind.RESTARTED)
SMALL = {"flow_tail_bytes_max": 300, "flow_live_tail_bytes_max": 100, "flow_chunk_bytes_max": 900}
TWICE = (Kind.AGAIN, Kind.LOCKS, Kind.RETRIES, Kind.RESTARTED)
"""Worlds in which many tasks are delivered twice."""

UNSOUND = (Kind.BROKEN, Kind.DEADLY, Kind.CARELESS, Kind.OVERSIZED, Kind.INLINE_DEADLY)
"""Worlds in which flows get stuck; anywhere else they must not."""

SENDING = (Kind.MIXED, Kind.LOCKS, Kind.NESTED)
"""Worlds whose flows send tasks, in their one generation."""

ABANDONED_RATE = 0.2
"""Of the seeds, those that also run a world of abandoned batches."""

LARGER_PAGES, LARGER_PAGES_SHARE = {"flow_page_log_entries": 1, "flow_page_max": 3 * PAGE}, 0.3
"""The limits of a world in which also short logs have larger pages, and its share of the seeds."""

RETRIED_RATE = 0.4
"""Of the seeds, those that also run a world of overlapping attempts."""

RECREATED_RATE = 0.15
"""Of the seeds, those that also run a world of locks whose semaphore is deleted and created again."""

VISITED_RATE = 0.3
"""Of the seeds, those that also run a world of callbacks."""

VISITORS = (1, 2, 4)

SECOND_WORLD = 1_000_000
"""Added to the seed of a second world: the first one of that seed is another."""

CALM = (Kind.DEADLY,)
"""Worlds in which nothing fails: there every death is the code's."""


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Run one seed's world until nothing is left. Raises `Violation` when a property does not hold."""
    own = Random(f"flows {seed}")
    kind = own.choice(KINDS)
    small = SMALL if own.random() < 0.3 else {}
    starts = STARTS_MAX if kind is Kind.DEADLY else STARTS_UNLIMITED
    if kind not in UNSOUND and Random(f"{seed}-starts").random() < STARTS_LIMITED_SHARE:
        starts = faults(FAULTS_MAX) + 1  # a fault ends one start at most
    small = {**small, "lease_seconds_max": LEASE_SECONDS, "mailbox_page": PAGE}
    small |= LARGER_PAGES if Random(f"{seed}-pages").random() < LARGER_PAGES_SHARE else {}
    swept = SWEPT_SLOWLY if Random(f"{seed}-swept").random() < SWEPT_SLOWLY_SHARE else {}
    with replaced(flow_starts_max=starts, **small, **swept):
        FlowsWorld(seed, own, kind, trace).run()
    if Random(f"{seed}-abandoned").random() < ABANDONED_RATE:
        abandoned_batches.run(seed, trace)
    if Random(f"{seed}-retried").random() < RETRIED_RATE:
        with replaced(lease_seconds_max=LEASE_SECONDS, mailbox_page=PAGE, flow_starts_max=STARTS_UNLIMITED):
            _retried(seed, trace)
    recreated = versions_of(seed) is None  # the last release forgets the flows that wait for a deleted semaphore
    if recreated and Random(f"{seed}-recreated").random() < RECREATED_RATE:
        with replaced(lease_seconds_max=LEASE_SECONDS, mailbox_page=PAGE, flow_starts_max=STARTS_UNLIMITED):
            _recreated(seed, trace)
    if Random(f"{seed}-visited").random() < VISITED_RATE:
        with replaced(lease_seconds_max=LEASE_SECONDS, mailbox_page=PAGE, flow_starts_max=STARTS_UNLIMITED):
            _visited(seed, trace)


def _visited(seed: int, trace: Callable[[str], None] | None) -> None:
    """Run a world of callbacks, each used several times, also after the end of its run and in the next one."""
    own = Random(f"visited {seed}")
    world = FlowsWorld(seed + SECOND_WORLD, own, own.choice((Kind.AGAIN, Kind.RESTARTED, Kind.RESTARTED)), trace)
    world.code.labels = world.world.versions is None  # the last release loses labels
    for address in world.flows:
        for number in range(own.choice(VISITORS)):
            world.acts += world.visits_of(address, own.choice("xxy"), f"callback-{address.key}-{number}")
        if world.kind is Kind.RESTARTED:
            world.acts += [world.people.restart_of(address, own), world.people.termination_of(address)]
    world.run()


def _recreated(seed: int, trace: Callable[[str], None] | None) -> None:
    """Run a world of locks whose semaphore is deleted and created again while flows wait for it."""
    own = Random(f"recreated {seed}")
    world = FlowsWorld(seed + SECOND_WORLD, own, Kind.LOCKS, trace)
    world.rest = replace(world.rest, leases_end=True)
    world.acts.insert(own.randint(1, len(world.acts)), Act("recreate", partial(world.recreate, own.uniform(0, 3))))
    world.run()


def _retried(seed: int, trace: Callable[[str], None] | None) -> None:
    """Run a world of retried steps whose tasks are nearly all delivered twice: attempts overlap."""
    second = FlowsWorld(seed + SECOND_WORLD, Random(f"retried {seed}"), Kind.RETRIES, trace)
    second.world.fault_rates.duplicate = 0.9
    second.run()


class FlowsWorld:
    """A world of flows. `own` draws what the draws of the world do not depend on."""

    def __init__(self, seed: int, own: Random, kind: Kind, trace: Callable[[str], None] | None) -> None:
        self.world = World(seed, FaultRates(left=5), trace)
        self.own, self.kind = own, kind
        self.world.fault_rates.left = 0 if kind in CALM or own.random() < 0.2 else faults(own.choice(FAULTS))
        self.world.fault_rates.duplicate = 0.5 if kind in TWICE else 0.1
        self.world.step_microseconds_max = own.choice((300, 3_000, 30_000))
        self.world.time_jumps = (0.05, 0.2, 1.0, 70.0)
        self.world.time_jumps_left = own.choice((0, 3, 8))
        self.world.queue.ahead_seconds = own.choice((0.0, 0.05, 0.3))
        self.world.queue.shard("flows", seed)
        self.history = FlowsHistory(sound=kind not in UNSOUND)
        self.history.is_swept = lambda: self.world.processes.current == "sweep"
        self.world.observers.append(self.history.observed)
        mixes = self.world.versions is not None
        self.code = Code(3, "never" if kind is Kind.CARELESS else "by its place", mixes_contexts=mixes)
        others = [Code(1, "never"), Code(2, "always")] if kind is Kind.CARELESS else [Code(1, "never")]
        self.others = [replace(each, consumed=self.code.consumed, mixes_contexts=mixes) for each in others]
        self.others_left = own.choice(OLD_DELIVERIES) if kind in (Kind.DEPLOYED, Kind.CARELESS) else 0
        failing = STEP_FAILS_OFTEN_RATE if kind is Kind.RETRIES else STEP_FAILS_RATE
        self.deliveries = FlowDeliveries(self.world, self.history, self._deployed, own, failing)
        self.deliveries.install()
        self.world.sweeper = sweep_all
        count = 2 if kind is Kind.LOCKS or own.random() < 0.2 else 1
        self.flows = [FlowAddress(FLOW, f"f{number}") for number in range(count)]
        self.people = People(self.world, kind, self._starting, self.history.has_landed, self.history.sub_flow)
        self.acts = [act for address in self.flows for act in self.people.acts_of(address)]
        restarts = Random(f"{seed}-restarts")
        if kind is Kind.RESTARTED and restarts.random() < RESTARTED_TWICE_SHARE:
            self.acts += [self.people.restart_of(address, restarts) for address in self.flows for _ in range(2)]
        self.purged = kind not in UNSOUND and Random(f"{seed}-purge").random() < PURGED_SHARE
        self.began_at = self.world.now()
        keeps = Random(f"{seed}-kept")
        self.archived = self.world.versions is None and keeps.random() < ARCHIVED_SHARE
        if self.archived:
            self.code.keeping = keeping_of(keeps)
            self.others = [replace(each, keeping=self.code.keeping) for each in self.others]
            self.deliveries.archive.random, self.deliveries.archive.failures_left = keeps, keeps.choice((0, 1, 3))
            self.deliveries.archive.broken = keeps.random() < BROKEN_STORAGE_SHARE
        self.starts_late = Random(f"{seed}-late").random() < STARTED_LATE_SHARE
        if self.purged:
            self.acts.insert(min(len(self.acts), 2), Act("purge", self._purge))
        rest = FlowsAtRest(self.world.store, self.history, self.code, kind is Kind.NESTED, self.purged)
        self.rest = replace(rest, by_model=self.world.versions is None)  # the last release writes other logs
        settings.put(self.world.reliable_ports(), SEMAPHORE, SemaphoreSettings(1, LEASE_SECONDS))

    def purge_often(self, times: int, random: Random) -> None:
        """Purge the queues so many times among the acts."""
        self.purged = True
        self.rest = replace(self.rest, purged=True)
        for _ in range(times):
            self.acts.insert(random.randint(1, len(self.acts)), Act("purge", self._purge))

    def visits_of(self, address: FlowAddress, event: str, name: str) -> list[Act]:
        """Return the visits of two people who have the same address of a callback."""
        header = lambda of: self.history.headers.get(of.base)  # noqa: E731  the run that a visitor finds
        visitor = Visitor(self.world, address, event, name, header, self.history.has_landed)
        return [Act(f"visit {name} {number}", visitor.visit) for number in range(2)]

    def recreate(self, seconds: float) -> bool:
        """Delete the semaphore after a while, and create it again at once."""
        self.world.ports.clock.sleep(seconds)
        at_once = replace(self.world.reliable_ports(), queue=Refusing())
        semaphores_sweep.delete(at_once, SEMAPHORE)
        settings.put(at_once, SEMAPHORE, SemaphoreSettings(1, LEASE_SECONDS))
        REACHED[LOCKS_AGAIN] += 1
        return True

    def _purge(self) -> bool:
        self.deliveries.purge()
        return True

    def _deployed(self) -> Code:
        """Return the deployment that answers; some instances are of another one for a while."""
        if self.others_left and self.own.random() < 0.8:
            self.others_left -= 1
            REACHED[UPGRADED] += 1
            return self.own.choice(self.others)
        return self.code

    def _starting(self) -> Flows:
        return (self.others[0] if self.others_left else self.code).flows

    def _begin(self, act: Act) -> Callable[[], None]:
        def begin() -> None:
            answered: list[bool] = []
            self.world.start(act.name, lambda: answered.append(act.work()), lambda _: self._ended(act, any(answered)))

        return begin

    def _ended(self, act: Act, answered: bool) -> None:
        if not answered and act.repeats < REPEATS_MAX:
            act.repeats += 1
            self._begin(act)()

    # --- the run ---

    def run(self) -> None:
        """Run all acts; then without faults, with sound code; then cancel what waits; then remove everything."""
        self.world.run([self._begin(act) for act in self.acts])
        self._release()
        REACHED[FLOWS_STUCK] += any(header.stuck for header in self.rest.headers())
        self._check_deaths()
        if not self.purged:
            self.rest.check_woken()
        self.world.pass_an_outage()
        self.world.fault_rates.left = self.others_left = 0
        self.code.fixed = True
        self._release()
        self._sweep(FLOWS_LIMITS.flow_patient_seconds + 3_600 if self.purged else FLOWS_LIMITS.flow_stuck_seconds + 1)
        self.rest.check()
        for _ in range(2):
            unended = [header.address for header in self.rest.headers() if not header.end]
            self.world.run([self._begin(Act("end", partial(self.people.cancel, each))) for each in unended])
            self._sweep(CORE_LIMITS.outbox_patience_seconds + 1)
        self.rest.check()
        self.rest.check_ended()
        if not self.purged:
            self.rest.check_permits()
        self._check_announced()
        REACHED[BEGUN_AGAIN] += sum(header.generation for header in self.rest.headers())
        if self.starts_late:
            self._start_late()
        self._check_keeping()
        if self.archived:
            self._fail_to_archive()
        self._sweep(self.code.keeping.time.total_seconds() + DAY_SECONDS)
        for _ in range(REMOVALS_MAX if FLOWS_LIMITS.flow_removal_commits_max == 1 else 0):
            if not self.rest.left():
                break
            self._sweep(1)
        self.rest.check_removed()
        self.rest.check_permits()

    def _check_keeping(self) -> None:
        """Check that each run has the retention and the place of the code that ran it."""
        if self.archived and (
            others := [each.address for each in self.rest.headers() if each.begun and each.keeping != self.code.keeping]
        ):
            raise Violation(f"{others} are not kept as their code says")

    def _fail_to_archive(self) -> None:
        """Let the storage fail, in some worlds for longer than all runs are kept; then let it work again."""
        archive = self.deliveries.archive
        archive.broken = self.own.random() < BROKEN_STORAGE_SHARE
        self._sweep(self.code.keeping.time.total_seconds() + DAY_SECONDS if archive.broken else 0)
        archive.broken, archive.failures_left = False, 0
        for _ in range(ARCHIVED_AGAIN_MAX if FLOWS_LIMITS.flow_removal_commits_max == 1 else 1):
            self._sweep(FLOWS_LIMITS.flow_archive_seconds + 1)
        self._sweep((FLOWS_LIMITS.flow_kept_seconds + DAY_SECONDS) / SWEEPS)

    def _release(self) -> None:
        """Undo what people have done that would last."""

    def _start_late(self) -> None:
        """Deliver the tasks that started the flows again, on the last day on which a queue may do so."""
        runs = {header.address: header.incarnation for header in self.rest.headers()}
        left = DELIVERED_SECONDS - (self.world.now() - self.began_at).total_seconds()
        self._sweep(left / SWEEPS)
        names = [f"start {address.key}" for address in runs]
        self.world.run([self._begin(act) for act in self.acts if act.name in names])
        if others := [
            each.address for each in self.rest.headers() if runs.get(each.address, each.incarnation) != each.incarnation
        ]:
            raise Violation(f"a repeat of the start has begun other runs of {others}")

    def _sweep(self, seconds: float) -> None:
        for _ in range(SWEEPS):
            self.world.pass_time(seconds)
            self.world.start("sweep", lambda: sweep_all(self.world.ports))
            self.world.run()

    def _check_announced(self) -> None:
        for header in self.rest.headers():
            name = name_of("end", header.address.base, header.incarnation)
            if header.on_complete and not self.deliveries.told[name]:
                raise Violation(f"the end of {header.address.base} was never announced")
        if self.kind in SENDING:
            self._check_sent()
        for mark, names in self.deliveries.sent.items():
            if len(names) > 1:
                raise Violation(f"the task {mark} was sent under the names {names}")

    def _check_sent(self) -> None:
        """Check that the tasks were sent that the code sends; the logs of earlier runs and generations are gone."""
        sent, marks = self.deliveries.sent.keys(), self.rest.marks_sent()
        whole = not self.history.replaced
        if marks - sent or (whole and sent - marks):
            raise Violation(f"the tasks {sorted(sent)} were sent, and the code sends {sorted(marks)}")

    def _check_deaths(self) -> None:
        """Check that code which ends its process does not have a step repeated that went well."""
        if self.kind in CALM and (often := [name for name, n in self.deliveries.starts.items() if n > 2]):
            raise Violation(f"the steps {often} were run more than twice")


def sweep_all(ports: Ports) -> None:
    """Run the sweepers of flows and of what they use."""
    for part in (outbox.sweep, sweep.sweep, semaphores_sweep.sweep):
        try:
            part(ports)
        except Unavailable:
            continue
