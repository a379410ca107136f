"""Faults to plant: the counts of users' tasks without one clause of their protocol (docs/protocols/tasks.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from signalbox.core.deliveries import Delivered
from signalbox.core.ports import Ports
from signalbox.core.problems import GaveUp, Problem, Unavailable
from signalbox.semaphores.model.leases import Granted, Lease
from signalbox.semaphores.model.waiters import Waiter
from signalbox.semaphores.requests import WaitRequest
from signalbox.semaphores.service import leases
from signalbox.semaphores.service import waits as waits_service
from signalbox.tasks import storage
from signalbox.tasks.machine import waits
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import FIRST, Start
from signalbox.tasks.model.contexts import Context, OfLease
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import attempts as attempts_world

run = original("tasks.run")
count_start = storage.count_start


def _attempts(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), attempts_world.run)


Code = Callable[[Start], Any]


def _check(retry_limits: RetryLimits, starts: int) -> None:
    if not retry_limits.allow(Start(starts)):
        raise GaveUp("Gave up.")


def _by_deliveries(_: Ports, delivered: Delivered[Context], retry_limits: RetryLimits, code: Code) -> Any:
    _check(retry_limits, delivered.retries + 1)
    return code(FIRST)


def _uncounted(_: Ports, __: Delivered[Context], ___: RetryLimits, code: Code) -> Any:
    return code(FIRST)


def _counted_on_arrival(
    ports: Ports, delivered: Delivered[Context], retry_limits: RetryLimits, is_live: Any, code: Any
) -> None:
    """The start is counted before the lease is claimed, or the unit's outcome is looked for."""
    counted = count_start(ports, delivered.operation).number if delivered.is_repeated else 0

    def checked(subject: Any, begun: Start) -> Any:
        _check(retry_limits, counted)
        return code(subject, begun)

    elsewhere = replace(delivered, operation=f"{delivered.operation}-elsewhere")
    run(ports, elsewhere, RetryLimits(1_000), is_live, checked)


def _started_all_the_same(
    ports: Ports, delivered: Delivered[Context], retry_limits: RetryLimits, code: Callable[[Start], Any]
) -> Any:
    """A start happens although it cannot be counted."""
    if delivered.is_repeated:
        with suppress(Unavailable):
            _check(retry_limits, count_start(ports, delivered.operation).number)
    return code(FIRST)


def _first_taken_for_a_start(
    ports: Ports, delivered: Delivered[Context], retry_limits: RetryLimits, code: Callable[[Start], Any]
) -> Any:
    if delivered.is_repeated:
        _check(retry_limits, count_start(ports, delivered.operation).number + 1)
    return code(FIRST)


@contextmanager
def _kept(_: Ports, __: Lease) -> Iterator[None]:
    yield


def _released_first(ports: Ports, delivered: Delivered[OfLease], lease: Lease, code: Callable[[Lease], Any]) -> bool:
    """The permit is released before the wait for the next attempt is made."""
    try:
        code(lease)
    except Problem:
        raise
    except Exception:
        granted = delivered.context.granted
        if not granted.release_on_failure:
            raise
        leases.release(ports, lease)
        waits_service.wait(ports, granted.semaphore, next_wait(delivered, granted))
        return False
    return True


def _whoever_holds_the_lease(ports: Ports, lease: Lease, request: WaitRequest) -> bool:
    """The next wait is made although the lease may be lost."""
    return bool(waits_service.wait(ports, lease.semaphore, request))


def _counted_by_grant(_: str, waiter: Waiter) -> Waiter:
    """The task of the next grant is a separate one."""
    return waiter


def _counted_anew(delivered: Delivered[OfLease], granted: Granted) -> WaitRequest:
    """The next attempt is a separate task."""
    return replace(next_wait(delivered, granted), resumes="", resumed=0)


next_wait = waits.next_wait

FAULTS = (
    _attempts("task-1", "counting starts, not deliveries", "tasks.start", _by_deliveries),
    _attempts("task-1", "counting at all", "tasks.start", _uncounted),
    _attempts("task-1", "exceptions of every class", "core.ends_process", lambda _: True),
    _attempts("task-1", "one count for all grants", "semaphores.waiter_resumed", _counted_by_grant),
    _attempts("task-2", "counting right before the code", "tasks.run", _counted_on_arrival),
    _attempts("task-2", "no start that is not counted", "tasks.start", _started_all_the_same),
    _attempts("task-3", "a first delivery that may not have started", "tasks.start", _first_taken_for_a_start),
    _attempts("task-4", "releasing the lease of a task that is given up", "tasks.kept_or_released", _kept),
    _attempts("task-11", "the next wait before the release", "tasks.run_or_wait_again", _released_first),
    _attempts("task-11", "the lease in the commit of the next wait", "semaphores.wait_again", _whoever_holds_the_lease),
    _attempts("task-11", "the count of the attempts before", "tasks.next_wait", _counted_anew),
)
