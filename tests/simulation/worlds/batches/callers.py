"""The callers in a world of batches: they populate, add pages, seal, complete units, cancel and request retries."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.pages import cut
from signalbox.batches.model.units import succeeded
from signalbox.batches.problems import BatchSealed
from signalbox.batches.requests import BatchSpec, PageRequest, RetryRequest, SealRequest
from signalbox.batches.service import lifecycle, pages, population, retries
from signalbox.batches.service import units as batches_units
from signalbox.core.problems import Problem, Unavailable
from tests.simulation.world import Violation, World
from tests.simulation.worlds.batches.kinds import ALARM, ANNOUNCE, PAINT, SHORT_DEADLINE_SECONDS, Kind

TRIES_MAX = 4
"""How often a patient caller repeats a refused call."""


class Callers:
    """Callers of the batch `b`. A call whose answer is not known is repeated."""

    def __init__(self, world: World, kind: Kind, concurrency: int | None = None, follows: int = 0) -> None:
        self._world = world
        self._kind = kind
        self.concurrency = None if kind.from_outside else concurrency
        self.follows = 0 if kind.removed else follows
        self.semaphore = ""
        self.per_task: int | None = None
        self.rated: dict[str, Any] = {}
        self.on_retry: Callable[[str], None] = lambda _: None
        self._results = 0
        self._requests = itertools.count()

    def next_result(self) -> int:
        """Return a number that no other outcome has."""
        self._results += 1
        return self._results

    def spec(self, size: int, sealed: bool) -> BatchSpec:
        """Return a batch of `size` units."""
        return BatchSpec(
            units=[{"n": number} for number in range(size)],
            task=None if self._kind.from_outside else PAINT,
            on_complete=ANNOUNCE,
            sealed=sealed,
            failures_max=self._kind.failures_max,
            deadline_seconds=SHORT_DEADLINE_SECONDS if self._kind.hurried else LIMITS.batch_deadline_seconds,
            concurrency=self.concurrency,
            then=self._then() if self.follows else None,
            on_failure=ALARM if self.follows else None,
            semaphore=self.semaphore,
            per_task=None if self._kind.from_outside else self.per_task,
            **self.rated,
        )

    def _then(self) -> BatchSpec:
        units = [{"n": number} for number in range(self.follows - 1)]
        return BatchSpec(units=units, task=PAINT, on_complete=ANNOUNCE, sealed=True, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """The options of every batch of this world with a task."""
        return {"semaphore": self.semaphore, "per_task": self.per_task, **self.rated}

    def loading(self, size: int) -> list[Callable[[], None]]:
        """Return the calls that load a batch: in one call, or page by page in a race with the seal."""
        if not self._kind.paged:
            return [partial(self.populate, self.spec(size, sealed=True))]
        first = self._world.random.randint(0, size // 2)
        spec = self.spec(first, sealed=False)
        later_pages = cut([{"n": number} for number in range(size - first)])
        first_pages = len(cut(spec.units))
        self.populate(spec)
        self._world.run()
        adding = [partial(self._add_page, first_pages + at, page) for at, page in enumerate(later_pages)]
        at = self._world.random.randint(max(0, len(adding) - 1), len(adding))
        count = first_pages + self._world.random.randint(max(0, len(later_pages) - 1), len(later_pages))
        sealing = partial(self.seal, first_pages + len(later_pages))
        return [*adding[:at], partial(self.seal, count), *adding[at:], sealing]

    def populate(self, spec: BatchSpec, name: str = "populates") -> None:
        """Start a call that populates. The batch may end meanwhile, which does not refuse the call."""

        def work() -> None:
            try:
                population.populate(self._world.ports, "b", spec)
            except BatchSealed as refused:
                raise Violation(f"the call that makes b is refused: {refused.detail}") from refused

        self.call(name, work)

    def _add_page(self, number: int, page: Any) -> None:
        request = PageRequest(number, page)
        self.call(f"adds page {number}", lambda: pages.add_page(self._world.ports, "b", request), patient=True)

    def seal(self, count: int) -> None:
        """Start a call that seals."""
        self.call(f"seals at {count}", lambda: lifecycle.seal(self._world.ports, "b", SealRequest(count)), patient=True)

    def cancel(self) -> None:
        """Start a call that cancels."""
        self.call("cancels", lambda: lifecycle.cancel(self._world.ports, "b"))

    def retry(self) -> None:
        """Start a call that retries all that failed."""

        def work() -> None:
            self.on_retry(f"request {next(self._requests)}")
            retries.retry(self._world.ports, "b", RetryRequest())

        self.call("requests retries", work)

    def complete(self, index: int) -> None:
        """Start a call that completes a unit, and is not repeated once it landed."""
        outcome = succeeded({"result": self.next_result()})
        work = lambda: batches_units.complete_by_index(self._world.ports, "b", index, outcome)  # noqa: E731  what the process does
        self._world.start(f"completes unit {index}", work)

    def help(self, index: int) -> None:
        """Start a call that completes a unit, and that is repeated while its page is not loaded."""
        outcome = succeeded({"result": self.next_result()})
        work = lambda: batches_units.complete_by_index(self._world.ports, "b", index, outcome)  # noqa: E731  what the process does
        self.call(f"completes unit {index}", work, patient=True)

    def populate_when_free(self, spec: BatchSpec, tries: int = 8) -> None:
        """Start a call that populates, repeated until the id is free, but not for ever."""

        def work() -> None:
            try:
                population.populate(self._world.ports, "b", spec)
            except Problem as taken:
                raise Unavailable(taken.detail) from taken

        again = partial(self.populate_when_free, spec, tries - 1)
        self._world.start("populates when free", work, lambda done: None if done or not tries else again())

    def call(self, name: str, work: Callable[[], object], patient: bool = False) -> None:
        """Start a call that is repeated until its answer is known; a patient one repeats what was out of order too."""
        tries = [0]

        def once() -> None:
            tries[0] += 1
            try:
                work()
            except Problem as problem:
                if not patient or tries[0] > TRIES_MAX:
                    raise
                self._world.log(f"repeats the call after: {problem.detail}")
                once()

        self._world.start(name, once, lambda done: None if done else self.call(name, work, patient))
