"""The harness's platform as tests of operations use it: nothing goes wrong, and the ports are the platform itself.

Events and tasks are delivered to the real entry points, one by one or all of them, and in commit order.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from signalbox.adapters.cost_meter import Cost, measure, metered
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports, Put
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import path_of
from signalbox.documents.requests import PutRequest
from signalbox.documents.service import single_documents
from signalbox.testing.deliveries import Delivery, succeeded
from signalbox.testing.simulated_cloud import Platform


class OperationsPlatform(Platform):
    """A platform whose queue and clock a test may replace, by overriding `create` or `sleep`. `ports` count costs."""

    def __init__(self) -> None:
        super().__init__()
        self.ports = metered(Ports(self.store, self, self, self, self.payloads))
        self.refusal: Exception | None = None
        self.slept_seconds = self.clock.slept_seconds
        self.told = self.log.infos
        self.reported = self.log.errors
        self.info = self.log.info
        self.error = self.log.error
        self.warning = self.log.warning
        self.note = self.log.note
        self.span = self.log.span
        self.jitter = self.clock.jitter
        self.steady = self.clock.steady

    @property
    def now(self) -> datetime:
        return self.clock.now

    @property
    def tasks(self) -> list[Effect]:
        return self.queue.tasks

    @tasks.setter
    def tasks(self, tasks: list[Effect]) -> None:
        self.queue.tasks = tasks

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Take tasks, or raise `refusal`."""
        if self.refusal:
            raise self.refusal
        return self.queue.create(effects)

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def pass_time(self, seconds: float) -> None:
        """Move the time on."""
        self.advance(seconds)

    def put(self, key: str, **content: Any) -> Content:
        """Put a document as a caller does; return it as the caller gets it."""
        return single_documents.put(self.ports, PutRequest.from_request(key, content)).document

    def write_past(self, key: str, data: Content) -> None:
        """Write a record as another client does, which knows nothing of the kit."""
        self.store.commit([Put(path_of(key), data)])

    def deliver(self) -> Cost:
        """Deliver the oldest event; return what it cost."""
        [delivery] = self.deliver_event(self.events[0])
        return succeeded(delivery).cost

    def work(self) -> Cost:
        """Deliver the oldest task; return what it cost."""
        return succeeded(self.deliver_task(self.tasks[0])).cost

    def settle(self) -> None:
        """Deliver all events and tasks until nothing waits."""
        self.run()

    def _deliver(self, *call: Any) -> Delivery:
        """Deliver, and exclude from `told` the line that every handled call logs."""
        lines = len(self.told)
        delivery = super()._deliver(*call)
        self.told[lines:] = [(message, values) for message, values in self.told[lines:] if "round_trips" not in values]
        return delivery

    @staticmethod
    def cost_of(call: Callable[[], object]) -> Cost:
        """Return the cost of a call of an operation."""
        with measure() as cost:
            call()
        return cost

    def shown(self, key: str) -> Content:
        """Return a document as a caller gets it."""
        return single_documents.get(self.ports, key).document
