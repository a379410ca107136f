"""Reads that find half a commit, as with Google's emulator. Firestore itself reads at one instant.

The emulator applies the writes of a commit one after the other, in their order, and a concurrent read or query may find
the first of them applied and the others not (measured: always of one commit, never without its first write, and the
read time is no earlier than the commit). The same happens here: a call that overlaps a commit may be answered as if
only the first writes of that commit were applied, and other processes take steps while a commit is being applied.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from random import Random
from typing import TypeVar

from signalbox.core.ports import Committed, Data, Write
from signalbox.testing.memory_store import MemoryStore, Record, _Step
from tests.simulation.reached_counts import HALF_COMMITS, REACHED

Answer = TypeVar("Answer")


class _Share:
    """The share of reads concurrent with a commit of several writes that find half of it, in this process."""

    now = 0.0


@contextmanager
def half_commits(share: float) -> Iterator[None]:
    """Make this share of reads concurrent with a commit find half of it while the context is entered."""
    before, _Share.now = _Share.now, share
    try:
        yield
    finally:
        _Share.now = before


class HalfCommitStore(MemoryStore):
    """The in-memory store, which can also answer as if its last commit were half applied.

    `commits` counts them. The last one is `_applied`, its writes in order. While it is still being applied, `_seen` is
    how many of them a call has found: the next finds no fewer.
    """

    commits = 0
    _applied: tuple[_Step, ...] = ()
    _seen = 0

    @property
    def whole(self) -> int:
        """The number of commits that every later read finds whole: the last one may still be being applied."""
        return self.commits - (self._seen > 0)

    def records(self) -> Iterator[tuple[str, Data]]:
        """Iterate over the paths and contents of all records."""
        for collection, records in self._collections.items():
            yield from ((f"{collection}/{id_}", record.data) for id_, record in records.items())

    def draw_from(self, seed: int) -> None:
        """Seed the draws, which those of the world do not depend on."""
        self._random = Random(f"half commits {seed}")

    def answer_beside(self, commits: int, call: Callable[[], Answer]) -> Answer:
        """Return the result of a call that began when the store had so many commits; perhaps of one amid the last."""
        beside = self._seen > 0 or self.commits > commits
        if not beside or len(self._applied) < 2 or self._random.random() >= _Share.now:
            self._seen = 0  # whoever comes later finds no less
            return call()
        REACHED[HALF_COMMITS] += 1
        found = self._random.randrange(self._seen or 1, len(self._applied))
        self._seen = found if self._seen else 0
        with self._undone(self._applied[found:]):
            return call()

    def apply_slowly(self, step: Callable[[str], None]) -> None:
        """Run other processes' steps before the answer of the last commit, if reads may find half of it."""
        if _Share.now == 0 or len(self._applied) < 2:
            return
        self._seen, commits = 1, self.commits
        try:
            step("is still being applied")
        finally:
            self._seen = 0 if self.commits == commits else self._seen

    def _commit(self, writes: Sequence[Write], added_bytes: Sequence[int]) -> Committed:
        before, self._applied = self._applied, ()
        self._seen = 0
        try:
            committed = super()._commit(writes, added_bytes)
        except BaseException:
            self._applied = before
            raise
        self.commits += 1
        return committed

    def _do(self, step: _Step, at: datetime) -> None:
        self._applied = (*self._applied, step)
        super()._do(step, at)

    @contextmanager
    def _undone(self, steps: Sequence[_Step]) -> Iterator[None]:
        for step in steps:
            self._set(step.path, step.before)
        try:
            yield
        finally:
            for step in steps:
                self._set(step.path, step.after)

    def _set(self, path: str, record: Record | None) -> None:
        collection, _, id_ = path.rpartition("/")
        records = self._collections.setdefault(collection, {})
        if record is None:
            records.pop(id_, None)
        else:
            records[id_] = record
