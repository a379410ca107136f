"""The tasks of the admit queue: an admit run, a wait's deadline, the end of waits that can never be
granted, the clean-up after a deleted semaphore, the run of a critical section that is due."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from shared.core.operations.ports import Ports
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore
from shared.semaphores.operations import critical_sections
from shared.semaphores.operations.removal import clean_deleted
from shared.semaphores.operations.transitions import SemaphoreReads, change
from shared.semaphores.operations.waits import time_out
from shared.semaphores.rules import admission as rules
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition


def run(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Run a task of the admit queue. Raises `Unavailable` when it must be retried."""
    if task == "deadline":
        time_out(ports, payload["semaphore"], payload["id"])
    elif task == "wake":
        critical_sections.wake(ports, payload["key"], datetime.fromisoformat(payload["at"]))
    elif task == "clean":
        clean_deleted(ports, payload["semaphore"], payload["incarnation"])
    elif task == "refuse":
        since, id_ = payload["after"]
        refuse(ports, payload["semaphore"], (datetime.fromisoformat(since), id_))
    else:
        admit(ports, payload["semaphore"], datetime.fromisoformat(payload["at"]))


def refuse(ports: Ports, name: str, after: tuple[datetime, str]) -> None:
    """End the waits behind `after` that want more permits than the semaphore has, a page of them."""
    reads = QueueReads(waiters=LIMITS.grants_page_max, after=after)
    with suppress(NoSemaphore):
        change(ports, SemaphoreReads(name, lambda _: reads), rules.refuse)


def admit(ports: Ports, name: str, not_before: datetime | None = None) -> None:
    """Grant free permits to waiters. Raises `Unavailable` if it is too early by the server's clock, or contended."""

    def rule(loaded: Loaded) -> Transition[None]:
        rules.check_due(loaded.now, not_before)
        return rules.admit(loaded)

    try:
        change(ports, SemaphoreReads(name, rules.admit_reads, releases=LIMITS.releases_page_max), rule)
    except NoSemaphore:
        ports.log.info("semaphore not found, admit run dropped", semaphore=name)
