"""Fold runs: add the adjustments of a busy standing to it, in one guarded commit a run.

    read the time and the standing ──► read a page of adjustments
        a full page   ──► commit: one adjustment with their sum, and the page deleted; and again
        the last page ──► query the extremes ──► commit: the standing, and the page deleted

So a run writes the standing once, however many adjustments there are: Firestore takes about one write a second on a
record, and the runs of a standing are a slot of a second apart.

In this order: the extremes are those of a moment after the adjustments, and whatever is counted later leaves an
adjustment of its own, for a later run, or writes the standing, whose guard then fails.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Must, Ports, Put, Query, Snapshot, Store
from shared.core.rules.effects import Decision, name_of
from shared.core.rules.limits import LIMITS
from shared.standings.operations.counting import extremes
from shared.standings.rules import tasks
from shared.standings.rules.declarations import Declarations
from shared.standings.rules.keys import DECLARED, StandingKey
from shared.standings.rules.recounts import Recount, moves_in
from shared.standings.rules.standings import Standing
from shared.standings.rules.tallies import ZERO, Tally, Value


@dataclass(frozen=True, slots=True)
class Page:
    """A page of adjustments, the standing, the declarations, and the extremes."""

    adjustments: tuple[Snapshot, ...]
    standing: Snapshot
    declared: Snapshot
    values: tuple[Value, ...] = ()
    is_merged: bool = False

    @property
    def is_last(self) -> bool:
        return len(self.adjustments) < LIMITS.fold_page_max


@dataclass(frozen=True, slots=True)
class PageReads:
    """The read plan of a page."""

    key: StandingKey
    not_before: datetime | None = None
    may_merge: bool = True

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
        page = Page(adjustments, standing, declared)
        if self.may_merge and not page.is_last and not (standing.data or {}).get("recount"):
            return replace(page, is_merged=True)
        return replace(page, values=extremes(store, self.key)) if _has_values((standing, *adjustments)) else page


def _has_values(records: Iterable[Snapshot]) -> bool:
    """Return whether any value was added or taken away: likes and follows have none, and so no extremes."""
    tallies = (Tally.from_record(one.data) for one in records if one.data is not None)
    return any(tally.values or tally.units for tally in tallies)


def fold(ports: Ports, key: StandingKey, not_before: datetime | None = None) -> None:
    """Add the adjustments of a standing. Raises `Unavailable` if it is too early, or contended."""
    for pages_left in reversed(range(LIMITS.fold_pages_max)):
        reads = PageReads(key, not_before, may_merge=pages_left > 0)
        if perform(ports, reads, lambda page: _added(key, page))[0]:
            return
    [now] = ports.store.read(DECLARED, fields=())
    ports.queue.create([tasks.fold_task(key, now.read_time)])


def _added(key: StandingKey, page: Page | None) -> Decision[Writes, bool]:
    """Return the writes that add or merge a page, and whether it was the last."""
    if page is None:
        return Decision((), True)
    return _merged(key, page) if page.is_merged else _folded(key, page)


def _merged(key: StandingKey, page: Page) -> Decision[Writes, bool]:
    """Return the writes that leave one adjustment in the place of a page; its id is used once, as theirs are."""
    path = f"{key.adjustments}/{name_of('merged', *(one.id for one in page.adjustments))}"
    return Decision((Put(path, _sum(page).to_record(), Must.NOT_EXIST), *_deletes(page)), False)


def _folded(key: StandingKey, page: Page) -> Decision[Writes, bool]:
    """Return the writes that add a page to the standing, and whether it was the last."""
    standing = Standing.from_record(page.standing.data)
    folded_at = page.adjustments[0].read_time if page.is_last else standing.folded_at
    standing = replace(_moved(standing, page), folded_at=folded_at).with_extremes(page.values)
    thresholds = Declarations.from_record(page.declared.data).thresholds_of(key)
    standing, reached = standing.cross(thresholds) if page.is_last else (standing, ())
    effects = tasks.threshold_tasks(key, standing, reached, page.standing.read_time)
    put = Put(key.path, standing.to_record(), page.standing.guard)
    return Decision((put, *_deletes(page)), page.is_last, tuple(effects))


def _moved(standing: Standing, page: Page) -> Standing:
    """Return the standing after a page. Its recount begins anew if the places are not known: they were in a sum."""
    moves = [moves_in(one.data) for one in page.adjustments if one.data is not None]
    if standing.recount and None in moves:
        begun = Recount(standing.recount.run, page.adjustments[0].read_time)
        return replace(standing, tally=standing.tally + _sum(page), recount=begun)
    return standing.moved(_sum(page), [move for each in moves for move in each or ()])


def _sum(page: Page) -> Tally:
    return sum((Tally.from_record(one.data) for one in page.adjustments), ZERO)


def _deletes(page: Page) -> tuple[Delete, ...]:
    """Return the deletes of a page: each adjustment must still be there, or another run has added it."""
    return tuple(Delete(one.path, Must.EXIST) for one in page.adjustments)


def pending(store: Store, key: StandingKey) -> int:
    """Return how many adjustments of a standing are committed and not added yet: at least as many changes."""
    return store.count(Query(key.adjustments))
