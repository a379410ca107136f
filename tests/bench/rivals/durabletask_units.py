"""An orchestration of Microsoft's durabletask with so many activities at once. Prints the seconds it took.

Its backend in memory keeps nothing. It runs in a separate environment, which `tests.bench.batches` makes; the project
does not depend on durabletask.
"""

import logging
import socket
import sys
import time
from collections.abc import Generator
from typing import Any

from durabletask import client, task, worker
from durabletask.testing import create_test_backend

SECONDS_MAX = 900


def paint(_: task.ActivityContext, square: int) -> dict[str, int]:
    """Return a unit's result."""
    return {"row": square // 50, "column": square % 50}


def all_of(context: task.OrchestrationContext, units: int) -> Generator[Any, Any, int]:
    """Run the units at once, and return their number."""
    results = yield task.when_all([context.call_activity(paint, input=number) for number in range(units)])
    return len(results)


def main() -> None:
    units = int(sys.argv[1])
    logging.disable(logging.CRITICAL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    backend, address = create_test_backend(port=port), f"127.0.0.1:{port}"
    with worker.TaskHubGrpcWorker(host_address=address) as working:
        working.add_orchestrator(all_of)
        working.add_activity(paint)
        working.start()
        hub = client.TaskHubGrpcClient(host_address=address)
        began = time.monotonic()
        ended = hub.wait_for_orchestration_completion(
            hub.schedule_new_orchestration(all_of, input=units), timeout=SECONDS_MAX
        )
        if ended is None or ended.serialized_output != str(units):
            sys.exit("units were lost")
        sys.stdout.write(f"{time.monotonic() - began:.3f}\n")
        sys.stdout.flush()
    backend.stop()


if __name__ == "__main__":
    main()
