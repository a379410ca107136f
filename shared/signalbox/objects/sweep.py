"""The objects' part of the sweeper: wake objects whose messages wait for long, because their wake-up may be lost.

For instance, a queue was purged, or a database was restored. `swept_by` is a field of each waiting message, and the one
index of all mailboxes: below 1 for messages that are due at once, spread at random; the due hour and a spread for
delayed ones. So one query, which costs one read, shows that no message waits. If messages wait, a sweep reads a page
from a random place on. It writes nothing: a message that a run has applied is no longer found, and those of a class
whose code fails do not hide the others.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from signalbox.core.ports import Budget, Ports, Query, Snapshot, unlimited
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.records.queries import Condition, Field, Order
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import MAILBOX
from signalbox.mailboxes.storage import SWEPT_BY
from signalbox.objects.limits import LIMITS
from signalbox.objects.storage import wake_object

BY: Field = (SWEPT_BY,)

FIRST_LATER = 1.0
"""The lowest number (`swept_by`) of a delayed message."""


def sweep(ports: Ports, functions: Mapping[str, str], budget: Budget = unlimited) -> int:
    """Wake the objects with a message that has waited for a long time. Return their number.

    `functions` names the function with the code of each class.
    """
    out_of_time, bases = budget(), set[str]()
    for message in islice(_waiting(ports), LIMITS.messages_swept_max):
        if out_of_time():
            break
        base = message.path.rpartition(f"/{MAILBOX}/")[0]
        if base not in bases and _is_silent(message):
            bases.add(base)
            _wake(ports, functions, ObjectAddress.of_base(base), message.read_time)
    return len(bases)


def _waiting(ports: Ports) -> Iterator[Snapshot]:
    """Iterate over waiting messages. Overdue delayed messages come first, then others from a random place on."""
    [*first] = ports.store.query(Query(MAILBOX, order_by=(Order(BY),), limit=1, group=True))
    if not first:
        return
    overdue = (first[0].read_time - _silent()).timestamp() // 3600
    start = ports.clock.jitter()
    yield from _between(ports, FIRST_LATER, overdue)
    if first[0].data is not None and first[0].data[SWEPT_BY] < FIRST_LATER:
        yield from _between(ports, start, FIRST_LATER)
        yield from _between(ports, 0.0, start)


def _between(ports: Ports, least: float, below: float) -> tuple[Snapshot, ...]:
    where = (Condition(BY, ">=", least), Condition(BY, "<", below))
    return ports.store.query(Query(MAILBOX, where, (Order(BY),), LIMITS.messages_swept_max, group=True))


def _is_silent(message: Snapshot) -> bool:
    """Return whether a message has waited for a long time."""
    assert message.data is not None, "a query finds only records that exist"
    since: datetime = message.data["since"]
    return since <= message.read_time - _silent()


def _silent() -> timedelta:
    return timedelta(seconds=LIMITS.call_silent_seconds)


def _wake(ports: Ports, functions: Mapping[str, str], address: ObjectAddress, now: datetime) -> None:
    """Enqueue a wake-up. If the class has no function or the task is refused, the sweep continues."""
    if address.name not in functions:
        ports.log.info("object left to a later sweep", **address.to_json(), reason="no function has its class")
        return
    try:
        ports.queue.create(complete_wake_ups([wake_object(address, functions[address.name])], now))
        ports.log.info("silent object woken", **address.to_json())
    except (Problem, Unavailable) as error:
        ports.log.info("object left to a later sweep", **address.to_json(), reason=str(error))
