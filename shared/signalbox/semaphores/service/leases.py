"""Claim a lease that was granted, renew it, and end it.

A continuation starts by claiming its grant. If the lease expired before, the wait returns to its old place in the wait
queue. If the lease no longer exists, a signal ended it, and the continuation does not run.

A signal ends the lease and grants its permits in one commit. Under contention it leaves a release, a separate record
that an admit run applies. `released` means that the lease was held under this token, and that the commit was before its
end.
"""

from contextlib import suppress
from datetime import datetime
from functools import partial

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import AlreadyExists, Ports
from signalbox.core.problems import Contended, Unavailable
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import leases
from signalbox.semaphores.machine.decision_types import Loaded, Transition, Undecided
from signalbox.semaphores.machine.leases import EndLease, Renewal
from signalbox.semaphores.model.leases import Granted, Lease, LeaseRecord, parse_lease_id
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import RenewRequest, SignalRequest
from signalbox.semaphores.storage import SemaphoreReads, change, create_release, load, nudge

# --- claim and renew ---


def claim(ports: Ports, granted: Granted) -> Lease | None:
    """Start the lease that a continuation was granted. Return None if the task must not run under this grant.

    Raises `Unavailable`.
    """
    name = granted.semaphore
    id_, grant = parse_lease_id(granted.id)
    try:
        return _claimed(ports, name, id_, grant)
    except NoSemaphore:
        return None
    except Contended:
        with suppress(NoSemaphore):
            loaded = load(ports, name)
            nudge_again(ports, loaded, loaded.now)
        raise


def _claimed(ports: Ports, name: str, id_: str, grant: int) -> Lease | None:
    """Claim a granted lease. Read the waiter's record only if the semaphore's record does not decide.

    The `handled` log line has the seconds since the grant, as `grant_seconds`.
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
    """Extend a lease; return its end, or None if the lease was lost. A lost lease is not reacquired."""
    return _renew(ports, name, request)


def renew_granted(ports: Ports, granted: Granted, lease_seconds: float | None = None) -> datetime | None:
    """Extend a task's lease, whichever delivery has claimed it; return its end, or None if the lease was lost."""
    return _renew(ports, granted.semaphore, RenewRequest(granted.id, lease_seconds), by_grant=True)


def _renew(ports: Ports, name: str, request: RenewRequest, *, by_grant: bool = False) -> datetime | None:
    """Extend a lease. A release that may have been left is read only after a commit has failed."""
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
        lost = EndLease(id_, renewal.after.token, ports.store.new_id())
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


def release(ports: Ports, lease: Lease | Granted) -> bool:
    """Release a lease for the task that ran under it; return whether it was still held.

    A `Granted` means the lease, whichever delivery has claimed it. A `Lease` means only the claim of one delivery.
    """
    if isinstance(lease, Lease):
        return signal(ports, lease.semaphore, SignalRequest(lease.id))
    id_, grant = parse_lease_id(lease.id)
    return end_or_leave(ports, lease.semaphore, EndLease(id_, grant, ports.store.new_id(), by_grant=True))


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
        if lease is None or not lease.is_live(loaded.now):
            return leases.end_lease(loaded, command).answer is not None
        if not lease.claimed:
            return end(ports, name, command, CORE_LIMITS.rounds_max)
        try:
            return _leave(ports, loaded, lease, command)
        except Unavailable:
            continue
    raise Unavailable(f"the release of a lease of {name} was not confirmed")


def nudge_again(ports: Ports, loaded: Loaded, left_at: datetime) -> None:
    """Create the nudge for a release that another process has left: that process may have died before its own nudge."""
    nudge(ports, loaded, max(left_at, loaded.now))


def _leave(ports: Ports, loaded: Loaded, lease: LeaseRecord, command: EndLease) -> bool:
    """Leave a release, and confirm that it ended this token.

    After that, no other delivery can take the lease over, no renewal can move its end, and no signal can end it again.
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
        if leases.grant_may_continue(command, existing.data["operation"]):
            raise Unavailable("another delivery has taken the lease over") from None
        if existing.data["operation"] != command.operation:
            nudge_again(ports, loaded, existing.create_time)
            return False
        committed_at = existing.create_time
    nudge(ports, loaded, max(committed_at, loaded.now))
    ended = command.lease(load(ports, name).semaphore)
    if ended is None or ended.token != lease.token:
        raise Unavailable("the lease was ended or taken over in the meantime")
    return committed_at < ended.ends_at
