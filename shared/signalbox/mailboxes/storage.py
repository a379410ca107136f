"""Read a mailbox at one instant, and build the writes of its header and its messages."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import SERVER_TIME, Must, Put, Query, Snapshot, Store
from signalbox.core.records.queries import Order
from signalbox.mailboxes.machine import blocks, due_messages, settled
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import (
    HEADER,
    HEADER_SINCE,
    StoredMessage,
    collection_of,
    header_path,
    message_path,
)

SWEPT_BY = "swept_by"
"""The field of an object's waiting message by which the sweeper finds it, in the mailboxes of all objects."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A header and the messages that are due, in order, as of `read_time`. If `more`, others may also be due."""

    header: Snapshot
    waiting: tuple[StoredMessage, ...]
    read_time: datetime
    more: bool = False


# --- reads ---


def read_mailbox(store: Store, base: str, page_max: int) -> Mailbox:
    """Read the header and a page of due messages at one instant.

    If a page is full and no message on it is settled, a page of twice the size is read. An empty page has no time: it
    is read again after a time was read, since a message may have been committed before that time.
    """
    snapshots = _page(store, base, page_max)
    if not snapshots:
        header = _absent_header(store, base)
        snapshots = _page(store, base, page_max)
        if not snapshots:
            return Mailbox(header, (), header.read_time)
    header, page, now = _header(base, snapshots[0]), _messages(snapshots), snapshots[0].read_time
    if len(snapshots) <= page_max:
        return Mailbox(header, tuple(due_messages(page, now)), now)
    if kept := settled(page):
        due = due_messages(kept, now)
        return Mailbox(header, tuple(due), now, more=bool(due))
    return read_mailbox(store, base, page_max * 2)


def read_if_free(store: Store, base: str) -> tuple[Snapshot, bool]:
    """Read the header. Also return whether a call can be applied at once, because it overtakes no waiting message."""
    snapshots = _page(store, base, 1)
    if not snapshots:
        return _absent_header(store, base), True
    now = snapshots[0].read_time
    return _header(base, snapshots[0]), not any(blocks(message, now) for message in _messages(snapshots))


def revision_of(header: Snapshot) -> int:
    """Return the revision of a header; 0 if it does not exist."""
    return 0 if header.data is None else int(header.data["revision"])


def waits(stored: Snapshot) -> bool:
    """Return whether a message's record is that of a message which no turn has taken yet."""
    return stored.data is not None and "since" in stored.data


def _page(store: Store, base: str, page_max: int) -> tuple[Snapshot, ...]:
    query = Query(collection_of(base), order_by=(Order(("since",)),), limit=page_max + 1)
    return store.query(query)


def _absent_header(store: Store, base: str) -> Snapshot:
    """Return the snapshot of a header that a query did not find. This reads a time, because the query has none."""
    [read] = store.read(header_path(base), fields=())
    return Snapshot(header_path(base), None, read.read_time)


def _header(base: str, first: Snapshot) -> Snapshot:
    return first if first.id == HEADER else Snapshot(header_path(base), None, first.read_time)


def _messages(snapshots: tuple[Snapshot, ...]) -> list[StoredMessage]:
    return [_message(snapshot) for snapshot in snapshots if snapshot.id != HEADER]


def _message(snapshot: Snapshot) -> StoredMessage:
    assert snapshot.data is not None, "a query finds only records that exist"
    assert snapshot.create_time is not None, "a record that exists has a create time"
    assert snapshot.update_time is not None, "a record that exists has an update time"
    return StoredMessage.from_record(snapshot.id, snapshot.data, snapshot.create_time, snapshot.update_time)


# --- writes ---


def header_put(header: Snapshot, fields: Mapping[str, Any], revision: int) -> Put:
    """Return the write of a turn's header, under the guard of the header that the turn read."""
    return Put(header.path, {**fields, "revision": revision, "since": HEADER_SINCE}, header.guard)


def message_put(base: str, id_: str, data: Mapping[str, Any], due_at: datetime | None = None) -> Put:
    """Return the write of a new message, due at once or at `due_at`. The sweeper can find an object's messages."""
    path = message_path(base, id_)
    since = {"since": due_at, "later": True} if due_at else {"since": SERVER_TIME}
    found_by = {SWEPT_BY: swept_by(path, due_at)} if base.startswith(f"{ObjectAddress.COLLECTION}/") else {}
    return Put(path, {**data, **since, **found_by}, Must.NOT_EXIST)


def swept_by(path: str, due_at: datetime | None = None) -> float:
    """Return the number by which the sweeper finds a message: its due hour since 1970, or 0, plus a spread below 1.

    A time would be a hot spot of the index. Messages of one hour, and all that are due at once, are spread.
    """
    spread = int(name_of(path)[:8], 16) / 2**32
    return spread + (0 if due_at is None else due_at.timestamp() // 3600)
