"""Snapshots as values of the rules, and transitions of the rules as guarded writes."""

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
from shared.semaphores.rules.leases import Release
from shared.semaphores.rules.semaphores import path_of
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition, WaiterTransition
from shared.semaphores.rules.waiters import Waiter

SINCE = OrderBy(("since",))
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
    return None if snapshot.data is None else Waiter.from_record(snapshot.id, snapshot.data, snapshot.update_time)


def read_release(snapshot: Snapshot) -> Release | None:
    """Return the release of a record, if there is one."""
    return None if snapshot.data is None else Release.from_record(snapshot.data, snapshot.create_time)


def waiters_query(name: str, limit: int, after: tuple[datetime, str] | None = None) -> Query:
    """Return the query of the head of the wait queue. Only a record in the queue has `since`."""
    return Query(f"{path_of(name)}/waiters", order_by=(SINCE,), limit=limit, after=after or ())


def read_queue(store: Store, loaded: Loaded, reads: QueueReads) -> Loaded:
    """Run the queries that a decision needs besides the record. Releases come before waiters."""
    if reads == QueueReads():
        return loaded
    path = path_of(loaded.name)
    releases = _found(store, Query(f"{path}/releases", limit=reads.releases))
    waiters = _found(store, waiters_query(loaded.name, reads.waiters, reads.after))
    receipts = _found(store, Query(f"{path}/waiters", order_by=(EXPIRES_AT,), limit=reads.receipts))
    return replace(
        loaded,
        reads=reads,
        waiters=tuple(one for snapshot in waiters if (one := read_waiter(snapshot))),
        releases=tuple(left for snapshot in releases if (left := read_release(snapshot))),
        receipts=tuple(one for snapshot in receipts if (one := read_waiter(snapshot))),
    )


def _found(store: Store, query: Query) -> tuple[Snapshot, ...]:
    return store.query(query) if query.limit else ()


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
            return put_waiter(path, waiter, now, waiter.version or Must.NOT_EXIST)
        case "left":
            return leave(path, waiter, now)
        case "requeued":
            return requeue(path, waiter)
        case "kept":
            return _change(path, {"expires_at": _expiry(now)}, waiter.version)
        case "removed":
            return Delete(path, waiter.version)


def put_waiter(path: str, waiter: Waiter, now: datetime, guard: Guard) -> Write:
    """Write a wait's record; its place in the wait queue is the server's time of this commit."""
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
