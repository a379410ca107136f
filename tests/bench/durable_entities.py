"""The same counter as an entity of Microsoft's `durabletask`, on the backend in memory that the package has for tests.

It is not among the locked packages, and is measured where it is installed: `pip install --no-deps durabletask`.
"""

import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import Any

SECONDS_MAX = 600


def are_installed() -> bool:
    """Return whether the package is there."""
    return find_spec("durabletask") is not None


def counter(context: Any, _: Any) -> int:
    """Count a call: an entity, as the package wants it."""
    total = int(context.get_state(int, 0)) + 1
    context.set_state(total)
    return total


def signalled(calls: int, callers: int, objects: int) -> float:
    """Signal entities, and return the seconds until all signals are counted."""
    logging.disable(logging.WARNING)
    client, worker, ids = (import_module(f"durabletask.{each}") for each in ("client", "worker", "entities"))
    port = _free_port()
    backend = import_module("durabletask.testing").create_test_backend(port=port)
    entities = [ids.EntityInstanceId("counter", f"o{number}") for number in range(objects)]
    address = f"127.0.0.1:{port}"
    try:
        with worker.TaskHubGrpcWorker(host_address=address) as working:
            working.add_entity(counter, "counter")
            working.start()
            return _measured(client.TaskHubGrpcClient(host_address=address), entities, calls, callers)
    finally:
        backend.stop()
        logging.disable(logging.NOTSET)


def _measured(client: Any, entities: list[Any], calls: int, callers: int) -> float:
    began = time.monotonic()
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(lambda number: client.signal_entity(entities[number % len(entities)], "add"), range(calls)))
    while sum(_total(client, entity) for entity in entities) < calls:
        assert time.monotonic() < began + SECONDS_MAX, "the signals are not counted"
        time.sleep(0.05)
    return time.monotonic() - began


def _total(client: Any, entity: Any) -> int:
    found = client.get_entity(entity)
    return int(found.get_state(int) or 0) if found else 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
