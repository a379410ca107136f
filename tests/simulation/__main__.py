"""Run many seeds of the simulation, on all cores; print each violation with its seed, and replay one with its trace.

python -m tests.simulation --seeds 100000
python -m tests.simulation --world links --replay 4711
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation import batches_world, links_world, outbox_world, semaphores_world, verify_world
from tests.simulation.world import Violation

WORLDS: dict[str, Callable[..., None]] = {
    "batches": batches_world.run,
    "links": links_world.run,
    "outbox": outbox_world.run,
    "semaphores": semaphores_world.run,
    "verify": verify_world.run,
}
CHUNK_SEEDS = 250
VIOLATIONS_SHOWN = 10


def violations(world: str, seeds: range) -> list[tuple[str, int, str]]:
    """Run seeds one by one; list what did not hold."""
    found = []
    for seed in seeds:
        try:
            WORLDS[world](seed)
        except Violation as violation:
            found.append((world, seed, str(violation)))
    return found


def simulate(worlds: list[str], seeds: int) -> Iterator[tuple[str, int, str]]:
    """Run the seeds 0 to `seeds` of each world on all cores; yield what did not hold."""
    chunks = [range(first, min(first + CHUNK_SEEDS, seeds)) for first in range(0, seeds, CHUNK_SEEDS)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for world in worlds:
            for found in pool.map(partial(violations, world), chunks):
                yield from found


def replay(world: str, seed: int) -> int:
    """Run one seed again and print every step."""
    try:
        WORLDS[world](seed, trace=print)
    except Violation as violation:
        print(f"violation: {violation}")
        return 1
    print("every property held")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--world", choices=sorted(WORLDS), action="append", help="only this world (default: all)")
    parser.add_argument("--seeds", type=int, default=20_000, help="seeds a world (default: %(default)s)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run this one seed and print its trace")
    chosen = parser.parse_args()
    worlds = chosen.world or list(WORLDS)
    if chosen.replay is not None:
        return max(replay(world, chosen.replay) for world in worlds)
    began = time.monotonic()
    broken = 0
    for world, seed, what in simulate(worlds, chosen.seeds):
        broken += 1
        if broken <= VIOLATIONS_SHOWN:
            print(f"{world} seed {seed}: {what}\n  replay: python -m tests.simulation --world {world} --replay {seed}")
    seconds = time.monotonic() - began
    total = chosen.seeds * len(worlds)
    pace = f"{seconds:.0f} s, {1000 * seconds / total:.1f} ms each"
    print(f"{total:,} seeds of {', '.join(worlds)} in {pace}: {broken} violations")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
