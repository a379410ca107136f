"""All planted faults by world, and the search for a seed that notices one.

Each seed that noticed a fault is kept in `noticed_seeds.json` and tried first, as a fuzzer keeps its corpus: as long as
nothing else has changed, it notices again at once. When it no longer does, the seeds are searched from 0, as they were
the first time. Rewrite the file with ``python -m tests.simulation --keep-noticed``.
"""

import gc
import json
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

from tests.simulation.faults import (
    asked_payloads,
    attempts,
    batches,
    document_events,
    enqueues,
    failures,
    flows,
    forged_records,
    history,
    links,
    notices,
    objects,
    outbox,
    payloads,
    rates,
    resources,
    scheduled_times,
    sections,
    semaphores,
    standings,
    transactions,
    verify,
    watch,
)
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.flows import (
    asked_runs,
    begun_commands,
    inline_steps,
    locks_and_sub_flows,
    lost_messages,
    nested_programs,
    trees,
    turns,
)
from tests.simulation.faults.flows import bulk_acts as bulk_acts
from tests.simulation.faults.flows import rewinds as rewinds
from tests.simulation.faults.flows import updates as updates
from tests.simulation.world import Violation

FAULTS: dict[str, tuple[Fault, ...]] = {
    "asked_payloads": asked_payloads.FAULTS,
    "asked_runs": asked_runs.FAULTS,
    "attempts": attempts.FAULTS,
    "batches": batches.FAULTS,
    "bulk_acts": bulk_acts.FAULTS,
    "composed_flows": begun_commands.FAULTS,
    "document_events": document_events.FAULTS,
    "enqueues": enqueues.FAULTS,
    "failures": failures.FAULTS,
    "flows": flows.FAULTS,
    "forged_records": forged_records.FAULTS,
    "grouped_batches": batches.GROUPED,
    "history": history.FAULTS,
    "inline_steps": inline_steps.FAULTS,
    "links": links.FAULTS,
    "nested_flows": (*nested_programs.FAULTS, *lost_messages.FAULTS, *turns.NESTED, *locks_and_sub_flows.NESTED),
    "flow_trees": trees.FAULTS,
    "notices": notices.FAULTS,
    "batch_payloads": payloads.OF_BATCHES,
    "object_payloads": payloads.OF_OBJECTS,
    "objects": objects.FAULTS,
    "outbox": outbox.FAULTS,
    "payloads": payloads.FAULTS,
    "rates": rates.FAULTS,
    "resources": resources.FAULTS,
    "rewinds": rewinds.FAULTS,
    "scheduled_times": scheduled_times.FAULTS,
    "sections": sections.FAULTS,
    "semaphores": semaphores.FAULTS,
    "standings": standings.FAULTS,
    "transactions": transactions.FAULTS,
    "updates": updates.FAULTS,
    "verify": verify.FAULTS,
    "watch": watch.FAULTS,
}

PLANTED = {f"{world}: {fault}": fault for world, faults in FAULTS.items() for fault in faults}

SEEDS_MAX = 12_000
"""Seeds until a planted fault must have been noticed; most are within a hundred."""

NOTICED = Path(__file__).parent / "noticed_seeds.json"


def noticed(name: str, *, trusting: bool = False) -> int | None:
    """Return a seed whose world holds without the fault and not with it; None if none of the first `SEEDS_MAX` is.

    `trusting`: the world of the kept seed held without the fault when it was kept, and that is not tried again.
    """
    gc.freeze()  # what a process has imported is most of what a collection would look at
    fault = PLANTED[name]
    for seed in chain(_kept(name), range(SEEDS_MAX)):
        with fault.plant():
            is_broken = _is_broken(fault, seed)
        if is_broken and ((trusting and seed in _kept(name)) or not _is_broken(fault, seed)):
            return seed
    return None


def breaks_anyway(name: str) -> bool:
    """Return whether the world of a fault's kept seed does not hold without the fault either."""
    return any(_is_broken(PLANTED[name], seed) for seed in _kept(name))


def _is_broken(fault: Fault, seed: int) -> bool:
    try:
        fault.run(seed)
    except Violation as violation:
        violation.__traceback__ = None
        gc.collect()  # the code that a broken run leaves must not be cleaned up within the next run
        return True
    return False


def _kept(name: str) -> list[int]:
    seeds = json.loads(NOTICED.read_text("utf-8")) if NOTICED.exists() else {}
    return [seeds[name]] if name in seeds else []


def search_all() -> list[str]:
    """Search a seed for every fault, on all cores, and keep what is found. Return the faults that nothing notices."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        seeds = dict(zip(PLANTED, pool.map(noticed, PLANTED), strict=True))
    kept = {name: seed for name, seed in sorted(seeds.items()) if seed is not None}
    NOTICED.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return [name for name, seed in seeds.items() if seed is None]
