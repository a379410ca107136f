"""Semaphores: the noun as functions, tasks and the kit speak of it; each verb lives where it belongs.

limits      put, patch, get, list_waiting       `semaphore_limits.py`
waits       wait, and the line                  `semaphore_waits.py`
leases      signal, renew, release, cancel      `semaphore_leases.py`, over `semaphore_endings.py`
claims      a continuation takes its lease      `semaphore_claims.py`
admission   what was left to a later run        `semaphore_admission.py`
cleaning    the sweeper's part, delete          `semaphore_cleaning.py`
"""

from shared.semaphores.operations.admission import admit, run
from shared.semaphores.operations.claims import claim
from shared.semaphores.operations.leases import cancel, end_by_hand, release, renew, signal
from shared.semaphores.operations.removal import delete
from shared.semaphores.operations.settings import get, list_waiting, patch, put
from shared.semaphores.operations.sweep import sweep
from shared.semaphores.operations.waits import wait

__all__ = [
    "admit",
    "cancel",
    "claim",
    "delete",
    "end_by_hand",
    "get",
    "list_waiting",
    "patch",
    "put",
    "release",
    "renew",
    "run",
    "signal",
    "sweep",
    "wait",
]
