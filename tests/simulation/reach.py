"""Counts of what the seeds of this process have reached, so that a rare fault that no seed meets any more is noticed.

A world adds to `REACHED` where the case occurs; `python -m tests.simulation` prints the sums, and a test holds the
important ones above zero.
"""

from collections import Counter

NAMES_REUSED = "task names used again after they became free"
EVENTS_LATE = "events delivered more than an hour late"
EVENTS_LOST = "events of large documents that did not arrive"
OUTAGES = "hours that passed without a sweeper"
RUN_AGAIN = "tasks that ran again because an old outbox record was handed over after their names were free"
CALLS_AWAY = "calls refused while the store was away"
RESUMED = "attempts under a permit that was waited for anew"
GROUPS_AGAIN = "groups of units that were delivered again"
CUT_GROUPS = "deliveries of groups whose time was over"
GIVEN_UP = "tasks given up"
PERMITS_WAITED = "waits of units for a permit"
LOCKS_AGAIN = "semaphores of locks that were deleted and created again"
SEMAPHORES_AGAIN = "semaphores of units that were deleted and created again"
UNITS_FAILED_BY_HAND = "waits of units that an operator cancelled"
EXPIRED = "records deleted by a time-to-live policy"
FAILURES_KEPT = "tasks kept as failures"
FAILURES_RETRIED = "failures retried"
DEPENDENTS_DELETED = "items deleted with the item that they depend on"
DELETIONS_REFUSED = "deletions of items that were refused"
LISTED_BY_COPIES = "items listed by fields of the items that they refer to"
ADJUSTMENTS = "adjustments of busy standings"
THRESHOLDS = "thresholds of standings crossed"
CALLS_OF_THE_LAST_RELEASE = "calls that the last release ran"
CALLS_ONLY_OF_TODAY = "calls of the last release's processes that only today's code has"
SEEDS_OF_TODAY = "seeds skipped because their code uses what the last release lacks"
HALF_COMMITS = "reads that found half a commit"
TASKS_REFUSED = "tasks refused because the installation was incomplete"

RESTORED = "versions restored"
SHORTENED = "histories shortened"
WRITTEN_BACK = "edits of copies written back"
WRITTEN_BACK_DEEP = "edits of copies written back over two levels"
CALLS_GIVEN_UP = "starts of calls that kill their process"
SLOW_CALLS = "starts of slow calls"
UPGRADED = "calls that older code met"
INLINE_STEPS_RUN = "inline steps run"
SUSPENDED = "runs suspended when nothing else moved"
STEPS_RUN = "runs of steps of flows"
FLOWS_STUCK = "flows that were stuck"
TASKS_PURGED = "tasks lost by a purge of their queue"
BEGUN_AGAIN = "generations of flows behind the first"
STARTED_AGAIN = "flows started under an id that was used before"
CALLBACKS_LATE = "callbacks used when their run was removed"

REACHED: Counter[str] = Counter()
"""Of this process. Never reset by a world: for the counts of some seeds, take a difference."""
