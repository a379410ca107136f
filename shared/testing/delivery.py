"""How a delivery ended, and a run: deliveries one after the other, with faults, until nothing waits."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from shared.adapters.meter import Cost
from shared.testing.faults import Faults

if TYPE_CHECKING:
    from shared.testing.platform import Platform

DELIVERIES_MAX = 10_000
"""After so many, a run is taken for one that never ends."""

UNAVAILABLE = 503
FAILED = 500


class TaskFailed(AssertionError):
    """A delivery ended in an exception of the function's code, which is the cause, or in an unexpected status."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a delivery ended: its HTTP status, what it cost, and what was raised (a `Problem`: it was abandoned)."""

    what: str
    status: int
    cost: Cost
    exception: Exception | None = None


def succeeded(delivery: Delivery) -> Delivery:
    """Return a delivery that was acknowledged. Raises `TaskFailed` for any other."""
    if not 200 <= delivery.status < 300:
        raise TaskFailed(f"{delivery.what} was answered with {delivery.status}") from delivery.exception
    return delivery


@dataclass(frozen=True, slots=True)
class Run:
    """Deliveries on a platform. A delivery that fails raises `TaskFailed`, or is retried without `raise_errors`."""

    platform: "Platform"
    faults: Faults
    raise_errors: bool

    def all(self, until: datetime | None = None) -> None:
        """Deliver until nothing waits, or nothing that is due at the time `until`; events come before tasks."""
        queue = self.platform.queue
        for _ in range(DELIVERIES_MAX):
            if self.platform.events:
                self._deliver_event()
            elif queue.tasks and (until is None or queue.due() or queue.next_at() <= until):
                queue.advance_to_next()
                self._deliver_task()
            else:
                return
        raise AssertionError(
            f"still waiting after {DELIVERIES_MAX:,} deliveries: {[each.task for each in queue.tasks]}"
        )

    def _deliver_event(self) -> None:
        events = self.platform.events
        event = events.pop(self.faults.index(len(events)))
        for _ in range(1 + self.faults.duplicates()):
            deliveries = self.platform.deliver_event(event)
        if self.faults.once("lose_answer", event.id) or any(map(self._is_to_retry, deliveries)):
            events.append(event)

    def _deliver_task(self) -> None:
        queue = self.platform.queue
        due = queue.due()
        task = due[self.faults.index(len(due))]
        queue.tasks.remove(task)
        if self.faults.once("late", task.name):
            queue.postpone(task, self.faults.late_seconds)
        elif self.faults.once("unavailable", task.name):
            queue.retry(task, executed=False)
        else:
            for _ in range(1 + self.faults.duplicates()):
                delivery = self.platform.deliver_task(task)
            if self._is_to_retry(delivery) or self.faults.once("lose_answer", task.name):
                queue.retry(task, executed=True)

    def _is_to_retry(self, delivery: Delivery) -> bool:
        if delivery.status == UNAVAILABLE or (delivery.status == FAILED and not self.raise_errors):
            return True
        succeeded(delivery)
        return False
