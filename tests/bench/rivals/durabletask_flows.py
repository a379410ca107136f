"""The flows of `tests.bench.flows` as orchestrations of Microsoft's durabletask. Prints the measures as JSON.

Its backend in memory keeps nothing. It runs in an environment of its own, which `tests.bench.flows` makes; the project
does not depend on durabletask.
"""

import json
import logging
import socket
import sys
import time
from collections.abc import Generator
from typing import Any

from durabletask import client, task, worker
from durabletask.testing import create_test_backend

SECONDS_MAX = 600


def step(_: task.ActivityContext, __: int) -> float:
    """Return when it began."""
    return time.time()


def chain(context: task.OrchestrationContext, steps: int) -> Generator[Any, Any, list[float]]:
    """Run steps one after another."""
    times = []
    for number in range(steps):
        began = yield context.call_activity(step, input=number)
        times.append(began)
    return times


def fan(context: task.OrchestrationContext, width: int) -> Generator[Any, Any, list[float]]:
    """Run a step, then `width` steps at once, then another one."""
    first = yield context.call_activity(step, input=-1)
    yield task.when_all([context.call_activity(step, input=number) for number in range(width)])
    return [first, (yield context.call_activity(step, input=width))]


class Runs:
    """Orchestrations, by a client."""

    def __init__(self, hub: client.TaskHubGrpcClient) -> None:
        self._hub = hub

    def start(self, code: Any, size: int) -> tuple[float, str]:
        """Start one; return when, and its id."""
        return time.time(), self._hub.schedule_new_orchestration(code, input=size)

    def result(self, id_: str) -> list[float]:
        """Wait for the end of one."""
        ended = self._hub.wait_for_orchestration_completion(id_, timeout=SECONDS_MAX)
        return [float(each) for each in json.loads(ended.serialized_output)]

    def run(self, code: Any, size: int) -> tuple[float, list[float]]:
        """Run one."""
        at, id_ = self.start(code, size)
        return at, self.result(id_)

    def seconds(self) -> float:
        """Return the seconds of an orchestration of one step."""
        began = time.monotonic()
        self.run(chain, 1)
        return time.monotonic() - began


def measured(runs: Runs, steps: int, rounds: int, width: int, flows: int, flow_steps: int) -> dict[str, object]:
    """Measure chains, fan-outs, and flows at once."""
    runs.run(chain, steps)
    chains = [runs.run(chain, steps) for _ in range(rounds)]
    alone = [runs.seconds() for _ in range(rounds)]
    fans = [after - before for _, (before, after) in (runs.run(fan, width) for _ in range(rounds))]
    began = time.time()
    started = [runs.start(chain, flow_steps) for _ in range(flows)]
    ends = [(at, runs.result(id_)) for at, id_ in started]
    return {
        "chains": [times for _, times in chains],
        "first": [times[0] - at for at, times in chains],
        "fan_outs": {f"fan-out {width}": fans},
        "alone": alone,
        "at_once": flows,
        "at_once_steps": flow_steps,
        "at_once_seconds": time.time() - began,
        "crowded": [times[0] - at for at, times in ends],
    }


def main() -> None:
    logging.disable(logging.CRITICAL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    backend = create_test_backend(port=port)
    address = f"127.0.0.1:{port}"
    with worker.TaskHubGrpcWorker(host_address=address) as working:
        for each in (chain, fan):
            working.add_orchestrator(each)
        working.add_activity(step)
        working.start()
        hub = client.TaskHubGrpcClient(host_address=address)
        sys.stdout.write(json.dumps(measured(Runs(hub), *map(int, sys.argv[1:]))) + "\n")
        sys.stdout.flush()
    backend.stop()


if __name__ == "__main__":
    main()
