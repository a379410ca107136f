"""The table in the docstring of the machine of history: what each write adds to a document's log."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from signalbox.core.times import microseconds
from signalbox.history.limits import LIMITS
from signalbox.history.machine import kept_versions
from signalbox.history.machine.kept_versions import State
from signalbox.history.model import Content, Entry, HistoryRule, Mark, Segment, digest

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULE = HistoryRule(prefix="c-", versions_max=1_000, days_max=10)
BEFORE: Content = {"text": "long enough that a patch of the number is shorter than the whole", "n": 1}
WRITES: dict[str, Content | None] = {"same content": BEFORE, "other content": {**BEFORE, "n": 2}, "deletion": None}


def version(days: float) -> int:
    return microseconds(NOW - timedelta(days=days))


SEGMENTS = {
    "none": (),
    "open": (Segment(version(5), 1),),
    "full": (Segment(version(5), LIMITS.history_segment_versions),),
    "old": (Segment(version(11), 1),),
}


def rows() -> list[tuple[str, str, str, str]]:
    """Parse the table, a row for each kind of segment; columns are separated by two spaces or more."""
    lines = re.findall(r"^    ((?:missing|logged|not logged)  .+)$", kept_versions.__doc__ or "", re.MULTILINE)
    parsed = [re.split(r"\s{2,}", line.strip()) for line in lines]
    return [
        (document, segment, write, entries)
        for document, segments, write, entries in parsed
        for segment in (SEGMENTS if segments == "any" else segments.split(", "))
        if not (document == "logged" and segment == "none")
    ]


def state(document: str, segment: str) -> State:
    held = None if document == "missing" else BEFORE
    known = digest(BEFORE) if document == "logged" else "another"
    segments = SEGMENTS[segment]
    mark = Mark(version(4), "" if held is None else known, segments) if segments else None
    return State(held, mark, None if held is None else NOW - timedelta(days=1), NOW)


def outcome(entries: tuple[Entry, ...], before: int, mark: Mark | None) -> str:
    """Return the entries in the words of the table: those that begin a segment are marked with *."""
    firsts = [segment.first for segment in mark.segments] if mark else []
    words = [_word(entry) + ("*" if entry.version in firsts[before:] else "") for entry in entries]
    return ", ".join(words) or "-"


def _word(entry: Entry) -> str:
    if entry.action == "found":
        return "found"
    return "removal" if entry.action == "delete" else "whole" if entry.whole else "patch"


@pytest.mark.parametrize(("document", "segment", "write", "entries"), rows())
def test_a_write_adds_the_entries_of_the_table(document: str, segment: str, write: str, entries: str) -> None:
    given = state(document, segment)
    after = {"content": BEFORE, **WRITES}[write]
    recorded = kept_versions.record(given, after, "delete" if after is None else "put", "ann", RULE)
    kept = recorded.mark.segments[0].first if recorded.mark else 0
    before = len([each for each in SEGMENTS[segment] if each.first >= kept])
    assert outcome(recorded.entries, before, recorded.mark) == entries


def test_the_table_has_every_case() -> None:
    cases = {
        (document, segment, write)
        for document in ("logged", "not logged")
        for segment in SEGMENTS
        for write in WRITES
        if (document, segment) != ("logged", "none")
    }
    cases |= {("missing", segment, write) for segment in SEGMENTS for write in ("content", "deletion")}
    assert {row[:3] for row in rows()} == cases


def test_versions_of_one_write_grow() -> None:
    recorded = kept_versions.record(state("not logged", "open"), None, "delete", "ann", RULE)
    found, removed = recorded.entries
    assert version(4) < found.version < removed.version == microseconds(NOW)


def test_a_patch_that_is_not_shorter_is_stored_whole() -> None:
    recorded = kept_versions.record(state("logged", "open"), {"x": 1}, "put", "ann", RULE)
    assert [entry.whole for entry in recorded.entries] == [True]


def test_an_imported_version_has_the_time_at_which_it_was_written() -> None:
    entry = Entry(version(3), "put", "", [], whole=True)
    commit = NOW - timedelta(days=3) + timedelta(seconds=2)
    assert kept_versions.valid_from(entry, commit) == commit
    assert kept_versions.valid_from(entry, NOW) == NOW - timedelta(days=3)
    noted_late = Entry(version(1), "delete", "", [], whole=True)
    assert kept_versions.valid_from(noted_late, NOW) == NOW
