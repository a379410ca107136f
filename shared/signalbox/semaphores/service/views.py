"""Show a semaphore with its leases and waiters, list semaphores, and find deadlocks among their holders."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.queue_order import head_of
from signalbox.core.records.queries import Condition
from signalbox.core.surface.paging import with_prefix
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.deadlocks import HeldPermits, WaitForGraph, WantedPermits, cycles
from signalbox.semaphores.model.leases import LeaseRecord
from signalbox.semaphores.model.semaphore import COLLECTION, Semaphore, SemaphoreView, waiter_path
from signalbox.semaphores.model.waiters import Waiter
from signalbox.semaphores.requests import SemaphoresQuery
from signalbox.semaphores.shown import DeadlocksShown
from signalbox.semaphores.storage import count_waiters, first_waiters, incarnation_of, load, read_waiter

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
    continued = [lease for lease in loaded.semaphore.leases if lease.continued and lease.is_live(loaded.now)]
    holders = {lease.lease_id: waiter for lease, waiter in _with_receipts(ports, name, continued)}
    return SemaphoreView(name, loaded.semaphore, loaded.now, waiters, holders=holders)


def find(ports: Ports, request: SemaphoresQuery) -> SemaphoresPage:
    """Return a page of the semaphores. Semaphores with waiters also have the number of their waiters."""
    listing = request.listing
    conditions = (*(WITH_WAITERS if request.waiting else ()), *with_prefix(listing.prefix))
    found = ports.store.query(Query(COLLECTION, conditions, limit=listing.limit, after=listing.after))
    more = listing.next_page([snapshot.id for snapshot in found])
    views = map(_view, found)
    return SemaphoresPage(tuple(_with_waiters(ports, views) if request.waiting else views), more)


def _with_waiters(ports: Ports, views: Iterable[SemaphoreView]) -> Iterator[SemaphoreView]:
    """Count the waiters of each semaphore, and leave out semaphores without waiters, which are about to open."""
    for view in views:
        if count := count_waiters(ports.store, view.name, view.semaphore):
            yield replace(view, waiting=count)


def _view(snapshot: Snapshot) -> SemaphoreView:
    return SemaphoreView(snapshot.id, Semaphore.from_record(snapshot.data or {}), snapshot.read_time)


def find_deadlocks(ports: Ports) -> DeadlocksShown:
    """Find deadlocks among the first semaphores with waiters; `complete` is false if more semaphores have waiters."""
    most = LIMITS.deadlock_semaphores_max
    found = ports.store.query(Query(COLLECTION, WITH_WAITERS, limit=most + 1))
    return DeadlocksShown(cycles(_graph(ports, found[:most])), complete=len(found) <= most)


def _graph(ports: Ports, found: tuple[Snapshot, ...]) -> WaitForGraph:
    views = [_view(snapshot) for snapshot in found]
    return WaitForGraph(
        {view.name: view.semaphore.settings.permits for view in views},
        tuple(held for view in views for held in _held(ports, view)),
        tuple(wanted for snapshot in found for wanted in _wanted(ports, snapshot)),
    )


def _held(ports: Ports, view: SemaphoreView) -> Iterator[HeldPermits]:
    """Iterate over the leases that a continuation has claimed, if its wait has a holder."""
    claimed = [lease for lease in view.semaphore.leases if lease.claimed and lease.is_live(view.now)]
    for lease, waiter in _with_receipts(ports, view.name, claimed):
        if waiter.request.holder:
            yield HeldPermits(view.name, waiter.request.holder, lease.permits, lease.ends_at)


def _wanted(ports: Ports, snapshot: Snapshot) -> Iterator[WantedPermits]:
    """Iterate over the first waiters that have a holder."""
    semaphore = Semaphore.from_record(snapshot.data or {})
    for found in first_waiters(ports.store, snapshot.id, semaphore, LIMITS.waiters_shown_max):
        waiter = read_waiter(found)
        if waiter and waiter.request.holder and waiter.incarnation == incarnation_of(snapshot):
            yield WantedPermits(snapshot.id, waiter.request.holder, waiter.permits)


def _with_receipts(ports: Ports, name: str, granted: Sequence[LeaseRecord]) -> Iterator[tuple[LeaseRecord, Waiter]]:
    """Read the receipts of the waits of the first leases; leave out leases whose receipt is of another grant."""
    paths = {waiter_path(name, lease.id): lease for lease in granted[: LIMITS.waiters_shown_max]}
    for lease, receipt in zip(paths.values(), ports.store.read(*paths) if paths else (), strict=True):
        waiter = read_waiter(receipt)
        if waiter and waiter.grant == lease.grant:
            yield lease, waiter
