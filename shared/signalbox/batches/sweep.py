"""The batches' part of the sweeper, once a minute: batches without progress, past their deadline, or long ended.

A header's `due_at` is when the batch is due next; if none is due, a sweep costs one query. Every visit sets it to a
time after now, before anything that may fail. Removals come last and have a separate time budget, so that running
batches never wait for them. A deadline nearer than the default has its own task, and the sweeper is its safety net.

A removal deletes an ended batch, as far as one sweep gets: counters first, then units and pages, the header last. A
late unit finds no counter and is dropped; if its record were deleted first, the unit would be recorded again. The
header is last, so the id can be used again only when no record of the run is left.
"""

from datetime import datetime

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import lifecycle
from signalbox.batches.machine.lifecycle import SweepAction
from signalbox.batches.model.headers import Header, header_of_run
from signalbox.batches.model.large_values import place_of_batch
from signalbox.batches.model.tree import COLLECTION, COMPLETIONS, BatchRun
from signalbox.batches.service import propagation, sub_batches
from signalbox.core import outbox
from signalbox.core.due_records import due_records, postpone
from signalbox.core.ports import Budget, Conflict, Delete, OutOfTime, Ports, Put, Query, Snapshot, unlimited
from signalbox.core.problems import NotInCatalogue, Problem, Unavailable
from signalbox.payloads.service import removals as payload_removals

RUNNING = ("open", "sealed")

NEVER_SEALED = "it ends at its deadline, since a batch completes only after its seal: send the number of its pages"


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Handle the batches that are due: first the running batches, then the ended ones. Return the number of visits."""
    repeat_completions(ports, budget())
    running, others = _sweep_those(ports, budget(), ended=False)
    ended, _ = _sweep_those(ports, budget(), ended=True) if others else (0, 0)
    return running + ended


def _sweep_those(ports: Ports, out_of_time: OutOfTime, *, ended: bool) -> tuple[int, int]:
    """Handle the due batches that have ended, or only the others. Return the numbers of batches handled and skipped."""
    visits = others = 0
    for snapshot in due_records(ports.store, COLLECTION, "due_at", LIMITS.batches_sweep_page, out_of_time):
        if ((snapshot.data or {}).get("state") in RUNNING) is not ended:
            visits += 1
            _visit(ports, snapshot)
        else:
            others += 1
    return visits, others


def repeat_completions(ports: Ports, out_of_time: OutOfTime) -> None:
    """Enqueue again the tasks of batches' ends that have not run for an hour. A task that exists has the same name."""
    for record in due_records(ports.store, COMPLETIONS, "due_at", LIMITS.batches_sweep_page, out_of_time):
        try:
            storage.repeat_completion(ports, record)
        except NotInCatalogue as refused:
            outbox.keep_aside(ports, record, refused)
        except (Conflict, Problem, Unavailable) as error:
            ports.log.info("completion left to a later sweep", task=record.id, reason=str(error))
            postpone(ports, record, "due_at")
        except Exception as error:  # noqa: BLE001 - a record that cannot be read must not keep the sweeper from the others
            ports.log.error("completion cannot be swept", task=record.id, exception=error)
            postpone(ports, record, "due_at")


def _visit(ports: Ports, snapshot: Snapshot) -> None:
    try:
        sweep_batch(ports, snapshot)
    except (Conflict, Problem, Unavailable) as error:
        ports.log.info("batch left to a later sweep", batch=snapshot.id, reason=str(error))
    except Exception as error:  # noqa: BLE001 - a record that cannot be read must not keep the sweeper from the others
        ports.log.error("batch cannot be swept", batch=snapshot.id, exception=error)
        postpone(ports, snapshot, "due_at")


def sweep_batch(ports: Ports, snapshot: Snapshot) -> None:
    """Handle a batch that is due."""
    assert snapshot.data is not None, "a query finds only records that exist"
    header = Header.from_record(snapshot.data)
    run = BatchRun(snapshot.id, header.incarnation)
    decided = lifecycle.sweep(header, _parent_exists(ports, header), snapshot.read_time)
    write = Put(run.header_path, decided.state.to_record(), snapshot.guard)
    if decided.answer is SweepAction.REMOVE:
        if rate := header.settings.rate:  # of retries that still wait
            ports.queue.create([lifecycle.drop_task(run, rate)])
        remove(ports, run, write)
        return
    ports.store.commit([write])
    match decided.answer:
        case SweepAction.TIME_OUT:
            time_out(ports, run, header)
        case SweepAction.WALK:
            if header.parent and sub_batches.end_if_lost(ports, run, header, header.parent):
                return
            waiting = propagation.propagate_all(ports, run, header)
            if silent := lifecycle.silent_tasks(run, waiting, snapshot.read_time):
                ports.queue.create(silent)


def _parent_exists(ports: Ports, header: Header) -> bool:
    """Return whether the parent's batch of an ended batch exists."""
    if not header.ended or header.parent is None:
        return False
    return storage.read_header_of_run(ports, header.parent.run) is not None


# --- deadlines ---


def run_deadline(ports: Ports, run: BatchRun) -> None:
    """End a run at its deadline. Raises `Unavailable` before the deadline by the server's clock."""
    [read] = ports.store.read(run.header_path)
    header = header_of_run(read.data, run)
    if header is None or header.ended:
        return
    if read.read_time < header.deadline_at:
        raise Unavailable("the deadline is not over by the server's clock")
    time_out(ports, run, header)


def time_out(ports: Ports, run: BatchRun, header: Header) -> None:
    """End a batch at its deadline and name missing units, unless a walk completes it.

    A batch that its caller has not sealed is a warning.
    """
    if header.state == "open" and header.parent is None:
        ports.log.warning("batch never sealed", batch=run.batch, detail=NEVER_SEALED)
    pages, size = storage.count_loaded(ports, run)
    if header.state == "sealed":
        propagation.propagate_all(ports, run, header)
    missing = propagation.missing_units(ports, run, propagation.unpropagated(ports, run, header, pages))
    counts = storage.read_counts_of(ports, run, size)

    def rule(header: Header, now: datetime) -> lifecycle.Decided:
        return lifecycle.time_out(run, header, counts, missing, now)

    propagation.end_batch(ports, run, rule)


# --- removal ---


def remove(ports: Ports, run: BatchRun, write: Put) -> None:
    """Mark the header as removed by `write`, delete the records of this run, and delete the header under a guard.

    The guard keeps a slow sweep from deleting a header of a later run of the id.
    """
    [written] = ports.store.commit([write]).results
    for collection in (run.counters_path, run.units_path, run.pages_path):
        if not empty_collection(ports, run, collection):
            return
    given_up = payload_removals(ports, place_of_batch(run))
    ports.store.commit([*given_up, Delete(run.header_path, written.update_time)])


def empty_collection(ports: Ports, run: BatchRun, collection: str) -> bool:
    """Delete this run's records of a collection. Return True if none is left."""
    for _ in range(LIMITS.clean_commits_max):
        found = ports.store.query(Query(collection, limit=LIMITS.clean_records_max))
        ours = [Delete(snapshot.path) for snapshot in found if snapshot.id.startswith(run.incarnation)]
        if not ours:
            return True
        ports.store.commit(ours)
    return False
