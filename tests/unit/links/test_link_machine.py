"""Each row of the tables in the docstrings of `reactions.py` and `links/machine.py`, run in every state."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from signalbox.core.effects import Decision
from signalbox.documents.machine import reactions
from signalbox.documents.machine.reactions import Reaction
from signalbox.documents.model.contents import Content, Surveyed, digest_of
from signalbox.documents.model.stamped_contents import Author, Document, Stamp
from signalbox.links import machine
from signalbox.links.limits import LIMITS
from signalbox.links.model import Finding, Verification
from tests.unit.transition_tables import Row, tables, values

[EVENTS] = tables(reactions.__doc__)
[VERIFICATIONS] = tables(machine.__doc__)

# --- events ---

BEFORE: Content = {"n": 1, "a": {"key": "t", "x": 1}}
CHANGED: Content = {"n": 1, "a": {"key": "t", "x": 2}}
EXISTING = ("unlinked", "linked", "foreign")


def written(content: Content, author: Author, *, linked: bool | None, version: int = 5) -> Document:
    return Document(Surveyed(content), Stamp(version, author, digest_of(content)), linked)


def before(state: str) -> list[Document | None]:
    """Return the documents of a state."""
    documents: dict[str, list[Document | None]] = {
        "absent": [None],
        "unlinked": [written(BEFORE, "put", linked=False)],
        "linked": [written(BEFORE, "put", linked=linked) for linked in (True, None)],
        "foreign": [Document(Surveyed(BEFORE))],
    }
    return documents[state]


def after(old: Document | None, state: str, write: str, content: Content) -> list[Document | None]:
    """Return the documents of a state after a write."""
    linked: tuple[bool | None, ...] = (False,) if state == "unlinked" else (True, None)
    match state, write:
        case "absent", _:
            return [None]
        case "foreign", _:
            kept = [Document(Surveyed(content), Stamp(9, "put", digest_of({})), linked) for linked in (True, False)]
            older = [written(content, "put", linked=True, version=4)] if old and old.stamp else []
            return [Document(Surveyed(content)), *kept, *older]
        case _, "mark":
            return [replace(old, linked=each) for each in linked] if old and old.stamp_matches else []
        case _, ("put" | "refresh" as author):
            return [written(content, author, linked=each, version=6) for each in linked]
    raise AssertionError((state, write))


def words(reaction: Reaction) -> str:
    """Return a reaction in the words of the table."""
    called = {
        "normalize": reaction.normalize,
        "verify": bool(reaction.verify_targets),
        "check": reaction.check_wanted_note,
        "start": reaction.start_fan_out,
    }
    return ", ".join(word for word, is_called in called.items() if is_called) or "nothing"


def cases(row: Row) -> Iterator[tuple[str, ...]]:
    """Iterate over the cases of a row: before, after, write, content."""
    states = ("absent", *EXISTING) if row["before"] == "any" else values(row["before"])
    return product(states, values(row["after"]), values(row["write"]), values(row["content"]))


KNOWN = [row for row in EVENTS if row["before"] != "unknown"]


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: "-".join(row.values()))
def test_an_event_calls_for_what_its_row_says(row: Row) -> None:
    reached = 0
    for old_state, new_state, write, content in cases(row):
        for old in before(old_state):
            for new in after(old, new_state, write, CHANGED if content == "changed" else BEFORE):
                assert words(reactions.react(old, new)) == row["calls for"], (old, new)
                reached += 1
    assert reached


@pytest.mark.parametrize("row", [row for row in EVENTS if row not in KNOWN], ids=lambda row: row["after"])
def test_an_event_without_its_data_calls_for_what_its_row_says(row: Row) -> None:
    for now in before(row["after"]):
        assert words(reactions.react_to_unknown(now)) == row["calls for"]


def test_every_event_has_exactly_one_row() -> None:
    deletions = [("absent", "absent", "delete", "same"), *((old, "absent", "delete", "changed") for old in EXISTING)]
    creations = [("absent", new, "put", "changed") for new in ("unlinked", "linked")]
    writes = product(EXISTING, ("unlinked", "linked"), ("put", "refresh"), ("changed", "same"))
    marks = product(EXISTING, ("unlinked", "linked"), ("mark",), ("same",))
    others = [
        ("absent", "foreign", "other", "changed"),
        *product(EXISTING, ["foreign"], ["other"], ["changed", "same"]),
    ]
    covered = Counter(case for row in KNOWN for case in cases(row))
    assert covered == Counter([*deletions, *creations, *writes, *marks, *others])


def test_a_new_document_at_the_last_hop_counts_as_changed() -> None:
    old = written(BEFORE, "refresh", linked=True)
    assert old.stamp
    last = replace(old, stamp=replace(old.stamp, version=6, hops=10_000))
    assert words(reactions.react(old, last)) == "start"


# --- verifications ---

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def walk(state: str, run: str) -> Verification | None:
    running = Verification(run, NOW, NOW, cursor="k")
    long_ago = NOW - timedelta(seconds=LIMITS.verify_abandoned_seconds)
    return {
        "none": None,
        "running": running,
        "abandoned": replace(running, moved_at=long_ago),
        "ended": replace(running, ended_at=NOW),
    }[state]


def decided(row: Row, last: str, own: str) -> Decision[Verification | None, Verification | bool]:
    if row["command"] == "begin":
        began = machine.begin("own", walk(last, "last"), walk(own, "own"), NOW)
        return Decision(began.state, began.answer, began.effects)
    cursor = "earlier" if row["if"] == "the page was counted" else "k"
    more = row["if"] == "more documents follow"
    counted = machine.count_page(walk(own, "own"), cursor, Finding(looked=3), "p", NOW, more=more)
    return Decision(counted.state, counted.answer, counted.effects)


@pytest.mark.parametrize("row", VERIFICATIONS, ids=lambda row: "-".join(row.values()))
def test_a_verification_follows_its_table(row: Row) -> None:
    states = ("none", "running", "abandoned", "ended")
    for last, own in product(states if row["last"] == "any" else values(row["last"]), values(row["own"])):
        made = decided(row, last, own)
        assert ["page"] * (row["task"] == "page") == [effect.task for effect in made.effects]
        match row["answer"]:
            case "own" | "last" as which:
                assert (made.state, made.answer) == (None, walk(own if which == "own" else last, which))
            case "begun":
                assert made.answer == made.state == Verification("own", NOW, NOW)
            case "ignored":
                assert (made.state, made.answer) == (None, False)
            case state:
                assert made.answer is True
                assert made.state is not None
                assert (made.state.cursor, made.state.pages, made.state.found.looked) == ("p", 1, 3)
                assert (made.state.ended_at is None) == (state == "running")
