"""Signal, renew and release leases, and cancel waits.

`released` means: the lease was held, under this token, and the commit came before its end. Under contention the release
is left as a record of its own, which an admit run applies.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from shared.core.operations.perform import Contended, Writes, perform
from shared.core.operations.ports import AlreadyExists, Conflict, Ports
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.core.rules.task_context import Lease
from shared.semaphores.operations.records import create_release, waiter_write
from shared.semaphores.operations.transitions import SemaphoreReads, change, load, nudge, wake_behind
from shared.semaphores.operations.waits import no_wait
from shared.semaphores.rules import lease_commands as rules
from shared.semaphores.rules import wait_commands
from shared.semaphores.rules.lease_commands import EndLease
from shared.semaphores.rules.leases import LeaseRecord, parse_lease_id
from shared.semaphores.rules.requests import RenewRequest, SignalRequest
from shared.semaphores.rules.transitions import Loaded
from shared.semaphores.rules.waiters import Waiter


def signal(ports: Ports, name: str, request: SignalRequest) -> bool:
    """End a lease; return whether it was still held. Raises `NoSemaphore` or `Unavailable`."""
    id_, token = parse_lease_id(request.lease)
    return end_or_leave(ports, name, EndLease(id_, token, request.operation or ports.store.new_id()))


def end_by_hand(ports: Ports, name: str, request: SignalRequest, reason: str) -> bool:
    """End somebody else's lease, and log the reason."""
    released = signal(ports, name, request)
    ports.log.info("lease ended by hand", semaphore=name, lease=request.lease, reason=reason, released=released)
    return released


def release(ports: Ports, lease: Lease | Mapping[str, Any]) -> bool:
    """Release a lease for the task that ran under it; return whether it was still held.

    The mapping is what the task was granted: it names the grant, whichever delivery has claimed it. A claimed `Lease`
    names itself only.
    """
    if isinstance(lease, Lease):
        return signal(ports, lease.semaphore, SignalRequest(lease.id))
    id_, grant = parse_lease_id(lease["id"])
    return end_or_leave(ports, lease["semaphore"], EndLease(id_, grant, ports.store.new_id(), by_grant=True))


def renew(ports: Ports, name: str, request: RenewRequest) -> datetime | None:
    """Extend a lease; return its end, or None if it was lost: it is not acquired anew."""
    return _renew(ports, name, request)


def renew_granted(ports: Ports, granted: Mapping[str, Any], lease_seconds: float | None = None) -> datetime | None:
    """Extend the lease that a task was granted, whichever delivery has claimed it; return its end, or None."""
    return _renew(ports, granted["semaphore"], RenewRequest(granted["id"], lease_seconds), by_grant=True)


def _renew(ports: Ports, name: str, request: RenewRequest, *, by_grant: bool = False) -> datetime | None:
    id_, token = parse_lease_id(request.lease)
    rule = partial(rules.renew, id_=id_, token=token, lease_seconds=request.lease_seconds, by_grant=by_grant)
    changed = change(ports, SemaphoreReads(name), rule)
    renewal = changed.answer
    if renewal is None:
        return None
    if not changed.came_before(renewal.before.ends_at):
        lost = EndLease(id_, token, ports.store.new_id(), by_grant=by_grant)
        end_or_leave(ports, name, lost)  # it had expired before the renewal came: it stays lost
        return None
    return renewal.after.ends_at


# --- end ---


def end_or_leave(ports: Ports, name: str, command: EndLease) -> bool:
    """End a lease now, or leave that to an admit run; return whether it was still held. Raises `Unavailable`."""
    try:
        return end(ports, name, command, LIMITS.guarded_attempts_max)
    except Contended:
        return leave_release(ports, name, command)


def end(ports: Ports, name: str, command: EndLease, attempts_max: int) -> bool:
    """End a lease and pass its permits on in one commit. Raises `Contended` if it lost every race."""
    reads = SemaphoreReads(name, partial(rules.end_reads, command=command))
    changed = change(ports, reads, partial(rules.end_lease, command=command), attempts_max=attempts_max)
    return changed.answer is not None and changed.came_before(changed.answer)


def leave_release(ports: Ports, name: str, command: EndLease) -> bool:
    """Leave the release to an admit run: a record of its own, whose create nobody can make fail.

    A continuation that has not begun could begin before that run: its lease is ended under the guard, or not at all.
    Raises `Unavailable`.
    """
    for _ in range(LIMITS.rounds_max):
        loaded = load(ports, name)
        lease = command.lease(loaded.semaphore)
        if lease is None or not lease.live(loaded.now):
            return rules.end_lease(loaded, command).answer is not None
        if not lease.claimed:
            return end(ports, name, command, LIMITS.rounds_max)
        try:
            return _left(ports, loaded, lease, command)
        except Unavailable:
            continue
    raise Unavailable(f"the release of a lease of {name} was not confirmed")


def _left(ports: Ports, loaded: Loaded, lease: LeaseRecord, command: EndLease) -> bool:
    """Leave a release, and confirm that it ended this token: no other delivery can take the lease over after it.

    Raises `Unavailable` when the lease was ended or taken over meanwhile: the semaphore's record tells how.
    """
    put = create_release(loaded.name, rules.release_of(loaded, lease, command.operation))
    try:
        committed_at = ports.store.commit([put]).commit_time
    except AlreadyExists:
        [existing] = ports.store.read(put.path)
        if existing.data is None or existing.create_time is None:
            raise Unavailable("an admit run has applied the release") from None
        if existing.data["operation"] != command.operation:
            return False
        committed_at = existing.create_time
    nudge(ports, loaded, max(committed_at, loaded.now))
    if command.lease(load(ports, loaded.name).semaphore) is None:
        raise Unavailable("the lease was ended meanwhile")
    return committed_at < lease.ends_at


# --- cancel ---


def cancel(ports: Ports, name: str, id_: str) -> bool:
    """End a wait: out of the wait queue, or, if it was granted meanwhile, by ending its lease.

    Returns whether that took effect. Raises `NotFound` if no such wait is known.
    """

    def decide(loaded: Loaded) -> Decision[Writes, Waiter]:
        waiter = loaded.wait
        if waiter is None or waiter.incarnation != loaded.incarnation:
            raise no_wait(name, id_)
        departure = wait_commands.cancel(waiter)
        if departure is None:
            return Decision((), waiter)
        return Decision((waiter_write(name, departure.transition, loaded.now),), waiter)

    reads = SemaphoreReads(name, wait_id=id_)
    waiter, committed = perform(ports, reads, decide, retry_on=(Conflict, Unavailable))
    if not committed:
        return _cancel_granted(ports, name, waiter)
    wake_behind(ports, name, waiter)
    return True


def _cancel_granted(ports: Ports, name: str, waiter: Waiter) -> bool:
    if waiter.state != "granted" or waiter.grant is None:
        return waiter.state == "cancelled"
    return end_or_leave(ports, name, EndLease(waiter.id, waiter.grant, ports.store.new_id(), by_grant=True))
