"""Fold runs: add the adjustments of a busy standing to it, some hundred in one guarded commit.

    read the time and the standing ──► read a page of adjustments ──► query the extremes
                                   ──► commit: the standing, and the page deleted

In this order: the extremes are those of a moment after the adjustments, and whatever is counted later leaves an
adjustment of its own, for a later run, or writes the standing, whose guard then fails.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Must, Ports, Put, Query, Snapshot, Store
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.standings.operations.counting import extremes
from shared.standings.rules import tasks
from shared.standings.rules.declarations import Declarations
from shared.standings.rules.keys import DECLARED, StandingKey
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import Tally, Value


@dataclass(frozen=True, slots=True)
class Page:
    """A page of adjustments, the standing, the declarations, and the extremes."""

    adjustments: tuple[Snapshot, ...]
    standing: Snapshot
    declared: Snapshot
    values: tuple[Value, ...]

    @property
    def is_last(self) -> bool:
        return len(self.adjustments) < LIMITS.fold_page_max


@dataclass(frozen=True, slots=True)
class PageReads:
    """The read plan of a page."""

    key: StandingKey
    not_before: datetime | None = None

    @property
    def path(self) -> str:
        """Return the path of the standing."""
        return self.key.path

    def load(self, store: Store, attempt: int) -> Page | None:  # noqa: ARG002  each attempt reads the same
        """Return a page; None if there is no adjustment. Raises `Unavailable` if it is too early.

        The time is read before the adjustments: those that it promises are committed by then.
        """
        declared, standing = store.read(DECLARED, self.key.path)
        if self.not_before is not None:
            tasks.check_due(declared.read_time, self.not_before)
        adjustments = store.query(Query(self.key.adjustments, limit=LIMITS.fold_page_max))
        if not adjustments:
            return None
        values = extremes(store, self.key) if _has_values((standing, *adjustments)) else ()
        return Page(adjustments, standing, declared, values)


def _has_values(records: Iterable[Snapshot]) -> bool:
    """Return whether any value was added or taken away: likes and follows have none, and so no extremes."""
    tallies = (Tally.from_record(one.data) for one in records if one.data is not None)
    return any(tally.values or tally.units for tally in tallies)


def fold(ports: Ports, key: StandingKey, not_before: datetime | None = None) -> None:
    """Add the adjustments of a standing. Raises `Unavailable` if it is too early, or contended."""
    for _ in range(LIMITS.fold_pages_max):
        is_last, _ = perform(ports, PageReads(key, not_before), lambda page: _folded(key, page))
        if is_last:
            return
    [now] = ports.store.read(DECLARED, fields=())
    ports.queue.create([tasks.fold_task(key, now.read_time)])


def _folded(key: StandingKey, page: Page | None) -> Decision[Writes, bool]:
    """Return the writes that add a page, and whether it was the last."""
    if page is None:
        return Decision((), True)
    standing = Standing.from_record(page.standing.data)
    tally = sum((Tally.from_record(one.data) for one in page.adjustments), standing.tally)
    folded_at = page.adjustments[0].read_time if page.is_last else standing.folded_at
    standing = replace(standing, tally=tally, folded_at=folded_at).with_extremes(page.values)
    thresholds = Declarations.from_record(page.declared.data).thresholds_of(key)
    standing, reached = standing.cross(thresholds) if page.is_last else (standing, ())
    effects = tasks.threshold_tasks(key, standing, reached, page.standing.read_time)
    deletes = (Delete(one.path, Must.EXIST) for one in page.adjustments)
    return Decision((Put(key.path, standing.to_record(), page.standing.guard), *deletes), page.is_last, tuple(effects))


def pending(store: Store, key: StandingKey) -> int:
    """Return how many changes of a standing are committed and not added yet."""
    return store.count(Query(key.adjustments))
