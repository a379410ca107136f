"""Reads and guarded writes of semaphores.

    read the record ──► read queue and releases, as the decision asks ──► decide ──► commit ──► alarm and nudge
      ▲                                                                     │ conflict, or no answer
      └─────────────────────────── jittered pause ──────────────────────────┘

`change` runs this loop with `perform`. It is always safe to decide again: from the wait's id, its lease or the
operation's name, a decision recognises an earlier commit of the same operation. If the answer of a commit was lost, the
record is read again before anything is concluded.

Alarm and nudge need no outbox: `alarm_at` and `sweep_at` in the record lead the sweeper to tasks that were not created.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import (
    REMOVE,
    SERVER_TIME,
    Change,
    Committed,
    Conflict,
    Delete,
    Guard,
    Must,
    Ports,
    Put,
    Query,
    Snapshot,
    Store,
    Write,
)
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.queue_order import read_in_order
from signalbox.core.records.queries import Order as OrderBy
from signalbox.core.times import microseconds
from signalbox.semaphores.machine import decision_types, lanes
from signalbox.semaphores.machine.decision_types import Head, Loaded, QueueReads, Rule, Transition, WaiterTransition
from signalbox.semaphores.model.known_head import NOTHING_KNOWN, KnownHead
from signalbox.semaphores.model.lanes import PLAIN, place_field
from signalbox.semaphores.model.leases import LeaseRecord, Release
from signalbox.semaphores.model.semaphore import Semaphore, path_of, release_path, waiter_path
from signalbox.semaphores.model.waiters import Waiter
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import check_name

Answer = TypeVar("Answer")

SINCE = OrderBy(("since",))
LANE = OrderBy(("lane",))
EXPIRES_AT = OrderBy(("expires_at",))
NOT_CREATED = "admit run not created, left to the sweeper"


# --- change ---


@dataclass(frozen=True, slots=True)
class Changed(Generic[Answer]):
    """The transition that was committed, or had nothing to commit (`committed` is None), and the records behind it."""

    loaded: Loaded
    transition: Transition[Answer]
    committed: Committed | None

    @property
    def answer(self) -> Answer:
        """The transition's answer."""
        return self.transition.answer

    def came_before(self, end: datetime) -> bool:
        """Return whether the commit, if there was one, was before a lease's end."""
        return self.committed is None or self.committed.commit_time < end


def change(
    ports: Ports, reads: "SemaphoreReads", rule: Rule[Answer], *, attempts_max: int | None = None
) -> Changed[Answer]:
    """Change a semaphore by a decision, and create the alarm and the nudge that it needs.

    Raises `NoSemaphore`, the errors of the decision, or `Contended` if every commit failed or has an unknown outcome.
    """

    def decide(loaded: Loaded) -> Decision[Writes, tuple[Loaded, Transition[Answer]]]:
        transition = decision_types.with_alarm(rule(loaded), loaded.now)
        if not transition.commits(loaded):
            return Decision((), (loaded, transition))
        return Decision(transition_writes(loaded, transition), (loaded, transition), _effects(loaded, transition))

    retry_on = (Conflict, Unavailable)
    (loaded, transition), committed = perform(ports, reads, decide, attempts_max=attempts_max, retry_on=retry_on)
    _announce(ports, loaded, transition, committed)
    return Changed(loaded, transition, committed)


def transition_writes(loaded: Loaded, transition: Transition[Any]) -> Writes:
    """Return a transition's writes, the semaphore last: a reader that sees only some of them sees its old record."""
    record = transition.semaphore.to_record(loaded.now)
    return (*writes_of(loaded, transition), Put(path_of(loaded.name), record, loaded.update_time))


def _effects(loaded: Loaded, transition: Transition[Any]) -> tuple[Any, ...]:
    """Return the effects of the commit. If there are any, they include the alarm."""
    if not transition.effects:
        return ()
    return (*transition.effects, *decision_types.new_alarm(loaded, transition.semaphore))


def _announce(ports: Ports, loaded: Loaded, transition: Transition[Any], committed: Committed | None) -> None:
    """Create the alarm and the nudge of a transition. If this fails, the record leads the sweeper to both."""
    try:
        if committed and not transition.effects:
            ports.queue.create(decision_types.new_alarm(loaded, transition.semaphore))
        if transition.nudge:
            nudge(ports, loaded, committed.commit_time if committed else loaded.now)
    except (Unavailable, Problem):
        ports.log.info(NOT_CREATED, semaphore=loaded.name)


def nudge(ports: Ports, loaded: Loaded, moment: datetime) -> None:
    """Create the admit run that sees the commits made at `moment`. Raises `Unavailable`."""
    ports.queue.create([decision_types.nudge_task(loaded.name, loaded.incarnation, moment)])


# --- read ---


def no_reads(_: Loaded) -> QueueReads:
    """Choose no reads: the decision needs the semaphore's record alone."""
    return QueueReads()


def no_lease(_: Loaded) -> None:
    """Choose no lease: no release is read."""


@dataclass(frozen=True, slots=True)
class SemaphoreReads:
    """The read plan: the semaphore's record, together with a wait's; then `releases`; then the queue by `queue_reads`.

    - `wait_id`: the wait whose record is read.
    - `wait_from_attempt`: the first attempt that reads this record. Earlier attempts rely on a create, whose
      precondition fails if the record exists.
    - `lease_of`: if this function returns a lease, all records are read again together with the release of that lease,
      because only a read at one instant shows whether the lease is held.
    - `lease_from_attempt`: the first attempt that reads the release. The commits of earlier attempts require that there
      is no release.
    - `releases`: the number of releases to read.
    """

    name: str
    queue_reads: Callable[[Loaded], QueueReads] = no_reads
    wait_id: str | None = None
    wait_from_attempt: int = 0
    lease_of: Callable[[Loaded], LeaseRecord | None] = no_lease
    lease_from_attempt: int = 0
    releases: int = 0

    @property
    def path(self) -> str:
        """The path of the semaphore's record."""
        return path_of(self.name)

    def load(self, store: Store, attempt: int) -> Loaded:
        """Load the semaphore and then, never before, its wait queue. Raises `NoSemaphore`."""
        check_name(self.name)
        loaded = self._read(store, attempt)
        if attempt >= self.lease_from_attempt and (lease := self.lease_of(loaded)):
            loaded = self._read(store, attempt, release_path(self.name, lease.lease_id))
        loaded = read_releases(store, loaded, self.releases)
        return read_queue(store, loaded, self.queue_reads(loaded))

    def _read(self, store: Store, attempt: int, release: str = "") -> Loaded:
        """Read, at one instant, the semaphore, the wait, and a release that was left."""
        with_wait = self.wait_id is not None and attempt >= self.wait_from_attempt
        wait = waiter_path(self.name, self.wait_id or "") if with_wait else ""
        records = {record.path: record for record in store.read(*filter(None, (self.path, wait, release)))}
        loaded = loaded_from(self.name, records[self.path])
        if wait:
            loaded = replace(loaded, wait=read_waiter(records[wait]), wait_read=True)
        return replace(loaded, release=read_release(records[release])) if release else loaded


def load(ports: Ports, name: str) -> Loaded:
    """Load a semaphore's record. Raises `NoSemaphore`."""
    return SemaphoreReads(name).load(ports.store, 0)


def loaded_from(name: str, snapshot: Snapshot) -> Loaded:
    """Return the contents of a semaphore's record. Raises `NoSemaphore`."""
    if snapshot.data is None:
        raise NoSemaphore(f"Semaphore {name!r} does not exist. Create it with `PUT`, or check its name.", field="name")
    semaphore = Semaphore.from_record(snapshot.data)
    return Loaded(name, semaphore, incarnation_of(snapshot), snapshot.read_time, snapshot.update_time)


def incarnation_of(snapshot: Snapshot) -> int:
    """Return a semaphore's create time in microseconds, which distinguishes semaphores of the same name."""
    assert snapshot.create_time is not None, "a record that exists has a create time"
    return microseconds(snapshot.create_time)


def read_waiter(snapshot: Snapshot) -> Waiter | None:
    """Return the wait of a record, or None if the record does not exist."""
    if snapshot.data is None:
        return None
    return Waiter.from_record(snapshot.id, snapshot.data, snapshot.update_time, snapshot.create_time)


def read_release(snapshot: Snapshot) -> Release | None:
    """Return the release of a record, or None if the record does not exist."""
    return None if snapshot.data is None else Release.from_record(snapshot.data, snapshot.create_time)


def waiters_query(name: str, limit: int, after: tuple[datetime | str, str] | None = None, lane: str = PLAIN) -> Query:
    """Return the query of the first waiters of a lane by `since`. Only waiters in the queue have the queried field."""
    order = SINCE if lane == PLAIN else OrderBy(("places", place_field(lane)))
    return Query(f"{path_of(name)}/waiters", order_by=(order,), limit=limit, after=after or ())


def lanes_query(name: str, limit: int, after: tuple[datetime | str, str] | None = None) -> Query:
    """Return the query of the first waiters of all lanes except the plain one, by lane and id."""
    return Query(f"{path_of(name)}/waiters", order_by=(LANE,), limit=limit, after=after or ())


def first_waiters(store: Store, name: str, semaphore: Semaphore, limit: int) -> tuple[Snapshot, ...]:
    """Read the first waiters by `since`, and then those of other lanes by lane."""
    found = store.query(waiters_query(name, limit))
    return (*found, *store.query(lanes_query(name, limit)))[:limit] if semaphore.lanes else found


def count_waiters(store: Store, name: str, semaphore: Semaphore) -> int:
    """Return the number of waiters in all lanes."""
    return store.count(waiters_query(name, 1)) + (store.count(lanes_query(name, 1)) if semaphore.lanes else 0)


def read_queue(store: Store, loaded: Loaded, reads: QueueReads) -> Loaded:
    """Read the waiters and receipts that a decision needs in addition to the record."""
    loaded = replace(loaded, reads=reads)
    if reads.waiters and reads.in_order:
        loaded = _read_lanes(store, loaded) if loaded.semaphore.lanes else _read_plain(store, loaded)
    elif reads.waiters:
        first = lanes_query if reads.by_lane else waiters_query
        page = _waiters(store.query(first(loaded.name, reads.waiters, reads.after)))
        loaded = replace(loaded, waiters=page, more_waiters=len(page) == reads.waiters)
    if reads.receipts:
        query = Query(f"{path_of(loaded.name)}/waiters", order_by=(EXPIRES_AT,), limit=reads.receipts)
        loaded = replace(loaded, receipts=_waiters(store.query(query)))
    return loaded


def read_releases(store: Store, loaded: Loaded, limit: int) -> Loaded:
    """Read the releases that were left for an admit run, always before the wait queue. A limit of 0 reads none."""
    if not limit:
        return loaded
    found = store.query(Query(f"{path_of(loaded.name)}/releases", limit=limit))
    releases = (Release.from_record(snapshot.data or {}, snapshot.create_time) for snapshot in found)
    return replace(loaded, releases=tuple(releases))


def _read_plain(store: Store, loaded: Loaded) -> Loaded:
    head = _read_head(store, loaded, PLAIN, loaded.semaphore.known, loaded.reads.waiters)
    return replace(loaded, waiters=head.waiters, more_waiters=head.more, known=head.known)


def _read_lanes(store: Store, loaded: Loaded) -> Loaded:
    """Read the lanes whose turn it is. A lane that is found empty passes its turn, so others are read after it."""
    known = {lane.id: lane.known for lane in loaded.semaphore.lanes}
    while needed := lanes.reads_needed(loaded, loaded.reads.waiters):
        heads = {lane: _read_head(store, loaded, lane, known[lane], count) for lane, count in needed.items()}
        loaded = replace(loaded, heads={**loaded.heads, **heads})
    return replace(loaded, waiters=lanes.in_turn(loaded), more_waiters=True)


def _read_head(store: Store, loaded: Loaded, lane: str, known: KnownHead, count: int) -> Head:
    """Read the first waiters of a lane in their order: the known ones, or by a query."""
    return _read_known(store, loaded, known, count) or _read_in_order(store, loaded, lane, known, count)


def _read_known(store: Store, loaded: Loaded, known: KnownHead, count: int) -> Head | None:
    """Read the first waiters of the known head. Return None if it is too short or one of them no longer waits."""
    if count > len(known.ids):
        return None
    found = _waiters(store.read(*(waiter_path(loaded.name, id_) for id_ in known.ids[:count])))
    if len(found) < count or not all(known.has(waiter, loaded.incarnation) for waiter in found):
        return None
    return Head(found, more=True, known=known.behind(count), asked=count)


def _read_in_order(store: Store, loaded: Loaded, lane: str, known: KnownHead, count: int) -> Head:
    """Read the first waiters by a query."""

    def read(limit: int) -> tuple[Waiter, ...]:
        return _waiters(store.query(waiters_query(loaded.name, limit, lane=lane)))

    head, more = read_in_order(read, known.page(count))
    own = [waiter for waiter in head[count:] if waiter.incarnation == loaded.incarnation]
    return Head(head[:count], more or len(head) > count, NOTHING_KNOWN.after(own), count)


def _waiters(snapshots: Iterable[Snapshot]) -> tuple[Waiter, ...]:
    return tuple(waiter for snapshot in snapshots if (waiter := read_waiter(snapshot)))


# --- write ---


def writes_of(loaded: Loaded, transition: Transition[Any]) -> list[Write]:
    """Return the writes of a transition, except the semaphore's own."""
    name, now = loaded.name, loaded.now
    waiters = [waiter_write(name, waiter, now) for waiter in transition.waiters]
    created = [create_release(name, release) for release in transition.releases_created]
    applied: list[Write] = [Delete(release_path(name, release.lease_id)) for release in transition.releases_applied]
    required = [Delete(release_path(name, lease.lease_id), Must.NOT_EXIST) for lease in transition.unreleased]
    written = [*waiters, *created, *applied, *required]
    return [*written, *_notes(name, transition, {write.path for write in written})]


def waiter_write(name: str, transition: WaiterTransition, now: datetime) -> Write:
    """Return the guarded write of a waiter's transition."""
    waiter = transition.waiter
    path = waiter_path(name, waiter.id)
    match transition.kind:
        case "created":
            return put_waiter(path, waiter, now, Must.NOT_EXIST)
        case "left":
            return leave(path, waiter, now)
        case "requeued":
            return requeue(path, waiter)
        case "kept":
            return _change(path, {"expires_at": _expiry(now)}, waiter.version)
        case "removed":
            return Delete(path, waiter.version)


def put_waiter(path: str, waiter: Waiter, now: datetime, guard: Guard) -> Write:
    """Return the write of a wait's record. The wait's place in the queue is the create time, to which `since` is close.

    In a lane, `since` is the read time of the decision, which is before the create time.
    """
    since = SERVER_TIME if waiter.lane == PLAIN else now
    place = _place(waiter, since) if waiter.state == "waiting" else {"expires_at": _expiry(now)}
    return Put(path, waiter.to_record() | {"joined": SERVER_TIME} | place, guard)


def _place(waiter: Waiter, since: Any) -> dict[str, Any]:
    """Return the fields by which a query of a waiter's lane finds the waiter."""
    if waiter.lane == PLAIN:
        return {"since": since}
    return {"lane": waiter.lane, "places": {place_field(waiter.lane): since}}


def leave(path: str, waiter: Waiter, now: datetime) -> Write:
    """Return the write that takes a waiter out of the queue and keeps its record, if unchanged, as a receipt."""
    fields: dict[str, Any] = {"state": waiter.state, "expires_at": _expiry(now)}
    fields |= dict.fromkeys(_place(waiter, None), REMOVE)
    if waiter.state == "granted":
        fields["grant"] = waiter.grant
    return _change(path, fields, waiter.version)


def requeue(path: str, waiter: Waiter) -> Change:
    """Return the write that puts a waiter back into its old place."""
    fields = {"state": waiter.state, "grant": waiter.grant, "expires_at": REMOVE, **_place(waiter, waiter.since)}
    fields |= {"deadline_at": waiter.deadline_at, "resumes": waiter.request.resumes, "resumed": waiter.request.resumed}
    return _change(path, fields, waiter.version)


def create_release(name: str, release: Release) -> Put:
    """Return the write that creates the record of a token's end. A second creation of this record fails."""
    return Put(release_path(name, release.lease_id), release.to_record(), Must.NOT_EXIST)


def _change(path: str, fields: dict[str, Any], guard: datetime | None) -> Change:
    assert guard is not None, "a waiter that changes was read"
    return Change(path, {(name,): value for name, value in fields.items()}, guard)


def _notes(name: str, transition: Transition[Any], written: set[str]) -> list[Write]:
    """Return the writes that note evicted leases for their waits, except in records that this commit writes anyway."""
    evicted = {waiter_path(name, lease.id): lease for lease in transition.evicted}
    return [_lost(path, evicted[path]) for path in sorted(evicted.keys() - written)]


def _lost(path: str, lease: LeaseRecord) -> Change:
    """Return the write that notes an evicted lease for its wait. If the lease was claimed, the wait cannot time out."""
    started: dict[tuple[str, ...], Any] = {("deadline_at",): None} if lease.claimed else {}
    return Change(path, {("state",): "lost", **started}, Must.EXIST)


def _expiry(now: datetime) -> datetime:
    return now + timedelta(seconds=CORE_LIMITS.receipt_seconds)
