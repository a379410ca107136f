"""Create, change, pause and resume a semaphore.

    command  mode             permits      then  waiter   admit run
    -------  ---------------  -----------  ----  -------  ---------
    change   open             any          same  -        -
    change   opening, closed  the same     same  -        -
    change   opening, closed  more         same  -        nudge
    change   opening, closed  fewer        same  -        nudge
    change   opening, closed  too few      same  refused  nudge

With `fewer` permits each waiter can still be granted; `too few` are fewer than a waiter needs. The number of permits
limits new grants only: leases that are held stay. After any change of it an admit run reads the wait queue, since
waiters may have been created in the meantime.
"""

from signalbox.core.lazy_dataclasses import replace
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import lanes
from signalbox.semaphores.machine.decision_types import Loaded, QueueReads, Transition
from signalbox.semaphores.machine.wait_queue import refuse
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.model.settings import SemaphoreSettings


def settings_reads(loaded: Loaded, settings: SemaphoreSettings) -> QueueReads:
    """Read the head of the wait queue, if permits are lowered and the queue may have waiters."""
    lowered = settings.permits < loaded.semaphore.settings.permits and loaded.semaphore.mode != "open"
    return QueueReads(waiters=LIMITS.grants_page_max if lowered else 0)


def change_settings(loaded: Loaded, settings: SemaphoreSettings) -> Transition[Semaphore]:
    """Set permits, times and weights, and end the waits that need more permits than there are now."""
    after = lanes.with_weights_of(loaded.semaphore, replace(loaded.semaphore, settings=settings))
    changed = settings.permits != loaded.semaphore.settings.permits and after.mode != "open"
    transition = refuse(loaded, after)
    return replace(transition, nudge=changed or transition.nudge)


# --- pauses ---


def pause(loaded: Loaded) -> Transition[Semaphore]:
    """Take away all free permits until `resume`. Leases stay, and waiters keep their places."""
    before = loaded.semaphore
    after = before if before.paused_at else replace(before, paused_at=loaded.now)
    return Transition(after, after)


def resume(loaded: Loaded) -> Transition[Semaphore]:
    """Make permits free again, and have an admit run grant them, if there may be waiters."""
    before = loaded.semaphore
    after = replace(before, paused_at=None) if before.paused_at else before
    return Transition(after, after, nudge=bool(before.paused_at) and before.mode != "open")
