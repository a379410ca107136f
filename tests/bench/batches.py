"""Measure batches of growing size on the local stack, beside a Celery chord on Redis and DBOS on SQLite.

python -m tests.bench.batches --sizes 100 1000 5000 20000 --rivals

Each line: the seconds from the first call until the batch is completed, and milliseconds of processor time a unit, by
part of the stack: the functions, the queue, and the Firestore emulator. The last line says how the time grows. The
rivals need a network or a package cache, and Redis, once: `uv` makes an environment for each, outside the project.
Numbers of a laptop compare with each other, not with the cloud.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.demo.batches import order
from infra.local import firestore_emulator
from infra.local.stack import Stack
from tests.bench.idle import family, used
from tests.bench.stage import Stage

PARTS = {"functions": "-m gunicorn", "queue": "infra.local.cloud_tasks", "emulator": "java -XX"}
"""A part of the stack by what the commands of its processes hold."""

SECONDS_MAX = 1_800.0
LOOK_SECONDS = 0.1
LINES = {"Content-Type": "application/x-ndjson"}

RIVALS = Path(__file__).parent / "rivals"
PACKAGES = {
    "celery_chord": ("celery==5.7.0", "redis==8.1.0", "packaging==26.3"),
    "dbos_queue": ("dbos==3.4.0",),
}
WORKERS = 2


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One batch: how long it took, and the processor time of each part of the stack."""

    units: int
    seconds: float
    spent: Mapping[str, float]

    def line(self) -> str:
        """Return the line of the table."""
        shares = "  ".join(f"{name} {1000 * seconds / self.units:5.2f}" for name, seconds in self.spent.items())
        return (
            f"{self.units:>7,} units {self.seconds:>8.2f} s {self.units / self.seconds:>7.0f}/s   ms a unit: {shares}"
        )


def run_batch(stage: Stage, units: int) -> BatchTime:
    """Load a batch as lines, seal it, and wait until it is completed. Raises `TimeoutError`."""
    batch = f"bench-{uuid.uuid4().hex[:8]}"
    body = order(batch, units)
    lines = b"\n".join(json.dumps(unit).encode() for unit in body["units"])
    before, began = processor_seconds(), time.monotonic()
    stage.http.post("batches", json=body | {"units": [], "sealed": False}).raise_for_status()
    added = stage.http.post(f"batches/{batch}/units", content=lines, headers=LINES, timeout=SECONDS_MAX)
    stage.http.post(f"batches/{batch}/seal", json={"pages": added.raise_for_status().json()["page"]}).raise_for_status()
    _wait_until_completed(stage, batch, units)
    seconds = time.monotonic() - began
    after = processor_seconds()
    return BatchTime(units, seconds, {name: after[name] - before[name] for name in PARTS})


def _wait_until_completed(stage: Stage, batch: str, units: int) -> None:
    """Look at the header past the functions: a look at the counts would take part in what is measured."""
    give_up_at = time.monotonic() + SECONDS_MAX
    while (header := stage.store.read(f"batches/{batch}")[0].data or {}).get("state") != "completed":
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{batch} is {header.get('state')}")
        time.sleep(LOOK_SECONDS)
    assert (header["size"], header["failed"]) == (units, 0), f"{batch} counts {header['size']} and {header['failed']}"


def processor_seconds() -> dict[str, float]:
    """Return the processor time that each part of the stack has used."""
    commands = family()
    return {name: sum(used(pid) for pid, text in commands.items() if part in text) for name, part in PARTS.items()}


def growth(runs: Sequence[BatchTime]) -> float:
    """Return the power of the number of units with which the time grows, between the smallest and the largest."""
    first, last = runs[0], runs[-1]
    return math.log(last.seconds / first.seconds) / math.log(last.units / first.units)


def rival_seconds(rival: str, units: int) -> float | None:
    """Run a rival with so many units; None if it cannot be had on this machine."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    packages = [part for package in PACKAGES[rival] for part in ("--with", package)]
    command = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable, *packages]
    ended = subprocess.run(
        [*command, "python", str(RIVALS / f"{rival}.py"), str(units), str(WORKERS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    return float(ended.stdout.split()[-1]) if ended.returncode == 0 else None


def lines(stage: Stage, sizes: Sequence[int], rivals_at: int | None) -> Iterator[str]:
    """Yield the lines of the table. The first batch, which warms everything up, is not in it."""
    run_batch(stage, min(sizes))
    runs = []
    for units in sizes:
        runs.append(run_batch(stage, units))
        yield runs[-1].line()
    if len(runs) > 1:
        yield f"growth: time grows as units to the power of {growth(runs):.2f} (1 is linear)"
    for rival in PACKAGES if rivals_at else ():
        seconds = rival_seconds(rival, rivals_at or 0)
        yield f"{rival:>13} {rivals_at:>7,} units {f'{seconds:.2f} s' if seconds else 'not to be had here'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.batches", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 5_000, 20_000])
    parser.add_argument("--rivals", type=int, nargs="?", const=5_000, help="run Celery and DBOS with so many units")
    chosen = parser.parse_args()
    if firestore_emulator.find_installed() is None:
        sys.exit(f"no Firestore emulator on this machine: {firestore_emulator.HOW_TO_GET_IT}")
    with tempfile.TemporaryDirectory() as folder, Stack(folder=Path(folder)) as stack, Stage(stack) as stage:
        for line in lines(stage, chosen.sizes, chosen.rivals):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
