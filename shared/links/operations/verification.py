"""Walk over all documents and repair what drifted: the net below events, which may be lost.

Eventarc gives an event up after a day, a trigger may be missing for a while, and another client may write what the kit
keeps for itself. So each night all documents are compared with what a put of their content would store now:

    a copy that is not its source        reshaped, as a put would
    a record without the kit's map       the same
    a target that does not know          marked `linked`, or noted under `wanted`, before it is compared
    a record that is not found by links  written anew with its link keys

One page is at work at a time, and the commit that counts it asks for the next: a walk is no flood, cannot double, and
goes on after any process died. A page that dies between a repair and its count does not find the same again, so counts
are lower bounds; each page's repairs are also in its log line.
"""

from collections.abc import Mapping
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Must, Order, Ports, Put, Query, Snapshot
from shared.core.rules import keys
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue, NotFound, Unavailable
from shared.documents.rules import documents
from shared.links.operations import repairs
from shared.links.rules import verifications as rules
from shared.links.rules.verifications import Verification

NEWEST_FIRST = Order(("begun_at",), descending=True)


def begin(ports: Ports, operation: str) -> dict[str, Any]:
    """Begin a walk, or give the one that walks. The same operation begins one walk, however often it is asked for."""
    run = rules.run_of(operation)
    [pointer] = ports.store.read(rules.CURRENT)
    last = str((pointer.data or {}).get("run", run))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Verification]:
        current, mine = rules.decode(last, read[1].data), rules.decode(run, read[2].data)
        if read[0].guard != pointer.guard:
            raise Unavailable("another verification began at the same moment")
        going_on = mine or (current if current and current.walks(read[0].read_time) else None)
        if going_on:
            return Decision((), going_on)
        begun = Verification(run, read[0].read_time, read[0].read_time)
        new = Put(rules.path_of(run), rules.encode(begun), Must.NOT_EXIST)
        return Decision((Put(rules.CURRENT, {"run": run}, read[0].guard), new), begun, (begun.task(),))

    return perform(ports, [rules.CURRENT, rules.path_of(last), rules.path_of(run)], decide)[0].shown()


def get(ports: Ports, run: str) -> dict[str, Any]:
    """Give the report of a walk. Raises `NotFound`."""
    [snapshot] = ports.store.read(rules.path_of(keys.check_key(run)))
    verification = rules.decode(run, snapshot.data)
    if verification is None:
        raise NotFound(f"There is no verification {run!r}.", field="run")
    return verification.shown()


def newest(ports: Ports) -> list[dict[str, Any]]:
    """Give the reports of the last walks, newest first."""
    found = ports.store.query(Query(rules.COLLECTION, order_by=(NEWEST_FIRST,), limit=LIMITS.verifications_listed_max))
    reports = (rules.decode(snapshot.id, snapshot.data) for snapshot in found)
    return [report.shown() for report in reports if report]


def follow(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Do a task's page. Raises `Unavailable` when it should run again, and `BadValue` when it never could."""
    match payload:
        case {"run": str(run), "cursor": str(cursor)}:
            page(ports, run, cursor)
        case _:
            raise BadValue("This payload is no page of a verification.")


def page(ports: Ports, run: str, cursor: str) -> None:
    """Look at the documents that come after `cursor`, count them, and ask for the next page."""
    [snapshot] = ports.store.read(rules.path_of(run))
    if _awaits(rules.decode(run, snapshot.data), cursor) is None:
        return
    after = (cursor,) if cursor else ()
    read = ports.store.query(Query(documents.COLLECTION, limit=LIMITS.verify_page, after=after))
    found = repairs.inspect(ports, read)
    last_key = read[-1].id if read else cursor

    def decide(now: tuple[Snapshot, ...]) -> Decision[Writes, bool]:
        waiting = _awaits(rules.decode(run, now[0].data), cursor)
        if waiting is None:
            return Decision((), False)
        counted = waiting.page(found, last_key, now[0].read_time, more=len(read) == LIMITS.verify_page)
        effects = () if counted.ended_at else (counted.task(),)
        return Decision((Put(rules.path_of(run), rules.encode(counted), now[0].guard),), True, effects)

    perform(ports, [rules.path_of(run)], decide)


def _awaits(verification: Verification | None, cursor: str) -> Verification | None:
    """Give the walk if its next page is the one after `cursor`; None: that page is counted, or the walk is gone."""
    waits = verification is not None and verification.ended_at is None and verification.cursor == cursor
    return verification if waits else None
