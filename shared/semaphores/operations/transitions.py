"""Load a semaphore, apply a rule, commit the transition, announce what must follow.

    read the record ──► read queue and releases, as the rule asks ──► rule ──► commit ──► alarm and nudge
      ▲                                                                  │ lost, or the answer is not known
      └────────────────────────── jittered pause ────────────────────────┘

The loop is `perform`. Deciding again is always safe: a rule finds what an earlier commit of the same operation has done
by its wait's id, its lease or its operation's name, so an answer that was lost is concluded from the record. Nothing is
concluded before the record was read again.

Alarm and nudge need no outbox: `alarm_at` and `sweep_at` in the record tell the sweeper what was promised.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Committed, Conflict, Ports, Put, Snapshot, Store
from shared.core.rules.effects import Decision
from shared.core.rules.problems import NoSemaphore, Problem, Unavailable
from shared.semaphores.operations.records import (
    incarnation_of,
    read_queue,
    read_release,
    read_releases,
    read_waiter,
    release_path,
    waiter_path,
    writes_of,
)
from shared.semaphores.rules import tasks
from shared.semaphores.rules import transitions as rules
from shared.semaphores.rules.leases import LeaseRecord
from shared.semaphores.rules.requests import check_name
from shared.semaphores.rules.semaphores import Semaphore, path_of
from shared.semaphores.rules.transitions import Loaded, QueueReads, Rule, Transition
from shared.semaphores.rules.waiters import Waiter

Answer = TypeVar("Answer")

NOT_CREATED = "admit run not created, left to the sweeper"


def no_reads(_: Loaded) -> QueueReads:
    """Decide by the record alone."""
    return QueueReads()


def no_lease(_: Loaded) -> None:
    """Decide about no lease whose release may have been left."""


@dataclass(frozen=True, slots=True)
class SemaphoreReads:
    """The read plan: the semaphore's record, and with it a wait's; then `releases`, then what `queue_reads` chooses.

    The record of `wait_id` is read from the attempt `wait_from_attempt` on: a create guards itself. If `lease_of` finds
    a lease, all is read again together with its release: only one instant tells whether it is held.
    """

    name: str
    queue_reads: Callable[[Loaded], QueueReads] = no_reads
    wait_id: str | None = None
    wait_from_attempt: int = 0
    lease_of: Callable[[Loaded], LeaseRecord | None] = no_lease
    releases: int = 0

    @property
    def path(self) -> str:
        """Return the path of the semaphore's record."""
        return path_of(self.name)

    def load(self, store: Store, attempt: int) -> Loaded:
        """Load the semaphore; then, never before, its wait queue. Raises `NoSemaphore`."""
        check_name(self.name)
        loaded = self._read(store, attempt)
        if lease := self.lease_of(loaded):
            loaded = self._read(store, attempt, release_path(self.name, lease.lease_id))
        loaded = read_releases(store, loaded, self.releases)
        return read_queue(store, loaded, self.queue_reads(loaded))

    def _read(self, store: Store, attempt: int, release: str = "") -> Loaded:
        """Read, at one instant, the semaphore, the wait, and a release that was left."""
        with_wait = self.wait_id is not None and attempt >= self.wait_from_attempt
        wait = waiter_path(self.name, self.wait_id or "") if with_wait else ""
        snapshot, *others = store.read(self.path, *filter(None, (wait, release)))
        loaded = loaded_from(self.name, snapshot)
        if with_wait:
            loaded = replace(loaded, wait=read_waiter(others[0]), wait_read=True)
        return replace(loaded, release=read_release(others[-1])) if release else loaded


def loaded_from(name: str, snapshot: Snapshot) -> Loaded:
    """Return what a semaphore's record holds. Raises `NoSemaphore`."""
    if snapshot.data is None:
        raise NoSemaphore(f"There is no semaphore {name!r}.", field="name")
    semaphore = Semaphore.from_record(snapshot.data)
    return Loaded(name, semaphore, incarnation_of(snapshot), snapshot.read_time, snapshot.update_time)


@dataclass(frozen=True, slots=True)
class Changed(Generic[Answer]):
    """The transition that landed, or that had nothing to commit (`committed` is None), and what it rests on."""

    loaded: Loaded
    transition: Transition[Answer]
    committed: Committed | None

    @property
    def answer(self) -> Answer:
        """Return the transition's answer."""
        return self.transition.answer

    def came_before(self, end: datetime) -> bool:
        """Return whether the commit, if there was one, came before a lease's end."""
        return self.committed is None or self.committed.commit_time < end


def change(
    ports: Ports, reads: SemaphoreReads, rule: Rule[Answer], *, attempts_max: int | None = None
) -> Changed[Answer]:
    """Change a semaphore by a rule, and announce what must follow.

    Raises `NoSemaphore`, what the rule raises, or `Contended` when the commit kept losing or its answer is not known.
    """

    def decide(loaded: Loaded) -> Decision[Writes, tuple[Loaded, Transition[Answer]]]:
        transition = rules.with_alarm(rule(loaded), loaded.now)
        if not transition.commits(loaded):
            return Decision((), (loaded, transition))
        return Decision(_writes(loaded, transition), (loaded, transition), _effects(loaded, transition))

    retry_on = (Conflict, Unavailable)
    (loaded, transition), committed = perform(ports, reads, decide, attempts_max=attempts_max, retry_on=retry_on)
    _announce(ports, loaded, transition, committed)
    return Changed(loaded, transition, committed)


def load(ports: Ports, name: str, wait_id: str | None = None) -> Loaded:
    """Load a semaphore, and with it a wait. Raises `NoSemaphore`."""
    return SemaphoreReads(name, wait_id=wait_id).load(ports.store, 0)


def nudge(ports: Ports, loaded: Loaded, moment: datetime) -> None:
    """Create the admit run that sees what was committed at `moment`. Raises `Unavailable`."""
    ports.queue.create([tasks.nudge_task(loaded.name, loaded.incarnation, moment)])


def wake_behind(ports: Ports, name: str, departed: Waiter) -> None:
    """Enqueue an admit run for the wait queue behind a waiter that left it, if that has made room for the next.

    Only one that wanted several permits can have kept free ones from others. If this fails, the sweeper finds it.
    """
    if departed.permits == 1:
        return
    try:
        loaded = load(ports, name)
        if loaded.semaphore.has_room(loaded.now):
            nudge(ports, loaded, loaded.now)
    except (Unavailable, Problem):
        ports.log.info(NOT_CREATED, semaphore=name)


def _writes(loaded: Loaded, transition: Transition[Any]) -> Writes:
    """Return the writes, last the semaphore's own: who finds half of them finds its old record, and loses its guard."""
    record = transition.semaphore.to_record(loaded.now)
    return (*writes_of(loaded, transition), Put(path_of(loaded.name), record, loaded.update_time))


def _effects(loaded: Loaded, transition: Transition[Any]) -> tuple[Any, ...]:
    """Return the effects of the commit; an alarm goes with them, where there are any."""
    if not transition.effects:
        return ()
    return (*transition.effects, *rules.new_alarm(loaded, transition.semaphore))


def _announce(ports: Ports, loaded: Loaded, transition: Transition[Any], committed: Committed | None) -> None:
    """Create the alarm and the nudge of a transition. If this fails, the sweeper finds both in the record."""
    try:
        if committed and not transition.effects:
            ports.queue.create(rules.new_alarm(loaded, transition.semaphore))
        if transition.nudge:
            nudge(ports, loaded, committed.commit_time if committed else loaded.now)
    except (Unavailable, Problem):
        ports.log.info(NOT_CREATED, semaphore=loaded.name)
