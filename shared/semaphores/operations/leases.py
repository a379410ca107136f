"""Signal, renew and release leases, and cancel waits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.core.operations.ports import Conflict, Ports
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.core.rules.task_context import Lease
from shared.semaphores.operations.changes import Seen, Step, change, see, waiter_path
from shared.semaphores.operations.endings import Ending, end_or_leave
from shared.semaphores.operations.waits import leave, no_wait, read_waiter
from shared.semaphores.rules.leases import Held, parse_lease
from shared.semaphores.rules.wait_queue import Waiter


def signal(ports: Ports, name: str, lease: str, operation: str = "") -> bool:
    """End a lease; tell whether it was still held. A call with the same `operation` is answered the same.

    Raises `NoSemaphore`, `BadSemaphore` if that is no lease's id, or `Unavailable`.
    """
    id_, token = parse_lease(lease)
    return end_or_leave(ports, name, Ending(id_, token, operation or ports.store.new_id()))


def end_by_hand(ports: Ports, name: str, lease: str, reason: str) -> bool:
    """End a lease that is not one's own, and say in the log why."""
    released = signal(ports, name, lease)
    ports.log.info("lease ended by hand", semaphore=name, lease=lease, reason=reason, released=released)
    return released


def renew(ports: Ports, name: str, lease: str, lease_seconds: float | None = None) -> datetime | None:
    """Let a lease end later; give its end, or None if it was lost: it is not acquired anew."""
    id_, token = parse_lease(lease)

    def decide(seen: Seen) -> Step[tuple[Held, Held] | None]:
        held = seen.semaphore.lease(id_, token)
        if held is None or not held.live(seen.now):
            return Step(seen.semaphore, None)
        after, renewed = seen.semaphore.renew(held, lease_seconds or held.seconds, seen.now)
        return Step(after, (held, renewed))

    done = change(ports, name, decide)
    if done.answer is None:
        return None
    held, renewed = done.answer
    if done.committed is not None and done.committed.commit_time >= held.ends_at:
        signal(ports, name, lease)  # it had ended before the renewal came: what is lost stays lost
        return None
    return renewed.ends_at


def release(ports: Ports, lease: Lease | Mapping[str, Any]) -> bool:
    """Give a lease back for the task that ran under it; tell whether it was still held.

    What stood beside the payload names the grant, whichever delivery has claimed it: for a task that gives up. A
    claimed `Lease` names itself only.
    """
    if isinstance(lease, Lease):
        return signal(ports, lease.semaphore, lease.id)
    id_, grant = parse_lease(lease["id"])
    return end_or_leave(ports, lease["semaphore"], Ending(id_, grant, ports.store.new_id(), by_grant=True))


def cancel(ports: Ports, name: str, id_: str) -> bool:
    """End a wait: out of the line, or, if it was granted meanwhile, signal its lease. Tell whether that took effect.

    Raises `NotFound` if no such wait is known.
    """
    for _ in range(LIMITS.rounds_max):
        seen = see(ports, name, beside=[waiter_path(name, id_)])
        [snapshot] = seen.others
        waiter = read_waiter(snapshot)
        if waiter is None or waiter.incarnation != seen.incarnation:
            raise no_wait(name, id_)
        if waiter.state != "waiting":
            return _cancel_granted(ports, name, waiter)
        try:
            ports.store.commit([leave(snapshot, "cancelled", seen.now)])
        except (Conflict, Unavailable):
            continue  # granted meanwhile, or the answer was lost: the record tells
        return True
    raise Unavailable(f"the wait {id_} changes too often")


def _cancel_granted(ports: Ports, name: str, waiter: Waiter) -> bool:
    if waiter.state != "granted" or waiter.grant is None:
        return waiter.state == "cancelled"
    return end_or_leave(ports, name, Ending(waiter.id, waiter.grant, ports.store.new_id(), by_grant=True))
