"""The listing of a run: the fields that lists show and search, and that the sweeper queries."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.ports import REMOVE, SERVER_TIME, Change, Must, Put, Snapshot, Write
from signalbox.core.records.composite_indexes import parse
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader

DUE_AT, ARCHIVED_AT = "due_at", "archived_at"
"""The fields of a listing with the time at which the sweeper visits it, and the time at which the archive was written.
"""

LABELS = "labels"
"""The field of a listing that queries search for a label."""

CREATED_AT = "created_at"
"""The field of a listing with the time of the run's start."""

CHANGING = (LABELS, "ended_at", DUE_AT, ARCHIVED_AT, "checked_at")
"""The fields that a listing has only in some states."""

_BY_START = (("flow", "-created_at"), ("flow", "state", "-created_at"), ("flow", "labels[]", "-created_at"))

INDEXES = tuple(parse(FlowAddress.COLLECTION, fields) for fields in _BY_START)
"""The composite indexes of lists by the time of the start, the newest first. Terraform creates the same ones."""


def listing_writes(snapshot: Snapshot, before: FlowHeader, after: FlowHeader) -> Iterator[Write]:
    """Iterate over the write of the listing, which changes with the flow's state and labels only.

    The time of the start never changes, since lists are sorted by this time and a page begins after such a time.
    """
    if snapshot.data is None:
        listing = listing_of(after, snapshot.read_time, checked_at=SERVER_TIME)
        yield Put(after.address.base, listing | {CREATED_AT: SERVER_TIME})
    elif (before.state, before.labels) != (after.state, after.labels):
        changed = dict.fromkeys(CHANGING, REMOVE) | listing_of(after, snapshot.read_time)
        yield Change(after.address.base, {(name,): value for name, value in changed.items()})


def listing_of(header: FlowHeader, now: datetime, checked_at: Any = None) -> dict[str, Any]:
    """Return a listing without its `created_at`. At `due_at`, the sweeper wakes a stuck flow and removes an ended one.

    An ended flow with an archive is due when the archive may be late; once the archive is written, the flow is due at
    the end of its retention (`archived_writes`). A running flow has `checked_at` instead: the time at which the sweeper
    last saw that the flow had a turn. A suspended flow has neither field.
    """
    listing = shown_in_lists(header)
    if header.end:
        due_at = archive_due_at(header.end.at) if header.archive else header.kept_until
        return listing | {"ended_at": header.end.at, "due_at": due_at}
    if header.suspended:
        return listing
    if header.stuck:
        return listing | {"due_at": now + timedelta(seconds=LIMITS.flow_stuck_seconds)}
    return listing | {"checked_at": checked_at or now}


def archive_due_at(now: datetime) -> datetime:
    """Return when the sweeper repeats the task of an archive that is being written now."""
    return now + timedelta(seconds=LIMITS.flow_archive_seconds)


def archived_writes(read: Snapshot, header: FlowHeader) -> list[Write]:
    """Return the writes that note the archive of an ended run in its listing.

    The run's header, as read, is their guard.
    """
    noted: dict[tuple[str, ...], Any] = {(ARCHIVED_AT,): read.read_time, (DUE_AT,): header.kept_until}
    return [Change(read.path, {}, read.guard), Change(header.address.base, noted, Must.EXIST)]


def lacks_archive(header: FlowHeader, listing: Snapshot) -> bool:
    """Return whether an ended run must not be removed, since its archive is not written."""
    return bool(header.archive) and ARCHIVED_AT not in (listing.data or {})


def shown_in_lists(header: FlowHeader) -> dict[str, Any]:
    labels = {LABELS: header.label_entries} if header.labels else {}
    return {**header.address.to_json(), "state": header.state, **labels}
