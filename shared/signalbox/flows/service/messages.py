"""Messages from callers: post an event or an update to a run, also through a callback, and cancel a run.

Each has an id, so a repeat changes nothing. A run that has ended refuses further events. One that has as many events as
it may keep refuses those for which its code does not wait: when they are posted, or, if the run could not receive them
at once, by the turn. Then a repeat of the request gets the problem.
"""

from contextlib import suppress
from typing import Any

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Conflict, Delete, Must, Ports, Snapshot
from signalbox.core.problems import OtherBody, Problem, Unavailable
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback, not_valid
from signalbox.flows.machine.commands import check_event_name
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.machine.stuck import checked_json
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import (
    Cancel,
    Event,
    Incoming,
    Message,
    Update,
    message_from_record,
    message_to_record,
    update_id,
)
from signalbox.flows.model.payloads import place_of_events
from signalbox.flows.problems import BadFlow, FlowEnded, NoFlow, TooManyEvents, TooManyUpdates, utf8_bytes
from signalbox.flows.service.reads import get, present
from signalbox.flows.storage.commits import REPLY
from signalbox.mailboxes.model.messages import header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.service import check_same_body, post
from signalbox.mailboxes.storage import message_put, waits
from signalbox.payloads.model import Outgoing
from signalbox.payloads.service import store as store_payloads


def post_event(ports: Ports, address: FlowAddress, name: str, value: Any, id_: str) -> FlowHeader:
    """Send an event to a flow. It is kept until the code waits for it, and a repeat with the same id changes nothing.

    Return the header that was read. Raises `NoFlow`, `FlowEnded`, `TooManyEvents`, `OtherBody` if the id was used for
    another event, `BadFlow`, `TooLarge`, or `Unavailable`.
    """
    event, message_id = checked_event(name, value), event_id(address, id_)
    header = receiver(ports, address, message_id)
    send(ports, header, event, message_id)
    return header


def event_id(address: FlowAddress, id_: str) -> str:
    """Return the id of the message of an event, by the id that its caller chose."""
    return name_of("event", address.base, id_)


def post_update(ports: Ports, address: FlowAddress, name: str, value: Any, id_: str) -> FlowHeader:
    """Send an update to a flow. The code answers it once, and a repeat with the same id changes nothing.

    Return the header that was read. Raises the errors of `post_event`, and `TooManyUpdates`.
    """
    update, message_id = checked_update(name, value, id_), update_id(address, id_)
    header = receiver(ports, address, message_id)
    send(ports, header, update, message_id)
    return header


def receiver(ports: Ports, address: FlowAddress, message_id: str) -> FlowHeader:
    """Return the run that a message is sent to.

    Raises `NoFlow` if there is none. If an earlier request has posted the message to a run that has been removed, and
    the message still waits, it is deleted first, as a turn would: the wake-up may be lost. Raises `Unavailable` if
    something changes meanwhile.
    """
    with suppress(NoFlow):
        return get(ports, address)
    read, stored = ports.store.read(header_path(address.base), message_path(address.base, message_id))
    if read.data is None and waits(stored):
        try:
            ports.store.commit([Delete(read.path, Must.NOT_EXIST), Delete(stored.path, stored.guard)])
        except Conflict:
            raise Unavailable("the run has been removed, and the message still waited") from None
    return present(read, address)


def get_callback(ports: Ports, callback: Callback) -> FlowHeader:
    """Return the run of a callback. Raises `NoCallback`, `CallbackExpired`."""
    [read] = ports.store.read(header_path(callback.address.base))
    return _run_of(callback, read)


def sent_by_callback(ports: Ports, callback: Callback) -> Event | None:
    """Return the event that was sent by a callback, or None. Raises `NoCallback`, `CallbackExpired`."""
    base = callback.address.base
    read, sent = ports.store.read(header_path(base), message_path(base, callback_message(base, callback.operation)))
    _run_of(callback, read)
    message = message_from_record(sent.data) if sent.data is not None and REPLY not in sent.data else None
    return message if isinstance(message, Event) and message.incarnation == callback.incarnation else None


def _run_of(callback: Callback, read: Snapshot) -> FlowHeader:
    try:
        header = present(read, callback.address)
    except NoFlow:
        raise not_valid() from None
    callback.check(header, read.read_time)
    return header


def post_callback(ports: Ports, callback: Callback, value: Any) -> None:
    """Send the event of a callback to its run.

    A repeat with the same value changes nothing, even after the run has ended. Raises `OtherBody` for another value,
    and the errors of `get_callback` and `post_event`.
    """
    event = replace(checked_event(callback.event, value), incarnation=callback.incarnation)
    header = get_callback(ports, callback)
    send(ports, header, event, callback_message(header.address.base, callback.operation))


def callback_message(base: str, operation: str) -> str:
    """Return the id of a callback's message. No caller's event has it: their ids are hashes of other parts."""
    return name_of("callback", base, operation)


def checked_event(name: str, value: Any) -> Event:
    """Return an event from a caller's values. Raises `BadFlow`, `TooLarge`."""
    checked_name = check_event_name(name)
    return Event(checked_name, checked_json(value, "the value of an event", CORE_LIMITS.result_bytes_max, "value"))


def checked_update(name: str, value: Any, id_: str) -> Update:
    """Return an update from a caller's values. Raises `BadFlow`, `TooLarge`."""
    value = checked_json(value, "the value of an update", CORE_LIMITS.result_bytes_max, "value")
    return Update(check_event_name(name, "an update"), value, check_update_id(id_))


def check_update_id(id_: str) -> str:
    """Return the id of an update. Raises `BadFlow`."""
    if not 0 < utf8_bytes(id_) <= LIMITS.flow_update_id_bytes_max:
        detail = f"The id of an update must be a string of 1 to {LIMITS.flow_update_id_bytes_max} bytes of UTF-8."
        raise BadFlow(detail, field="id")
    return id_


def claimed_message(header: FlowHeader, message: Incoming, outgoing: Outgoing) -> Incoming:
    """Return a message as its record contains it: `outgoing` collects a large value as a payload."""
    place = place_of_events(header.address, header.incarnation)
    return replace(message, value=outgoing.claimed(message.value, place, CORE_LIMITS.result_bytes_max))


def send(ports: Ports, header: FlowHeader, message: Incoming, message_id: str) -> None:
    """Post an event or an update to a run whose header was read. A repeat changes and stores nothing.

    Raises `FlowEnded`, `TooManyEvents`, `TooManyUpdates`, `OtherBody` if the id was used for another message, and
    `Unavailable`.
    """
    refused, outgoing = _refusal(header, message), Outgoing()
    claimed = claimed_message(header, message, outgoing)
    if refused is None:
        if outgoing and not find_posted(ports, header, message_id, claimed):
            store_payloads(ports, outgoing)
        _post(ports, header, message_id, claimed)
    elif not (stored := find_posted(ports, header, message_id, claimed)):
        raise refused
    else:
        wake_again(ports, header, stored)


def wake_again(ports: Ports, header: FlowHeader, stored: Snapshot) -> None:
    """Enqueue the wake-up of a repeated message if no turn has taken it yet: the first wake-up may be lost.

    The sweeper does not look at the messages that an ended run has left, and rarely at a run that waits for messages.
    """
    if waits(stored):
        ports.queue.create(complete_wake_ups([wake_flow(header.address.base, header.function)], stored.read_time))


def _refusal(header: FlowHeader, message: Incoming) -> Problem | None:
    """Return the reason why a flow accepts no more events or updates, or None if the flow accepts them."""
    if header.end:
        return FlowEnded(f"The flow is {header.end.state} and receives no more {message.kind}s.")
    if isinstance(message, Update) and len(header.unanswered) >= LIMITS.flow_updates_max:
        unanswered = f"{len(header.unanswered):,} updates that its code has not answered"
        return TooManyUpdates(f"The flow has {unanswered}: let it answer them, or cancel it.")
    if message.name in awaited_names(header, message.kind):
        return None
    if header.kept >= LIMITS.flow_events_kept_max or header.kept_bytes >= LIMITS.flow_events_kept_bytes_max:
        kept = f"{header.kept:,} events ({header.kept_bytes:,} bytes)"
        detail = f"The flow has {kept} that its code has not waited for: let it wait for them, or cancel it."
        return TooManyEvents(detail)
    return None


def awaited_names(header: FlowHeader, kind: str) -> set[str]:
    """Return the names of the events, or updates, for which the code waits, as far as the header shows."""
    waits = [wait.signature.partition(" ") for wait in header.pending.values()]
    return {awaited for of_kind, _, awaited in waits if of_kind == kind}


def check_same(stored: Snapshot, header: FlowHeader, message: Incoming) -> None:
    """Raise `OtherBody` if the record under a message's id is that of another message."""
    check_same_body(stored, message_to_record(claimed_message(header, message, Outgoing())))
    check_received(stored, message)


def check_received(stored: Snapshot | None, message: Message) -> None:
    """Raise `TooManyEvents` to the sender of an event that the run had no room for. An update has its own answer."""
    reply = stored.data.get(REPLY) if stored and stored.data and isinstance(message, Event) else None
    if reply and (refused := CallOutcome.from_text(reply).exception()):
        raise refused


def find_posted(ports: Ports, header: FlowHeader, id_: str, message: Incoming) -> Snapshot | None:
    """Return the record of a message if it was accepted before. Raises `OtherBody` if it is that of another message."""
    [stored] = ports.store.read(message_path(header.address.base, id_))
    check_same_body(stored, message_to_record(message))
    check_received(stored, message)
    return None if stored.data is None else stored


def cancel(ports: Ports, address: FlowAddress, reason: str = "", id_: str | None = None, *, parent: str = "") -> None:
    """Cancel a flow: `Cancelled` is raised where its code waits. An ended flow does not change.

    A repeat with the same `id_` changes nothing, even in a later generation. With `parent`, the run is cancelled only
    if it is the sub-flow of that wait (`parent_key`). Raises `NoFlow`, `Unavailable`.
    """
    name = name_of("cancel", address.base, id_ or ports.store.new_id())
    header = receiver(ports, address, name) if id_ else get(ports, address)
    if not header.end:
        with suppress(OtherBody):  # repeated with another reason
            _post(ports, header, name, Cancel(str(reason)[: CORE_LIMITS.error_letters_max], parent=parent))


def _post(ports: Ports, header: FlowHeader, id_: str, message: Message) -> None:
    base = header.address.base
    stored = post(ports, message_put(base, id_, message_to_record(message)), wake_flow(base, header.function))
    if stored is not None and stored.data is None:  # it was there, and was deleted before it was read
        raise Unavailable("the run has been removed with the message")
    check_received(stored, message)
