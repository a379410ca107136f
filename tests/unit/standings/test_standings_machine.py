"""The tables in the docstring of the machine of standings, row by row."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from signalbox.core.calls import Call
from signalbox.core.ports import Delete, Put, Snapshot
from signalbox.standings import machine, tasks
from signalbox.standings.limits import LIMITS
from signalbox.standings.machine import LoadedStanding, Visit, Visits, WalkedPages
from signalbox.standings.model.aggregates import Adjustment, Counted, Standing
from signalbox.standings.model.declarations import Declaration, Declarations, Threshold
from signalbox.standings.model.exact_sums import ZERO, Tally
from signalbox.standings.model.recounts import Move, Place, Recount
from signalbox.standings.model.yokes import StandingKey, Yoke, YokeKey
from signalbox.standings.storage import AdjustmentsPage
from signalbox.testing.replaced_limits import replaced

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEA = StandingKey("item", "tea")
ANN = YokeKey("ann", "tea")
YOKE = Yoke(ANN, 4)
POPULAR = Threshold("count", 1, Call("charts", "popular", {}))


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def rows(head: str) -> list[tuple[str, ...]]:
    """Return the rows of the table with a head; columns are separated by two spaces or more."""
    lines = (machine.__doc__ or "").splitlines()
    [start] = [number for number, line in enumerate(lines) if re.split(r"\s{2,}", line.strip()) == head.split(" | ")]
    return list(_until_blank(lines[start + 2 :]))


def _until_blank(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for line in lines:
        if not line.strip():
            return
        yield tuple(re.split(r"\s{2,}", line.strip()))


def test_the_transition_tables_are_found() -> None:
    assert [len(rows(head)) for head in (VISITS, WRITES, FOLDS, TURNS)] == [8, 4, 5, 6]


# --- visits ---

VISITS = "yoke | counted record | event | walk"
COUNTED = {
    "none": None,
    "current": Counted(ago(5), 1, 4, (TEA,), (), ago(9)),
    "outdated": Counted(ago(7), 1, 3, (TEA,), (), ago(9)),
    "of its absence": Counted(None, 1, None, (), (), None, ago(3)),
}
"""By the words of the table. One of the declarations' older revision is outdated, too."""

DECLARATIONS = Declarations(1, {"item": Declaration(("item",))})


def visit(yoke: Yoke | None, counted: Counted | None) -> Visit:
    version, since = (ago(5), ago(9)) if yoke else (None, None)
    return Visit(ANN, NOW, yoke, version, since, counted, ago(4) if counted else None, DECLARATIONS)


@pytest.mark.parametrize(("yoke", "counted", "event", "walk"), rows(VISITS))
def test_a_visit_counts_or_is_done_as_the_table_says(yoke: str, counted: str, event: str, walk: str) -> None:
    given = visit(YOKE if yoke == "exists" else None, COUNTED[counted])
    outcome = {True: "done", False: "count"}
    assert (outcome[machine.is_done(given)], outcome[machine.is_done_on_walk(given)]) == (event, walk)


def test_a_yoke_that_was_counted_by_older_declarations_is_counted_again() -> None:
    counted = replace(COUNTED["current"] or Counted(), revision=0)
    assert not machine.is_done(visit(YOKE, counted))


def test_the_table_of_visits_has_every_case() -> None:
    assert {row[:2] for row in rows(VISITS)} == {(yoke, kind) for yoke in ("exists", "deleted") for kind in COUNTED}


# --- what a visit writes ---

WRITES = "standing | written | task"


@pytest.mark.parametrize(("standing", "written", "task"), rows(WRITES))
def test_a_standing_that_changes_is_written_as_the_table_says(standing: str, written: str, task: str) -> None:
    given = visit(YOKE, None)
    updated = ago(1) if "ago" in standing else ago(LIMITS.standing_quiet_seconds)
    thresholds = (POPULAR,) if "crossing" in standing else ()
    declarations = Declarations(1, {"item": Declaration(("item",), thresholds)})
    loaded = {TEA: LoadedStanding(Standing(), updated)}
    contended = "lost races" in standing
    visits = Visits((given,), NOW, declarations, frozenset(), contended, machine.combined([given]), loaded)
    decided = tasks.counting_writes(visits)
    record, changed = decided.state
    assert (record.path, record.guard is not None) == (ANN.counted_path, True)
    assert _kind(changed.path) == written
    assert {"threshold": [POPULAR.call.task]}.get(task, []) == [effect.task for effect in decided.effects]
    assert decided.answer == ((TEA,) if task == "fold" else ())


def _kind(path: str) -> str:
    return {TEA.path: "standing"}.get(path, "adjustment" if path.startswith(TEA.adjustments) else path)


# --- fold runs ---

FOLDS = "page | if | written | next"


@pytest.mark.parametrize(("page", "condition", "written", "next_"), rows(FOLDS))
def test_a_fold_run_writes_a_page_as_the_table_says(page: str, condition: str, written: str, next_: str) -> None:
    with replaced(fold_page_max=3):
        standing = Standing(recount=Recount("run", ago(60)) if "recount" in condition else None)
        read = adjustments({"empty": 0, "full": 3, "other": 2}[page])
        full, may_merge = page == "full", "last of the run" not in condition
        held = AdjustmentsPage(read, Snapshot(TEA.path, standing.to_record(), NOW, ago(9)), Snapshot("d", None, NOW))
        held = replace(held, is_merged=machine.is_replaced_by_its_sum(standing, is_full=full, may_merge=may_merge))
        decided = tasks._added(TEA, held if read else None)
    puts = [write for write in decided.state if isinstance(write, Put)]
    deletes = {write.path for write in decided.state if isinstance(write, Delete)}
    assert [_kind(put.path) for put in puts] == ([] if written == "-" else [written])
    assert deletes == {record.path for record in read}
    assert decided.answer == (next_ == "done")


def adjustments(count: int) -> tuple[Snapshot, ...]:
    changes = [Adjustment(Tally(1), (Move((ago(30), f"u{number}~tea"), Tally(1)),)) for number in range(count)]
    return tuple(
        Snapshot(f"{TEA.adjustments}/{number}", change.to_record(), NOW) for number, change in enumerate(changes)
    )


def test_a_sum_added_during_a_recount_begins_it_again() -> None:
    begun = Standing(Tally(5), recount=Recount("run", ago(60), (ago(90), "a~tea"), Tally(2)))
    summed = machine.merged([Adjustment(Tally(1), ()), Adjustment(Tally(2), ())])
    assert machine.folded(begun, [summed], NOW) == replace(begun, tally=Tally(8), recount=Recount("run", NOW))


def test_an_adjustment_equals_what_is_read_back_from_its_record() -> None:
    for adjustment in (Adjustment(Tally(3, 1, 7), None), Adjustment(Tally(1), (Move((NOW, "a~tea"), Tally(1)),))):
        assert Adjustment.from_record(adjustment.to_record()) == adjustment


# --- recounts ---

TURNS = "pages | waiting adjustments | written | next"
WALKED: Place = (ago(60), "m~tea")
"""The end of the turn's pages; yokes that were created later are in later pages."""


@pytest.mark.parametrize(("pages", "waiting", "written", "next_"), rows(TURNS))
def test_a_turn_of_a_recount_ends_as_the_table_says(pages: str, waiting: str, written: str, next_: str) -> None:
    for kind in ("more", "last") if pages == "any" else (pages,):
        begun, held = Recount("run", ago(10)), Standing(Tally(9), min=1, max=5)
        walked = WalkedPages(WALKED if kind == "more" else None, Tally(2))
        place = {"none": None, "of other yokes": (ago(1), "z~tea"), "of these yokes": (ago(90), "a~tea")}
        unknown = (Adjustment(Tally(2), None),)
        moved = place.get(waiting)
        left = unknown if "unknown" in waiting else (Adjustment(Tally(1), (Move(moved, Tally(1)),)),) if moved else ()
        after = machine.recounted(held, begun, walked, left, (2, 3))
        if written == "-":
            assert (after, next_) == (None, "the same turn")
        elif kind == "more":
            assert after == replace(held, recount=begun.walked(WALKED, Tally(2)))
            assert next_ == "the next turn"
        else:
            assert after == replace(held, tally=Tally(2), min=1 if left else 2, max=5 if left else 3)
            assert next_ == "done"


def test_a_turn_is_repeated_if_more_adjustments_wait_than_it_reads() -> None:
    waiting = [Adjustment(ZERO, ())] * LIMITS.recount_waiting_max
    assert machine.recounted(Standing(), Recount("run", NOW), WalkedPages(None), waiting, ()) is None
