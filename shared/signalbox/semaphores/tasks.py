"""The tasks of semaphores in the `admit` queue, each by its name. All of them are safe to deliver twice."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from signalbox.core.ports import Ports
from signalbox.semaphores import sweep
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine import wait_queue
from signalbox.semaphores.machine.decision_types import Loaded, QueueReads, Transition
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.service import waits
from signalbox.semaphores.storage import SemaphoreReads, change

Payload = Mapping[str, Any]


def admit(ports: Ports, name: str, not_before: datetime | None = None) -> None:
    """Grant free permits to waiters. Raises `Unavailable` if the run is early by the server's clock, or contended."""

    def rule(loaded: Loaded) -> Transition[None]:
        wait_queue.check_due(loaded.now, not_before)
        return wait_queue.admit(loaded)

    try:
        change(ports, SemaphoreReads(name, wait_queue.admit_reads, releases=LIMITS.releases_page_max), rule)
    except NoSemaphore:
        ports.log.info("semaphore not found, admit run dropped", semaphore=name)


def refuse(ports: Ports, name: str, after: tuple[datetime | str, str] | None, *, by_lane: bool = False) -> None:
    """End the waits on a page behind `after` that need more permits than the semaphore has."""
    reads = QueueReads(waiters=LIMITS.grants_page_max, after=after, by_lane=by_lane)
    with suppress(NoSemaphore):
        change(ports, SemaphoreReads(name, lambda _: reads), wait_queue.refuse_page)


def _admit(ports: Ports, payload: Payload) -> None:
    admit(ports, payload["semaphore"], datetime.fromisoformat(payload["at"]))


def _refuse(ports: Ports, payload: Payload) -> None:
    if "lanes_after" in payload:
        refuse(ports, payload["semaphore"], tuple(payload["lanes_after"]) or None, by_lane=True)
        return
    since, id_ = payload["after"]
    refuse(ports, payload["semaphore"], (datetime.fromisoformat(since), id_))


def _deadline(ports: Ports, payload: Payload) -> None:
    waits.time_out(ports, payload["semaphore"], payload["id"])


def _clean(ports: Ports, payload: Payload) -> None:
    sweep.clean_deleted(ports, payload["semaphore"], payload["incarnation"])


TASKS: Mapping[str, Callable[[Ports, Payload], None]] = {
    "admit": _admit,
    "refuse": _refuse,
    "deadline": _deadline,
    "clean": _clean,
}
