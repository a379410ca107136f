"""The operations on semaphores: load, decide, commit, and create the tasks that must follow.

A wait reaches the wait queue in one of two ways:

    guarded     one commit closes the semaphore and creates the waiter
    combining   behind others, or under contention, the waiter is created alone, by a commit that cannot conflict. Then
                the semaphore is read again, and closed if it is not, before the caller is answered "waiting". If it was
                closed and had no free permit, the operation that frees one reads the wait queue; otherwise an admit run
                does

A signal ends the lease and grants its permits in one commit. Under contention it leaves a release, a record of its own
that an admit run applies. `released` means that the lease was held under this token, and that the commit was before its
end.

A continuation starts by claiming its grant. If the lease expired before, the wait returns to its old place in the wait
queue. If the lease no longer exists, a signal ended it, and the continuation does not run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.paging import with_prefix
from signalbox.core.perform import Writes, pause, perform
from signalbox.core.ports import AlreadyExists, Conflict, Delete, Must, Ports, Put, Query, Snapshot
from signalbox.core.problems import Contended, NotFound, Unavailable
from signalbox.core.queries import Condition
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import leases, settings, waits
from signalbox.semaphores.machine.deadlocks import HeldPermits, WaitForGraph, WantedPermits, cycles
from signalbox.semaphores.machine.decision_types import Loaded, QueueReads, Transition, Undecided, deadline_task
from signalbox.semaphores.machine.leases import EndLease, Renewal
from signalbox.semaphores.machine.wait_queue import head_of
from signalbox.semaphores.model.leases import Lease, LeaseRecord, parse_lease_id
from signalbox.semaphores.model.semaphore import COLLECTION, Semaphore, SemaphoreView, path_of, waiter_path
from signalbox.semaphores.model.waiters import NOT_ACQUIRED, WaitAnswer, Waiter
from signalbox.semaphores.problems import BadSemaphore, NoSemaphore
from signalbox.semaphores.requests import (
    RenewRequest,
    SemaphoreSettings,
    SemaphoresQuery,
    SettingsPatch,
    SignalRequest,
    WaitRequest,
    check_name,
)
from signalbox.semaphores.storage import (
    SemaphoreReads,
    change,
    count_waiters,
    create_release,
    first_waiters,
    incarnation_of,
    load,
    nudge,
    put_waiter,
    read_waiter,
    waiter_write,
)

# --- settings ---


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """A semaphore after a `PUT` or `PATCH`, whether the call created it, and the number of waits that it ended."""

    view: SemaphoreView
    created: bool = False
    waits_ended: int = 0


def put(ports: Ports, name: str, wanted: SemaphoreSettings) -> ChangedSettings:
    """Create a semaphore or set its settings; leases and waiters stay. Raises `BadKey` or `Unavailable`.

    Fewer permits limit new grants, and end the waits that need more. Additional permits are granted to waiters.
    """
    check_name(name)
    for attempt in range(CORE_LIMITS.rounds_max):
        try:
            return _set(ports, name, lambda _: wanted)
        except NoSemaphore:
            if (created := _create(ports, name, wanted)) is not None:
                return ChangedSettings(created, created=True)
            pause(ports, attempt)
    raise Unavailable(f"semaphore {name} is created and deleted by many callers at once")


def patch(ports: Ports, name: str, request: SettingsPatch) -> ChangedSettings:
    """Change some settings. Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`."""
    return _set(ports, name, request.applied_to)


def pause_grants(ports: Ports, name: str) -> SemaphoreView:
    """Grant no permits until `resume_grants`; leases stay, and waiters keep their places.

    Raises `NoSemaphore` or `Unavailable`.
    """
    return _switch(ports, name, settings.pause)


def resume_grants(ports: Ports, name: str) -> SemaphoreView:
    """Grant permits again, to the waiters first. Raises `NoSemaphore` or `Unavailable`."""
    return _switch(ports, name, settings.resume)


def _switch(ports: Ports, name: str, switched: Callable[[Loaded], Transition[Semaphore]]) -> SemaphoreView:
    done = change(ports, SemaphoreReads(check_name(name), lambda _: QueueReads()), switched)
    return SemaphoreView(name, done.answer, done.loaded.now)


def _set(ports: Ports, name: str, changed: Callable[[SemaphoreSettings], SemaphoreSettings]) -> ChangedSettings:
    def wanted(loaded: Loaded) -> SemaphoreSettings:
        return changed(settings.settings_of(loaded.semaphore))

    def reads(loaded: Loaded) -> QueueReads:
        return settings.settings_reads(loaded, wanted(loaded))

    def rule(loaded: Loaded) -> Transition[Semaphore]:
        return settings.change_settings(loaded, wanted(loaded))

    done = change(ports, SemaphoreReads(name, reads), rule)
    view = SemaphoreView(name, done.answer, done.loaded.now)
    return ChangedSettings(view, waits_ended=len(done.transition.waiters))


def _create(ports: Ports, name: str, wanted: SemaphoreSettings) -> SemaphoreView | None:
    """Create the semaphore; return None if it was created in the meantime."""
    [snapshot] = ports.store.read(path_of(name))
    semaphore = settings.create(wanted)
    try:
        ports.store.commit([Put(path_of(name), semaphore.to_record(snapshot.read_time), Must.NOT_EXIST)])
    except Conflict:
        return None
    return SemaphoreView(name, semaphore, snapshot.read_time)


# --- views ---

WITH_WAITERS = (Condition(("mode",), "in", ["closed", "opening"]),)


@dataclass(frozen=True, slots=True)
class SemaphoresPage:
    """Semaphores by name; `more` has the token of the next page, as a member of the answer."""

    semaphores: tuple[SemaphoreView, ...]
    more: Mapping[str, str]


def get(ports: Ports, name: str) -> SemaphoreView:
    """Return a semaphore with its leases and the head of its wait queue. Raises `NoSemaphore`."""
    loaded = load(ports, name)
    found = map(read_waiter, first_waiters(ports.store, name, loaded.semaphore, LIMITS.waiters_shown_max))
    in_order = head_of([waiter for waiter in found if waiter], more=False)
    waiters = tuple(waiter for waiter in in_order if waiter.incarnation == loaded.incarnation)
    waiters = tuple(sorted(waiters, key=attrgetter("lane")))
    continued = [lease for lease in loaded.semaphore.leases if lease.continued and lease.live(loaded.now)]
    holders = {lease.lease_id: waiter for lease, waiter in _with_receipts(ports, name, continued)}
    return SemaphoreView(name, loaded.semaphore, loaded.now, waiters, holders=holders)


def find(ports: Ports, request: SemaphoresQuery) -> SemaphoresPage:
    """Return a page of the semaphores; of those with waiters, also the number of waiters."""
    listing = request.listing
    conditions = (*(WITH_WAITERS if request.waiting else ()), *with_prefix(listing.prefix))
    found = ports.store.query(Query(COLLECTION, conditions, limit=listing.limit, after=listing.after))
    more = listing.next_page([snapshot.id for snapshot in found])
    views = map(_view, found)
    return SemaphoresPage(tuple(_with_waiters(ports, views) if request.waiting else views), more)


def _with_waiters(ports: Ports, views: Iterable[SemaphoreView]) -> Iterator[SemaphoreView]:
    """Count the waiters of each semaphore, and leave out those without: they are about to open."""
    for view in views:
        if count := count_waiters(ports.store, view.name, view.semaphore):
            yield replace(view, waiting=count)


def _view(snapshot: Snapshot) -> SemaphoreView:
    return SemaphoreView(snapshot.id, Semaphore.from_record(snapshot.data or {}), snapshot.read_time)


def find_deadlocks(ports: Ports) -> dict[str, Any]:
    """Return the deadlocks among the first semaphores with waiters. If `complete` is true, there are no others."""
    most = LIMITS.deadlock_semaphores_max
    found = ports.store.query(Query(COLLECTION, WITH_WAITERS, limit=most + 1))
    return {"deadlocks": cycles(_graph(ports, found[:most])), "complete": len(found) <= most}


def _graph(ports: Ports, found: tuple[Snapshot, ...]) -> WaitForGraph:
    views = [_view(snapshot) for snapshot in found]
    return WaitForGraph(
        {view.name: view.semaphore.permits for view in views},
        tuple(held for view in views for held in _held(ports, view)),
        tuple(wanted for snapshot in found for wanted in _wanted(ports, snapshot)),
    )


def _held(ports: Ports, view: SemaphoreView) -> Iterator[HeldPermits]:
    """Iterate over the leases that a continuation has claimed, if its wait has a holder."""
    claimed = [lease for lease in view.semaphore.leases if lease.claimed and lease.live(view.now)]
    for lease, waiter in _with_receipts(ports, view.name, claimed):
        if waiter.holder:
            yield HeldPermits(view.name, waiter.holder, lease.permits, lease.ends_at)


def _wanted(ports: Ports, snapshot: Snapshot) -> Iterator[WantedPermits]:
    """Iterate over the first waiters that have a holder."""
    semaphore = Semaphore.from_record(snapshot.data or {})
    for found in first_waiters(ports.store, snapshot.id, semaphore, LIMITS.waiters_shown_max):
        waiter = read_waiter(found)
        if waiter and waiter.holder and waiter.incarnation == incarnation_of(snapshot):
            yield WantedPermits(snapshot.id, waiter.holder, waiter.permits)


def _with_receipts(ports: Ports, name: str, granted: Sequence[LeaseRecord]) -> Iterator[tuple[LeaseRecord, Waiter]]:
    """Read the receipts of the waits of the first leases; leave out leases whose receipt is of another grant."""
    paths = {waiter_path(name, lease.id): lease for lease in granted[: LIMITS.waiters_shown_max]}
    for lease, receipt in zip(paths.values(), ports.store.read(*paths) if paths else (), strict=True):
        waiter = read_waiter(receipt)
        if waiter and waiter.grant == lease.grant:
            yield lease, waiter


# --- wait ---


def wait(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Take permits, or a place in the wait queue. Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`."""
    if request.continuation is None:
        lease_of = partial(waits.granted_before, request=request)
        reads = SemaphoreReads(name, partial(waits.wait_reads, request=request), lease_of=lease_of)
        return change(ports, reads, partial(waits.acquire, request=request)).answer
    try:
        return _queued(ports, name, request)
    except BadSemaphore:
        return repeated(ports, name, request)


def acquired_before(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer | None:
    """Return the answer to an acquire if it needs no free permit: it is a repeat, or the semaphore is paused.

    Raises as `wait` does.
    """
    reads = SemaphoreReads(name, lease_of=partial(waits.granted_before, request=request))
    return waits.acquired_before(reads.load(ports.store, 0), request)


def acquire_within(ports: Ports, name: str, request: WaitRequest, seconds: float) -> WaitAnswer:
    """Try to take permits, again and again, for at most `seconds` of pauses. Raises as `wait` does.

    The wait's id makes its repeats the same wait, so a lost answer is repeated, too.
    """
    pause_seconds, left = LIMITS.acquire_pause_seconds, seconds
    while True:
        try:
            answer = wait(ports, name, request)
        except Unavailable:
            if left <= 0:
                raise
        else:
            if answer != NOT_ACQUIRED or left <= 0:
                return answer
        slept = min(left, pause_seconds * (0.5 + ports.clock.jitter()))
        ports.clock.sleep(slept)
        left -= slept
        pause_seconds = min(pause_seconds * 1.5, LIMITS.acquire_pause_seconds_max)


def _queued(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    try:
        return guarded(ports, name, request)
    except Contended:
        return combine(ports, name, request)


def guarded(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Grant the wait or append it to the wait queue, in one commit. Raises `Contended` if every commit failed.

    The wait's own record is read only after a commit has failed: the commit requires that it does not exist.
    """
    lease_of = partial(waits.granted_before, request=request)
    reads = SemaphoreReads(name, partial(waits.wait_reads, request=request), request.id, 1, lease_of)
    return _decide(ports, reads, request, LIMITS.guarded_attempts_max)


def combine(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Join the wait queue without a precondition on the semaphore's record, which others write."""
    return _join(ports, load(ports, name), request)


def _join(ports: Ports, loaded: Loaded, request: WaitRequest) -> WaitAnswer:
    name = loaded.name
    waits.check_permits(loaded, request)
    waiter = waits.new_waiter(loaded, request)
    create = put_waiter(waiter_path(name, waiter.id), waiter, loaded.now, Must.NOT_EXIST)
    try:
        committed = outbox.commit(ports, [create], deadline_task(name, waiter))
    except AlreadyExists:
        return repeated(ports, name, request)
    return confirm(ports, name, replace(waiter, version=committed.commit_time))


def repeated(ports: Ports, name: str, request: WaitRequest) -> WaitAnswer:
    """Answer a wait that may have a record, perhaps created before the permits were lowered; otherwise decide it."""
    lease_of = partial(waits.granted_before, request=request)
    reads = SemaphoreReads(name, partial(waits.wait_reads, request=request), request.id, lease_of=lease_of)
    return _decide(ports, reads, request)


def _decide(ports: Ports, reads: SemaphoreReads, request: WaitRequest, attempts_max: int | None = None) -> WaitAnswer:
    """Decide a wait, and once more if this has deleted its record of an earlier semaphore of the name."""
    while True:
        changed = change(ports, reads, partial(waits.wait, request=request), attempts_max=attempts_max)
        if changed.answer is Undecided.JOIN_ALONE:
            return _join(ports, changed.loaded, request)
        if isinstance(changed.answer, WaitAnswer):
            return changed.answer


def confirm(ports: Ports, name: str, waiter: Waiter) -> WaitAnswer:
    """Answer "waiting" for a waiter that was created alone, once the semaphore is closed."""
    try:
        return change(ports, SemaphoreReads(name), partial(waits.confirm, waiter=waiter)).answer
    except NoSemaphore:
        with suppress(Conflict):  # the waiter was deleted, or replaced by another wait
            ports.store.commit([Delete(waiter_path(name, waiter.id), waiter.version)])
        raise


def time_out(ports: Ports, name: str, id_: str) -> None:
    """End a wait at its deadline, if it still waits. Raises `Unavailable` if it is too early."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        waiter, now = read_waiter(read[0]), read[0].read_time
        departure = waits.time_out(name, waiter, now) if waiter else None
        if departure is None:
            return Decision((), None)
        return Decision((waiter_write(name, departure.transition, now),), None, departure.effects)

    perform(ports, [waiter_path(name, id_)], decide)


def cancel(ports: Ports, name: str, id_: str, *, by_flow: bool = False) -> bool:
    """End a wait: take it out of the wait queue, or end its lease if it was granted in the meantime.

    Returns whether that took effect. Raises `NotFound` if this wait has no record, and `WaitOfFlow` if it is a flow's.
    """

    def decide(loaded: Loaded) -> Decision[Writes, Waiter]:
        waiter = loaded.wait
        if waiter is None or waiter.incarnation != loaded.incarnation:
            raise NotFound(f"Semaphore {name!r} has no wait {id_!r}.", field="id")
        waiter.continuation.check_cancel(by_flow=by_flow)
        departure = waits.cancel(name, waiter, loaded.now)
        if departure is None:
            return Decision((), waiter)
        return Decision((waiter_write(name, departure.transition, loaded.now),), waiter, departure.effects)

    reads = SemaphoreReads(name, wait_id=id_)
    waiter, committed = perform(ports, reads, decide, retry_on=(Conflict, Unavailable))
    return committed is not None or _cancel_granted(ports, name, waiter)


def _cancel_granted(ports: Ports, name: str, waiter: Waiter) -> bool:
    if waiter.state != "granted" or waiter.grant is None:
        return waiter.state == "cancelled"
    return end_or_leave(ports, name, EndLease(waiter.id, waiter.grant, ports.store.new_id(), by_grant=True))


# --- claim and renew ---


def claim(ports: Ports, granted: Mapping[str, Any]) -> Lease | None:
    """Start the lease that a continuation was granted; return None if it must not run under this grant.

    `granted` is the lease in the context of the task. Raises `Unavailable`.
    """
    name = granted["semaphore"]
    id_, grant = parse_lease_id(granted["id"])
    try:
        return _claimed(ports, name, id_, grant)
    except NoSemaphore:
        return None
    except Contended:
        loaded = load(ports, name)  # a release may have been left by a process that then crashed
        nudge(ports, loaded, loaded.now)
        raise


def _claimed(ports: Ports, name: str, id_: str, grant: int) -> Lease | None:
    """Claim by the semaphore's record alone if that is enough, and otherwise with the waiter's.

    The line of the request has the seconds since the grant, as `grant_seconds`.
    """
    waited: list[float] = []

    def rule(loaded: Loaded) -> Transition[leases.Claimed]:
        waited[:] = leases.seconds_since_grant(loaded, id_, grant)
        return leases.claim(loaded, id_, grant)

    lease = change(ports, SemaphoreReads(name), rule).answer
    if lease is Undecided.READ_WAITER:
        lease = change(ports, SemaphoreReads(name, wait_id=id_), rule).answer
    for seconds in waited:
        ports.log.note(grant_seconds=seconds)
    return lease.held(name) if isinstance(lease, LeaseRecord) else None


def renew(ports: Ports, name: str, request: RenewRequest) -> datetime | None:
    """Extend a lease; return its end, or None if it was lost: it is not reacquired."""
    return _renew(ports, name, request)


def renew_granted(ports: Ports, granted: Mapping[str, Any], lease_seconds: float | None = None) -> datetime | None:
    """Extend the lease that a task was granted, whichever delivery has claimed it; return its end, or None."""
    return _renew(ports, granted["semaphore"], RenewRequest(granted["id"], lease_seconds), by_grant=True)


def _renew(ports: Ports, name: str, request: RenewRequest, *, by_grant: bool = False) -> datetime | None:
    """Extend a lease. The release of it that may have been left is read only after a commit has failed."""
    id_, token = parse_lease_id(request.lease)

    def lease_of(loaded: Loaded) -> LeaseRecord | None:
        return leases.find_lease(loaded.semaphore, id_, token, by_grant=by_grant)

    tried: list[Renewal] = []

    def rule(loaded: Loaded) -> Transition[Renewal | None]:
        seconds = request.lease_seconds
        transition = leases.renew(loaded, id_, token, seconds, by_grant=by_grant, tried=tried)
        tried.extend(renewal for renewal in (transition.answer,) if renewal)
        return transition

    changed = change(ports, SemaphoreReads(name, lease_of=lease_of, lease_from_attempt=1), rule)
    renewal = changed.answer
    if renewal is None:
        return None
    if not changed.came_before(renewal.before.ends_at):
        lost = EndLease(id_, token, ports.store.new_id(), by_grant=by_grant)
        end_or_leave(ports, name, lost)  # it had expired before the renewal was committed: it stays lost
        return None
    return renewal.after.ends_at


# --- end ---


def signal(ports: Ports, name: str, request: SignalRequest) -> bool:
    """End a lease; return whether it was still held. Raises `NoSemaphore` or `Unavailable`."""
    id_, token = parse_lease_id(request.lease)
    return end_or_leave(ports, name, EndLease(id_, token, request.operation or ports.store.new_id()))


def end_by_hand(ports: Ports, name: str, request: SignalRequest, reason: str) -> bool:
    """End a lease for an operator, and log the reason; return whether it was still held."""
    released = signal(ports, name, request)
    ports.log.info("lease ended by hand", semaphore=name, lease=request.lease, reason=reason, released=released)
    return released


def release(ports: Ports, lease: Lease | Mapping[str, Any]) -> bool:
    """Release a lease for the task that ran under it; return whether it was still held.

    A mapping is the lease in the context of the task, and names the grant, whichever delivery has claimed it. A `Lease`
    is one claim of it, and names only itself.
    """
    if isinstance(lease, Lease):
        return signal(ports, lease.semaphore, SignalRequest(lease.id))
    id_, grant = parse_lease_id(lease["id"])
    return end_or_leave(ports, lease["semaphore"], EndLease(id_, grant, ports.store.new_id(), by_grant=True))


def end_or_leave(ports: Ports, name: str, command: EndLease) -> bool:
    """End a lease now, or leave that to an admit run; return whether it was still held. Raises `Unavailable`."""
    try:
        return end(ports, name, command, LIMITS.guarded_attempts_max)
    except Contended:
        return leave_release(ports, name, command)


def end(ports: Ports, name: str, command: EndLease, attempts_max: int) -> bool:
    """End a lease and grant its permits in one commit. Raises `Contended` if every commit failed."""
    reads = SemaphoreReads(name, partial(leases.end_reads, command=command))
    changed = change(ports, reads, partial(leases.end_lease, command=command), attempts_max=attempts_max)
    return changed.answer is not None and changed.came_before(changed.answer)


def leave_release(ports: Ports, name: str, command: EndLease) -> bool:
    """Leave the release to an admit run, as a separate record, whose creation cannot conflict with other commits.

    A continuation that has not started could start before that run, so its lease is ended under the precondition on the
    semaphore's record, or not at all. Raises `Unavailable`.
    """
    for _ in range(CORE_LIMITS.rounds_max):
        loaded = load(ports, name)
        lease = command.lease(loaded.semaphore)
        if lease is None or not lease.live(loaded.now):
            return leases.end_lease(loaded, command).answer is not None
        if not lease.claimed:
            return end(ports, name, command, CORE_LIMITS.rounds_max)
        try:
            return _leave(ports, loaded, lease, command)
        except Unavailable:
            continue
    raise Unavailable(f"the release of a lease of {name} was not confirmed")


def _leave(ports: Ports, loaded: Loaded, lease: LeaseRecord, command: EndLease) -> bool:
    """Leave a release, and confirm that it ended this token.

    After it, no other delivery can take the lease over, no renewal can move its end, and no signal can end it again.
    Raises `Unavailable` if the lease was ended or taken over in the meantime: the semaphore's record shows which.
    """
    name = loaded.name
    create = create_release(name, leases.release_of(loaded, lease, command.operation))
    try:
        committed_at = ports.store.commit([create]).commit_time
    except AlreadyExists:
        [existing] = ports.store.read(create.path)
        if existing.data is None or existing.create_time is None:
            raise Unavailable("an admit run has applied the release") from None
        if existing.data["operation"] != command.operation:
            return False
        committed_at = existing.create_time
    nudge(ports, loaded, max(committed_at, loaded.now))
    ended = command.lease(load(ports, name).semaphore)
    if ended is None or ended.token != lease.token:
        raise Unavailable("the lease was ended or taken over in the meantime")
    return committed_at < ended.ends_at
