"""What others ask of a flow: an event, a cancel, another look at one that is stuck."""

from typing import Any

from shared.core.operations.mailbox import message_put, post
from shared.core.operations.ports import Ports
from shared.core.rules.effects import name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path
from shared.core.rules.problems import BadFlow, FlowEnded, NoFlow, TooLarge
from shared.core.rules.wake_ups import completed
from shared.flows.operations.records import header_of
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.commands import check_event_name
from shared.flows.rules.failures import Stuck
from shared.flows.rules.headers import FlowHeader
from shared.flows.rules.messages import Cancel, Event, FlowMessage, to_record
from shared.flows.rules.results import json_text
from shared.flows.rules.tasks import wake_flow


def post_event(ports: Ports, address: FlowAddress, name: str, value: Any, id_: str) -> None:
    """Post an event to a flow, which is told it once, whether its code waits already or not. A repeat changes nothing.

    Raises `NoFlow`, `FlowEnded`, `OtherBody` if the id was used for another event, `BadFlow` or `TooLarge`.
    """
    event = Event(check_event_name(name), _checked(value))
    header = existing(ports, address)
    if header.end:
        raise FlowEnded(f"The flow is {header.end.state}: no event reaches it any more.")
    _post(ports, header, name_of("event", address.base, id_), event)


def cancel(ports: Ports, address: FlowAddress, reason: str = "") -> None:
    """Cancel a flow: `Cancelled` is raised where its code waits. One that has ended stays as it is. Raises `NoFlow`."""
    header = existing(ports, address)
    if not header.end:
        id_ = name_of("cancel", address.base, header.incarnation, ports.store.new_id())
        _post(ports, header, id_, Cancel(str(reason)[: LIMITS.error_letters_max]))


def resume(ports: Ports, address: FlowAddress) -> None:
    """Look at a flow again, now: one that was stuck goes on if its code is mended. Raises `NoFlow`."""
    [read] = ports.store.read(header_path(address.base))
    header = _existing(header_of(read, address), address)
    ports.queue.create(completed([wake_flow(address.base, header.function)], read.read_time))


def existing(ports: Ports, address: FlowAddress) -> FlowHeader:
    """Return a flow's header. Raises `NoFlow`."""
    [read] = ports.store.read(header_path(address.base))
    return _existing(header_of(read, address), address)


def _existing(header: FlowHeader | None, address: FlowAddress) -> FlowHeader:
    if header is None:
        raise NoFlow(f"No flow {address.flow} has the id {address.id!r}: it never was, or was removed.", field="id")
    return header


def _checked(value: Any) -> Any:
    try:
        json_text(value, "the value of an event", LIMITS.result_bytes_max)
    except Stuck as error:
        raise (TooLarge if error.kind == "flow-too-large" else BadFlow)(error.detail, field="value") from error
    return value


def _post(ports: Ports, header: FlowHeader, id_: str, message: FlowMessage) -> None:
    base = header.address.base
    post(ports, message_put(base, id_, to_record(message)), wake_flow(base, header.function))
