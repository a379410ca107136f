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

The planned times of a schedule whose tasks must not overlap are such events, without an event before. If a time is to
be skipped, it is left out instead of `Unavailable` while another one is held, unless a later one was begun: it may have
been begun, and be retried now.

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

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import Unavailable
from signalbox.core.times import instant, microseconds
from signalbox.document_events.model import Begun

EACH_WAIT_SECONDS = 60
"""How long after its write an event waits for the one before it: most arrive within seconds, in almost any order."""


BEFORE_NOT_HANDLED = "the event before this one was not handled yet"


class Turn(Enum):
    """The action of one delivery of an event."""

    BEGINS = "the handler runs"
    OVERTAKEN = "a later event of the document was begun"
    HANDLED = "the handler has returned for this event"
    SKIPPED = "another event is being handled, and this one is not to wait"


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

    Without the place, the event waits for none, or for a deletion if it `creates` the document. With `skips`, an event
    that is later than all that were begun is left out while one is being handled.
    """

    after: int | None
    waits_until: datetime
    skips: bool = False
    creates: bool = False

    def must_wait(self, begun: Begun | None, now: datetime) -> bool:
        """Return whether the event before may still be handled first."""
        if now >= self.waits_until or (self.after is None and not self.creates):
            return False
        if begun is None:
            return self.after is not None
        is_missing = not is_of_deletion(begun.place) if self.after is None else begun.place < self.after
        return not begun.handled or is_missing


def each_of(place: int, after: int | None, *, skips: bool = False, creates: bool = False) -> Each:
    """Return the rule for an event at a place, with its wait: from its write, or from the version that it deletes."""
    return Each(after, instant(place // 2) + timedelta(seconds=EACH_WAIT_SECONDS), skips, creates)


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
            if each and each.skips and place > begun.place:
                return Decision(begun, Turn.SKIPPED)
            raise Unavailable("another event of this document is being handled")
        return Decision(begun, Turn.BEGINS)
    if each and not is_same and not is_earlier and each.must_wait(begun, now):
        raise Unavailable(BEFORE_NOT_HANDLED)
    if is_earlier:  # the record stays that of the newest event, which may not be handled yet
        return Decision(replace(begun, holder=holder, ends_at=own.ends_at), Turn.BEGINS)
    return Decision(replace(own, place=max(place, begun.place)), Turn.BEGINS)


def end(begun: Begun, event: str, *, handled: bool) -> Begun:
    """Return the record once an event's handler has returned or raised: it is free for the next event, or for a retry.

    `handled` is recorded of the newest event that was begun.
    """
    return replace(begun, holder="", handled=handled if begun.event == event else begun.handled)
