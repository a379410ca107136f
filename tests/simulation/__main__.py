"""Run many seeds of the simulation, on all cores; print each violation with its seed, and replay one with its trace.

python -m tests.simulation --seeds 100000
python -m tests.simulation --world links --replay 4711
python -m tests.simulation --long --seeds 3000
python -m tests.simulation --keep-noticed
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation import planted
from tests.simulation.half_commits import half_commits
from tests.simulation.reached_counts import REACHED, SEEDS_OF_TODAY
from tests.simulation.versions import Lacking, two_versions
from tests.simulation.world import Violation
from tests.simulation.world_lengths import begin_process, long_worlds
from tests.simulation.worlds import (
    attempts,
    batch_payloads,
    document_events,
    enqueues,
    failures,
    forged_records,
    history,
    object_payloads,
    outbox,
    payloads,
    rates,
    resources,
    scheduled_times,
    sections,
    standings,
    transactions,
    verify,
    watch,
)
from tests.simulation.worlds.asked_payloads import compared as asked_payloads
from tests.simulation.worlds.asked_runs import compared as asked_runs
from tests.simulation.worlds.batches import grouped_units as grouped_batches
from tests.simulation.worlds.batches import world as batches
from tests.simulation.worlds.flow_trees import compared as flow_trees
from tests.simulation.worlds.flows import begun_commands as composed_flows
from tests.simulation.worlds.flows import bulk_acts, inline_steps, rewinds, updates
from tests.simulation.worlds.flows import nested_programs as nested_flows
from tests.simulation.worlds.flows import world as flows
from tests.simulation.worlds.links import world as links
from tests.simulation.worlds.notices import world as notices
from tests.simulation.worlds.objects import world as objects
from tests.simulation.worlds.semaphores import world as semaphores

WORLDS: dict[str, Callable[..., None]] = {
    "asked_payloads": asked_payloads.run,
    "asked_runs": asked_runs.run,
    "attempts": attempts.run,
    "batches": batches.run,
    "bulk_acts": bulk_acts.run,
    "composed_flows": composed_flows.run,
    "document_events": document_events.run,
    "enqueues": enqueues.run,
    "failures": failures.run,
    "flow_trees": flow_trees.run,
    "flows": flows.run,
    "forged_records": forged_records.run,
    "grouped_batches": grouped_batches.run,
    "history": history.run,
    "inline_steps": inline_steps.run,
    "links": links.run,
    "nested_flows": nested_flows.run,
    "notices": notices.run,
    "batch_payloads": batch_payloads.run,
    "object_payloads": object_payloads.run,
    "objects": objects.run,
    "outbox": outbox.run,
    "payloads": payloads.run,
    "rates": rates.run,
    "resources": resources.run,
    "rewinds": rewinds.run,
    "scheduled_times": scheduled_times.run,
    "sections": sections.run,
    "semaphores": semaphores.run,
    "standings": standings.run,
    "transactions": transactions.run,
    "updates": updates.run,
    "verify": verify.run,
    "watch": watch.run,
}

OF_DRIVER = frozenset({"asked_payloads", "asked_runs", "flow_trees"})
"""Worlds that compare calls with a model of the pages: no process of theirs runs at the same time as another."""

FORGED = frozenset({"forged_records"})
"""Worlds with records that the kit did not write."""

CHUNK_SEEDS = 250
VIOLATIONS_SHOWN = 10


Found = tuple[str, int, str]
"""A violation: its world, its seed, what did not hold."""


def violations(world: str, seeds: range, torn: float = 0.0, versions: bool = False) -> tuple[list[Found], Counter[str]]:
    """Run seeds one by one; return the violations, and the counts of what these seeds reached."""
    found = []
    before = REACHED.copy()
    for seed in seeds:
        try:
            with half_commits(torn), two_versions(versions):
                WORLDS[world](seed)
        except Lacking:
            REACHED[SEEDS_OF_TODAY] += 1
        except (Exception, Violation) as error:  # noqa: BLE001  whatever a seed raises is found, and no reason to end the search
            found.append((world, seed, str(error) if isinstance(error, Violation) else repr(error)))
    return found, REACHED - before


def simulate(
    world: str, seeds: range, long: bool, torn: float, versions: bool
) -> Iterator[tuple[list[Found], Counter[str]]]:
    """Run the seeds of a world on all cores, in chunks; yield what each chunk found and reached."""
    chunks = [seeds[first : first + CHUNK_SEEDS] for first in range(0, len(seeds), CHUNK_SEEDS)]
    with ProcessPoolExecutor(os.cpu_count(), initializer=begin_process, initargs=(long,)) as pool:
        yield from pool.map(partial(violations, world, torn=torn, versions=versions), chunks)


def replay(world: str, seed: int, long: bool, torn: float, versions: bool) -> int:
    """Run one seed again and print every step."""
    try:
        with long_worlds(long), half_commits(torn), two_versions(versions):
            WORLDS[world](seed, trace=print)
    except Violation as violation:
        print(f"violation: {violation}")
        return 1
    print("every property held")
    return 0


def keep_noticed() -> int:
    """Rewrite `noticed_seeds.json`; print the planted faults that no seed notices."""
    unnoticed = planted.search_all()
    for fault in unnoticed:
        print(f"not noticed: {fault}")
    return 1 if unnoticed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__.splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--world", choices=sorted(WORLDS), action="append", help="only this world (default: all)")
    parser.add_argument("--seeds", type=int, default=20_000, help="seeds a world (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--long", action="store_true", help="longer worlds: more operations, more faults")
    parser.add_argument("--torn", type=float, default=0.0, help="share of reads beside a commit that find half of it")
    parser.add_argument("--versions", action="store_true", help="processes of today and of the last release, at once")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run this one seed and print its trace")
    parser.add_argument("--keep-noticed", action="store_true", help="search a seed for each planted fault and keep it")
    chosen = parser.parse_args()
    if chosen.keep_noticed:
        return keep_noticed()
    worlds = chosen.world or list(WORLDS)
    if chosen.replay is not None:
        return max(replay(world, chosen.replay, chosen.long, chosen.torn, chosen.versions) for world in worlds)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    return 1 if sum(report(world, seeds, chosen.long, chosen.torn, chosen.versions) for world in worlds) else 0


def report(world: str, seeds: range, long: bool, torn: float, versions: bool) -> int:
    """Run a world's seeds; print its first violations and what was reached. Return the number of violations."""
    chosen = f"{' --long' if long else ''}{f' --torn {torn}' if torn else ''}{' --versions' if versions else ''}"
    again = f"python -m tests.simulation --world {world}{chosen} --replay"
    began = time.monotonic()
    broken = 0
    reached: Counter[str] = Counter()
    for found, counts in simulate(world, seeds, long, torn, versions):
        reached += counts
        for _, seed, what in found[: max(0, VIOLATIONS_SHOWN - broken)]:
            print(f"{world} seed {seed}: {what}\n  replay: {again} {seed}")
        broken += len(found)
    seconds = time.monotonic() - began
    each = f"{1000 * seconds / max(1, len(seeds)):.1f} ms each"
    print(f"{world}: {len(seeds):,} seeds in {seconds:.0f} s, {each}: {broken} violations", flush=True)
    for what, count in sorted(reached.items()):
        print(f"  {count:>8,} {what}")
    return broken


if __name__ == "__main__":
    sys.exit(main())
