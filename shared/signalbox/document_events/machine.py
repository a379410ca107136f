"""Every decision about events that are handled in order: the place of an event, and whether it is its turn.

Writes of one document have times that only grow, so the time orders its events. An event is delivered with the time of
the version that it made, or, if that is missing, as after a deletion, with the time of the version before it:

    write at t                        2 · t         in microseconds
    deletion of the version of t      2 · t + 1     after that write, and before the next

A delivery of an event begins only if no event of the same document is being handled, and none with a later place was
begun. So the handlers of one document act in the order of its versions.

    begun last   held by   the event is     turn
    -----------  --------  ---------------  ----------------
    none         -         any              begins
    unfinished   -         earlier          overtaken
    unfinished   -         the same         begins
    unfinished   -         another, later   begins
    unfinished   -         another, equal   begins
    unfinished   another   earlier          overtaken
    unfinished   another   the same         Unavailable
    unfinished   another   another, later   Unavailable
    unfinished   another   another, equal   Unavailable
    unfinished   itself    the same         begins
    handled      -         earlier          overtaken
    handled      -         the same         handled already
    handled      -         another, later   begins
    handled      -         another, equal   begins

With ``in_order="each"`` no event is left out: an earlier event begins if none is held, and the record stays that of the
newest one. For a while, an event waits for the one before it:

    begun last   held by   the event is     patience  turn
    -----------  --------  ---------------  --------  ----------------
    none         -         the first        yes       begins
    none         -         a creation       yes       begins
    none         -         after a gap      yes       Unavailable
    none         -         after a gap      no        begins
    unfinished   -         earlier          yes       begins
    unfinished   -         the same         yes       begins
    unfinished   -         another, later   yes       Unavailable
    unfinished   -         another, later   no        begins
    unfinished   another   earlier          no        Unavailable
    handled      -         earlier          yes       begins
    handled      -         the same         yes       handled already
    handled      -         the next         yes       begins
    handled      -         after a gap      yes       Unavailable
    handled      -         after a gap      no        begins
    handled      -         a creation       yes       Unavailable
    handled      -         a creation       no        begins
    deleted      -         a creation       yes       begins

The planned times of a schedule whose tasks must not overlap are such events, without an event before. A time that must
wait is stored in the record, and its task is acknowledged. The delivery that ends a time enqueues the oldest one that
waits ("hands it over"). So the next one starts when one ends, and no task polls.

    held by       the time          older one waits  turn
    ------------  ----------------  ---------------  ---------------
    -             is new            no               begins
    -             was handed over   no               begins
    -             waits             no               waits
    -             is retried        no               begins
    -             is new            yes              waits
    -             was handed over   yes              waits
    -             waits             yes              waits
    -             is to be skipped  yes              skipped
    -             is to be skipped  no               begins
    -             is retried        yes              waits
    -             has ended         yes              handled already
    another time  is new            no               waits
    another time  was handed over   no               waits
    another time  waits             no               waits
    another time  is to be skipped  no               skipped
    another time  is retried        no               waits
    another time  has ended         no               handled already
    itself        is retried        no               Unavailable

"itself": another delivery of the time holds the record. If its process has died, this one must not be acknowledged. "is
retried": it was begun and has not ended; so it is not skipped. "was handed over": it waits, and this is the task that
was enqueued for its turn, or for a later one. "waits": this is another delivery of a task that was acknowledged when
the time was stored. It must not begin: if its process died, it would not be delivered again, and the time would no
longer wait. A delivery that finds times that wait and none that is held hands over the oldest one again, in case its
task was lost. So a time may have two tasks. The record has the last `ENDED_MAX` times that have ended or were left out,
so the other task is dropped.

"the first": no version before it is known. "after a gap": the version before it is newer than the event that was begun
last, or none was begun. "a creation" does not know a version before it: if one was begun last, the deletion of that one
is still to come ("deleted": it was begun last). "patience": the event was written less than `EACH_WAIT_SECONDS` ago. An
event may have no predecessor that ever arrives, so the wait must end.

`unfinished`: its handler has not returned. It raised, and is retried or is kept as a failure, or its process died.
A hold lasts as long as the platform lets a request run. So when it has ended, its delivery no longer runs.
Another event of an equal place came without its data: its handler reads the version of that place.
"""

from datetime import datetime, timedelta
from enum import Enum

from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS
from signalbox.core.problems import Unavailable
from signalbox.core.times import instant, microseconds
from signalbox.document_events.model import Begun, Ended, Waiting

EACH_WAIT_SECONDS = 60
"""How long after its write an event waits for the one before it: most arrive within seconds, in almost any order."""


WAITING_BYTES_MAX = 512 * 1024
"""Bytes of the times that wait in one record. Further ones are delivered until there is room."""

ENDED_MAX = 100
"""The number of times in the record that have ended or were left out. A later delivery of one is only acknowledged."""

ENDED_TIME = timedelta(seconds=LIMITS.receipt_seconds)
"""How long such a time is known: no task is delivered for longer, and later a person may make up for the time."""

HAND_OVER_SECONDS = 60
"""While no time is held, the oldest one that waits is handed over at most once in this time."""

BEFORE_NOT_HANDLED = "the event before this one was not handled yet"


class Turn(Enum):
    """The action of one delivery of an event."""

    BEGINS = "the handler runs"
    OVERTAKEN = "a later event of the document was begun"
    HANDLED = "the handler has returned for this event"
    SKIPPED = "another event is being handled, and this one is not to wait"
    WAITS = "it is stored in the record, and is enqueued again when its turn comes"


def place_of(written_at: datetime | None, before: datetime | None) -> int | None:
    """Return the place of an event, by the times of its two versions, or None if the event has neither time."""
    if written_at is not None:
        return 2 * microseconds(written_at)
    return None if before is None else 2 * microseconds(before) + 1


def is_of_deletion(place: int) -> bool:
    """Return whether a place is that of a deletion."""
    return place % 2 == 1


def place_of_read(update_time: datetime | None, read_time: datetime) -> int:
    """Return the place of an event without times, whose handler reads the document: that of the version that exists.

    `update_time` is None if the document does not exist. Later versions are then written after `read_time`.
    """
    return 2 * microseconds(update_time or read_time)


@dataclass(frozen=True, slots=True)
class Each:
    """The rule that no event is left out: the place of the event before, if it is known, and until when to wait for it.

    Without the place, the event waits for none, or for a deletion if it `creates` the document.
    """

    after: int | None
    waits_until: datetime
    creates: bool = False

    def must_wait(self, begun: Begun | None, now: datetime) -> bool:
        """Return whether the event before may still be handled first."""
        if now >= self.waits_until or (self.after is None and not self.creates):
            return False
        if begun is None:
            return self.after is not None
        is_missing = not is_of_deletion(begun.place) if self.after is None else begun.place < self.after
        return not begun.handled or is_missing


def each_of(place: int, after: int | None, *, creates: bool = False) -> Each:
    """Return the rule for an event at a place, with its wait: from its write, or from the version that it deletes."""
    return Each(after, instant(place // 2) + timedelta(seconds=EACH_WAIT_SECONDS), creates)


def begin(
    begun: Begun | None,
    event: str,
    place: int,
    holder: str,
    now: datetime,
    seconds: float,
    each: Each | None = None,
) -> Decision[Begun, Turn]:
    """Begin an event and hold it for `seconds`, if the tables allow it. The decision's state is the record to store.

    Without `each`, an event that a later one has overtaken is left out. Raises `Unavailable` while another delivery may
    be running the handler, and while the event waits for the one before it.
    """
    own = Begun(event, place, False, holder, now + timedelta(seconds=seconds))
    if begun is None:
        if each and each.must_wait(None, now):
            raise Unavailable(BEFORE_NOT_HANDLED)
        return Decision(own, Turn.BEGINS)
    is_same = begun.event == event
    is_earlier = place < begun.place and not is_same
    if is_earlier and each is None:
        return Decision(begun, Turn.OVERTAKEN)
    if is_same and begun.handled:
        return Decision(begun, Turn.HANDLED)
    if begun.is_held(now):
        if begun.holder != holder:
            raise Unavailable("another event of this document is being handled")
        return Decision(begun, Turn.BEGINS)
    if each and not is_same and not is_earlier and each.must_wait(begun, now):
        raise Unavailable(BEFORE_NOT_HANDLED)
    if is_earlier:  # the record stays that of the newest event, which may not be handled yet
        return Decision(replace(begun, holder=holder, ends_at=own.ends_at), Turn.BEGINS)
    return Decision(replace(own, place=max(place, begun.place)), Turn.BEGINS)


def begin_or_wait(
    begun: Begun | None, own: Waiting, holder: str, now: datetime, seconds: float, *, skips: bool
) -> Decision[Begun, Turn]:
    """Begin a planned time, or store it with the times that wait, as the last table shows.

    `own` is what is stored if it must wait, and `holder` is made by `holder_of`. Raises `Unavailable` while another
    delivery of the same time may run, and if too many times wait.
    """
    each = each_of(own.place, None)
    if begun is None:
        return begin(None, own.event, own.place, holder, now, seconds, each)
    others = tuple(waiting for waiting in begun.waiting if waiting.event != own.event)
    stored = next((waiting for waiting in begun.waiting if waiting.event == own.event), None)
    is_held, is_late = begun.is_held(now), stored is not None and own.turn <= stored.turn
    if begun.holder == holder:  # its commit has succeeded, and others may have begun to wait since
        return Decision(begun, Turn.BEGINS)
    if any(each.event == own.event and now < each.at + ENDED_TIME for each in begun.ended):
        return Decision(replace(begun, waiting=others), Turn.HANDLED)
    if is_held and begun.holder.startswith(holder_of(own.event, "")):
        raise Unavailable("another delivery of this task may be running")
    if is_late:
        return Decision(begun, Turn.WAITS)
    if is_held or (others and others[0].order < own.order):
        if skips and own.place > begun.place and stored is None:
            return Decision(replace(begun, ended=_with(begun.ended, own.event, now)), Turn.SKIPPED)
        if stored is not None or sum(waiting.size_bytes for waiting in (*others, own)) <= WAITING_BYTES_MAX:
            waiting = tuple(sorted((*others, own), key=lambda each: each.order))
            return Decision(replace(begun, waiting=waiting), Turn.WAITS)
    decided = begin(begun, own.event, own.place, holder, now, seconds, each)
    return replace(decided, state=replace(decided.state, waiting=others, ended=begun.ended))


def holder_of(event: str, delivery: str) -> str:
    """Return the holder of a record that begins a planned time: its time can be recognised."""
    return f"{event}/{delivery}"


def hand_over(begun: Begun, path: str, now: datetime) -> tuple[Effect, ...]:
    """Return the task of the oldest time that waits, if one does and none is held.

    Its name is the same for all that hand it over within `HAND_OVER_SECONDS`.
    """
    if not begun.waiting or begun.is_held(now):
        return ()
    oldest, period = begun.waiting[0], int(now.timestamp()) // HAND_OVER_SECONDS
    name = name_of(path, oldest.event, str(oldest.turn), begun.ends_at.isoformat(), period)
    return (replace(oldest.task, name=name, operation=oldest.event),)


def end(begun: Begun, event: str, *, handled: bool) -> Begun:
    """Return the record once an event's handler has returned or raised: it is free for the next event, or for a retry.

    `handled` is recorded of the newest event that was begun.
    """
    return replace(begun, holder="", handled=handled if begun.event == event else begun.handled)


def end_for_good(begun: Begun, event: str, *, handled: bool) -> Begun:
    """Return the record once a planned time has ended and its task is not delivered again: it returned, or failed."""
    return replace(end(begun, event, handled=handled), ended=_with(begun.ended, event, begun.ends_at))


def _with(ended: tuple[Ended, ...], event: str, at: datetime) -> tuple[Ended, ...]:
    return (*(each for each in ended if each.event != event), Ended(event, at))[-ENDED_MAX:]
