"""The batches' part of the sweeper, once a minute: batches without progress, past their deadline, or long ended.

A header's `due_at` is when the batch is due next; if none is due, a sweep costs one query.
"""

from shared.batches.operations import counting, propagation, removal, tree_walk
from shared.batches.rules import ends
from shared.batches.rules.batch_run import COLLECTION, BatchRun
from shared.batches.rules.ends import SweepAction
from shared.batches.rules.header import Header, header_of_run
from shared.core.operations.ports import Conflict, Order, Ports, Put, Query, Snapshot
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable

DUE_FIRST = (Order(("due_at",)),)


def sweep(ports: Ports) -> int:
    """Handle the batches that are due; return their number. What fails is left to the next sweep."""
    found = ports.store.query(Query(COLLECTION, order_by=DUE_FIRST, limit=LIMITS.batches_swept_max))
    due = [one for one in found if one.data is not None and one.data["due_at"] <= one.read_time]
    for snapshot in due:
        try:
            sweep_batch(ports, snapshot)
        except (Conflict, Problem, Unavailable) as error:
            ports.log.info("batch left to the next sweep", batch=snapshot.id, reason=str(error))
    return len(due)


def sweep_batch(ports: Ports, snapshot: Snapshot) -> None:
    """Handle a batch that is due."""
    assert snapshot.data is not None, "a query finds only records that exist"
    header = Header.from_record(snapshot.data)
    run, now = BatchRun(snapshot.id, header.incarnation), snapshot.read_time
    match ends.sweep_action(header, _parent_exists(ports, header), now):
        case SweepAction.KEEP:
            ports.store.commit([Put(run.header_path, header.kept_since(now).to_record(), snapshot.guard)])
        case SweepAction.REMOVE:
            removal.remove(ports, run, header, snapshot)
        case SweepAction.TIME_OUT:
            time_out(ports, run, header)
        case SweepAction.WALK:
            ports.store.commit([Put(run.header_path, header.idle_since(now).to_record(), snapshot.guard)])
            tree_walk.propagate_all(ports, run, header)


def _parent_exists(ports: Ports, header: Header) -> bool:
    """Return whether the parent batch of an ended batch exists."""
    if not header.ended or header.parent is None:
        return False
    run = header.parent.run
    return header_of_run(ports.store.read(run.header_path)[0].data, run) is not None


def time_out(ports: Ports, run: BatchRun, header: Header) -> None:
    """End a batch at its deadline and name missing units, unless a walk completes it."""
    pages, size = counting.loaded(ports, run)
    if header.state == "sealed":
        tree_walk.propagate_all(ports, run, header)
    missing = tree_walk.missing_units(ports, run, tree_walk.unpropagated(ports, run, header, pages))
    counts = counting.counts_of(ports, run, size)
    propagation.end(ports, run, lambda _: ends.deadline_end(counts, missing))
