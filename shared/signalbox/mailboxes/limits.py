"""The limits of mailboxes, each with its reason."""

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import Limits


class MailboxLimits(Limits):
    mailbox_page: int = 50
    """Messages that one turn applies. A header is written five times a second at most, so 250 calls a second at a
    peak; Firestore sustains about one write a second, so 50."""

    turn_writes_max: int = 400
    """Writes of one turn. Firestore accepts 500 in a commit."""

    turn_tasks_max: int = 90
    """Tasks that one turn sends. Together with wake-ups they fit into one outbox record of 100."""

    fast_rounds_max: int = 2
    """Attempts to apply a call at once, before it is posted to the mailbox."""

    call_receipt_seconds: int = CORE_LIMITS.receipt_seconds
    """The time for which a call and its outcome are kept: Cloud Tasks delivers a task for up to 31 days."""

    call_later_seconds_max: int = 366 * 24 * 3600
    """The longest delay of a call: a year."""

    call_wait_seconds_max: int = 30
    """The longest time for which a request waits for an outcome: it occupies an instance meanwhile."""


LIMITS = MailboxLimits()
