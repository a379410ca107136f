"""Suspend a run, and resume it. No turn takes the messages of a suspended run until it is resumed."""

from datetime import datetime

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.times import rfc3339
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows.machine.effects import repeat_flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.problems import FlowEnded
from signalbox.flows.service.reads import present
from signalbox.flows.storage.commits import header_write
from signalbox.flows.storage.listings import listing_writes
from signalbox.mailboxes.model.messages import header_path


def suspend(ports: Ports, address: FlowAddress, reason: str = "") -> None:
    """Suspend a flow: its messages are kept, and no turn takes them until it is resumed. A repeat changes nothing.

    Tasks that the flow has already scheduled still run. Raises `NoFlow`, or `FlowEnded`.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        header = present(read[0], address)
        if header.end:
            raise FlowEnded(f"The run {address.key!r} has ended, so there is nothing to suspend.", field="id")
        if header.suspended:
            return Decision((), None)
        suspended = {"at": rfc3339(read[0].read_time), "reason": reason[: CORE_LIMITS.error_letters_max]}
        return Decision(_moved(read[0], header, replace(header, suspended=suspended)), None)

    perform(ports, [header_path(address.base)], decide)


def resume(ports: Ports, address: FlowAddress) -> None:
    """Wake a flow: a suspended flow continues, and a running flow repeats its commands.

    A stuck flow is replayed with the code that is deployed now. Raises `NoFlow`.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[FlowHeader, datetime]]:
        return resumed(read[0], present(read[0], address))

    (header, now), committed = perform(ports, [header_path(address.base)], decide)
    if committed is None:
        ports.queue.create(complete_wake_ups([repeat_flow(address.base, header.function)], now))


def resumed(read: Snapshot, header: FlowHeader) -> Decision[Writes, tuple[FlowHeader, datetime]]:
    """Return the writes and the wake-up that let a suspended flow continue.

    There are no writes if the flow is not suspended. Waiting messages need the new wake-up, since their own wake-ups
    found a suspended flow and ended.
    """
    writes = _moved(read, header, replace(header, suspended=None)) if header.suspended else ()
    return Decision(writes, (header, read.read_time), (repeat_flow(header.address.base, header.function),))


def _moved(read: Snapshot, before: FlowHeader, after: FlowHeader) -> Writes:
    """Return the writes of a header whose state has changed, and of its listing."""
    return header_write(read, after, read.read_time), *listing_writes(read, before, after)
