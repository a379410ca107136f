"""The time-to-live policies of the database, each with the reason why nothing is lost by it.

Firestore deletes a record some time after its policy's time, whatever the kit still needs it for. So nothing that a
rule reads as a fact may have one. `infra/firestore.tf` sets exactly these policies, which a test compares, and a
simulated world deletes records by exactly these.
"""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class ExpiryPolicy:
    """Records of a collection group are deleted at any time after `field` and then `offset`."""

    field: str
    offset: timedelta
    reason: str


POLICIES: dict[str, ExpiryPolicy] = {
    "attempts": ExpiryPolicy(
        "counted_at",
        timedelta(days=31),
        "A missing count is none: a task runs more often at worst, and Cloud Tasks has dropped it by then.",
    ),
    "counted": ExpiryPolicy(
        "gone_at",
        timedelta(days=7),
        "It fails counts of a yoke that is gone and names its adjustments, until the last event of the yoke, in a day. "
        "Nothing is counted of the yoke, as if there were no record.",
    ),
    "critical_sections": ExpiryPolicy(
        "idle_since",
        timedelta(days=7),
        "Only an idle one has that field; tokens are made from the time, so those of a new record are larger.",
    ),
    "failures": ExpiryPolicy(
        "recorded_at",
        timedelta(days=30),
        "It is kept for people; without it they cannot run the task again from there, and no rule asks for it.",
    ),
    "mailbox": ExpiryPolicy(
        "expires_at",
        timedelta(0),
        "The receipt of a call: it recognises a repeat while it is kept. What waits, and a header, has no such time.",
    ),
    "receipts": ExpiryPolicy(
        "written_at",
        timedelta(days=32),
        "It recognises a repeat for as long as Cloud Tasks may deliver the task that makes it, and a day.",
    ),
}
"""By collection."""
