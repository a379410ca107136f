"""Run a handler for the events of one document in order: begin, run, end.

Begin and end are one commit each, under the guard of the record on which they rest. If the hold has ended and another
delivery has begun, the commit of the end fails, and the record is left to that delivery.

A planned time that must wait is stored in the record (`machine.begin_or_wait`). The delivery that ends a time enqueues
the oldest one after that commit. If it is killed between, it is delivered again, finds its time ended, and enqueues it.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.perform import Records, Writes, perform
from signalbox.core.ports import SERVER_TIME, Conflict, Guard, Ports, Put, Snapshot
from signalbox.core.problems import Problem, Unavailable
from signalbox.document_events import machine
from signalbox.document_events.machine import Turn, place_of_read
from signalbox.document_events.model import BEGUN_AT, Begun, OrderedEvent, Waiting

END_ROUNDS_MAX = 9
"""Attempts of the commit that ends a planned time, in about 13 seconds. It competes with the times that are stored, for
instance by a backfill. If it fails, they all wait until the hold ends, and the code runs again."""

NOT_RUN = {
    Turn.OVERTAKEN: "event overtaken",
    Turn.HANDLED: "event handled already",
    Turn.SKIPPED: "scheduled time left out",
    Turn.WAITS: "scheduled time waits",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """A record as this delivery has written it, and the guard under which the delivery ends the event."""

    begun: Begun
    guard: Guard


def run(ports: Ports, event: OrderedEvent, hold_seconds: float, code: Callable[[], None]) -> None:
    """Run the code if it is the event's turn. Return without running it if the event was handled, overtaken or waits.

    Raises the code's errors. Raises `Unavailable` while another event of the document is being handled, or if it is
    unknown whether the end was stored: then the event is delivered again, and its code may run again.
    """
    turn, hold = begin(ports, event, hold_seconds)
    if hold is None:
        ports.log.info(NOT_RUN[turn], event=event.id, document=event.document)
        return
    try:
        code()
    except Exception as error:
        try:
            end(ports, event, hold, handled=False, is_over=isinstance(error, Problem))
        except Unavailable:
            if event.task is not None and isinstance(error, Problem):  # not delivered again, and times may wait for it
                raise
        except Problem as refusal:  # the queue has logged it, and the next time that arrives hands that one over again
            ports.log.info("waiting time not enqueued", document=event.document, detail=refusal.detail)
        raise
    end(ports, event, hold, handled=True, is_over=True)


def begin(ports: Ports, event: OrderedEvent, hold_seconds: float) -> tuple[Turn, Hold | None]:
    """Return the action for the event, and the hold if the handler may run."""
    delivery = ports.store.new_id()
    holder = delivery if event.task is None else machine.holder_of(event.id, delivery)
    place = event.place
    if place is None:  # the event has no times: those of the document are read, and none of its fields
        [read] = ports.store.read(event.document, fields=())
        place = place_of_read(read.update_time, read.read_time)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Turn, Hold, datetime]]:
        record, begun = read[0], Begun.from_record(read[0].data)
        now = record.read_time
        if event.task is None:
            each = machine.each_of(place, event.after, creates=event.creates) if event.each else None
            decided = machine.begin(begun, event.id, place, holder, now, hold_seconds, each)
        else:
            own = Waiting(event.id, place, event.task, event.turn)
            decided = machine.begin_or_wait(begun, own, holder, now, hold_seconds, skips=event.skips)
        is_written = decided.state == begun  # or nothing changes, or an earlier commit's answer was lost
        writes = () if is_written else (_put(event, decided.state, record.guard),)
        return Decision(writes, (decided.answer, Hold(decided.state, record.guard), now))

    (turn, hold, now), committed = perform(ports, Records([event.path]), decide, retry_on=(Conflict, Unavailable))
    if turn is not Turn.BEGINS:
        _hand_over(ports, event, hold.begun, now)
        return turn, None
    return turn, hold if committed is None else Hold(hold.begun, committed.results[0].update_time)


def do_wait(ports: Ports, path: str) -> bool:
    """Return whether planned times wait in a record."""
    [read] = ports.store.read(path)
    begun = Begun.from_record(read.data)
    return begun is not None and bool(begun.waiting)


def end(ports: Ports, event: OrderedEvent, hold: Hold, *, handled: bool, is_over: bool) -> None:
    """End the event, unless another delivery has begun meanwhile, and enqueue the next one that waits.

    `is_over`: its task is not delivered again. Raises `Unavailable`.
    """
    is_known = is_over and event.task is not None
    end_of = partial(machine.end_for_good if is_known else machine.end, event=event.id, handled=handled)
    ended = end_of(hold.begun)
    try:
        committed = ports.store.commit([_put(event, ended, hold.guard)])
    except Conflict:
        if event.task is not None:
            _end_with_newer(ports, event, hold, end_of)
        return
    _hand_over(ports, event, ended, committed.commit_time)


def _end_with_newer(ports: Ports, event: OrderedEvent, hold: Hold, end_of: Callable[[Begun], Begun]) -> None:
    """End the event after times have been stored that wait for it, unless another delivery has begun."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Begun | None]:
        begun = Begun.from_record(read[0].data)
        if begun is None or begun.holder != hold.begun.holder:
            return Decision((), None)
        ended = end_of(begun)
        return Decision((_put(event, ended, read[0].guard),), ended)

    ended, committed = perform(ports, Records([event.path]), decide, attempts_max=END_ROUNDS_MAX)
    if ended is not None and committed is not None:
        _hand_over(ports, event, ended, committed.commit_time)


def _hand_over(ports: Ports, event: OrderedEvent, begun: Begun, now: datetime) -> None:
    """Enqueue the oldest time that waits, if none is held. Raises `Unavailable`."""
    if tasks := machine.hand_over(begun, event.path, now):
        ports.queue.create(tasks)


def _put(event: OrderedEvent, begun: Begun, guard: Guard) -> Put:
    return Put(event.path, begun.to_record() | {BEGUN_AT: SERVER_TIME}, guard)
