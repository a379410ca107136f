"""Run batches of 10,000 to a million units in this process, and 131,071 in 16 levels; print what a unit writes.

python -m tests.batch_sizes --sizes 10000 100000 --levels 10
"""

import argparse
import time

from tests.simulation.batch_sizes import Size, of_depth, of_size


def report(name: str, size: Size, seconds: float) -> str:
    """Return one line of the table."""
    each = [f"{number / size.units:8.3f}" for number in (size.records, size.writes, size.tasks)]
    return f"{name:>24} {size.units:>10,} {' '.join(each)} {size.hottest:>8} {seconds:>8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.batch_sizes", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 800_000, 1_000_000])
    parser.add_argument("--levels", type=int, nargs="*", default=[10, 16])
    chosen = parser.parse_args()
    print(f"{'batch':>24} {'units':>10} {'records':>8} {'writes':>8} {'tasks':>8} {'hottest':>8} {'seconds':>8}")
    print(f"{'':>24} {'':>10} {'a unit':>8} {'a unit':>8} {'a unit':>8} {'writes':>8}")
    runs = [(f"{size:,} units", of_size, size) for size in chosen.sizes]
    for name, run, number in [*runs, *((f"{levels} levels of two", of_depth, levels) for levels in chosen.levels)]:
        began = time.monotonic()
        size = run(number)
        print(report(name, size, time.monotonic() - began), flush=True)


if __name__ == "__main__":
    main()
