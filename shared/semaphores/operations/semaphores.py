"""The operations on semaphores, as functions, tasks and the kit call them.

Each loads, applies a rule of `shared/semaphores/rules/`, commits the transition and announces what must follow.

settings    put, patch, get, find
waits       wait
leases      signal, renew, release, cancel
claims      a continuation claims its lease
admission   the tasks of the admit queue
removal     delete
sweep       the sweeper's part
"""

from shared.semaphores.operations.admission import admit, run
from shared.semaphores.operations.claims import claim
from shared.semaphores.operations.leases import cancel, end_by_hand, release, renew, renew_granted, signal
from shared.semaphores.operations.removal import delete
from shared.semaphores.operations.settings import find, get, patch, put
from shared.semaphores.operations.sweep import sweep
from shared.semaphores.operations.waits import wait

__all__ = [
    "admit",
    "cancel",
    "claim",
    "delete",
    "end_by_hand",
    "find",
    "get",
    "patch",
    "put",
    "release",
    "renew",
    "renew_granted",
    "run",
    "signal",
    "sweep",
    "wait",
]
