"""Whether a page or the seal may follow, given the loaded pages."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.batches.machine import lifecycle, pages
from signalbox.batches.model.headers import Header
from signalbox.batches.model.pages import EndMark, Page, PageStart, loaded
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.problems import BatchSealed, PageOutOfOrder
from signalbox.core.problems import OtherBody, Problem

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def header(**more: Any) -> Header:
    given: dict[str, Any] = {"incarnation": "i", "digest": "", "deadline_at": NOW, "due_at": NOW, "first_pages": 0}
    return Header(**given | more)


PAGE = Page.holding(["a", "b"], PageStart(7), header())


@pytest.mark.parametrize(
    ("number", "previous", "first_pages", "expected"),
    [
        (0, None, 0, 0),
        (3, PAGE, 0, 9),
        (3, PAGE, 3, 9),
        (3, PAGE, 4, PageOutOfOrder),
        (3, None, 0, PageOutOfOrder),
        (3, EndMark(), 0, BatchSealed),
    ],
)
def test_a_page_begins_where_the_previous_page_ends(
    number: int, previous: Any, first_pages: int, expected: int | type[Problem]
) -> None:
    if isinstance(expected, int):
        assert pages.page_start(header(first_pages=first_pages), number, previous).first == expected
    else:
        with pytest.raises(expected):
            pages.page_start(header(first_pages=first_pages), number, previous)


@pytest.mark.parametrize(
    ("state", "number", "takes"), [("open", 2, True), ("open", 1, False), ("sealed", 2, False), ("cancelled", 2, False)]
)
def test_only_an_open_batch_takes_pages_after_those_of_the_creating_call(state: Any, number: int, takes: bool) -> None:
    assert pages.takes_pages(header(state=state, first_pages=2), number) is takes


@pytest.mark.parametrize(
    ("held", "problem"), [(EndMark(), BatchSealed), (None, OtherBody), (replace(PAGE, digest="other"), OtherBody)]
)
def test_a_page_that_is_not_the_loaded_one_is_refused(held: Any, problem: type[Problem]) -> None:
    with pytest.raises(problem):
        pages.check_repeat(held, 2, ["a", "b"])


def test_the_same_page_again_is_a_repeat() -> None:
    pages.check_repeat(PAGE, 2, ["a", "b"])


@pytest.mark.parametrize(
    ("count", "end", "last", "first_pages", "expected"),
    [
        (0, None, None, 0, 0),
        (2, None, PAGE, 1, 9),
        (0, None, None, 1, PageOutOfOrder),
        (1, PAGE, PAGE, 0, PageOutOfOrder),
        (2, None, None, 0, PageOutOfOrder),
        (2, None, EndMark(), 0, BatchSealed),
    ],
)
def test_the_seal_counts_the_units_or_is_refused(
    count: int, end: Any, last: Any, first_pages: int, expected: int | type[Problem]
) -> None:
    if isinstance(expected, int):
        assert lifecycle.size_at_seal(header(first_pages=first_pages), count, end, last) == expected
    else:
        with pytest.raises(expected):
            lifecycle.size_at_seal(header(first_pages=first_pages), count, end, last)


def test_a_page_gives_each_unit_its_place_and_survives_its_record() -> None:
    page = loaded(PAGE.to_record())
    assert isinstance(page, Page)
    assert page == PAGE
    assert page.payloads() == ["a", "b"]
    assert [(unit.index, unit.page, unit.offset, unit.page_units) for unit in page.units(BatchRun("b", "i"), 3)] == [
        (7, 3, 0, 2),
        (8, 3, 1, 2),
    ]


def test_the_end_mark_survives_its_record() -> None:
    assert loaded(EndMark().to_record()) == EndMark()
    assert loaded(None) is None
