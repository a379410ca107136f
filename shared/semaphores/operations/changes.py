"""Change one semaphore: load, look at its line where that matters, decide, commit under the guard, announce.

    read the record ──► look at line and releases, as `looks` asks ──► decide ──► commit ──► alarm and nudge
      ▲                 (not if the semaphore is open)                    │ lost or not known
      └────────────────────── jittered pause ────────────────────────────┘

Deciding again is always safe: a decision finds what an earlier commit of the same operation has done by its wait's id,
its lease or its operation's name, so an answer that was lost is concluded from the record. Nothing is concluded before
the record was read again.

Alarm and nudge need no outbox: `alarm_at` and `sweep_at` in the record tell the sweeper what was promised.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from shared.core.operations import outbox
from shared.core.operations.perform import pause
from shared.core.operations.ports import Change, Committed, Conflict, Must, Order, Ports, Put, Query, Snapshot, Write
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore, Problem, Unavailable
from shared.core.rules.times import microseconds
from shared.semaphores.rules import semaphores
from shared.semaphores.rules.leases import Held
from shared.semaphores.rules.requests import check_name
from shared.semaphores.rules.semaphores import Semaphore

QUEUE = "admit"
FUNCTION = "semaphore_admit"
SINCE = ("since",)

Answer = TypeVar("Answer")


class Contended(Unavailable):
    """Others were faster too often."""


@dataclass(frozen=True, slots=True)
class Looks:
    """How many of the line, and of the releases, a decision wants to see; 0: it does not look."""

    waiters: int = 0
    releases: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """What a decision rests on. `others` are further records of the same read; line and releases came after it."""

    name: str
    semaphore: Semaphore
    snapshot: Snapshot
    others: tuple[Snapshot, ...] = ()
    line: tuple[Snapshot, ...] = ()
    releases: tuple[Snapshot, ...] = ()
    looked: bool = False

    @property
    def now(self) -> datetime:
        return self.snapshot.read_time

    @property
    def incarnation(self) -> int:
        """Tell this semaphore from others that had its name."""
        return incarnation_of(self.snapshot)


@dataclass(frozen=True, slots=True)
class Step(Generic[Answer]):
    """A decision: the semaphore that follows, the answer, what else to write, and whether an admit run must follow.

    `spilled` are lapsed leases without room in the record; what became of them is noted at their waiters.

    A step whose semaphore is as it was, and that writes nothing, commits nothing.
    """

    semaphore: Semaphore
    answer: Answer
    writes: tuple[Write, ...] = ()
    effects: tuple[Effect, ...] = ()
    nudge: bool = False
    spilled: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class Done(Generic[Answer]):
    """The answer of the step that landed, or that had nothing to commit (`committed` is None)."""

    answer: Answer
    seen: Seen
    committed: Committed | None = None


def incarnation_of(snapshot: Snapshot) -> int:
    """Give a semaphore's create time in microseconds."""
    assert snapshot.create_time is not None, "what exists was created"
    return microseconds(snapshot.create_time)


def waiter_path(name: str, id_: str) -> str:
    """Give the path of a wait's record."""
    return f"{semaphores.path_of(name)}/waiters/{id_}"


def release_path(name: str, lease: str) -> str:
    """Give the path of the record of a signal that was left to an admit run."""
    return f"{semaphores.path_of(name)}/releases/{lease}"


def no_look(_: Seen) -> Looks:
    """Decide by the record alone."""
    return Looks()


def change(
    ports: Ports,
    name: str,
    decide: Callable[[Seen], Step[Answer]],
    *,
    looks: Callable[[Seen], Looks] = no_look,
    beside: Callable[[int], Sequence[str]] = lambda _: (),
    rounds: int = LIMITS.rounds_max,
) -> Done[Answer]:
    """Change a semaphore; ``beside(round)`` are the paths of records to read with it.

    Raises `NoSemaphore`, or `Contended` when the commit kept losing or its answer is not known.
    """
    for attempt in range(rounds):
        seen = see(ports, name, looks, beside(attempt))
        step = _armed(decide(seen), seen)
        if step.semaphore == seen.semaphore and not step.writes:
            announce(ports, seen, step, None)
            return Done(step.answer, seen)
        try:
            committed = _commit(ports, seen, step)
        except (Conflict, Unavailable):
            pause(ports, attempt)
        else:
            announce(ports, seen, step, committed)
            return Done(step.answer, seen, committed)
    raise Contended(f"semaphore {name} is written by many at once")


def see(ports: Ports, name: str, looks: Callable[[Seen], Looks] = no_look, beside: Sequence[str] = ()) -> Seen:
    """Load a semaphore; then, never before, look at its line and its releases. Raises `NoSemaphore`."""
    snapshot, *others = ports.store.read(semaphores.path_of(check_name(name)), *beside)
    if snapshot.data is None:
        raise NoSemaphore(f"There is no semaphore {name!r}.", field="name")
    seen = Seen(name, semaphores.decode(snapshot.data), snapshot, tuple(others))
    wanted = looks(seen)
    releases = ports.store.query(Query(f"{snapshot.path}/releases", limit=wanted.releases)) if wanted.releases else ()
    line = ports.store.query(line_query(name, wanted.waiters)) if wanted.waiters else ()
    return replace(seen, line=line, releases=releases, looked=wanted.waiters > 0)


def line_query(name: str, limit: int) -> Query:
    """Ask for the head of the line. Only who waits has `since`."""
    return Query(f"{semaphores.path_of(name)}/waiters", order_by=(Order(SINCE),), limit=limit)


def nudge(ports: Ports, name: str, incarnation: int, moment: datetime) -> None:
    """Have an admit run look at what was committed at `moment`; one run for all of a slot. Raises `Unavailable`."""
    ends_at = slot_end(moment)
    task = name_of(semaphores.path_of(name), incarnation, "admit", microseconds(ends_at))
    ports.queue.create([_admit_task(task, name, ends_at, ends_at + timedelta(seconds=LIMITS.admit_margin_seconds))])


def slot_end(moment: datetime) -> datetime:
    """Say when the slot that a server's time lies in is over."""
    width = round(LIMITS.admit_slot_seconds * 1_000_000)
    return moment + timedelta(microseconds=width - microseconds(moment) % width)


def alarm(name: str, incarnation: int, at: datetime) -> Effect:
    """Ask for an admit run when a lease ends."""
    task = name_of(semaphores.path_of(name), incarnation, "alarm", microseconds(at))
    return _admit_task(task, name, at, at)


def announce(ports: Ports, seen: Seen, step: Step[Any], committed: Committed | None) -> None:
    """Create the alarm and the nudge that a step calls for. What fails here is found by the sweeper in the record."""
    try:
        if committed and not step.effects:
            ports.queue.create(_new_alarm(seen, step.semaphore))
        if step.nudge:
            nudge(ports, seen.name, seen.incarnation, committed.commit_time if committed else seen.now)
    except (Unavailable, Problem):
        ports.log.info("passing permits on is left to the sweeper", semaphore=seen.name)


def _admit_task(task: str, name: str, at: datetime, due: datetime) -> Effect:
    payload: Mapping[str, Any] = {"semaphore": name, "at": at.isoformat()}
    return Effect(task, QUEUE, FUNCTION, "admit", payload, not_before=due)


def _armed(step: Step[Answer], seen: Seen) -> Step[Answer]:
    return replace(step, semaphore=step.semaphore.armed(seen.now))


def _new_alarm(seen: Seen, after: Semaphore) -> tuple[Effect, ...]:
    if after.alarm_at is None or after.alarm_at == seen.semaphore.alarm_at:
        return ()
    return (alarm(seen.name, seen.incarnation, after.alarm_at),)


def _commit(ports: Ports, seen: Seen, step: Step[Any]) -> Committed:
    """Commit under the record's guard; an alarm goes with the other effects, where there are any."""
    record = Put(seen.snapshot.path, semaphores.encode(step.semaphore, seen.now), seen.snapshot.guard)
    effects = (*step.effects, *_new_alarm(seen, step.semaphore)) if step.effects else ()
    return outbox.commit(ports, [record, *step.writes, *_notes(seen.name, step)], effects)


def _notes(name: str, step: Step[Any]) -> list[Write]:
    """Note lost leases at their waiters; one that is written anyway is another life of its wait, and owed nothing."""
    written = {write.path for write in step.writes}
    paths = {waiter_path(name, lapsed.id) for lapsed in step.spilled} - written
    return [Change(path, {("state",): "lost"}, Must.EXIST) for path in sorted(paths)]
