"""The units of a batch as bare tasks: an upper bound for a kit that runs one task for each unit.

A client creates a Cloud Tasks task for each unit. A function without the kit runs each in one commit. Nothing announces
the end, counts retries or lists the units; the client polls the counter.
"""

import json
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Self

import grpc
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

from tests.bench.bare_task_function import COUNTS, SHARDS
from tests.bench.bench_stack import Stage

FUNCTION = "bare_task"
THREADS = 16
SECONDS_MAX = 600.0
LOOK_SECONDS = 0.1


class BareTasks:
    """Creates bare tasks on a stack whose catalogue has the function `FUNCTION`."""

    def __init__(self, stage: Stage, queues: Sequence[str]) -> None:
        settings = stage.stack.settings
        self._stage = stage
        self._url = f"{stage.stack.base_url}{FUNCTION.replace('_', '-')}"
        self._queues = [f"projects/{settings.project}/locations/{settings.location}/queues/{name}" for name in queues]
        self._transport = CloudTasksGrpcTransport(channel=grpc.insecure_channel(settings.tasks_emulator))
        self._tasks = tasks_v2.CloudTasksClient(transport=self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def run(self, units: int) -> float:
        """Run `units` bare tasks; return the seconds until all are counted. Raises `TimeoutError`."""
        batch, began = f"bare-{uuid.uuid4().hex[:8]}", time.monotonic()

        def enqueue(queue: str, unit: int) -> None:
            body = json.dumps({"batch": batch, "unit": unit}).encode()
            request = tasks_v2.HttpRequest(url=self._url, headers={"Content-Type": "application/json"}, body=body)
            self._tasks.create_task(parent=queue, task=tasks_v2.Task(http_request=request))

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(enqueue, cycle(self._queues), range(units)))
        while (counted := self._counted(batch)) < units:
            if time.monotonic() - began > SECONDS_MAX:
                raise TimeoutError(f"{counted:,} of {units:,} bare tasks have run after {SECONDS_MAX:.0f} s")
            time.sleep(LOOK_SECONDS)
        return time.monotonic() - began

    def _counted(self, batch: str) -> int:
        paths = (f"{COUNTS}/{batch}-{number}" for number in range(SHARDS))
        return sum((shard.data or {}).get("count", 0) for shard in self._stage.store.read(*paths))
