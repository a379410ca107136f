"""The deletions of the sweeper (old receipts, unused semaphores), and the time of its next visit to a semaphore.

    command  clean-up   receipt                               then
    -------  ---------  ------------------------------------  -------
    clean    not due    old                                   -
    clean    due        young                                 -
    clean    due        old                                   removed
    clean    due        old, with a lease in the record       kept

    command  mode             leases   unchanged for  delete_after_seconds  then
    -------  ---------------  -------  -------------  --------------------  -------
    sweep    open             absent   long enough    set                   deleted
    sweep    open             expired  long enough    set                   deleted
    sweep    open             live     long enough    set                   -
    sweep    open             silent   long enough    set                   -
    sweep    open             absent   not yet        set                   -
    sweep    open             absent   long enough    not set               -
    sweep    opening, closed  absent   long enough    set                   -

`silent` is a lease that expired and that no task has claimed: its wait returns to the wait queue.
"""

from datetime import datetime, timedelta

from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.decision_types import Loaded, QueueReads, Transition, WaiterTransition, unchanged
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.waiters import Waiter

# --- unused semaphores ---


def is_unused(semaphore: Semaphore, now: datetime, update_time: datetime) -> bool:
    """Return whether `delete_after_seconds` have passed without a change, with no waiters and no lease in use.

    A lease that no task has claimed is in use, however long ago it expired: its wait returns to the wait queue. A
    paused semaphore is in use.
    """
    unused_seconds = semaphore.settings.delete_after_seconds
    if unused_seconds is None or semaphore.mode != "open" or semaphore.paused_at is not None:
        return False
    idle_since = now - timedelta(seconds=unused_seconds)
    return update_time <= idle_since and not any(lease.is_live(now) or not lease.claimed for lease in semaphore.leases)


def postponed(semaphore: Semaphore, pause: timedelta, now: datetime) -> datetime:
    """Return the time of the next visit to a semaphore that this visit did not change.

    `pause` is the pause before this visit.

    The pause doubles up to a limit, and ends no later than a lease. If an open semaphore is in use only because of its
    leases, the next visit is at the earliest time at which it can be unused.
    """
    lease_ends = [lease.ends_at for lease in semaphore.leases if lease.is_live(now)]
    unused_seconds = semaphore.settings.delete_after_seconds
    if semaphore.mode == "open" and unused_seconds is not None and not clean_up_due(semaphore, now):
        unused_at = now + timedelta(seconds=unused_seconds)
        later = max([unused_at, *lease_ends]) + timedelta(seconds=LIMITS.sweep_pause_seconds)
        silent = (lease.silent_at for lease in semaphore.leases)
        return min([later, *(at for at in (semaphore.clean_at, *silent) if at is not None and at > now)])
    seconds = max(LIMITS.sweep_pause_seconds, min(2 * pause.total_seconds(), LIMITS.sweep_pause_seconds_max))
    return min([now + timedelta(seconds=seconds), *lease_ends])


# --- receipts ---


def clean_up_reads(loaded: Loaded) -> QueueReads:
    """Read the oldest receipts, if the clean-up is due."""
    return QueueReads(receipts=LIMITS.receipts_page_max if clean_up_due(loaded.semaphore, loaded.now) else 0)


def clean_up(loaded: Loaded) -> Transition[None]:
    """Delete old receipts, except those whose lease is in the record, and set the time of the next clean-up.

    A receipt that is kept gets a later time. Otherwise it would come first in every clean-up, in front of receipts that
    can be deleted.
    """
    if not clean_up_due(loaded.semaphore, loaded.now):
        return unchanged(loaded, None)
    old = [receipt for receipt in loaded.receipts if receipt.expires_at and receipt.expires_at <= loaded.now]
    done = tuple(WaiterTransition("kept" if is_needed(receipt, loaded) else "removed", receipt) for receipt in old)
    return Transition(replace(loaded.semaphore, clean_at=_next_clean_up(loaded)), None, done)


def is_needed(receipt: Waiter, loaded: Loaded) -> bool:
    """Return whether the semaphore's record has a lease of the receipt's wait, even an expired lease.

    The receipt is needed to note the loss of that lease.
    """
    return any(lease.id == receipt.id for lease in loaded.semaphore.leases)


def clean_up_due(semaphore: Semaphore, now: datetime) -> bool:
    """Return whether a receipt may be old."""
    return semaphore.clean_at is not None and now >= semaphore.clean_at


def _next_clean_up(loaded: Loaded) -> datetime | None:
    """Return the time when the next receipt is old. Waits and leases that exist now may also leave a receipt."""
    times = [receipt.expires_at for receipt in loaded.receipts if receipt.expires_at]
    later = [time for time in times if time > loaded.now]
    if len(later) < len(times) and len(loaded.receipts) == LIMITS.receipts_page_max:
        return loaded.now
    if later:
        return min(later)
    in_use = loaded.semaphore.mode != "open" or bool(loaded.semaphore.leases)
    return loaded.now + timedelta(seconds=CORE_LIMITS.receipt_seconds) if in_use else None
