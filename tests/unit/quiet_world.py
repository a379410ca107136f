"""Documents in this process, with nothing going wrong: events and tasks wait until a test lets them run.

The store is the one in memory, the operations are the real ones. An event comes once, in commit order; a task runs
once, and a name is taken once.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.adapters.meter import Cost, measure, metered
from shared.core.operations.ports import DocumentEvent, Ports, Put, Query, Snapshot
from shared.core.rules.effects import Effect
from shared.documents.operations import documents
from shared.documents.rules.documents import COLLECTION, Content, path_of
from shared.documents.rules.requests import PutRequest
from shared.links.operations import fan_out as links
from shared.links.operations import verification
from shared.testing.memory_store import MemoryStore

STEPS_MAX = 2_000
"""Events and tasks until a world that does not come to rest is given up."""


class QuietWorld:
    """A store, a queue, a clock and a log that remember. `ports` count what they cost."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.store = MemoryStore(lambda: self.now, self._observed)
        self.ports = metered(Ports(self.store, self, self, self))
        self.events: list[DocumentEvent] = []
        self.tasks: list[Effect] = []
        self.names: set[str] = set()
        self.refusal: Exception | None = None
        self.slept_seconds: list[float] = []
        self.told: list[tuple[str, dict[str, object]]] = []
        self.reported: list[tuple[str, dict[str, object]]] = []

    def _observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        collection, _, key = path.rpartition("/")
        if collection == COLLECTION:
            event_id = f"{after.read_time.isoformat()} {key}"
            self.events.append(DocumentEvent(event_id, collection, key, path, before.data, after.data))

    # --- what the operations see ---

    def create(self, effects: Sequence[Effect]) -> None:
        """Take tasks, or refuse with `refusal`."""
        if self.refusal:
            raise self.refusal
        for effect in effects:
            if effect.name not in self.names:
                self.names.add(effect.name)
                self.tasks.append(effect)

    def sleep(self, seconds: float) -> None:
        self.slept_seconds.append(seconds)
        self.pass_time(seconds)

    def jitter(self) -> float:
        return 0.5

    def info(self, message: str, /, **values: object) -> None:
        self.told.append((message, values))

    def error(self, message: str, /, **values: object) -> None:
        self.reported.append((message, values))

    # --- what a test does ---

    def pass_time(self, seconds: float) -> None:
        """Let the server's clock move on."""
        self.now += timedelta(seconds=seconds)

    def put(self, key: str, **content: Any) -> Content:
        """Put a document as a caller does; give it as it was answered."""
        return documents.put(self.ports, PutRequest.from_request(key, content)).document

    def write_past(self, key: str, data: Content) -> None:
        """Write a record as another client does, that knows nothing of the kit."""
        self.store.commit([Put(path_of(key), data)])

    def deliver(self) -> Cost:
        """Let the oldest event run; give what it cost."""
        event = self.events.pop(0)
        return self.cost_of(lambda: links.fan_out(self.ports, event))

    def work(self) -> Cost:
        """Let the oldest task run; give what it cost."""
        task = self.tasks.pop(0)
        follow = verification.run_verification_task if task.function == "link_verify" else links.run_link_task
        return self.cost_of(lambda: follow(self.ports, task.payload))

    def settle(self) -> None:
        """Let events and tasks run until there are none."""
        for _ in range(STEPS_MAX):
            if not (self.events or self.tasks):
                return
            if self.events:
                self.deliver()
            else:
                self.work()
        raise AssertionError(f"no rest after {STEPS_MAX:,} events and tasks")

    @staticmethod
    def cost_of(call: Callable[[], object]) -> Cost:
        """Give what a call of an operation cost."""
        with measure() as cost:
            call()
        return cost

    # --- what a test looks at ---

    def shown(self, key: str) -> Content:
        """Give a document as a caller gets it."""
        return documents.get(self.ports, key).document

    def record(self, path: str) -> Any:
        """Give what lies at a path; None: nothing does."""
        return self.store.read(path)[0].data

    def ids(self, collection: str) -> list[str]:
        """List what a collection holds."""
        return [snapshot.id for snapshot in self.store.query(Query(collection, limit=10_000))]
