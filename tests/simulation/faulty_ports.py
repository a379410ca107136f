"""The ports of a simulated world: a call yields to others first, may not arrive, and may lose its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from google.api_core.exceptions import AlreadyExists as NameTaken
from google.api_core.exceptions import GoogleAPIError

from signalbox.adapters import cloud_tasks
from signalbox.core.effects import Effect, RecordedSpan
from signalbox.core.ports import Committed, Outcome, Query, Snapshot, StoredPayload, Write
from signalbox.core.problems import NotInCatalogue, Unavailable
from signalbox.core.records.queries import Field
from signalbox.testing.memory_payloads import MemoryPayloads

if TYPE_CHECKING:
    from tests.simulation.world import World

Answer = TypeVar("Answer")


class SimulatedStore:
    """The in-memory store, reached over a network that fails."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._read(lambda: f"read {' '.join(paths)}", lambda: self._world.store.read(*paths, fields=fields))

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        def some() -> tuple[Snapshot, ...]:
            return self._world.store.read_some(needed, others, bytes_max)

        return self._read(lambda: f"read {' '.join(needed)} and some of {' '.join(others)}", some)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        return self._read(lambda: f"query {query.collection} {query.where}", lambda: self._world.store.query(query))

    def count(self, query: Query) -> int:
        return self._read(lambda: f"count {query.collection}", lambda: self._world.store.count(query))

    def commit(self, writes: Sequence[Write]) -> Committed:
        def landed() -> Committed:
            committed = self._world.store.commit(writes)
            self._world.store.apply_slowly(self._world.step)
            return committed

        return self._call(lambda: f"commit {_named(writes)}", landed)

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        def each() -> tuple[Outcome, ...]:
            outcomes = list(self._world.store.write_each(writes))
            for index in range(len(outcomes)):
                if self._world.inject_fault(self._world.fault_rates.lose_answer):
                    outcomes[index] = Unavailable("the answer to this write was lost")
            return tuple(outcomes)

        return self._call(lambda: f"write each {_named(writes)}", each)

    def new_id(self) -> str:
        return self._world.store.new_id()

    def _read(self, what: Callable[[], str], call: Callable[[], Answer]) -> Answer:
        """Make one round trip that reads; a commit that lands meanwhile may be found half applied."""
        store = self._world.store
        commits = store.commits
        return self._call(what, lambda: store.answer_beside(commits, call))

    def _call(self, what: Callable[[], str], call: Callable[[], Answer]) -> Answer:
        return _call(self._world, what, call)


def _call(world: World, what: Callable[[], str], call: Callable[[], Answer]) -> Answer:
    """Make one round trip: it may not arrive, or its answer may not come back. `what` is for the trace alone."""
    world.step(what() if world.trace else "")
    if world.inject_fault(world.fault_rates.abort):
        world.log("  FAULT: the call does not arrive")
        raise Unavailable("aborted")
    answer = call()
    if world.inject_fault(world.fault_rates.lose_answer):
        world.log("  FAULT: it took effect, and its answer is lost")
        raise Unavailable("the answer was lost")
    return answer


def _named(writes: Sequence[Write]) -> str:
    return ", ".join(f"{type(write).__name__} {write.path}" for write in writes)


class SimulatedQueue:
    """Cloud Tasks, reached over the same network: one round trip a task."""

    def __init__(self, world: World) -> None:
        self._world = world

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Create all tasks, even when some fail, and raise or return as the kit's adapter does."""
        outcomes = {effect.name: self._attempt(effect) for effect in effects}
        taken = [name for name, outcome in outcomes.items() if isinstance(outcome, NameTaken)]
        cloud_tasks.raise_for(outcomes | dict.fromkeys(taken), self._world.ports.log)
        return taken

    def _attempt(self, effect: Effect) -> Exception | None:
        if self._world.forger and (reason := self._world.forger.refusal(effect)):
            return NotInCatalogue(reason)
        try:
            is_new = _call(self._world, partial(_created, effect), partial(self._take, effect))
        except (Unavailable, GoogleAPIError) as error:
            return error
        return None if is_new else NameTaken("the name is taken")

    def _take(self, effect: Effect) -> bool:
        self._world.refusals.refuse()
        return self._world.queue.take(effect)


def _created(effect: Effect) -> str:
    return f"create task {effect.name[:6]} {dict(effect.payload)}"


class SimulatedPayloads:
    """A payload store in memory, reached over the same network. A page of deletions is one round trip."""

    def __init__(self, world: World, kept: MemoryPayloads) -> None:
        self._world, self.kept = world, kept

    def create(self, key: str, content: bytes, owner: str) -> None:
        _call(self._world, lambda: f"store payload {key}", lambda: self.kept.create(key, content, owner))

    def read(self, key: str) -> bytes | None:
        return _call(self._world, lambda: f"open payload {key}", lambda: self.kept.read(key))

    def copy(self, source: str, target: str, owner: str) -> bool:
        return _call(
            self._world, lambda: f"copy payload {source} to {target}", lambda: self.kept.copy(source, target, owner)
        )

    def list(self, prefix: str, after: str, limit: int) -> Sequence[StoredPayload]:
        return _call(self._world, lambda: f"list payloads {prefix}", lambda: self.kept.list(prefix, after, limit))

    def delete(self, keys: Sequence[str]) -> None:
        _call(self._world, lambda: f"delete payloads {' '.join(keys)}", lambda: self.kept.delete(keys))


class SimulatedClock:
    """Sleeping yields to the others; the seed decides how much they do meanwhile."""

    def __init__(self, world: World) -> None:
        self._world = world

    def sleep(self, seconds: float) -> None:
        self._world.step(f"sleeps {seconds:.3f} s")

    def jitter(self) -> float:
        return 0.5

    def steady(self) -> float:
        return 0.0


class SimulatedLog:
    """Log lines go into the trace."""

    def __init__(self, world: World) -> None:
        self._world = world

    def note(self, **seconds: float) -> None:
        """Do nothing: a world has no lines of requests."""

    def span(self, recorded: RecordedSpan) -> None:
        """Do nothing: a world exports no spans."""

    def info(self, message: str, /, **values: object) -> None:
        if self._world.trace:
            self._world.log(f"log: {message} {values}")

    def warning(self, message: str, /, **values: object) -> None:
        self.info(message, **values)

    def error(self, message: str, /, **values: object) -> None:
        if self._world.trace:
            self._world.log(f"log ERROR: {message} {values}")
