"""Measure documents and links on a local stack, with queue and events running, and print one table.

python -m tests.bench.documents --copies 5000

Numbers of a laptop compare with each other, not with the cloud: the ratio is to the same fan-out by bare calls of the
store in the same run. "shown": from the put to the last copy; "idle": until the events of the refreshed copies were
handled.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench import measured_table
from tests.bench.bench_stack import Stage, staged
from tests.bench.documents_a_second import rates
from tests.bench.fan_out import fan_out
from tests.bench.kit_cpu_time import event_microseconds, put_milliseconds

SIZES = (500, 1_000, 5_000, 20_000)
WARM_UP_COPIES = 500


def lines(stage: Stage, copies_max: int, calls: int) -> Iterator[str]:
    """Measure, and iterate over the lines of the table. `calls` is the number of repetitions of each short call."""
    fan_out(stage, min(copies_max, WARM_UP_COPIES))  # a Java program is slow at first
    yield from measured_table.of_rates(rates(stage, calls))
    yield measured_table.HEADER
    runs = []
    for copies in sizes(copies_max):
        runs.append(fan_out(stage, copies))
        yield measured_table.of_fan_out(runs[-1])
        yield measured_table.figure_of_fan_out(runs[-1])
    yield measured_table.of_growth(runs)
    yield measured_table.of_events(*event_microseconds(calls), calls)
    yield from measured_table.of_puts(
        {linkers: put_milliseconds(stage, linkers, calls // 5) for linkers in (0, 1, copies_max)}
    )


def sizes(copies_max: int) -> list[int]:
    """Return the numbers of copies to measure, up to the largest."""
    return [*(size for size in SIZES if size < copies_max), copies_max]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.documents", description=str(__doc__).splitlines()[0])
    parser.add_argument("--copies", type=int, default=SIZES[-1], help="of the largest fan-out (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=500, help="of each short kind (default: %(default)s)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
        for line in lines(stage, chosen.copies, chosen.calls):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
