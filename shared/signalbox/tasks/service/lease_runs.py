"""Run the continuation of a wait under its lease, which is released afterwards, or kept for the next attempt.

With `release_on_failure`, an attempt that failed makes the wait for the next attempt, in a commit that requires its
lease, then releases the lease, and is acknowledged. If a process ends in between, either its delivery is repeated or
the wait continues (docs/protocols/tasks.md).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from signalbox.core.deliveries import Delivered
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.times import rfc3339
from signalbox.semaphores.model.leases import Granted, Lease
from signalbox.semaphores.model.semaphore import waiter_path
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.service import leases, waits
from signalbox.tasks.machine.permit_release import is_released_at_once
from signalbox.tasks.machine.waits import next_wait, next_wait_id
from signalbox.tasks.model.contexts import OfLease


def run_with_lease(ports: Ports, delivered: Delivered[OfLease], code: Callable[[Lease], object]) -> None:
    """Claim the lease and run the code. If the lease is lost, or the task continues from a later wait, run nothing.

    Until this delivery has claimed the lease, an earlier one may make that wait, so it is looked for twice.
    """
    granted = delivered.context.granted
    if is_resumed(ports, delivered):
        release(ports, granted)
        return
    claimed = leases.claim(ports, granted)
    if claimed is None:
        ports.log.info("lease lost, task dropped", semaphore=granted.semaphore, lease=granted.id)
        return
    if is_resumed(ports, delivered):
        release(ports, claimed)
        return
    with kept_or_released(ports, claimed):
        returned = run_or_wait_again(ports, delivered, claimed, code)
    if returned and granted.release_on_return:
        release(ports, claimed)


def release(ports: Ports, lease: Lease | Granted) -> None:
    """Release a permit, unless its semaphore was deleted while the task ran: its lease has ended with it."""
    with suppress(NoSemaphore):
        leases.release(ports, lease)


def is_resumed(ports: Ports, delivered: Delivered[OfLease]) -> bool:
    """Return whether an earlier delivery has made the next wait, from which the task continues."""
    granted = delivered.context.granted
    if not delivered.is_repeated or not granted.release_on_failure:
        return False
    [waiter] = ports.store.read(waiter_path(granted.semaphore, next_wait_id(granted)))
    return waiter.data is not None


@contextmanager
def kept_or_released(ports: Ports, lease: Lease, **named: object) -> Iterator[None]:
    """If an error is raised, release the permit or keep it for the retry. `named` are added to the log line."""
    try:
        yield
    except Exception as error:
        if is_released_at_once(error):
            release(ports, lease)
            raise
        ends_at = rfc3339(lease.ends_at)
        ports.log.info("lease kept for the retry", semaphore=lease.semaphore, lease=lease.id, ends_at=ends_at, **named)
        raise


def run_or_wait_again(
    ports: Ports, delivered: Delivered[OfLease], lease: Lease, code: Callable[[Lease], object]
) -> bool:
    """Run the code. Return True if the code returned, and False if it raised and its next attempt waits for a permit.

    Raises the code's error if it is a `Problem`, or if the task does not wait again.
    """
    granted = delivered.context.granted
    try:
        code(lease)
    except Exception as error:
        if is_released_at_once(error) or not granted.release_on_failure:
            raise
        if not wait_again(ports, delivered, lease):
            raise
        ports.log.error("attempt failed, permit released", semaphore=lease.semaphore, lease=lease.id, exception=error)
        release(ports, lease)
        return False
    return True


def wait_again(ports: Ports, delivered: Delivered[OfLease], lease: Lease) -> bool:
    """Make the wait for the next attempt. Return False if the lease is lost, or if the wait may not exist.

    If the lease was lost, its wait may have returned to the queue, or another delivery runs the code, or an operator
    has ended the task: a next wait would run the task once more.
    """
    try:
        return waits.wait_again(ports, lease, next_wait(delivered, delivered.context.granted))
    except (Problem, Unavailable):
        return False
