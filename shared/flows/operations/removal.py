"""Remove a flow: what waits for it, its log, its header when nothing else is left, its card.

A flow is removed a week after its end, or by hand when it has ended or is stuck. Its id is free then. What comes late
for the one that is gone bears its life, and is dropped; a lease among it is given back.
"""

from collections.abc import Sequence
from contextlib import suppress

from shared.core.operations import outbox
from shared.core.operations.perform import Contended, pause
from shared.core.operations.ports import Conflict, Delete, Ports, Query, Snapshot
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import HEADER, collection_of, header_path
from shared.core.rules.problems import FlowCancelled, FlowRunning, NoFlow
from shared.flows.operations.posts import cancel
from shared.flows.operations.records import card, end_messages, end_tasks, header_of, header_write
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.commands import SubFlow
from shared.flows.rules.ends import End
from shared.flows.rules.headers import FlowHeader
from shared.flows.rules.messages import Place, Result, from_record
from shared.flows.rules.tasks import own_id, release_effect
from shared.objects.rules.outcomes import CallOutcome


def delete(ports: Ports, address: FlowAddress) -> None:
    """Remove a flow that has ended, or end and remove one that is stuck. Raises `NoFlow`, or `FlowRunning`."""
    header = _ended(ports, address)
    remove(ports, address, header)


def _ended(ports: Ports, address: FlowAddress) -> FlowHeader:
    """Return the header of a flow that has ended; one that is stuck is ended here, and gives back what it holds."""
    for lost in range(LIMITS.rounds_max):
        [read] = ports.store.read(header_path(address.base))
        header = header_of(read, address)
        if header is None:
            raise NoFlow(f"No flow {address.flow} has the id {address.id!r}.", field="id")
        if header.end:
            return header
        if not header.stuck:
            raise FlowRunning("Cancel the flow, or wait for its end; then it can be deleted.")
        _cancel_inner(ports, header)
        try:
            return _end_by_hand(ports, read, header)
        except Conflict:
            pause(ports, lost)
    raise Contended(f"{address.base} is written by many at once")


def _cancel_inner(ports: Ports, header: FlowHeader) -> None:
    """Cancel the flows that a stuck one waits for: nobody will."""
    for path, each in header.pending.items():
        kind, _, name = each.signature.partition(" ")
        if kind == SubFlow.kind:
            with suppress(NoFlow):
                cancel(ports, FlowAddress(name, own_id(header.address, Place(header.life, path))))


def _end_by_hand(ports: Ports, read: Snapshot, header: FlowHeader) -> FlowHeader:
    outcome = CallOutcome.from_problem(FlowCancelled("The flow was stuck, and was deleted."))
    after = header.ended(End("cancelled", outcome, read.read_time))
    base, function = header.address.base, header.function
    leases = [release_effect(base, function, lease["granted"]) for lease in header.leases.values()]
    writes = [header_write(read, after, read.read_time), *card(read, header, after), *end_messages(after)]
    outbox.commit(ports, writes, [*leases, *end_tasks(after)])
    return after


def remove(ports: Ports, address: FlowAddress, header: FlowHeader) -> None:
    """Remove the records of a flow that has ended; the sweeper ends what dies meanwhile. Raises `Conflict`."""
    while messages := _others(ports, collection_of(address.base)):
        _delete(ports, address, header.function, messages)
    while chunks := ports.store.query(Query(f"{address.base}/log", limit=LIMITS.flow_removal_page)):
        ports.store.commit([Delete(each.path) for each in chunks])
    [read] = ports.store.read(header_path(address.base))
    same = header_of(read, address)
    if same and same.incarnation == header.incarnation:
        ports.store.commit([Delete(read.path, read.guard), Delete(address.base)])


def _others(ports: Ports, collection: str) -> list[Snapshot]:
    """Return records of a mailbox besides its header."""
    found = ports.store.query(Query(collection, limit=LIMITS.flow_removal_page))
    return [each for each in found if each.id != HEADER]


def _delete(ports: Ports, address: FlowAddress, function: str, found: Sequence[Snapshot]) -> None:
    """Delete messages; leases among them are given back, as many in one commit as it can hold."""
    page = found[: LIMITS.turn_tasks_max]
    messages = [from_record(each.data) for each in page if each.data is not None and "since" in each.data]
    leases = [each.lease for each in messages if isinstance(each, Result) and each.lease]
    effects = [release_effect(address.base, function, lease) for lease in leases if lease]
    outbox.commit(ports, [Delete(each.path) for each in page], effects)
