"""Measure batches of growing size on the local stack, compared with Celery, DBOS, durabletask and Restate.

python -m tests.bench.batches --sizes 100 1000 5000 20000 --shards 2 --rivals 100 1000 5000

Each batch has a line: the seconds from the first call until it is completed, and milliseconds of processor time a unit,
by part of the stack: the functions, the queue, and Google's emulator, if `STORE` names it. The line after the last
batch says how the time grows. With `--per-task`, the last batch runs once more with one unit a task. Then as many bare
tasks run, each with one commit of the store.

The queue of units has `--shards` shards. One delivers 500 units a second here as in the cloud, and 500 at once: 5,000
units through one cannot end in less than 9 s, whatever the functions take.

The rivals are a Celery chord on Redis, a queue of DBOS on SQLite, the activities of a durabletask orchestration (in
memory), and calls of Restate. A rival that needs longer than `--rival-seconds` is stopped, and larger batches are not
given to it. The rivals need a network or a package cache once: `uv` makes an environment for each, outside the project.
Celery also needs Redis, and Restate its server (`tests/bench/restate_server.py`). All of it takes some five minutes.
Numbers of a laptop compare with each other, not with the cloud.
"""

import argparse
import json
import math
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from examples.demo.batches import order
from signalbox.catalogue import reading as catalogues
from signalbox.core.kit_names import shard_names
from tests.bench import bare_task_function, restate_server
from tests.bench.bare_tasks import FUNCTION, BareTasks
from tests.bench.bench_stack import Stage, staged
from tests.bench.figures import Figure
from tests.bench.idle_stack import family, used
from tests.bench.rivals import rival_processes

PARTS = {
    "functions": "-m gunicorn",
    "queue": "signalbox_tools.local.cloud_tasks",
    "events": "signalbox_tools.local.event_bridge",
    "emulator": "java -XX",
}
"""A part of the stack by what the commands of its processes hold."""

SECONDS_MAX = 1_800.0
LOOK_SECONDS = 0.1
WARM_UP = 200
LINES = {"Content-Type": "application/x-ndjson"}

QUEUE = "tasks"
"""The queue of tasks in the catalogue, and the names of others like it that the bench adds."""


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One batch: how long it took, and the processor time of each part of the stack."""

    units: int
    seconds: float
    spent: Mapping[str, float]

    @property
    def rate(self) -> float:
        """Units a second."""
        return self.units / self.seconds

    def line(self) -> str:
        """Return the line of the table."""
        shares = "  ".join(f"{name} {1000 * seconds / self.units:5.2f}" for name, seconds in self.spent.items())
        return f"{self.units:>7,} units {self.seconds:>8.2f} s {self.rate:>7.0f}/s   ms a unit: {shares}"


def run_batch(stage: Stage, units: int, per_task: int | None = None) -> BatchTime:
    """Load a batch as lines, seal it, and wait until it is completed. Raises `TimeoutError`."""
    batch = f"bench-{uuid.uuid4().hex[:8]}"
    body = order(batch, units) | {"per_task": per_task}
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


def measured(stage: Stage, sizes: Sequence[int], per_task: int | None = None) -> list[BatchTime]:
    """Run batches, print the lines of the table, and return the runs. A first batch warms everything up."""
    run_batch(stage, min(sizes), per_task)
    runs = []
    for units in sizes:
        runs.append(run_batch(stage, units, per_task))
        _print(runs[-1].line())
    if len(runs) > 1:
        _print(f"growth: time grows as units to the power of {growth(runs):.2f} (1 is linear)")
    return runs


def one_a_task(stage: Stage, grouped: BatchTime, per_task: int) -> BatchTime:
    """Run a grouped batch once more with one unit a task; print its line, and the figure that compares the two."""
    alone = run_batch(stage, grouped.units)
    _print(f"{alone.line()}   one a task")
    what = f"{alone.units:,} units, {per_task} a task"
    _print(Figure(what, grouped.rate, "units/s", "one a task", alone.rate).line())
    return alone


def compare_with_bare_tasks(stage: Stage, alone: BatchTime, shards: int) -> None:
    """Run as many bare tasks as a batch has units; print their line, and the figure that compares the two."""
    stage.wait_until_idle()
    with BareTasks(stage, shard_names(QUEUE, shards)) as bare:
        bare.run(WARM_UP)
        seconds = bare.run(alone.units)
    _print(f"{alone.units:>7,} tasks {seconds:>8.2f} s {alone.units / seconds:>7.0f}/s   bare")
    what = f"{alone.units:,} units, one a task"
    _print(Figure(what, alone.rate, "units/s", "bare tasks", alone.units / seconds).line())


def beside_rivals(runs: Sequence[BatchTime], sizes: Sequence[int], seconds_max: float) -> None:
    """Run the rivals, and print their lines and the figures of the sizes that were measured here, too."""
    own = {run.units: run for run in runs}
    for rival, units, ran in rival_processes.runs(sizes, seconds_max):
        _print(ran.line(rival, units))
        if ran.seconds and units in own:
            _print(Figure(f"{units:,} units", own[units].rate, "units/s", rival, units / ran.seconds).line())
    for units in sizes if restate_server.are_installed() else ():
        with restate_server.serving("restate_flows.mjs") as call:
            call("Flow", "fan", body=WARM_UP)
            began = time.monotonic()
            call("Flow", "fan", body=units)
            seconds = time.monotonic() - began
        _print(rival_processes.Ran(seconds).line("restate", units))
        if units in own:
            _print(Figure(f"{units:,} units", own[units].rate, "units/s", "restate", units / seconds).line())


def catalogue_with(folder: Path, shards: int) -> Path:
    """Write a catalogue whose queue for units has `shards`, and with the function of `bare_tasks`. Return the file."""
    content = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    del content["api"]  # the entries are complete, so the bare function may import the store
    functions = catalogues.load().functions
    for name, function in functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    content["queues"][QUEUE]["shards"] = shards
    code = folder / FUNCTION
    code.mkdir(parents=True)
    (code / "main.py").write_bytes(Path(bare_task_function.__file__).read_bytes())
    content["functions"][FUNCTION] = {"folder": str(code), "invoked_by": ["queue"]}
    (folder / "infra").mkdir()
    path = folder / "infra" / "catalogue.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.batches", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 5_000, 20_000])
    parser.add_argument("--shards", type=int, default=2, help="of the queue of units (default: %(default)s)")
    parser.add_argument("--per-task", type=int, help="units that one task runs (default: one)")
    parser.add_argument("--rivals", type=int, nargs="*", help="run the rivals too (with 100, 1,000 and 5,000 units)")
    parser.add_argument("--rival-seconds", type=float, default=90.0, help="for one batch (default: %(default)s)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        catalogue = catalogue_with(Path(name) / "project", chosen.shards)
        with staged(Path(name) / "state", catalogue) as stage:
            runs = measured(stage, chosen.sizes, chosen.per_task)
            alone = one_a_task(stage, runs[-1], chosen.per_task) if chosen.per_task else runs[-1]
            compare_with_bare_tasks(stage, alone, chosen.shards)
    if chosen.rivals is not None:
        beside_rivals(runs, chosen.rivals or [100, 1_000, 5_000], chosen.rival_seconds)
    return 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
