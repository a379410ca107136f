"""The decisions that all mailboxes share: which messages are due, in which order, and the steps of a run.

Messages are applied in the order of their records' create times, which are commit times. `since` cannot order them: the
server sets it when it begins a commit, in milliseconds. `since` only orders pages, so the end of a full page is left to
the next page (`settled`).

A run is one delivery of a wake-up. It reads the mailbox, commits a turn, and reads again until it ends:

    wake-up     when the mailbox is read            the turn               run
    ----------  ----------------------------------  ---------------------  ---------------------
    any         it is before the wake-up's time     -                      Unavailable
    of a slot   a turn has read after the slot      -                      ends
    of a slot   only the header's creator has       commits                ends
    of a slot   no turn has                         commits                ends
    for later   a turn has read after its time      commits                ends
    any         it is time                          commits, and has more  reads again
    any         it is time                          loses the race         pauses, reads again
    any         it is time                          always loses the race  Contended
    cut short   it is time                          commits                ends, enqueues a wake

"of a slot": the wake-up that all messages of one time slot share. A turn that has read after the slot has seen all of
them, and the messages that it left have their own wake-up. The turn that created the header does not count: a call
that is applied at once looks for messages before it reads a header's time.

"cut short": a wake-up for a time that the queue cannot reach. It is due as late as possible, and its run enqueues the
next one. `Unavailable` and `Contended` are answered with 503, so the queue delivers the wake-up again.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.times import microseconds
from signalbox.mailboxes.model.messages import StoredMessage


def due_messages(page: Iterable[StoredMessage], now: datetime) -> list[StoredMessage]:
    """Return the messages to be applied at `now`, in order."""
    due = (message for message in page if message.due_at is None or message.due_at <= now)
    return sorted(due, key=lambda message: message.place)


def settled(page: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return a full page without its end, where a message that was committed earlier may be missing.

    A missing message has a later `since`, which is at most `since_ahead_seconds` ahead of its commit.
    """
    complete_until = max(message.since for message in page) - timedelta(seconds=CORE_LIMITS.since_ahead_seconds)
    return [message for message in page if message.place[0] < complete_until]


def blocks(first: StoredMessage, now: datetime) -> bool:
    """Return whether a call that begins at `now` must wait for the first message by `since`.

    A delayed message that is almost due also blocks: it may hide a message that has arrived, whose `since` is at most
    `since_ahead_seconds` ahead of its commit.
    """
    return first.due_at is None or first.due_at <= now + timedelta(seconds=CORE_LIMITS.since_ahead_seconds)


def next_revision(before: int, read_time: datetime) -> int:
    """Return the revision that a turn writes. It grows with every turn, also after a deletion, so it can fence."""
    return max(before + 1, microseconds(read_time))


def has_read(revision: int, moment: datetime) -> bool:
    """Return whether the turn that wrote this revision read its mailbox at `moment` or later."""
    return revision >= microseconds(moment)
