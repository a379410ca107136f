"""The flows of `tests.bench.flows` as DBOS workflows. Prints the measures as JSON.

The argument after the sizes is `steps`, which run in the process of the workflow, or `queue`: then each step is a
workflow of a queue, as the kit's task steps are tasks of one. A last argument is the URL of a PostgreSQL database;
without it, the workflows are stored in SQLite. The script runs in an environment that `tests.bench.flows` makes; the
project does not depend on DBOS.
"""

import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from dbos import DBOS

QUEUE = "units"
CONCURRENCY = 4
"""More at once wait longer for SQLite's one writer."""


LOOK_SECONDS = 0.1


@DBOS.step()
def step(_: int) -> float:
    """Return when it began."""
    return time.time()


@DBOS.workflow()
def chain(steps: int) -> list[float]:
    """Run steps one after another."""
    return [step(number) for number in range(steps)]


@DBOS.workflow()
def unit(number: int) -> float:
    """Run one step."""
    return float(step(number))


def _result(handle: Any) -> Any:
    """Return a workflow's result as soon as its queue looks again. By default, a result is looked for each second."""
    return handle.get_result(polling_interval_sec=LOOK_SECONDS)


@DBOS.workflow()
def queued(steps: int) -> list[float]:
    """Run steps one after another, each as a workflow of a queue."""
    return [_result(DBOS.enqueue_workflow(QUEUE, unit, number)) for number in range(steps)]


CODE = {"steps": chain, "queue": queued}


@DBOS.workflow()
def fan(width: int) -> list[float]:
    """Run a step, then `width` steps at once, then another one."""
    first = step(-1)
    handles = [DBOS.enqueue_workflow(QUEUE, unit, number) for number in range(width)]
    assert len([_result(handle) for handle in handles]) == width
    return [first, step(width)]


def measured(
    code: Callable[[int], list[float]], steps: int, rounds: int, width: int, flows: int, flow_steps: int
) -> dict[str, object]:
    """Measure chains, fan-outs, and flows at once."""
    code(steps)
    runs = [(time.time(), code(steps)) for _ in range(rounds)]
    alone = [seconds(code) for _ in range(rounds)]
    fans = [after - before for before, after in (fan(width) for _ in range(rounds))]
    began = time.time()
    started = [(time.time(), DBOS.start_workflow(code, flow_steps)) for _ in range(flows)]
    ends = [(at, _result(handle)) for at, handle in started]
    return {
        "chains": [times for _, times in runs],
        "first": [times[0] - at for at, times in runs],
        "fan_outs": {f"fan-out {width}": fans},
        "alone": alone,
        "at_once": flows,
        "at_once_steps": flow_steps,
        "at_once_seconds": time.time() - began,
        "crowded": [times[0] - at for at, times in ends],
    }


def seconds(code: Callable[[int], list[float]]) -> float:
    """Return the seconds of a workflow of one step."""
    began = time.monotonic()
    code(1)
    return time.monotonic() - began


def main() -> None:
    sizes, kind, url = sys.argv[1:6], sys.argv[6], "".join(sys.argv[7:])
    with tempfile.TemporaryDirectory() as folder:
        DBOS(config={"name": "rival", "system_database_url": url or f"sqlite:///{folder}/dbos.sqlite"})
        DBOS.launch()
        DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=LOOK_SECONDS)
        logging.disable(logging.CRITICAL)
        sys.stdout.write(json.dumps(measured(CODE[kind], *map(int, sizes))) + "\n")
        DBOS.destroy()


if __name__ == "__main__":
    main()
