"""What happens to a semaphore from outside its waits and leases: new settings, clean-up of receipts, end of use."""

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.rules.limits import LIMITS
from shared.semaphores.rules.requests import SemaphoreSettings
from shared.semaphores.rules.semaphores import Semaphore
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition, WaiterTransition, unchanged
from shared.semaphores.rules.wait_queue import refuse
from shared.semaphores.rules.waiters import Waiter


def create(settings: SemaphoreSettings) -> Semaphore:
    """Return a new semaphore."""
    return Semaphore(settings.permits, settings.lease_seconds, settings.delete_after_seconds)


def settings_of(semaphore: Semaphore) -> SemaphoreSettings:
    """Return a semaphore's settings."""
    return SemaphoreSettings(semaphore.permits, semaphore.lease_seconds, semaphore.delete_after_seconds)


def settings_reads(loaded: Loaded, settings: SemaphoreSettings) -> QueueReads:
    """Read the head of the wait queue, if permits are lowered and somebody may wait."""
    lowered = settings.permits < loaded.semaphore.permits and loaded.semaphore.mode != "open"
    return QueueReads(waiters=LIMITS.grants_page_max if lowered else 0)


def change_settings(loaded: Loaded, settings: SemaphoreSettings) -> Transition[Semaphore]:
    """Set permits and times. Fewer permits hold for new grants only, and end the waits that want more than that.

    More permits are granted to those who wait. Either way an admit run looks at waiters that were created meanwhile.
    """
    after = replace(
        loaded.semaphore,
        permits=settings.permits,
        lease_seconds=settings.lease_seconds,
        delete_after_seconds=settings.delete_after_seconds,
    )
    changed = after.permits != loaded.semaphore.permits and after.mode != "open"
    transition = refuse(loaded, after)
    return replace(transition, nudge=changed or transition.nudge)


def is_unused(semaphore: Semaphore, now: datetime, update_time: datetime) -> bool:
    """Return whether `delete_after_seconds` have passed without a change, with no lease held and nobody waiting."""
    if semaphore.delete_after_seconds is None or semaphore.mode != "open":
        return False
    idle_since = now - timedelta(seconds=semaphore.delete_after_seconds)
    return update_time <= idle_since and not any(one.live(now) for one in semaphore.leases)


def postponed(semaphore: Semaphore, pause: timedelta, now: datetime) -> datetime:
    """Return when to look again at a semaphore that a visit left as it was, after a pause between the last two.

    The pause doubles up to a limit, and ends at the latest with a lease. Where only the leases of an open semaphore
    keep it from being unused, nothing is worth a visit before that can have changed.
    """
    lease_ends = [one.ends_at for one in semaphore.leases if one.live(now)]
    if semaphore.mode == "open" and semaphore.delete_after_seconds is not None and not clean_up_due(semaphore, now):
        unused_at = now + timedelta(seconds=semaphore.delete_after_seconds)
        later = max([unused_at, *lease_ends]) + timedelta(seconds=LIMITS.sweep_pause_seconds)
        return min(later, semaphore.clean_at or later)
    seconds = max(LIMITS.sweep_pause_seconds, min(2 * pause.total_seconds(), LIMITS.sweep_pause_seconds_max))
    return min([now + timedelta(seconds=seconds), *lease_ends])


# --- receipts ---


def clean_up_reads(loaded: Loaded) -> QueueReads:
    """Read the oldest receipts, if the clean-up is due."""
    return QueueReads(receipts=LIMITS.receipts_page_max if clean_up_due(loaded.semaphore, loaded.now) else 0)


def clean_up(loaded: Loaded) -> Transition[None]:
    """Delete receipts that are old, keep those whose lease is in the record, and set the time of the next clean-up.

    A receipt that is kept gets a later time: it must not come first in every clean-up, before all that can be deleted.
    """
    if not clean_up_due(loaded.semaphore, loaded.now):
        return unchanged(loaded, None)
    old = [one for one in loaded.receipts if one.expires_at and one.expires_at <= loaded.now]
    done = tuple(WaiterTransition("kept" if _is_needed(one, loaded) else "removed", one) for one in old)
    return Transition(replace(loaded.semaphore, clean_at=_next_clean_up(loaded)), None, done)


def _is_needed(receipt: Waiter, loaded: Loaded) -> bool:
    """Return whether the semaphore's record has a lease of this wait, live or not: its loss is noted at the receipt."""
    return any(lease.id == receipt.id for lease in loaded.semaphore.leases)


def clean_up_due(semaphore: Semaphore, now: datetime) -> bool:
    """Return whether a receipt may be old."""
    return semaphore.clean_at is not None and now >= semaphore.clean_at


def _next_clean_up(loaded: Loaded) -> datetime | None:
    """Return when the next receipt is old; while somebody may wait or hold, at the latest when theirs would be."""
    times = [one.expires_at for one in loaded.receipts if one.expires_at]
    later = [time for time in times if time > loaded.now]
    if len(later) < len(times) and len(loaded.receipts) == LIMITS.receipts_page_max:
        return loaded.now
    if later:
        return min(later)
    in_use = loaded.semaphore.mode != "open" or bool(loaded.semaphore.leases)
    return loaded.now + timedelta(seconds=LIMITS.receipt_seconds) if in_use else None
