"""The places of a run's payloads: those of an execution's generation, and those of events.

    flows/{hash}/{incarnation}/{generation}/{sha256}   arguments and results; deleted after `continue_as_new`
    flows/{hash}/{incarnation}/events/{sha256}         values of events, which a later generation may receive

All are deleted with the run. A retry in place keeps the incarnation, so the payloads of its log stay.
"""

from signalbox.core.lazy_dataclasses import replace
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Event, Incoming, Message, Result, Update, payload_of
from signalbox.mailboxes.model.messages import header_path
from signalbox.payloads.model import Place, escaped, opened, payload_in, place_of, shown

EVENTS = "events"


def place_of_run(address: FlowAddress, incarnation: str) -> Place:
    """Return the place of all payloads of a run."""
    return place_of(header_path(address.base), incarnation)


def place_of_execution(address: FlowAddress, execution_id: str) -> Place:
    """Return the place of the arguments and results of an execution."""
    incarnation, _, execution = execution_id.rpartition("-")
    return place_of(header_path(address.base), incarnation, execution.partition(".")[0])


def place_of_events(address: FlowAddress, incarnation: str) -> Place:
    """Return the place of the values of a run's events."""
    return place_of(header_path(address.base), incarnation, EVENTS)


def is_of_run(message: Incoming, header: FlowHeader) -> bool:
    """Return whether a message names no payload of another run, for instance of a removed one of the same id."""
    payload = payload_of(message)
    return payload is None or payload.key.startswith(f"{place_of_run(header.address, header.incarnation).prefix}/")


def opened_entry(entry: Message) -> Message:
    """Return an entry of the log with the value of its payload. Raises `PayloadUnread`."""
    match entry:
        case Result() if payload_in(entry.outcome.result):
            return replace(entry, outcome=replace(entry.outcome, result=escaped(opened(entry.outcome.result))))
        case Event() | Update() if payload_in(entry.value):
            return replace(entry, value=escaped(opened(entry.value)))
    return entry


def shown_values(entry: Message) -> Message:
    """Return an entry of the log whose value is as people see it."""
    match entry:
        case Result():
            return replace(entry, outcome=replace(entry.outcome, result=shown(entry.outcome.result)))
        case Event() | Update():
            return replace(entry, value=shown(entry.value))
    return entry
