"""Send an event or an update to a run, and start the run with it if there is none.

    read the header and the message's record ──► the message is there: a repeat
                                             ──► no run: one commit creates the run, its message and a wake-up
                                             ──► a run: post to it, refuse, or end and remove it and look again

The choice of the caller, if there is a run:

    if_exists      the run has not ended           the run has ended
    -------------  ------------------------------  ----------------------------
    same           receives the message            FlowEnded
    replace_ended  receives the message            is removed, another starts
    replace        is ended and removed, another   is removed, another starts
    refuse         RunExists                       RunExists

A repeat under the id of the message finds the message's record in the new run, and changes nothing: a repeated
`replace` does not replace the run that it has started. The end and the removal have the guard of the header that was
read, so a request that has read an earlier run's header does not end the new run either.

A run may end after its header was read and before the message is posted. So a sender with `replace_ended` reads
the header again after its post. If the message was posted after the end of the run, the run is removed, and another one
starts.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.polling import poll
from signalbox.core.ports import AlreadyExists, Conflict, Ports, Snapshot
from signalbox.core.problems import Contended
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import NextEvent, NextUpdate
from signalbox.flows.model.addresses import RUN_IDS, FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import FAILED, FlowHeader
from signalbox.flows.model.messages import Incoming, update_id
from signalbox.flows.problems import NotAnswered, NoUpdate, RunExists
from signalbox.flows.requests import REFUSE, REPLACE, REPLACE_ENDED, SAME
from signalbox.flows.service import messages, starts
from signalbox.flows.service.reads import present
from signalbox.flows.storage.commits import REPLY, header_of
from signalbox.mailboxes.model.messages import header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import waits
from signalbox.payloads.service import content_by_hash


@dataclass(frozen=True, slots=True)
class Starting:
    """The run that a message starts if there is none.

    `function` is the name of the function that has its code. `flows` are the flows whose code this process has.
    """

    flow: str
    flows: Flows
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    on_complete: Call | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    if_exists: str = SAME


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was accepted. `warning` is not empty if the code does not wait for its name now."""

    id: str
    started: bool = False
    warning: str = ""


# --- send ---


def send_event(
    ports: Ports, address: FlowAddress, name: str, value: Any, id_: str, new: Starting | None = None
) -> Sent:
    """Send an event to a run, as `post_event` does. With `new`, a run is started if there is none.

    Raises `RunExists`, `NotArchived`, and the errors of `post_event` and of a start.
    """
    if new is None:
        header = messages.post_event(ports, address, name, value, id_)
        return Sent(id_, warning=warning_of(header, NextEvent.kind, name))
    event = messages.checked_event(name, value)
    return _send(ports, address, event, messages.event_id(address, id_), id_, new)


def send_update(
    ports: Ports, address: FlowAddress, name: str, value: Any, id_: str, new: Starting | None = None
) -> Sent:
    """Send an update to a run, as `post_update` does. With `new`, a run is started if there is none.

    Raises `RunExists`, `NotArchived`, and the errors of `post_update` and of a start.
    """
    if new is None:
        header = messages.post_update(ports, address, name, value, id_)
        return Sent(id_, warning=warning_of(header, NextUpdate.kind, name))
    update = messages.checked_update(name, value, id_)
    return _send(ports, address, update, update_id(address, id_), id_, new)


def _send(ports: Ports, address: FlowAddress, message: Incoming, message_id: str, id_: str, new: Starting) -> Sent:
    warning, has_posted = "", False
    for lost in range(CORE_LIMITS.rounds_max):
        read, stored = ports.store.read(header_path(address.base), message_path(address.base, message_id))
        header = header_of(read, address)
        if header is not None and is_repeat(read, header, stored, new.if_exists):
            messages.check_same(stored, header, message)
            if not has_posted:
                messages.wake_again(ports, header, stored)
            return Sent(id_, warning=warning)
        if header is None or is_replaced(header, new.if_exists):
            RUN_IDS.check_chosen(address.key)
        if header is None:
            with suppress(AlreadyExists):
                return _start(ports, address, message, message_id, id_, new)
        elif is_replaced(header, new.if_exists):
            with suppress(Conflict):
                sweep.end_or_remove(ports, read, header, "The run was replaced.")
                continue
        elif new.if_exists == REFUSE:
            raise RunExists(f"There is a run {address.key!r} of {address.name}: it is {header.state}.", field="id")
        else:
            messages.send(ports, header, message, message_id)
            warning, has_posted = warning_of(header, message.kind, message.name), True
            if looks_again(new.if_exists):
                continue
            return Sent(id_, warning=warning)
        pause(ports, lost)
    raise Contended(f"{address.base} is being changed by too many processes at once")


def _start(ports: Ports, address: FlowAddress, message: Incoming, message_id: str, id_: str, new: Starting) -> Sent:
    """Start a run, with a message in its mailbox. Raises `AlreadyExists`."""
    options = new.on_complete, new.labels, new.timeout_seconds
    starts.start_with(ports, new.flows, new.function, address, new.arguments, (message_id, message), *options)
    return Sent(id_, started=True)


def is_repeat(read: Snapshot, header: FlowHeader, stored: Snapshot, if_exists: str) -> bool:
    """Return whether a message counts as sent to a run before. With `replace_ended`, a late message does not count.

    `read` is the record of the header, and `stored` that of the message.
    """
    return stored.data is not None and not (if_exists == REPLACE_ENDED and is_late(read, header, stored))


def is_late(read: Snapshot, header: FlowHeader, stored: Snapshot) -> bool:
    """Return whether a message was posted after the end of its run, so that the run has not received it.

    The message that has started the run is not late, even if the code has ended before the commit of the start.
    """
    if header.end is None or stored.create_time is None or read.create_time is None:
        return False
    return stored.create_time > max(header.end.at, read.create_time)


def looks_again(if_exists: str) -> bool:
    """Return whether a sender looks again after its post, since the run may have ended before the post."""
    return if_exists == REPLACE_ENDED


def is_replaced(header: FlowHeader, if_exists: str) -> bool:
    """Return whether a run is removed so that another one starts under its id."""
    return if_exists == REPLACE or (if_exists == REPLACE_ENDED and header.end is not None)


def warning_of(header: FlowHeader, kind: str, name: str) -> str:
    """Return a text if the code does not wait for a message's name, as far as the header shows, or an empty text."""
    names = messages.awaited_names(header, kind)
    if not header.begun or header.end or name in names:
        return ""
    other_kind = NextUpdate.kind if kind == NextEvent.kind else NextEvent.kind
    others = messages.awaited_names(header, other_kind)
    shown, shown_others = (
        ", ".join(f"`{each}`" for each in sorted(some)[: LIMITS.flow_events_shown_max]) for some in (names, others)
    )
    also = (
        f", {'and' if names else 'but'} for the {other_kind}{'s' * (len(others) > 1)} {shown_others}" if others else ""
    )
    waits_for = f"It waits for {shown or f'no {kind}'}{also}."
    return f"The code does not wait for the {kind} `{name}` now, so the {kind} is kept. {waits_for}"


# --- answers ---


def answer_of(ports: Ports, address: FlowAddress, id_: str, seconds: float = 0) -> CallOutcome | None:
    """Return the answer to an update, or None if it has none after `seconds`.

    Raises `NoFlow`, `NoUpdate`, and `NotAnswered` if the run has ended without an answer. An update that waits in the
    mailbox of an ended or removed run has no answer yet: the next run under the id may receive it.
    """
    return poll(ports.clock, lambda: _answer(ports, address, id_), lambda answer: answer is not None, seconds)


def _answer(ports: Ports, address: FlowAddress, id_: str) -> CallOutcome | None:
    paths = message_path(address.base, update_id(address, id_)), header_path(address.base)
    stored, read = ports.store.read(*paths)
    header = header_of(read, address)
    return None if may_be_received(header, stored) else reply_of(present(read, address), stored, id_)


def may_be_received(header: FlowHeader | None, stored: Snapshot) -> bool:
    """Return whether a message still waits although its run has ended or been removed. A later run may receive it."""
    return (header is None or header.end is not None) and waits(stored)


def answer_by_hash(ports: Ports, address: FlowAddress, id_: str, sha256: str) -> bytes:
    """Return the large answer to an update, if it has this hash. Raises as `answer_of` does, and `NoPayload`."""
    answer = _answer(ports, address, id_)
    return content_by_hash(ports, [answer.result] if answer else [], sha256)


def reply_of(header: FlowHeader, stored: Snapshot, id_: str) -> CallOutcome | None:
    """Return the answer in the record of an update, or None while its run may still answer it."""
    if stored.data is None:
        why = "it was never sent, is too old, or was sent to a run that has been removed."
        raise NoUpdate(f"The run {header.address.key!r} has no update {id_!r}: {why}")
    if REPLY in stored.data:
        return CallOutcome.from_text(stored.data[REPLY])
    if header.end:
        advice = " A retry of the run receives it again." if header.state == FAILED else ""
        raise NotAnswered(f"The run is {header.end.state}, and its code has not answered the update {id_!r}.{advice}")
    return None
