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
    """Run the queries that a decision needs besides the record. Releases come before waiters."""
    if reads == QueueReads():
        return loaded
    path = path_of(loaded.name)
    releases = _found(store, Query(f"{path}/releases", limit=reads.releases))
    waiters, more = _read_waiters(store, loaded.name, reads)
    receipts = _found(store, Query(f"{path}/waiters", order_by=(EXPIRES_AT,), limit=reads.receipts))
    return replace(
        loaded,
        reads=reads,
        waiters=waiters,
        more_waiters=more,
        releases=tuple(left for snapshot in releases if (left := read_release(snapshot))),
        receipts=tuple(one for snapshot in receipts if (one := read_waiter(snapshot))),
    )


def _read_waiters(store: Store, name: str, reads: QueueReads) -> tuple[tuple[Waiter, ...], bool]:
    """Read waiters, and whether there may be more behind them.

    In order: with one that is only to compare, and more of them at one instant where the first is not certain.
    """
    limit = reads.waiters + 1 if reads.in_order and reads.waiters else reads.waiters
    while True:
        found = _found(store, waiters_query(name, limit, reads.after))
        page = tuple(one for snapshot in found if (one := read_waiter(snapshot)))
        more = 0 < limit == len(page)
        if not reads.in_order:
            return page, more
        head = head_of(page, more=more)
        if head or not more:
            return head[: reads.waiters], more or len(head) > reads.waiters
        limit *= READ_ON_FACTOR


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
