"""Cancel the sub-batches of a batch that was cancelled, and theirs in turn: a level each task.

A sub-batch is committed, then its parent's header is read, then its units are loaded. The parent's end is committed,
then its sub-batches are queried. One of the two sees the other's commit, so no unit of a sub-batch is loaded and left.
"""

from shared.batches.operations import counting, propagation
from shared.batches.rules import ends
from shared.batches.rules.batch_run import COLLECTION, BatchRun
from shared.batches.rules.header import Header, header_of_run
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Condition, Ports, Query
from shared.core.rules.limits import LIMITS


def cancel_sub_batches(ports: Ports, run: BatchRun, after: str) -> None:
    """Cancel a page of a batch's sub-batches, by id, once the task for the next page is enqueued."""
    of_this = (Condition(("parent_run",), "==", run.key),)
    limit = LIMITS.batches_sweep_page
    found = ports.store.query(Query(COLLECTION, of_this, limit=limit, after=(after,) if after else ()))
    if len(found) == limit:
        ports.queue.create([run.effect_for("cancel", found[-1].id, after=found[-1].id)])
    for one in found:
        header = Header.from_record(one.data or {})
        if not header.ended:
            end_with_parent(ports, BatchRun(one.id, header.incarnation))


def end_with_parent(ports: Ports, run: BatchRun) -> Header | None:
    """End a sub-batch whose parent was cancelled."""
    counts = counting.counts(ports, run)
    return propagation.end(ports, run, lambda _: ends.end_with_parent(counts))


def parent_goes_on(ports: Ports, parent: PlacedUnit) -> bool:
    """Return whether a unit still waits for its sub-batch: its batch has not ended."""
    [read] = ports.store.read(parent.run.header_path)
    return ends.unit_is_live(header_of_run(read.data, parent.run), parent.attempt)
