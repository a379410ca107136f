"""Enqueue a call: once for an id, once for all deliveries of a task, or every time it is called.

    under an id     one commit: a receipt, which must not exist, and the outbox record of the task
    from a task     the task, under a name that every delivery derives, and then a receipt

In the second case, a delivery that ended before the receipt is repeated while the name is still taken. So only later
deliveries need the receipt, and a first delivery need not read it. That saves the outbox.
"""

from contextlib import suppress
from datetime import UTC, datetime

from signalbox.core.effects import Decision, receipt_path
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import SERVER_TIME, AlreadyExists, Must, Ports, Put, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.payloads.model import Outgoing, place_of_tasks
from signalbox.payloads.service import stored_task
from signalbox.tasks.requests.enqueues import EnqueueRequest

UNUSED = datetime.min.replace(tzinfo=UTC)
"""A time in place of a read time. No read is made, because nothing depends on the time."""


def every_time(ports: Ports, request: EnqueueRequest) -> str:
    """Enqueue a call; return the task's operation. Raises `Unavailable`. A repeated call enqueues another task."""
    name = ports.store.new_id()
    needs_time = request.is_later or request.is_large
    now = ports.store.read(receipt_path(name))[0].read_time if needs_time else UNUSED
    ports.queue.create([stored_task(ports, request.effect(name, now), now)])
    return name


def by_id(ports: Ports, request: EnqueueRequest) -> str:
    """Enqueue a call once for its id; return the task's operation. Raises as `once`."""
    return once(ports, request)[0]


def once(ports: Ports, request: EnqueueRequest) -> tuple[str, bool]:
    """Enqueue a call once for its id; return the task's operation, and whether an earlier call has enqueued it.

    Raises `OtherBody` if another call has the id.

    A planned time of a schedule has one receipt, whoever enqueues its call, so a schedule and a backfill at once
    enqueue it once.
    """
    name, first = request.name, None
    if request.is_large:
        [first] = ports.store.read(receipt_path(name))
        if first.data is None:
            stored_task(ports, request.effect(name, first.read_time), first.read_time)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[str, bool]]:
        [receipt] = read
        request.check_is_over(receipt.read_time)
        if receipt.data is not None:
            request.check_repeated(receipt.data)
            return Decision((), (name, True))
        if first is not None and first.data is not None:
            raise Unavailable("the receipt of the task has expired meanwhile")
        task, stored_at = request.effect(name, receipt.read_time), first.read_time if first else UNUSED
        named = Outgoing().claimed_task(task, place_of_tasks(stored_at))
        return Decision((_receipt(request, name),), (name, False), (named,))

    return perform(ports, [receipt_path(name)], decide)[0]


def from_task(ports: Ports, request: EnqueueRequest, name: str, *, is_repeated: bool) -> str:
    """Enqueue a call once for all deliveries of the task that makes it; return the new task's operation, `name`."""
    now = UNUSED
    if is_repeated or request.is_later or request.is_large:
        [receipt] = ports.store.read(receipt_path(name))
        if receipt.data is not None:
            return name
        now = receipt.read_time
    ports.queue.create([stored_task(ports, request.effect(name, now), now)])
    with suppress(AlreadyExists):
        ports.store.commit([_receipt(request, name)])
    return name


def _receipt(request: EnqueueRequest, name: str) -> Put:
    return Put(receipt_path(name), {"digest": request.digest, "written_at": SERVER_TIME}, Must.NOT_EXIST)
