"""Remove an ended batch, as far as one sweep goes: counters first, then units and pages, the header last.

A late unit finds no counter and is dropped; if its record went first, the unit would be recorded again. The header goes
last, so the id is free only when no record of the run is left.
"""

from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.header import Header
from shared.core.operations.ports import Delete, Ports, Put, Query, Snapshot
from shared.core.rules.limits import LIMITS


def remove(ports: Ports, run: BatchRun, header: Header, snapshot: Snapshot) -> None:
    """Delete the records of this run, and its header under a guard: a slow sweep may find the id in use again."""
    write = Put(run.header_path, header.removed_since(snapshot.read_time).to_record(), snapshot.guard)
    [written] = ports.store.commit([write]).results
    for collection in (run.counters_path, run.units_path, run.pages_path):
        if not _emptied(ports, run, collection):
            return
    ports.store.commit([Delete(run.header_path, written.update_time)])


def _emptied(ports: Ports, run: BatchRun, collection: str) -> bool:
    """Delete this run's records of a collection; return whether none is left."""
    for _ in range(LIMITS.clean_commits_max):
        found = ports.store.query(Query(collection, limit=LIMITS.clean_records_max))
        ours = [Delete(one.path) for one in found if one.id.startswith(run.incarnation)]
        if not ours:
            return True
        ports.store.commit(ours)
    return False
