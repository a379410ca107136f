"""The chains of `tests.bench.flows` as chains of Celery's tasks on Redis. Prints the measures as JSON.

It runs in a separate environment, which `tests.bench.flows` makes; the project does not depend on Celery. Celery has no
flow that continues after a list of tasks in its own code, so no fan-outs are measured here (`tests.bench.batches` has
its chord).
"""

import json
import sys
import time
from typing import Any

from celery import chain
from celery_worker import application, working

WORKERS = 2
SECONDS_MAX = 600
app = application("celery_flows")


@app.task(name="step")
def step() -> float:
    """Return when it began."""
    return time.time()


def start(steps: int) -> tuple[float, Any]:
    """Start a chain; return when, and its last result."""
    return time.time(), chain(*[step.si() for _ in range(steps)]).delay()


def times_of(last: Any) -> list[float]:
    """Wait for a chain, and return when each of its steps began."""
    last.get(timeout=SECONDS_MAX)
    results = [last]
    while results[-1].parent is not None:
        results.append(results[-1].parent)
    return [result.get(timeout=SECONDS_MAX) for result in reversed(results)]


def measured(steps: int, rounds: int, flows: int, flow_steps: int) -> dict[str, object]:
    """Measure chains, and chains at once."""
    times_of(start(steps)[1])
    chains = [(at, times_of(last)) for at, last in (start(steps) for _ in range(rounds))]
    alone = []
    for _ in range(rounds):
        at, last = start(1)
        last.get(timeout=SECONDS_MAX)
        alone.append(time.time() - at)
    began = time.time()
    started = [start(flow_steps) for _ in range(flows)]
    for _, last in started:
        last.get(timeout=SECONDS_MAX)
    seconds = time.time() - began
    return {
        "chains": [times for _, times in chains],
        "first": [times[0] - at for at, times in chains],
        "fan_outs": {},
        "alone": alone,
        "at_once": flows,
        "at_once_steps": flow_steps,
        "at_once_seconds": seconds,
        "crowded": [times_of(last)[0] - at for at, last in started],
    }


def main() -> None:
    steps, rounds, _, flows, flow_steps = map(int, sys.argv[1:6])
    with working(app, WORKERS):
        sys.stdout.write(json.dumps(measured(steps, rounds, flows, flow_steps)) + "\n")


if __name__ == "__main__":
    main()
