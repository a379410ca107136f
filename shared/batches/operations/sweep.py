"""The batches' part of the sweeper, once a minute: batches without progress, past their deadline, or long ended.

A header's `due_at` is when the batch is due next; if none is due, a sweep costs one query. Every visit moves it past
now, before anything that may fail. Removals come last and have a time budget of their own: however many they are,
nothing that runs waits for them. A deadline nearer than the default has a task of its own; the sweeper is its safety
net.
"""

from shared.batches.operations import counting, propagation, removal, tree_walk
from shared.batches.rules import ends
from shared.batches.rules.batch_run import COLLECTION, BatchRun
from shared.batches.rules.ends import SweepAction
from shared.batches.rules.header import Header, header_of_run
from shared.core.operations.due_records import due_records
from shared.core.operations.ports import Conflict, Ports, Put, Snapshot
from shared.core.operations.time_budgets import Budget, OutOfTime, unlimited
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Handle the batches that are due, those that have ended last; return the number of visits."""
    running, others = _sweep_those(ports, budget(), ended=False)
    ended, _ = _sweep_those(ports, budget(), ended=True) if others else (0, 0)
    return running + ended


def _sweep_those(ports: Ports, out_of_time: OutOfTime, *, ended: bool) -> tuple[int, int]:
    """Handle those due that have ended, or those that have not; return their number, and that of the others seen."""
    visits = others = 0
    for snapshot in due_records(ports.store, COLLECTION, "due_at", LIMITS.batches_sweep_page, out_of_time):
        if Header.from_record(snapshot.data or {}).ended is ended:
            visits += 1
            _visit(ports, snapshot)
        else:
            others += 1
    return visits, others


def _visit(ports: Ports, snapshot: Snapshot) -> None:
    try:
        sweep_batch(ports, snapshot)
    except (Conflict, Problem, Unavailable) as error:
        ports.log.info("batch left to a later sweep", batch=snapshot.id, reason=str(error))


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
            ports.store.commit([Put(run.header_path, header.visited_at(now).to_record(), snapshot.guard)])
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


def run_deadline(ports: Ports, run: BatchRun) -> None:
    """Run the task of a run's deadline. Raises `Unavailable` if it is too early by the server's clock."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is None or header.ended:
        return
    if read.read_time < header.deadline_at:
        raise Unavailable("the deadline is not over by the server's clock")
    time_out(ports, run, header)


def time_out(ports: Ports, run: BatchRun, header: Header) -> None:
    """End a batch at its deadline and name missing units, unless a walk completes it."""
    pages, size = counting.loaded(ports, run)
    if header.state == "sealed":
        tree_walk.propagate_all(ports, run, header)
    missing = tree_walk.missing_units(ports, run, tree_walk.unpropagated(ports, run, header, pages))
    counts = counting.counts_of(ports, run, size)
    propagation.end(ports, run, lambda _: ends.deadline_end(counts, missing))
