"""Look after semaphores that nobody calls: lost alarms, receipts that are old, semaphores that nobody uses any more.

One field, `sweep_at`, says when a semaphore must be looked at for any of these reasons; a sweep that finds nothing due
costs one read. Clean-up is the kit's own and guarded, not a time-to-live policy: a receipt goes only if its lease is
over.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.operations.ports import Conflict, Delete, Order, Ports, Query, Snapshot
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from shared.semaphores.operations.admission import admit
from shared.semaphores.operations.changes import Seen, Step, change
from shared.semaphores.operations.removal import remove
from shared.semaphores.rules.semaphores import COLLECTION, decode, path_of

SWEEP_AT = Order(("sweep_at",))
EXPIRES_AT = Order(("expires_at",))


def sweep(ports: Ports) -> int:
    """Look after the semaphores that are due; give their number."""
    first = ports.store.query(Query(COLLECTION, order_by=(SWEEP_AT,), limit=1))
    if not any(map(_due, first)):
        return 0
    page = ports.store.query(Query(COLLECTION, order_by=(SWEEP_AT,), limit=LIMITS.semaphores_swept_max))
    due = [snapshot for snapshot in page if _due(snapshot)]
    for snapshot in due:
        _look_after(ports, snapshot)
    return len(due)


def _due(snapshot: Snapshot) -> bool:
    return snapshot.data is not None and snapshot.data["sweep_at"] <= snapshot.read_time


def _look_after(ports: Ports, snapshot: Snapshot) -> None:
    name = snapshot.id
    try:
        if _unused(snapshot):
            remove(ports, snapshot)
            return
        admit(ports, name)
        _clean(ports, name)
    except (Conflict, Unavailable, Problem) as error:
        ports.log.info("a semaphore is left to the next sweep", semaphore=name, reason=str(error))


def _unused(snapshot: Snapshot) -> bool:
    """Tell whether a semaphore's time is over: nobody has changed it, holds a lease or may wait."""
    assert snapshot.data is not None
    assert snapshot.update_time is not None
    semaphore = decode(snapshot.data)
    if semaphore.delete_after_seconds is None or semaphore.mode != "open":
        return False
    idle_since = snapshot.read_time - timedelta(seconds=semaphore.delete_after_seconds)
    return snapshot.update_time <= idle_since and not any(one.live(snapshot.read_time) for one in semaphore.leases)


# --- receipts ---


def _clean(ports: Ports, name: str) -> None:
    """Delete the receipts that are old, but none whose lease still lives, and say when to come again."""
    query = Query(f"{path_of(name)}/waiters", order_by=(EXPIRES_AT,), limit=LIMITS.receipts_page)

    def decide(seen: Seen) -> Step[None]:
        if seen.semaphore.clean_at is None or seen.now < seen.semaphore.clean_at:
            return Step(seen.semaphore, None)
        page = ports.store.query(query)
        held = {lease.id for lease in seen.semaphore.leases}
        old = [one for one in page if one.data and one.data["expires_at"] <= seen.now and one.id not in held]
        writes = tuple(Delete(one.path, one.guard) for one in old)
        return Step(replace(seen.semaphore, clean_at=_next(seen, page)), None, writes)

    change(ports, name, decide)


def _next(seen: Seen, page: tuple[Snapshot, ...]) -> datetime | None:
    """Say when the next receipt is old; while somebody may wait, at the latest when his would be."""
    times: list[datetime] = [one.data["expires_at"] for one in page if one.data]
    later = [time for time in times if time > seen.now]
    if len(later) < len(times) and len(page) == LIMITS.receipts_page:
        return seen.now
    if later:
        return min(later)
    waits_or_holds = seen.semaphore.mode != "open" or bool(seen.semaphore.leases)
    return seen.now + timedelta(seconds=LIMITS.receipt_seconds) if waits_or_holds else None
