"""The sweeper's part of flows: wake those that are stuck, remove those that ended a week ago.

Both are found by `due_at` of their cards. A lost wake-up needs no sweep: it is in the outbox of the commit it is for.
"""

from datetime import timedelta

from shared.core.operations.ports import Change, Conflict, Delete, Must, Order, Ports, Query, Snapshot
from shared.core.operations.time_budgets import Budget, unlimited
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path
from shared.core.rules.problems import Unavailable
from shared.core.rules.wake_ups import completed
from shared.flows.operations.records import header_of
from shared.flows.operations.removal import remove
from shared.flows.rules.addresses import COLLECTION, FlowAddress
from shared.flows.rules.tasks import wake_flow

DUE_AT = ("due_at",)


def sweep(ports: Ports, budget: Budget = unlimited) -> int:
    """Look at the cards that are due. Returns how many there were."""
    out_of_time = budget()
    due = ports.store.query(Query(COLLECTION, order_by=(Order(DUE_AT),), limit=LIMITS.flows_sweep_page))
    seen = 0
    for card in due:
        if out_of_time() or card.data is None or card.data["due_at"] > card.read_time:
            break
        seen += 1
        _look(ports, card)
    return seen


def _look(ports: Ports, card: Snapshot) -> None:
    address = FlowAddress.of_base(card.path)
    try:
        _look_at(ports, card, address)
    except (Conflict, Unavailable):
        ports.log.info("flow left to the next sweep", **address.to_json())


def _look_at(ports: Ports, card: Snapshot, address: FlowAddress) -> None:
    [read] = ports.store.read(header_path(address.base))
    header = header_of(read, address)
    if header and header.end:
        remove(ports, address, header)
    elif header:
        due_at = read.read_time + timedelta(seconds=LIMITS.flow_stuck_seconds)
        ports.queue.create(completed([wake_flow(address.base, header.function)], read.read_time))
        ports.store.commit([Change(card.path, {DUE_AT: due_at}, card.guard or Must.EXIST)])
    else:
        ports.store.commit([Delete(card.path, card.guard)])
