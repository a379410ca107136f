"""Claim a lease for the continuation it was granted to.

A continuation begins with its claim. If the lease expired before, the wait goes back to its old place in the wait
queue; if the lease is gone, a signal ended it, and there is nothing to run.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from shared.core.operations.perform import Contended
from shared.core.operations.ports import Ports
from shared.core.rules.problems import NoSemaphore
from shared.core.rules.task_context import Lease
from shared.semaphores.operations.transitions import SemaphoreReads, change, load, nudge
from shared.semaphores.rules import lease_commands as rules
from shared.semaphores.rules.lease_commands import READ_WAITER
from shared.semaphores.rules.leases import LeaseRecord, parse_lease_id


def claim(ports: Ports, granted: Mapping[str, Any]) -> Lease | None:
    """Start the lease that a continuation was granted; None: it must not run, now or ever under this grant.

    `granted` is the lease in the context of the task. Raises `Unavailable`.
    """
    name = granted["semaphore"]
    id_, grant = parse_lease_id(granted["id"])
    try:
        return _claimed(ports, name, id_, grant)
    except NoSemaphore:
        return None
    except Contended:
        loaded = load(ports, name)  # a release may have been left by a process that then died
        nudge(ports, loaded, loaded.now)
        raise


def _claimed(ports: Ports, name: str, id_: str, grant: int) -> Lease | None:
    """Claim by the semaphore's record alone, where that is enough; otherwise with the waiter's."""
    rule = partial(rules.claim, id_=id_, grant=grant)
    lease = change(ports, SemaphoreReads(name), rule).answer
    if lease is READ_WAITER:
        lease = change(ports, SemaphoreReads(name, wait_id=id_), rule).answer
    if not isinstance(lease, LeaseRecord):
        return None
    return Lease(name, lease.lease_id, lease.token, lease.ends_at)
