"""How batches end: completed, or cancelled by a caller, at the deadline, or by too many failures."""

from collections.abc import Sequence
from datetime import datetime
from enum import Enum

from shared.batches.rules.header import OF_PARENT, REPLACED, BatchEnd, Counts, Header


def completion(header: Header, failed: int) -> BatchEnd | None:
    """Return the end of a batch whose units all have an outcome; too many failures cancel it, however late."""
    if header.state != "sealed":
        return None
    size = header.size or 0
    counts = Counts(size, size - failed, failed)
    if too_many(header.failures_max, failed):
        return BatchEnd("cancelled", counts, "failures")
    return BatchEnd("completed", counts)


def failure_end(header: Header, counts: Counts) -> BatchEnd | None:
    """Return the end of a batch in which more units failed than it tolerates; None if retries have helped."""
    return BatchEnd("cancelled", counts, "failures") if too_many(header.failures_max, counts.failed) else None


def cancellation(counts: Counts) -> BatchEnd:
    """Return the end of a batch that a caller cancels."""
    return BatchEnd("cancelled", counts, "cancelled")


def end_with_parent(counts: Counts) -> BatchEnd:
    """Return the end of a sub-batch whose parent batch was cancelled."""
    return BatchEnd("cancelled", counts, OF_PARENT)


def deadline_end(counts: Counts, missing: Sequence[int]) -> BatchEnd:
    """Return the end of a batch at its deadline."""
    return BatchEnd("cancelled", counts, "deadline", tuple(missing))


def replacement(header: Header, counts: Counts) -> BatchEnd | None:
    """Return the end of a sub-batch that was never sealed and whose definition is lost; None if it was sealed."""
    return BatchEnd("cancelled", counts, REPLACED) if header.state == "open" else None


def too_many(failures_max: int | None, failures: int) -> bool:
    """Return whether so many failures cancel a batch."""
    return failures_max is not None and failures > failures_max


class SweepAction(Enum):
    """What the sweeper does with a batch that is due."""

    KEEP = "it has ended, but its parent batch exists: a redelivery of the parent's unit would create it again"
    REMOVE = "it has ended long ago"
    TIME_OUT = "its deadline has come"
    WALK = "it made no progress for a while: propagate what a process that died left full"


def sweep_action(header: Header, parent_exists: bool, now: datetime) -> SweepAction:
    """Return what the sweeper does with a batch that is due."""
    if header.ended:
        return SweepAction.KEEP if parent_exists else SweepAction.REMOVE
    return SweepAction.TIME_OUT if header.deadline_at <= now else SweepAction.WALK


def unit_is_live(header: Header | None, attempt: int) -> bool:
    """Return whether a unit may start: its batch has not ended, or it is completed and this is a retry."""
    return header is not None and (not header.ended or (header.state == "completed" and attempt > 0))
