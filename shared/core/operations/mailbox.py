"""Read a mailbox at one instant, leave messages in it, and wake its runs (docs/protocols/objects.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.core.operations import outbox
from shared.core.operations.ports import SERVER_TIME, AlreadyExists, Must, Order, Ports, Put, Query, Snapshot, Store
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import (
    HEADER,
    HEADER_SINCE,
    Waiting,
    blocks,
    collection_of,
    due_messages,
    has_read,
    header_path,
    message_path,
    settled,
)
from shared.core.rules.problems import OtherBody, Unavailable
from shared.core.rules.wake_ups import WakeUp, completed


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A header and what waits, as they were at `read_time`. `waiting` is due and in order; `more` may follow."""

    header: Snapshot
    waiting: tuple[Waiting, ...]
    read_time: datetime
    more: bool = False


def read_mailbox(store: Store, base: str, page_max: int) -> Mailbox:
    """Read the header and a page of what is due, at one instant. A full page whose end is all of it is read longer."""
    found = _page(store, base, page_max)
    if not found:
        header = _no_header(store, base)
        return Mailbox(header, (), header.read_time)
    header, page, now = _header(base, found[0]), _messages(found), found[0].read_time
    if len(found) <= page_max:
        return Mailbox(header, tuple(due_messages(page, now)), now)
    return _settled_page(store, base, page_max, Mailbox(header, tuple(page), now))


def _settled_page(store: Store, base: str, page_max: int, full: Mailbox) -> Mailbox:
    if kept := settled(full.waiting):
        due = due_messages(kept, full.read_time)
        return Mailbox(full.header, tuple(due), full.read_time, more=bool(due))
    return read_mailbox(store, base, page_max * 2)


def read_if_free(store: Store, base: str) -> tuple[Snapshot, bool]:
    """Read the header, and whether a call may be applied at once: nothing waits that it must not overtake."""
    found = _page(store, base, 1)
    if not found:
        return _no_header(store, base), True
    return _header(base, found[0]), not any(blocks(each, found[0].read_time) for each in _messages(found))


def _no_header(store: Store, base: str) -> Snapshot:
    """Return the header as the query found it: not there. A query that finds nothing has no time, so this reads one."""
    [read] = store.read(header_path(base), fields=())
    return Snapshot(header_path(base), None, read.read_time)


def _page(store: Store, base: str, page_max: int) -> tuple[Snapshot, ...]:
    query = Query(collection_of(base), order_by=(Order(("since",)),), limit=page_max + 1)
    return store.query(query)


def _header(base: str, first: Snapshot) -> Snapshot:
    return first if first.id == HEADER else Snapshot(header_path(base), None, first.read_time)


def _messages(found: tuple[Snapshot, ...]) -> list[Waiting]:
    return [_waiting(snapshot) for snapshot in found if snapshot.id != HEADER]


def _waiting(snapshot: Snapshot) -> Waiting:
    assert snapshot.data is not None, "a query finds only records that exist"
    assert snapshot.create_time is not None, "a record that exists has a create time"
    assert snapshot.update_time is not None, "a record that exists has an update time"
    return Waiting.from_record(snapshot.id, snapshot.data, snapshot.create_time, snapshot.update_time)


def check_due(wake: WakeUp, mailbox: Mailbox) -> None:
    """Raise `Unavailable` for a wake-up that comes early: done now, it would miss the messages of its slot."""
    if mailbox.read_time < wake.at:
        raise Unavailable("woken before its time")


def is_over(wake: WakeUp, header: Snapshot) -> bool:
    """Return whether a turn has read behind the time of a wake-up: what waits has a wake-up of its own.

    The turn that made the header is none: a call at once looks for messages before it reads a header's time.
    """
    if not wake.of_slot or header.create_time == header.update_time:
        return False
    return has_read(revision_of(header), wake.at + timedelta(seconds=LIMITS.wake_up_margin_seconds))


def revision_of(header: Snapshot) -> int:
    """Return the revision of a header; 0 where there is none."""
    return 0 if header.data is None else int(header.data["revision"])


def wake_again(ports: Ports, next_wake: Effect, wake: WakeUp, mailbox: Mailbox) -> None:
    """Arm the next wake-up for a time that the queue could not look ahead to."""
    if wake.until > wake.at:
        ports.queue.create(completed([next_wake], mailbox.read_time))


def header_put(header: Snapshot, fields: Mapping[str, Any], revision: int) -> Put:
    """Return the write of a turn's header, under the guard of what the turn read."""
    return Put(header.path, {**fields, "revision": revision, "since": HEADER_SINCE}, header.guard)


def message_put(base: str, id_: str, data: Mapping[str, Any], due_at: datetime | None = None) -> Put:
    """Return the write of a new message, for now or for later."""
    since = {"since": due_at, "later": True} if due_at else {"since": SERVER_TIME}
    return Put(message_path(base, id_), {**data, **since}, Must.NOT_EXIST)


def post(ports: Ports, message: Put, wake: Effect) -> Snapshot | None:
    """Commit a message together with its wake-up. A repeat wakes again, and returns the message as it is now.

    Raises `OtherBody` if its id is taken by a message with another body, `Unavailable` when that is not known.
    """
    try:
        outbox.commit(ports, [message], [wake])
    except AlreadyExists:
        [known] = ports.store.read(message.path)
        check_same_body(known, message.data)
        if known.data is not None and "since" in known.data:
            ports.queue.create(completed([wake], known.read_time))
        return known
    return None


def check_same_body(known: Snapshot, data: Mapping[str, Any]) -> None:
    """Raise `OtherBody` if a record's message is another than the one given."""
    if known.data is not None and known.data["body"] != data["body"]:
        raise OtherBody("This id was used for another call.", field="id")
