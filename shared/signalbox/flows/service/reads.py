"""Read a run: its header, its log, and the stuck sub-flows below it."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from signalbox.core.error_notes import record_path, retried_task
from signalbox.core.polling import poll
from signalbox.core.ports import Ports, Snapshot, Store
from signalbox.core.surface.shown import RetriedTaskShown
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import Step
from signalbox.flows.machine.effects import step_operation
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Message, payload_of, sub_flow_address
from signalbox.flows.model.payloads import place_of_run
from signalbox.flows.model.waits import Wait
from signalbox.flows.problems import NoFlow
from signalbox.flows.storage.commits import header_of
from signalbox.flows.storage.log import read_log
from signalbox.mailboxes.model.messages import header_path
from signalbox.payloads.service import content_by_hash


def get(ports: Ports, address: FlowAddress) -> FlowHeader:
    """Return a flow. Raises `NoFlow`."""
    header, _ = read_header(ports.store, address)
    return header


def stuck_below(store: Store, header: FlowHeader) -> dict[str, FlowHeader]:
    """Return one stuck sub-flow for each wait of a flow with stuck sub-flows below it, by the path of the wait.

    The sub-flows are read level by level, up to a page of each level. A flow without sub-flows needs no read.
    """
    found: dict[str, FlowHeader] = {}
    level = [(wait.path, child) for wait, child in _sub_flows(header)]
    while level := level[: LIMITS.flows_listed_max]:
        reads = store.read(*(header_path(address.base) for _, address in level))
        below: list[tuple[str, FlowAddress]] = []
        for (path, address), read in zip(level, reads, strict=True):
            if (child := header_of(read, address)) and not child.end:
                below += [(path, inner) for _, inner in _sub_flows(child)]
                if child.stuck:
                    found.setdefault(path, child)
        level = below
    return found


def retried_steps(store: Store, header: FlowHeader) -> dict[str, RetriedTaskShown]:
    """Return the last errors of the pending steps whose tasks are being retried, by the paths of their waits.

    Up to a page of the pending steps are read. A flow without pending steps needs no read.
    """
    steps = [wait for wait in header.pending.values() if wait.signature.startswith(f"{Step.kind} ")]
    operations = {wait.path: step_operation(header, wait) for wait in steps[: LIMITS.flows_listed_max]}
    reads = store.read(*map(record_path, operations.values())) if operations else ()
    noted = {path: retried_task(read.id, read.data) for path, read in zip(operations, reads, strict=True)}
    return {path: error for path, error in noted.items() if error}


def _sub_flows(header: FlowHeader) -> Iterator[tuple[Wait, FlowAddress]]:
    for wait in header.pending.values():
        if address := sub_flow_address(header.address, wait):
            yield wait, address


def wait(ports: Ports, address: FlowAddress, seconds: float) -> FlowHeader:
    """Wait until a flow has ended, for at most `seconds`, and return the flow. Raises `NoFlow`."""
    return poll(ports.clock, lambda: get(ports, address), lambda header: header.end is not None, seconds)


def get_log(store: Store, address: FlowAddress) -> tuple[FlowHeader, Sequence[Message]]:
    """Return a flow and the log of its current execution. Raises `NoFlow`, `Unavailable`."""
    header, _ = read_header(store, address)
    return header, read_log(store, header).entries


def entries_after(store: Store, header: FlowHeader, count: int) -> Sequence[Message]:
    """Return the entries of a flow's log after the first `count`.

    Chunks are read only if the header does not have all of these entries.
    """
    if count >= header.log.held and not header.rewound:
        return header.log.tail[count - header.log.held :]
    return read_log(store, header).entries[count:]


def get_payload(ports: Ports, address: FlowAddress, sha256: str) -> bytes:
    """Return the JSON of a large value that the records of a run name by its hash.

    Raises `NoFlow`, `NoPayload`, `Unavailable`.
    """
    header, entries = get_log(ports.store, address)
    stored = [*header.arguments.values(), *([header.end.outcome.result] if header.end else [])]
    named = [payload.to_json() for payload in map(payload_of, entries) if payload]
    return content_by_hash(ports, [*stored, *named], sha256, place_of_run(address, header.incarnation))


def read_header(store: Store, address: FlowAddress) -> tuple[FlowHeader, datetime]:
    [read] = store.read(header_path(address.base))
    return present(read, address), read.read_time


def present(read: Snapshot, address: FlowAddress) -> FlowHeader:
    header = header_of(read, address)
    if header is None:
        detail = f"There is no run {address.key!r} of {address.name}: it was never started, or it was removed."
        raise NoFlow(detail, field="id")
    return header
