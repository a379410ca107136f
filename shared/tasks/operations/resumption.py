"""Run a task that gives its permit back between its attempts.

An attempt that fails makes the wait for the next one, then releases its lease, and is acknowledged. Whatever happens
between, either its delivery comes again, or the wait goes on (docs/protocols/tasks.md).
"""

from collections.abc import Callable, Mapping
from typing import Any

from shared.core.operations.ports import Ports
from shared.core.rules.problems import Problem, Unavailable
from shared.core.rules.task_context import Lease
from shared.semaphores.operations import semaphores
from shared.semaphores.operations.records import waiter_path
from shared.tasks.rules import releases
from shared.tasks.rules.attempts import Attempt


def is_resumed(ports: Ports, granted: Mapping[str, Any]) -> bool:
    """Return whether a delivery of the task under this grant has waited anew: then it goes on there."""
    if not granted.get("release_on_failure"):
        return False
    [waiter] = ports.store.read(waiter_path(granted["semaphore"], releases.next_wait_id(granted)))
    return waiter.data is not None


def run_or_wait_anew(ports: Ports, attempt: Attempt, lease: Lease, code: Callable[[Lease], object]) -> bool:
    """Run the code, and return whether it returned; False: it raised, and its next attempt waits for a permit.

    Raises what the code raises: a `Problem`, or anything if the task does not wait anew.
    """
    try:
        code(lease)
    except Problem:
        raise
    except Exception as error:
        if not attempt.context["lease"].get("release_on_failure") or not _wait_anew(ports, attempt):
            raise
        ports.log.error("attempt failed, permit released", semaphore=lease.semaphore, lease=lease.id, exception=error)
        semaphores.release(ports, lease)
        return False
    return True


def _wait_anew(ports: Ports, attempt: Attempt) -> bool:
    """Make the wait for the next attempt; return False if that is impossible, or not known to have happened."""
    try:
        semaphores.wait(ports, attempt.context["lease"]["semaphore"], releases.next_wait(attempt))
    except (Problem, Unavailable):
        return False
    return True
