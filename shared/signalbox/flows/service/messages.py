"""Messages from callers: send an event to a run, also through a callback, and cancel a run.

Each has an id, so a repeat changes nothing. A run that has ended, or that has as many events as it may keep, refuses
further events.
"""

from contextlib import suppress
from typing import Any

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports
from signalbox.core.problems import OtherBody, Problem
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback, not_valid
from signalbox.flows.machine.commands import check_event_name
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.machine.stuck import checked_json
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Cancel, Event, Message, message_to_record
from signalbox.flows.model.payloads import place_of_events
from signalbox.flows.problems import FlowEnded, NoFlow, TooManyEvents
from signalbox.flows.service.reads import get, read_header
from signalbox.mailboxes.model.messages import message_path
from signalbox.mailboxes.service import check_same_body, post
from signalbox.mailboxes.storage import message_put
from signalbox.payloads.model import Outgoing
from signalbox.payloads.service import store as store_payloads


def post_event(ports: Ports, address: FlowAddress, name: str, value: Any, id_: str) -> None:
    """Send an event to a flow. It is kept until the code waits for it, and a repeat with the same id changes nothing.

    Raises `NoFlow`, `FlowEnded`, `TooManyEvents`, `OtherBody` if the id was used for another event, `BadFlow` or
    `TooLarge`.
    """
    event = _event(name, value)
    _send_event(ports, get(ports, address), event, name_of("event", address.base, id_))


def get_callback(ports: Ports, callback: Callback) -> FlowHeader:
    """Return the run of a callback. Raises `NoCallback`, `CallbackExpired`."""
    try:
        header, now = read_header(ports.store, callback.address)
    except NoFlow:
        raise not_valid() from None
    callback.check(header, now)
    return header


def post_callback(ports: Ports, callback: Callback, value: Any) -> None:
    """Send the event of a callback to its run.

    A repeat with the same value changes nothing, even after the run has ended. Raises `OtherBody` for another value,
    and the errors of `get_callback` and `post_event`.
    """
    event = replace(_event(callback.event, value), incarnation=callback.incarnation)
    header = get_callback(ports, callback)
    _send_event(ports, header, event, callback_message(header.address.base, callback.operation))


def callback_message(base: str, operation: str) -> str:
    """Return the id of a callback's message. No caller's event has it: their ids are hashes of other parts."""
    return name_of("callback", base, operation)


def _event(name: str, value: Any) -> Event:
    checked_name = check_event_name(name)
    return Event(checked_name, checked_json(value, "the value of an event", CORE_LIMITS.result_bytes_max, "value"))


def _send_event(ports: Ports, header: FlowHeader, event: Event, message_id: str) -> None:
    refused, outgoing = _refusal_of_events(header), Outgoing()
    place = place_of_events(header.address, header.incarnation)
    event = replace(event, value=outgoing.claimed(event.value, place, CORE_LIMITS.result_bytes_max))
    if refused is None:
        store_payloads(ports, outgoing)
        _post(ports, header, message_id, event)
    elif not is_posted(ports, header, message_id, event):
        raise refused


def _refusal_of_events(header: FlowHeader) -> Problem | None:
    """Return the reason why a flow accepts no more events, or None if the flow accepts them."""
    if header.end:
        return FlowEnded(f"The flow is {header.end.state} and receives no more events.")
    if header.kept >= LIMITS.flow_events_kept_max or header.kept_bytes >= LIMITS.flow_events_kept_bytes_max:
        kept = f"{header.kept:,} events ({header.kept_bytes:,} bytes)"
        detail = f"The flow has {kept} that its code has not waited for: let it wait for them, or cancel it."
        return TooManyEvents(detail)
    return None


def is_posted(ports: Ports, header: FlowHeader, id_: str, event: Event) -> bool:
    """Return whether an event was accepted before. Raises `OtherBody` if its id was used for another one."""
    [stored] = ports.store.read(message_path(header.address.base, id_))
    check_same_body(stored, message_to_record(event))
    return stored.data is not None


def cancel(ports: Ports, address: FlowAddress, reason: str = "", id_: str | None = None, *, parent: str = "") -> None:
    """Cancel a flow: `Cancelled` is raised where its code waits. An ended flow does not change.

    A repeat with the same `id_` changes nothing, even in a later generation. With `parent`, the run is cancelled only
    if it is the sub-flow of that wait (`parent_key`). Raises `NoFlow`.
    """
    header = get(ports, address)
    if not header.end:
        name = name_of("cancel", address.base, id_ or ports.store.new_id())
        with suppress(OtherBody):  # repeated with another reason
            _post(ports, header, name, Cancel(str(reason)[: CORE_LIMITS.error_letters_max], parent=parent))


def _post(ports: Ports, header: FlowHeader, id_: str, message: Message) -> None:
    base = header.address.base
    post(ports, message_put(base, id_, message_to_record(message)), wake_flow(base, header.function))
