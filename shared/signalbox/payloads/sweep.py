"""The payloads' part of the sweeper: it deletes the payloads of places that are not used any more.

A commit that ends the use of a place, such as the removal of a run, writes a record with the place's prefix. The
sweeper deletes the payloads below it, then the record. Only the sweeper's account may delete payloads.

A payload that was stored for a commit that never came has no such record. The collector finds it: once a week it walks
all payloads, a page in each sweep. It deletes those that are older than a day and whose owner does not exist, or is
another incarnation, and those that only a task of an earlier time names. The walk's place is in a record.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import are_payloads_stored
from signalbox.core.ports import (
    Budget,
    Conflict,
    Delete,
    OutOfTime,
    PayloadStore,
    Ports,
    Put,
    Query,
    StoredPayload,
    unlimited,
)
from signalbox.core.problems import Unavailable
from signalbox.payloads.limits import LIMITS
from signalbox.payloads.model import OF_TASKS, OWNER, PREFIX, REMOVALS, incarnation_of, is_held

WALK = "payload_walks/last"
"""The path of the record with the walk's place: the key of the last payload that it has seen, and when it continues."""

AFTER, DUE_AT = "after", "due_at"


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Delete the payloads of ended places, and continue the collector's walk. Return the number of deleted payloads."""
    if ports.payloads is None or not are_payloads_stored():
        return 0
    out_of_time = budget()
    return remove_ended(ports, ports.payloads, out_of_time) + collect(ports, ports.payloads, out_of_time)


def remove_ended(ports: Ports, payloads: PayloadStore, out_of_time: OutOfTime) -> int:
    """Delete the payloads of places whose use has ended, then the records of these places."""
    deleted = 0
    for record in ports.store.query(Query(REMOVALS, limit=LIMITS.payload_removals_page)):
        if out_of_time():
            break
        assert record.data is not None, "a query finds only records that exist"
        try:
            if OWNER in record.data:
                deleted += delete_replaced(ports, payloads, record.data[PREFIX], record.data[OWNER])
                is_done = True
            else:
                deleted += delete_below(payloads, record.data[PREFIX], out_of_time)
                is_done = not payloads.list(record.data[PREFIX], "", 1)
            if is_done:
                ports.store.commit([Delete(record.path, record.guard)])
        except (Conflict, Unavailable) as error:
            ports.log.info("payloads left to a later sweep", place=record.data[PREFIX], reason=str(error))
    return deleted


def delete_below(payloads: PayloadStore, prefix: str, out_of_time: OutOfTime) -> int:
    """Delete the payloads whose keys begin with `prefix`, as many as the time allows. Return their number."""
    deleted = 0
    while found := payloads.list(prefix, "", LIMITS.payload_page):
        payloads.delete([each.key for each in found])
        deleted += len(found)
        if out_of_time():
            break
    return deleted


def delete_replaced(ports: Ports, payloads: PayloadStore, prefix: str, owner: str) -> int:
    """Delete the payloads below `prefix` that the record of their owner does not name any more. Return their number.

    The keys of later revisions stay: a commit may be about to name them.
    """
    [read] = ports.store.read(owner)
    revision = (read.data or {}).get("revision", 0)
    keys = [each.key for each in payloads.list(prefix, "", LIMITS.payload_page)]
    past = [key for key in keys if int(incarnation_of(key)) <= revision and not is_held(key, read.data)]
    if past:
        payloads.delete(past)
    return len(past)


# --- the collector ---


@dataclass(frozen=True, slots=True)
class Group:
    """The payloads of an owner, among those of a page of the walk."""

    owner: str
    keys: Sequence[str]


def collect(ports: Ports, payloads: PayloadStore, out_of_time: OutOfTime) -> int:
    """Continue the walk, if it is due. Return the number of deleted payloads."""
    [walk] = ports.store.read(WALK)
    now, place = walk.read_time, walk.data or {}
    if DUE_AT in place and now < place[DUE_AT]:
        return 0
    after, deleted = place.get(AFTER, ""), 0
    while not out_of_time():
        page = payloads.list("", after, LIMITS.payload_page)
        deleted += collect_page(ports, payloads, page, now)
        if len(page) < LIMITS.payload_page:
            after = ""
            break
        after = page[-1].key
    pause = timedelta(seconds=0 if after else LIMITS.payload_walk_seconds)
    with suppress(Conflict):  # another sweep has walked
        ports.store.commit([Put(WALK, {AFTER: after, DUE_AT: now + pause}, walk.guard)])
    return deleted


def collect_page(ports: Ports, payloads: PayloadStore, page: Sequence[StoredPayload], now: datetime) -> int:
    """Delete the payloads of a page that nothing names. Return their number."""
    keys = [each.key for each in page if is_of_past_task(each, now)]
    groups = list(old_groups(page, now))
    reads = ports.store.read(*(group.owner for group in groups)) if groups else ()
    for group, read in zip(groups, reads, strict=True):
        keys += [key for key in group.keys if not is_held(key, read.data)]
    if keys:
        payloads.delete(keys)
        ports.log.info("payloads without an owner deleted", count=len(keys))
    return len(keys)


def is_of_past_task(payload: StoredPayload, now: datetime) -> bool:
    """Return whether no task that names a payload can be delivered any more."""
    ends_at = payload.created_at + timedelta(seconds=LIMITS.payload_task_seconds)
    return payload.key.startswith(f"{OF_TASKS}/") and ends_at < now


def old_groups(page: Sequence[StoredPayload], now: datetime) -> Iterator[Group]:
    """Iterate over the payloads of owners that are older than a day, by owner."""
    oldest = now - timedelta(seconds=LIMITS.payload_collected_seconds)
    groups: dict[str, list[str]] = {}
    for payload in page:
        if payload.owner and payload.created_at < oldest:
            groups.setdefault(payload.owner, []).append(payload.key)
    for owner, keys in groups.items():
        yield Group(owner, keys)
