"""Run a flow's mailbox, as a wake-up asks for: one turn, and another one where a turn was lost to somebody faster."""

from dataclasses import dataclass

from shared.core.operations.mailbox import Mailbox, check_due, is_over, read_mailbox, wake_again
from shared.core.operations.perform import Contended, pause
from shared.core.operations.ports import Conflict, Ports
from shared.core.rules.limits import LIMITS
from shared.core.rules.wake_ups import WakeUp
from shared.flows.operations.turns import FlowMailbox, advance, mark_stuck
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import Flows
from shared.flows.rules.failures import Stuck
from shared.flows.rules.tasks import wake_flow


@dataclass(frozen=True, slots=True)
class Run:
    """One delivery of a wake-up, the task `id`; `deliveries` came before it."""

    wake: WakeUp
    id: str
    deliveries: int = 0

    @property
    def address(self) -> FlowAddress:
        """Return the flow whose mailbox this runs."""
        return FlowAddress.of_base(self.wake.mailbox)


def run(ports: Ports, flows: Flows, delivery: Run) -> None:
    """Apply what is due to a flow. Raises `Unavailable` if the wake-up is to be delivered again."""
    base = delivery.wake.mailbox
    for lost in range(LIMITS.rounds_max):
        mailbox = read_mailbox(ports.store, base, LIMITS.mailbox_page)
        check_due(delivery.wake, mailbox)
        if is_over(delivery.wake, mailbox.header):
            return _wake_again(ports, flows, delivery, mailbox)
        try:
            _advance(ports, flows, delivery, FlowMailbox(delivery.address, mailbox))
            return _wake_again(ports, flows, delivery, mailbox)
        except Conflict:
            pause(ports, lost)
    raise Contended(f"{base} is written by many at once")


def _wake_again(ports: Ports, flows: Flows, delivery: Run, mailbox: Mailbox) -> None:
    wake = delivery.wake
    wake_again(ports, wake_flow(wake.mailbox, flows.function, wake.until), wake, mailbox)


def _advance(ports: Ports, flows: Flows, delivery: Run, read: FlowMailbox) -> None:
    header = read.header
    if header and not header.end and delivery.deliveries >= LIMITS.flow_deliveries_max:
        flows.check_revision(header.written_by)
        flows.of(header.address.flow)
        mark_stuck(ports, read, header, _gave_up())
    else:
        advance(ports, flows, read)


def _gave_up() -> Stuck:
    return Stuck("flow-failed", f"Its code ended the process or took too long, {LIMITS.flow_deliveries_max} times.")
