"""Requests of one process that wait for the same thing stand in a line, and only the first of a line looks."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from signalbox.adapters.waiting_requests import Lines

SECONDS = 30.0


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


def nothing() -> None:
    """Find that a request has nothing yet."""


def waiting(lines: Lines) -> int:
    return sum(map(len, lines._lines.values()))


def enter(pool: ThreadPoolExecutor, lines: Lines, key: str, found: str, looks: list[str]) -> Future[str | None]:
    """Let a request wait in a line; return when it has its place."""
    before = waiting(lines)

    def look(_: float) -> str:
        looks.append(found)
        return found

    entered = pool.submit(lines.in_turn, key, SECONDS, look, nothing)
    while waiting(lines) == before and not entered.done():
        pass
    return entered


def test_requests_look_one_after_the_other_in_their_order(pool: ThreadPoolExecutor) -> None:
    lines, looks, gate = Lines(8), list[str](), Event()
    first = pool.submit(lines.in_turn, "k", SECONDS, lambda _: gate.wait(SECONDS), nothing)
    while not waiting(lines):
        pass
    others = [enter(pool, lines, "k", name, looks) for name in ("b", "c", "d")]
    other_key = enter(pool, lines, "other", "x", looks)
    assert other_key.result(SECONDS) == "x"
    assert looks == ["x"]
    gate.set()
    assert first.result(SECONDS)
    assert [each.result(SECONDS) for each in others] == ["b", "c", "d"]
    assert looks == ["x", "b", "c", "d"]
    assert not waiting(lines)


def test_a_request_that_is_not_the_first_in_time_or_finds_no_place_does_not_look(pool: ThreadPoolExecutor) -> None:
    lines, gate = Lines(2), Event()
    first = pool.submit(lines.in_turn, "k", SECONDS, lambda _: gate.wait(SECONDS), nothing)
    while not waiting(lines):
        pass
    assert lines.in_turn("k", 0.01, lambda _: "found", nothing) is None
    assert waiting(lines) == 1
    second = enter(pool, lines, "k", "b", [])
    assert lines.in_turn("other", SECONDS, lambda _: "found", nothing) is None
    gate.set()
    assert (first.result(SECONDS), second.result(SECONDS)) == (True, "b")


def test_a_look_that_raises_leaves_its_place(pool: ThreadPoolExecutor) -> None:
    lines = Lines(2)

    def look(_: float) -> str:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        lines.in_turn("k", SECONDS, look, nothing)
    assert lines.in_turn("k", SECONDS, lambda seconds: 0 < seconds < SECONDS, nothing)


def test_a_request_finds_what_it_has_in_any_place_and_once_more_when_its_time_is_over(pool: ThreadPoolExecutor) -> None:
    lines, gate, had = Lines(2), Event(), [None, "late"]
    first = pool.submit(lines.in_turn, "k", SECONDS, lambda _: gate.wait(SECONDS), nothing)
    while not waiting(lines):
        pass
    assert lines.in_turn("k", SECONDS, lambda _: "found", lambda: "had") == "had"
    assert lines.in_turn("k", 0.01, lambda _: "found", lambda: had.pop(0)) == "late"
    second = enter(pool, lines, "k", "b", [])
    assert lines.in_turn("k", SECONDS, lambda _: "found", lambda: "had") == "had"  # all places are taken
    gate.set()
    assert (first.result(SECONDS), second.result(SECONDS)) == (True, "b")
    assert not waiting(lines)
