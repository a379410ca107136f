"""Run batches of 10,000 to a million units in this process, and 131,071 in 16 levels; print what a unit writes.

python -m tests.batch_sizes --sizes 10000 100000 --levels 10

The seconds are of the processor, of which one core is used: whatever else runs does not count. All of it takes five
minutes. Ends with 1 if what a unit costs grows with the batch, or if a record is written too often.
"""

import argparse
import resource
import sys
import time
from collections.abc import Sequence

from tests.batch_sizes.sizes import WRITES_MAX, Size, of_depth, of_size

GROWTH_MAX = 0.02
"""How much more a unit of the largest batch may cost than one of the smallest: some records are the batch's own."""

COSTS = ("records", "writes", "tasks")


def each(size: Size) -> list[float]:
    """Return the records, writes and tasks of a unit."""
    return [getattr(size, name) / size.units for name in COSTS]


def report(name: str, size: Size, seconds: float) -> str:
    """Return one line of the table."""
    costs = " ".join(f"{cost:8.3f}" for cost in each(size))
    return f"{name:>24} {size.units:>10,} {costs} {size.hottest:>8} {seconds:>8.1f}"


def growth(sizes: Sequence[Size]) -> float:
    """Return by which share a unit's cost differs between two sizes, at most."""
    shares: list[float] = [max(costs) / min(costs) - 1 for costs in zip(*map(each, sizes), strict=True)]
    return max(shares)


def checks(kinds: Sequence[Sequence[Size]]) -> list[tuple[bool, str]]:
    """Return the properties that batches of a kind must have, each with whether it holds. Batches are sorted by
    size.
    """
    found = []
    for sizes in kinds:
        if len(sizes) > 1:
            more = growth(sizes)
            between = f"from {sizes[0].units:,} to {sizes[-1].units:,} units"
            found.append((more <= GROWTH_MAX, f"{', '.join(COSTS)} a unit differ by {more:.2%} {between}: linear"))
    hottest = max(size.hottest for sizes in kinds for size in sizes)
    found.append((hottest <= WRITES_MAX, f"no record is written more than {hottest} times; {WRITES_MAX} are allowed"))
    once = all(size.completions == 1 for sizes in kinds for size in sizes)
    return [*found, (once, "each batch was announced once")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.batch_sizes", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 800_000, 1_000_000])
    parser.add_argument("--levels", type=int, nargs="*", default=[10, 16])
    chosen = parser.parse_args()
    print(f"{'batch':>24} {'units':>10} {'records':>8} {'writes':>8} {'tasks':>8} {'hottest':>8} {'seconds':>8}")
    print(f"{'':>24} {'':>10} {'a unit':>8} {'a unit':>8} {'a unit':>8} {'writes':>8}", flush=True)
    runs = [(f"{size:,} units", of_size, size) for size in chosen.sizes]
    sizes = []
    for name, run, number in [*runs, *((f"{levels} levels of two", of_depth, levels) for levels in chosen.levels)]:
        began = time.process_time()
        sizes.append(run(number))
        print(report(name, sizes[-1], time.process_time() - began), flush=True)
    kinds = [some for some in (sizes[: len(runs)], sizes[len(runs) :]) if some]
    found = checks(kinds) if kinds else []
    for holds, sentence in found:
        print(f"{'yes' if holds else 'NO'}: {sentence}")
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB of memory")
    return 0 if all(holds for holds, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
