"""Snapshots as values of the rules, and transitions of the rules as guarded writes."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.operations.ports import (
    REMOVE,
    SERVER_TIME,
    Change,
    Delete,
    Guard,
    Must,
    Put,
    Query,
    Snapshot,
    Store,
    Write,
)
from shared.core.operations.ports import Order as OrderBy
from shared.core.rules.limits import LIMITS
from shared.core.rules.times import microseconds
from shared.semaphores.rules.known_heads import NOTHING_KNOWN
from shared.semaphores.rules.leases import Release
from shared.semaphores.rules.semaphores import path_of
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition, WaiterTransition
from shared.semaphores.rules.wait_queue import head_of
from shared.semaphores.rules.waiters import Waiter

SINCE = OrderBy(("since",))
READ_ON_FACTOR = 4
EXPIRES_AT = OrderBy(("expires_at",))


# --- read ---


def waiter_path(name: str, id_: str) -> str:
    """Return the path of a wait's record."""
    return f"{path_of(name)}/waiters/{id_}"


def release_path(name: str, lease_id: str) -> str:
    """Return the path of the record of a signal that was left to an admit run."""
    return f"{path_of(name)}/releases/{lease_id}"


def incarnation_of(snapshot: Snapshot) -> int:
    """Return a semaphore's create time in microseconds, which tells it from others of the same name."""
    assert snapshot.create_time is not None, "a record that exists has a create time"
    return microseconds(snapshot.create_time)


def read_waiter(snapshot: Snapshot) -> Waiter | None:
    """Return the wait of a record, if there is one."""
    if snapshot.data is None:
        return None
    return Waiter.from_record(snapshot.id, snapshot.data, snapshot.update_time, snapshot.create_time)


def read_release(snapshot: Snapshot) -> Release | None:
    """Return the release of a record, if there is one."""
    return None if snapshot.data is None else Release.from_record(snapshot.data, snapshot.create_time)


def waiters_query(name: str, limit: int, after: tuple[datetime, str] | None = None) -> Query:
    """Return the query of the first waiters by `since`. Only a record in the queue has that field."""
    return Query(f"{path_of(name)}/waiters", order_by=(SINCE,), limit=limit, after=after or ())


def read_queue(store: Store, loaded: Loaded, reads: QueueReads) -> Loaded:
    """Read the waiters and receipts that a decision needs besides the record."""
    loaded = replace(loaded, reads=reads)
    if reads.waiters and reads.in_order:
        loaded = _read_known(store, loaded) or _read_in_order(store, loaded)
    elif reads.waiters:
        page = _waiters(store.query(waiters_query(loaded.name, reads.waiters, reads.after)))
        loaded = replace(loaded, waiters=page, more_waiters=len(page) == reads.waiters)
    if reads.receipts:
        query = Query(f"{path_of(loaded.name)}/waiters", order_by=(EXPIRES_AT,), limit=reads.receipts)
        loaded = replace(loaded, receipts=_waiters(store.query(query)))
    return loaded


def read_releases(store: Store, loaded: Loaded, limit: int) -> Loaded:
    """Read the releases that were left, and always before the wait queue; 0: none."""
    if not limit:
        return loaded
    found = store.query(Query(f"{path_of(loaded.name)}/releases", limit=limit))
    return replace(loaded, releases=tuple(left for snapshot in found if (left := read_release(snapshot))))


def _read_known(store: Store, loaded: Loaded) -> Loaded | None:
    """Read the first waiters of the known head; None, if it is too short or one of them waits no more."""
    known, count = loaded.semaphore.known, loaded.reads.waiters
    if count > len(known.ids):
        return None
    found = _waiters(store.read(*(waiter_path(loaded.name, id_) for id_ in known.ids[:count])))
    if len(found) < count or not all(known.has(one, loaded.incarnation) for one in found):
        return None
    return replace(loaded, waiters=found, more_waiters=True, known=known.behind(count))


def _read_in_order(store: Store, loaded: Loaded) -> Loaded:
    """Read waiters, and more of them at one instant where no first one is certain."""
    count = loaded.reads.waiters
    limit = loaded.semaphore.known.page(count)
    while True:
        page = _waiters(store.query(waiters_query(loaded.name, limit)))
        more = len(page) == limit
        head = head_of(page, more=more)
        if head or not more:
            own = [one for one in head[count:] if one.incarnation == loaded.incarnation]
            waiters, more = head[:count], more or len(head) > count
            return replace(loaded, waiters=waiters, more_waiters=more, known=NOTHING_KNOWN.after(own))
        limit *= READ_ON_FACTOR


def _waiters(found: Iterable[Snapshot]) -> tuple[Waiter, ...]:
    return tuple(one for snapshot in found if (one := read_waiter(snapshot)))


# --- write ---


def writes_of(loaded: Loaded, transition: Transition[Any]) -> list[Write]:
    """Return the writes of a transition, but for the semaphore's own."""
    name, now = loaded.name, loaded.now
    waiters = [waiter_write(name, one, now) for one in transition.waiters]
    created = [create_release(name, one) for one in transition.releases_created]
    applied: list[Write] = [Delete(release_path(name, one.lease_id)) for one in transition.releases_applied]
    written = [*waiters, *created, *applied]
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
    """Write a wait's record; its place in the wait queue is its create time, and `since` is near that."""
    place = {"since": SERVER_TIME} if waiter.state == "waiting" else {"expires_at": _expiry(now)}
    return Put(path, waiter.to_record() | {"joined": SERVER_TIME} | place, guard)


def leave(path: str, waiter: Waiter, now: datetime) -> Write:
    """Take a waiter out of the wait queue; its record stays as a receipt. The guard is that nobody else has."""
    fields: dict[str, Any] = {"state": waiter.state, "since": REMOVE, "expires_at": _expiry(now)}
    if waiter.state == "granted":
        fields["grant"] = waiter.grant
    return _change(path, fields, waiter.version)


def requeue(path: str, waiter: Waiter) -> Change:
    """Put a waiter back into its old place."""
    fields = {"state": waiter.state, "grant": waiter.grant, "since": waiter.since, "expires_at": REMOVE}
    return _change(path, fields, waiter.version)


def create_release(name: str, release: Release) -> Put:
    """Create the record of a token's end; whoever comes second fails."""
    return Put(release_path(name, release.lease_id), release.to_record(), Must.NOT_EXIST)


def _change(path: str, fields: dict[str, Any], guard: datetime | None) -> Change:
    assert guard is not None, "a waiter that changes was read"
    return Change(path, {(name,): value for name, value in fields.items()}, guard)


def _notes(name: str, transition: Transition[Any], written: set[str]) -> list[Write]:
    """Note evicted leases at their waiters; a record that is written anyway is a later wait, and owed nothing."""
    paths = {waiter_path(name, lease.id) for lease in transition.evicted} - written
    return [Change(path, {("state",): "lost"}, Must.EXIST) for path in sorted(paths)]


def _expiry(now: datetime) -> datetime:
    return now + timedelta(seconds=LIMITS.receipt_seconds)
