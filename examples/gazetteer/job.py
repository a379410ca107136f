"""Run the steps against any base URL, from many threads at once, and check every answer against the input data.

A step writes its changes, polls until no document has the old state any more, waits until the site is idle, and
then queries and compares. Functions may crash meanwhile: the client retries, and all calls may run twice.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from examples.gazetteer.checks import Check, check_query, check_reads, text
from examples.gazetteer.cost import Counts, Spent
from examples.gazetteer.data import Condition, Document, bare, canonical, matching, shown, terms
from examples.gazetteer.steps import Change, Step
from signalbox.client import Client, NotFound

CALLS_AT_ONCE = 16
LOAD_DOCUMENTS = 500
"""Documents of one bulk call of a load: as many as a call takes. The calls are made one after the other, so that later
ones embed the documents of earlier ones.
"""
PAGE_DOCUMENTS = 200
SETTLE_SECONDS_MIN = 600.0
SETTLE_SECONDS_PER_DOCUMENT = 0.25  # an emulator without indexes looks at every document for each one that is created
POLL_SECONDS = 0.25

Phase = Literal["write", "follow", "query", "read"]
OnProgress = Callable[[Step, Phase, int, int], None]
"""Called with (step, phase, done, total) as the job proceeds, always from the job's own thread."""

T = TypeVar("T")
R = TypeVar("R")


class Site(Protocol):
    """The place where the functions run, and the data that is visible there."""

    def counts(self) -> Mapping[str, int]:
        """Return the functions' counts since the start (see `Counts`); empty where that is not visible."""
        ...

    def wait_until_idle(self, seconds_max: float) -> None:
        """Return when no task and no event is under way, as far as that is visible. Raises `TimeoutError`."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """The checks of a step, and the costs of its changes and its checks."""

    step: Step
    copies: int
    checks: tuple[Check, ...]
    changing: Spent
    checking: Spent

    @property
    def faults(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.holds)

    @property
    def compared(self) -> int:
        return sum(check.compared for check in self.checks)


class Job:
    """Runs steps with one client at one site."""

    def __init__(
        self,
        client: Client,
        site: Site,
        on_progress: OnProgress,
        *,
        settle_seconds_max: float | None = None,
        load_documents: int = LOAD_DOCUMENTS,
    ) -> None:
        self._client = client
        self._site = site
        self._on_progress = on_progress
        self._settle_seconds_max = settle_seconds_max
        self._load_documents = load_documents

    def run(self, steps: Iterable[Step]) -> Iterator[Result]:
        """Run all steps, even if a check has failed."""
        yield from map(self.perform, steps)

    def perform(self, step: Step) -> Result:
        """Run one step. Raises `ApiError` when the service refuses a call or does not answer."""
        affected = sorted(step.affected())
        begun = self._spent()
        checks = [self._write(step), self._follow(step, affected), self._settle(step)] if step.changes else []
        changed = self._spent()
        checks += [*self._query(step), *self._read(step)]
        return Result(step, len(affected), tuple(checks), changed - begun, self._spent() - changed)

    def _spent(self) -> Spent:
        return Spent(time.monotonic(), Counts.of(self._site.counts()))

    def _write(self, step: Step) -> Check:
        """Write the changes: many puts in bulk calls, all others one by one."""
        calls = list(_calls(step.changes, self._load_documents))
        threads = 1 if len(calls) < len(step.changes) else CALLS_AT_ONCE
        wrong = [key for keys in self._each(step, "write", self._change, calls, threads) for key in keys]
        fault = f"{len(wrong):,} answered with something else, the first {wrong[0]}" if wrong else ""
        return Check(f"{len(step.changes):,} changes accepted in {len(calls):,} calls", fault)

    def _change(self, changes: Sequence[Change]) -> list[str]:
        """Make the changes of one call; return the keys of those that were refused or answered differently."""
        if len(changes) > 1:
            documents = ({**(change.content or {}), "key": change.key} for change in changes)
            return [str(key) for key, _ in self._client.documents.load(documents).refused]
        [change] = changes
        return [] if self._change_one(change) else [change.key]

    def _change_one(self, change: Change) -> bool:
        """Put or delete. The answer to a put must be the document that was sent, whatever its links show by then."""
        if change.content is None:
            with suppress(NotFound):
                self._client.documents.delete(change.key)
            return True
        stored = self._client.documents.put(change.key, change.content)
        return canonical(bare(dict(stored))) == canonical(change.content)

    def _follow(self, step: Step, keys: Sequence[str]) -> Check:
        seconds_max = self._seconds_max(step)
        sentence = f"every copy followed within {seconds_max:g} s"
        give_up_at = time.monotonic() + seconds_max
        for turn, condition in enumerate(step.stale):
            while (late := self._first_late(step, condition, turn, keys)) is not None:
                if time.monotonic() > give_up_at:
                    return Check(sentence, f"{late['key']} still has {text(condition)}")
                time.sleep(POLL_SECONDS)
        return Check(sentence)

    def _settle(self, step: Step) -> Check:
        seconds_max = self._seconds_max(step)
        try:
            self._site.wait_until_idle(seconds_max)
        except TimeoutError as error:
            return Check(f"idle within {seconds_max:g} s", str(error))
        return Check(f"idle within {seconds_max:g} s")

    def _seconds_max(self, step: Step) -> float:
        if self._settle_seconds_max is not None:
            return self._settle_seconds_max
        return max(SETTLE_SECONDS_MIN, SETTLE_SECONDS_PER_DOCUMENT * len(step.after))

    def _first_late(self, step: Step, condition: Condition, turn: int, keys: Sequence[str]) -> Mapping[str, Any] | None:
        """Find the first document, by key, whose copy is not refreshed yet.

        Its rank shows the progress of the copies.
        """
        late = self._client.documents.first(*terms(condition))
        rank = bisect_left(keys, late["key"]) if late else len(keys)
        self._on_progress(step, "follow", turn * len(keys) + rank, len(step.stale) * len(keys))
        return late

    def _query(self, step: Step) -> list[Check]:
        answers = {key: shown(key, step.after) for key in step.after} if step.queries else {}
        found = self._each(step, "query", self._found, step.queries)
        pairs = zip(step.queries, found, strict=True)
        return [check_query(condition, each, matching(condition, answers)) for condition, each in pairs]

    def _read(self, step: Step) -> list[Check]:
        read = dict(zip(step.reads, self._each(step, "read", self._get, step.reads), strict=True))
        expected = {key: shown(key, step.after) for key in step.reads if key in step.after}
        return [check_reads(read, expected)] if read else []

    def _found(self, condition: Condition) -> list[Document]:
        return [dict(each) for each in self._client.documents.find(*terms(condition), limit=PAGE_DOCUMENTS)]

    def _get(self, key: str) -> Document | None:
        try:
            return dict(self._client.documents.get(key))
        except NotFound:
            return None

    def _each(
        self, step: Step, phase: Phase, call: Callable[[T], R], items: Sequence[T], threads: int = CALLS_AT_ONCE
    ) -> Iterator[R]:
        """Call for each item from a number of threads, and iterate over the answers in the order of the items."""
        pool = ThreadPoolExecutor(threads)
        try:
            for done, answer in enumerate(pool.map(call, items), 1):
                self._on_progress(step, phase, done, len(items))
                yield answer
        finally:
            pool.shutdown(cancel_futures=True)


def _calls(changes: Sequence[Change], load_documents: int) -> Iterator[Sequence[Change]]:
    """Iterate over the changes of each call: puts up to a maximum number, or one delete."""
    size = load_documents if all(change.content is not None for change in changes) else 1
    return (changes[first : first + size] for first in range(0, len(changes), size))
