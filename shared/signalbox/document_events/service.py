"""Run a handler for the events of one document in order: begin, run, end.

Begin and end are one commit each, under the guard of the record on which they rest. If the hold has ended and another
delivery has begun, the commit of the end fails, and the record is left to that delivery.
"""

from collections.abc import Callable
from contextlib import suppress

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.perform import Records, Writes, perform
from signalbox.core.ports import SERVER_TIME, Conflict, Guard, Ports, Put, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.document_events import machine
from signalbox.document_events.machine import Turn, place_of_read
from signalbox.document_events.model import BEGUN_AT, Begun, OrderedEvent

NOT_RUN = {
    Turn.OVERTAKEN: "event overtaken",
    Turn.HANDLED: "event handled already",
    Turn.SKIPPED: "scheduled time left out",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """A record as this delivery has written it, and the guard under which the delivery ends the event."""

    begun: Begun
    guard: Guard


def run(ports: Ports, event: OrderedEvent, hold_seconds: float, code: Callable[[], None]) -> None:
    """Run the code if it is the event's turn. Return without running it if the event was handled or overtaken.

    Raises the code's errors. Raises `Unavailable` while another event of the document is being handled, or if it is
    unknown whether the end was stored: then the event is delivered again, and its code may run again.
    """
    turn, hold = begin(ports, event, hold_seconds)
    if hold is None:
        ports.log.info(NOT_RUN[turn], event=event.id, document=event.document)
        return
    try:
        code()
    except Exception:
        with suppress(Unavailable):
            end(ports, event, hold, handled=False)
        raise
    end(ports, event, hold, handled=True)


def begin(ports: Ports, event: OrderedEvent, hold_seconds: float) -> tuple[Turn, Hold | None]:
    """Return the action for the event, and the hold if the handler may run."""
    holder = ports.store.new_id()
    place = event.place
    if place is None:  # the event has no times: those of the document are read, and none of its fields
        [read] = ports.store.read(event.document, fields=())
        place = place_of_read(read.update_time, read.read_time)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Turn, Hold | None]]:
        record, begun = read[0], Begun.from_record(read[0].data)
        options = {"skips": event.skips, "creates": event.creates}
        each = machine.each_of(place, event.after, **options) if event.each else None
        decided = machine.begin(begun, event.id, place, holder, record.read_time, hold_seconds, each)
        if decided.answer is not Turn.BEGINS:
            return Decision((), (decided.answer, None))
        is_written = decided.state == begun  # by an earlier commit of this delivery, whose answer was lost
        writes = () if is_written else (_put(event, decided.state, record.guard),)
        return Decision(writes, (decided.answer, Hold(decided.state, record.guard)))

    (turn, hold), committed = perform(ports, Records([event.path]), decide, retry_on=(Conflict, Unavailable))
    if hold is not None and committed is not None:
        hold = Hold(hold.begun, committed.results[0].update_time)
    return turn, hold


def end(ports: Ports, event: OrderedEvent, hold: Hold, *, handled: bool) -> None:
    """End the event, unless another delivery has begun meanwhile. Raises `Unavailable`."""
    with suppress(Conflict):
        ports.store.commit([_put(event, machine.end(hold.begun, event.id, handled=handled), hold.guard)])


def _put(event: OrderedEvent, begun: Begun, guard: Guard) -> Put:
    return Put(event.path, begun.to_record() | {BEGUN_AT: SERVER_TIME}, guard)
