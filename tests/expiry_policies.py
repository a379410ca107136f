"""The time-to-live policies of the database, each with the reason why nothing is lost by it.

Firestore deletes a record some time after its policy's time, even if the kit still needs it. So a record whose absence
a decision would take as a fact must not have a policy. `infra/firestore.tf` sets exactly these policies, which a test
compares, and the simulation deletes records by exactly these.
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
        "Without its count, a task runs more often at worst, and Cloud Tasks has dropped it by then.",
    ),
    "counted": ExpiryPolicy(
        "gone_at",
        timedelta(days=7),
        "It makes late counts of a deleted yoke fail and names its adjustments, until the yoke's last event, within a "
        "day. It counts nothing, as if there were no record.",
    ),
    "critical_sections": ExpiryPolicy(
        "idle_since",
        timedelta(days=7),
        "Only an idle one has that field; tokens are made from the time, so those of a new record are larger.",
    ),
    "document_events": ExpiryPolicy(
        "begun_at",
        timedelta(days=64),
        "It orders the events of a document for as long as an older one may arrive: 32 days until its task is "
        "enqueued, and 32 until that is delivered.",
    ),
    "failures": ExpiryPolicy(
        "recorded_at",
        timedelta(days=30),
        "It is kept for people, who cannot run the task again without it; no decision reads it.",
    ),
    "mailbox": ExpiryPolicy(
        "expires_at",
        timedelta(0),
        "The receipt of a call, which recognises a repeat while it is kept. Waiting messages and headers have no such "
        "time.",
    ),
    "rate_waits": ExpiryPolicy(
        "expires_at",
        timedelta(0),
        "The receipt of a wait for a rate, which recognises a repeat while it is kept. Waits that are not granted yet "
        "have no such time.",
    ),
    "receipts": ExpiryPolicy(
        "written_at",
        timedelta(days=32),
        "It recognises a repeat for as long as Cloud Tasks may deliver the task that makes it, plus a day.",
    ),
}
"""By collection."""
