"""Verification: a walk over all documents that repairs what drifted, because events may be lost.

Eventarc drops an event after a day, a trigger may be missing for a while, and another client may overwrite the kit's
metadata. So each night all documents are compared with what a put of their content would store now:

    a copy that differs from its source      normalized, as a put would
    a record without the reserved map        the same
    a target that is not marked as linked    marked `linked`, or noted under `wanted`, before it is compared
    a record that is not found by its links  written anew with its link keys

One page runs at a time, and the commit that counts it carries the task of the next: a walk does not flood the queue,
cannot run twice, and survives the death of any process. A page that dies between a repair and its count does not find
the same again, so counts are lower bounds; each page's repairs are also in its log line.
"""

from collections.abc import Mapping
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Must, Order, Ports, Put, Query, Snapshot
from shared.core.operations.record_sizes import is_full
from shared.core.rules import keys
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue, NotFound, Unavailable
from shared.documents.rules import documents
from shared.links.operations import repairs
from shared.links.rules.verifications import COLLECTION, CURRENT, Verification, path_of, run_of

NEWEST_FIRST = Order(("begun_at",), descending=True)


def begin(ports: Ports, operation: str) -> Verification:
    """Begin a walk, or return the one that is running. The same operation begins one walk, however often it is sent."""
    run = run_of(operation)
    [pointer] = ports.store.read(CURRENT)
    last = str((pointer.data or {}).get("run", run))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Verification]:
        now = read[0].read_time
        current, mine = Verification.from_record(last, read[1].data), Verification.from_record(run, read[2].data)
        if read[0].guard != pointer.guard:
            raise Unavailable("another verification began at the same moment")
        running = mine or (current if current and current.is_running(now) else None)
        if running:
            return Decision((), running)
        begun = Verification(run, now, now)
        new = Put(path_of(run), begun.to_record(), Must.NOT_EXIST)
        return Decision((Put(CURRENT, {"run": run}, read[0].guard), new), begun, (begun.next_page_task(),))

    return perform(ports, [CURRENT, path_of(last), path_of(run)], decide)[0]


def get(ports: Ports, run: str) -> Verification:
    """Return a walk. Raises `NotFound`."""
    [snapshot] = ports.store.read(path_of(keys.check_key(run)))
    verification = Verification.from_record(run, snapshot.data)
    if verification is None:
        raise NotFound(f"Verification {run!r} does not exist.", field="run")
    return verification


def newest(ports: Ports) -> list[Verification]:
    """Return the last walks, newest first."""
    found = ports.store.query(Query(COLLECTION, order_by=(NEWEST_FIRST,), limit=LIMITS.verifications_listed_max))
    walks = (Verification.from_record(snapshot.id, snapshot.data) for snapshot in found)
    return [walk for walk in walks if walk]


def run_verification_task(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Verify one page. Raises `Unavailable` (transient: retry), or `BadValue` for a payload that is invalid."""
    match payload:
        case {"run": str(run), "cursor": str(cursor)}:
            verify_page(ports, run, cursor)
        case _:
            raise BadValue("Invalid payload of a verification task.")


def verify_page(ports: Ports, run: str, cursor: str) -> None:
    """Verify the documents that come after `cursor`, count them, and enqueue the next page."""
    [snapshot] = ports.store.read(path_of(run))
    walk = Verification.from_record(run, snapshot.data)
    if walk is None or not walk.awaits(cursor):
        return
    after = (cursor,) if cursor else ()
    query = Query(documents.COLLECTION, (), (), LIMITS.verify_page_documents_max, after, LIMITS.read_bytes_max)
    read = ports.store.query(query)
    found = repairs.inspect(ports, read)
    last_key = read[-1].id if read else cursor

    def decide(now: tuple[Snapshot, ...]) -> Decision[Writes, bool]:
        walk = Verification.from_record(run, now[0].data)
        if walk is None or not walk.awaits(cursor):
            return Decision((), False)
        counted = walk.count_page(found, last_key, now[0].read_time, more=is_full(query, read))
        effects = () if counted.ended_at else (counted.next_page_task(),)
        return Decision((Put(path_of(run), counted.to_record(), now[0].guard),), True, effects)

    perform(ports, [path_of(run)], decide)
