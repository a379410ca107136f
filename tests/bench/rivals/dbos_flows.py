"""The flows of `tests.bench.flows` as DBOS workflows. Prints the measures as JSON.

The last argument may be the URL of a PostgreSQL database; without it, the workflows are stored in SQLite. The script
runs in an environment that `tests.bench.flows` makes; the project does not depend on DBOS.
"""

import json
import logging
import sys
import tempfile
import time

from dbos import DBOS

QUEUE = "units"
CONCURRENCY = 4
"""More at once wait longer for SQLite's one writer."""


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


@DBOS.workflow()
def fan(width: int) -> list[float]:
    """Run a step, then `width` steps at once, then another one."""
    first = step(-1)
    handles = [DBOS.enqueue_workflow(QUEUE, unit, number) for number in range(width)]
    assert len([handle.get_result() for handle in handles]) == width
    return [first, step(width)]


def measured(steps: int, rounds: int, width: int, flows: int, flow_steps: int) -> dict[str, object]:
    """Measure chains, fan-outs, and flows at once."""
    chain(steps)
    runs = [(time.time(), chain(steps)) for _ in range(rounds)]
    fans = [after - before for before, after in (fan(width) for _ in range(rounds))]
    began = time.time()
    started = [(time.time(), DBOS.start_workflow(chain, flow_steps)) for _ in range(flows)]
    ends = [(at, handle.get_result()) for at, handle in started]
    return {
        "chains": [times for _, times in runs],
        "first": [times[0] - at for at, times in runs],
        "fan_outs": {f"fan-out {width}": fans},
        "at_once": flows,
        "at_once_steps": flow_steps,
        "at_once_seconds": time.time() - began,
        "crowded": [times[0] - at for at, times in ends],
    }


def main() -> None:
    sizes, url = sys.argv[1:6], "".join(sys.argv[6:])
    with tempfile.TemporaryDirectory() as folder:
        DBOS(config={"name": "rival", "system_database_url": url or f"sqlite:///{folder}/dbos.sqlite"})
        DBOS.launch()
        DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=0.1)
        logging.disable(logging.CRITICAL)
        sys.stdout.write(json.dumps(measured(*map(int, sizes))) + "\n")
        DBOS.destroy()


if __name__ == "__main__":
    main()
