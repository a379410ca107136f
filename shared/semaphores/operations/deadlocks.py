"""Read the wait-for graph of the semaphores that have waiters, and find who waits for each other."""

from collections.abc import Iterator
from typing import Any

from shared.core.operations.ports import Condition, Ports, Query, Snapshot
from shared.core.rules.limits import LIMITS
from shared.semaphores.operations.records import incarnation_of, read_waiter, waiter_path, waiters_query
from shared.semaphores.rules.deadlocks import HeldPermits, WaitForGraph, WantedPermits, cycles
from shared.semaphores.rules.semaphores import COLLECTION, Semaphore

WITH_WAITERS = (Condition(("mode",), "in", ["closed", "opening"]),)


def find_deadlocks(ports: Ports) -> dict[str, Any]:
    """Return the deadlocks among the first semaphores with waiters; `complete` says whether these are all."""
    most = LIMITS.deadlock_semaphores_max
    found = ports.store.query(Query(COLLECTION, WITH_WAITERS, limit=most + 1))
    return {"deadlocks": cycles(_graph(ports, found[:most])), "complete": len(found) <= most}


def _graph(ports: Ports, found: tuple[Snapshot, ...]) -> WaitForGraph:
    semaphores = [(one, Semaphore.from_record(one.data or {})) for one in found]
    return WaitForGraph(
        {one.id: semaphore.permits for one, semaphore in semaphores},
        tuple(held for one, semaphore in semaphores for held in _held(ports, one, semaphore)),
        tuple(wanted for one, _ in semaphores for wanted in _wanted(ports, one)),
    )


def _held(ports: Ports, one: Snapshot, semaphore: Semaphore) -> Iterator[HeldPermits]:
    """Iterate over the leases that a continuation has claimed, where its wait named a holder."""
    live = [lease for lease in semaphore.leases if lease.claimed and lease.live(one.read_time)]
    paths = {waiter_path(one.id, lease.id): lease for lease in live[: LIMITS.waiters_shown_max]}
    for lease, receipt in zip(paths.values(), ports.store.read(*paths) if paths else (), strict=True):
        waiter = read_waiter(receipt)
        if waiter and waiter.holder and waiter.grant == lease.grant:
            yield HeldPermits(one.id, waiter.holder, lease.permits, lease.ends_at)


def _wanted(ports: Ports, one: Snapshot) -> Iterator[WantedPermits]:
    """Iterate over the first waiters, where they named a holder."""
    for read in ports.store.query(waiters_query(one.id, LIMITS.waiters_shown_max)):
        waiter = read_waiter(read)
        if waiter and waiter.holder and waiter.incarnation == incarnation_of(one):
            yield WantedPermits(one.id, waiter.holder, waiter.permits)
