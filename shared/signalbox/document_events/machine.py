"""Every decision about events that are handled in order, as pure functions of what was begun last.

A delivery of an event begins only if no event of the same document is being handled, and none with a later place was
begun. So what handlers do for one document is done in the order of its versions.

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

`unfinished`: its handler has not returned. It raised, and is retried or is kept as a failure, or its process died.
A hold lasts as long as the platform lets a request run. So when it has ended, its delivery no longer runs.
Another event of an equal place came without its data: its handler reads the version of that place.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum

from signalbox.core.effects import Decision
from signalbox.core.problems import Unavailable
from signalbox.document_events.model import Begun


class Turn(Enum):
    """What a delivery of an event does."""

    BEGINS = "the handler runs"
    OVERTAKEN = "a later event of the document was begun"
    HANDLED = "the handler has returned for this event"


def begin(
    begun: Begun | None, event: str, place: int, holder: str, now: datetime, seconds: float
) -> Decision[Begun, Turn]:
    """Begin an event, held for `seconds`, unless the table says otherwise. The state is what is stored then.

    Raises `Unavailable` while another delivery may be running the handler.
    """
    own = Begun(event, place, False, holder, now + timedelta(seconds=seconds))
    if begun is None:
        return Decision(own, Turn.BEGINS)
    is_same = begun.event == event
    if place < begun.place and not is_same:
        return Decision(begun, Turn.OVERTAKEN)
    if is_same and begun.handled:
        return Decision(begun, Turn.HANDLED)
    if begun.is_held(now):
        if begun.holder != holder:
            raise Unavailable("another event of this document is being handled")
        return Decision(begun, Turn.BEGINS)
    return Decision(replace(own, place=max(place, begun.place)), Turn.BEGINS)


def end(begun: Begun, *, handled: bool) -> Begun:
    """Return the record once the handler has returned or raised: it is free for the next event, or for a retry."""
    return replace(begun, holder="", handled=handled)
