"""Requests of one process that wait for the same thing stand in a line, and only the first of a line looks."""

import heapq
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import pytest

from signalbox.adapters import waiting_requests
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

    entered = pool.submit(lines.in_turn, key, found, SECONDS, look, nothing)
    while waiting(lines) == before and not entered.done():
        pass
    return entered


def test_requests_look_one_after_the_other_in_their_order(pool: ThreadPoolExecutor) -> None:
    lines, looks, gate = Lines(8, 6), list[str](), Event()
    first = pool.submit(lines.in_turn, "k", "first", SECONDS, lambda _: gate.wait(SECONDS), nothing)
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
    lines, gate = Lines(2, 6), Event()
    first = pool.submit(lines.in_turn, "k", "first", SECONDS, lambda _: gate.wait(SECONDS), nothing)
    while not waiting(lines):
        pass
    assert lines.in_turn("k", "one", 0.01, lambda _: "found", nothing) is None
    assert waiting(lines) == 1
    second = enter(pool, lines, "k", "b", [])
    assert lines.in_turn("other", "one", SECONDS, lambda _: "found", nothing) is None
    gate.set()
    assert (first.result(SECONDS), second.result(SECONDS)) == (True, "b")


def test_a_look_that_raises_leaves_its_place(pool: ThreadPoolExecutor) -> None:
    lines = Lines(2, 6)

    def look(_: float) -> str:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        lines.in_turn("k", "one", SECONDS, look, nothing)
    assert lines.in_turn("k", "one", SECONDS, lambda seconds: 0 < seconds < SECONDS, nothing)


def test_a_request_finds_what_it_has_in_any_place_and_once_more_when_its_time_is_over(pool: ThreadPoolExecutor) -> None:
    lines, gate, had = Lines(2, 6), Event(), [None, "late"]
    first = pool.submit(lines.in_turn, "k", "first", SECONDS, lambda _: gate.wait(SECONDS), nothing)
    while not waiting(lines):
        pass
    assert lines.in_turn("k", "one", SECONDS, lambda _: "found", lambda: "had") == "had"
    assert lines.in_turn("k", "one", 0.01, lambda _: "found", lambda: had.pop(0)) == "late"
    second = enter(pool, lines, "k", "b", [])
    assert lines.in_turn("k", "one", SECONDS, lambda _: "found", lambda: "had") == "had"  # all places are taken
    gate.set()
    assert (first.result(SECONDS), second.result(SECONDS)) == (True, "b")
    assert not waiting(lines)


class Clock:
    """A clock that is set by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        patch.setattr(waiting_requests, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def refused(lines: Lines, name: str, key: str = "k") -> bool:
    """Let a request come; if it gets a place it stays in its line, and otherwise it is answered."""
    has_place = lines.enter(key, name, Event())
    if not has_place:
        lines.remember((key, name), comes_back=True)
    return not has_place


def serve(lines: Lines, key: str = "k") -> None:
    """Let the first of a line find what it waits for."""
    lines._note_served(key)
    lines.leave(key, lines._lines[key][0])


def test_a_request_that_was_refused_comes_before_later_ones_until_it_is_not_expected_back(clock: Clock) -> None:
    lines = Lines(3, 6)
    assert [refused(lines, name) for name in ("a", "b", "c", "early")] == [False, False, False, True]
    serve(lines)
    assert refused(lines, "late")
    assert not refused(lines, "early")
    serve(lines)
    clock.now = 6.0
    assert refused(lines, "later")
    assert not refused(lines, "late")
    serve(lines)
    clock.now = 12.1
    assert not refused(lines, "latest")


def test_a_line_that_is_almost_empty_takes_a_later_request_and_so_does_one_with_more_places(clock: Clock) -> None:
    lines = Lines(3, 6)
    assert [refused(lines, name) for name in ("a", "b", "c", "early")] == [False, False, False, True]
    serve(lines)
    serve(lines)
    assert [refused(lines, name) for name in ("late", "later")] == [False, True]
    assert not refused(lines, "other", key="another line")


def test_a_request_that_fails_or_has_no_name_is_not_remembered() -> None:
    lines = Lines(1, 6)

    def fail(_: float) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        lines.in_turn("k", "fails", SECONDS, fail, nothing)
    assert lines.in_turn("k", "", SECONDS, lambda _: lines._arrivals or None, nothing) is None
    assert (lines._away, lines._arrivals) == ({}, {})
    assert lines.in_turn("k", "named", SECONDS, lambda _: None, nothing) is None
    assert list(lines._away) == list(lines._arrivals) == [("k", "named")]


def test_the_expected_time_until_a_turn_grows_with_the_requests_ahead(clock: Clock) -> None:
    lines = Lines(3, 600)
    for name in ("a", "b", "c", "early", "late"):
        refused(lines, name)
    assert lines.seconds_until_turn("k", "late") is None
    for _ in range(2):
        clock.now += 10
        serve(lines)
    assert (lines.seconds_until_turn("k", "early"), lines.seconds_until_turn("k", "late")) == (10, 20)
    assert lines.seconds_until_turn("k", "unknown") is None


def test_the_time_between_two_that_are_served_follows_the_last_ones_of_their_line(clock: Clock) -> None:
    lines = Lines(3, 600)
    for name in ("a", "b", "c"):
        refused(lines, name)
    assert refused(lines, "other", key="another line")
    assert refused(lines, "early")
    serve(lines)
    clock.now = 10
    serve(lines)
    assert not refused(lines, "d")
    clock.now = 40
    serve(lines)
    assert lines.seconds_until_turn("k", "early") == 15


def test_only_a_request_that_found_something_in_the_first_place_counts_as_served() -> None:
    lines, had = Lines(3, 6), [None, "late"]

    def with_one_behind(found: str | None) -> str | None:
        lines.enter("k", "behind", Event())
        return found

    assert lines.in_turn("k", "a", SECONDS, lambda _: with_one_behind(None), nothing) is None
    assert lines._paces == {}
    lines.leave("k", lines._lines["k"][0])
    assert lines.in_turn("k", "a", SECONDS, lambda _: with_one_behind("found"), nothing) == "found"
    served = dict(lines._paces)
    assert list(served) == ["k"]
    assert lines.in_turn("k", "b", 0, lambda _: "found", lambda: had.pop(0)) == "late"
    assert lines._paces == served


def test_nothing_is_left_of_requests_that_ended_or_did_not_come_back(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_requests, "AWAY_MAX", 2)
    lines = Lines(0, 6)
    assert [refused(lines, name) for name in ("a", "b", "c")] == [True, True, True]
    assert list(lines._arrivals) == list(lines._away) == [("k", "a"), ("k", "b")]
    clock.now = 7
    lines._most = 1
    assert lines.in_turn("k", "d", SECONDS, lambda _: "found", nothing) == "found"
    assert (lines._lines, lines._arrivals, lines._away, lines._paces) == ({}, {}, {}, {})


def test_a_repeat_that_overlaps_its_first_request_does_not_change_what_is_remembered() -> None:
    lines = Lines(1, 6)

    def repeated(had: str | None, found: str | None) -> str | None:
        assert lines.in_turn("k", "a", SECONDS, lambda _: "found", lambda: had) == had
        return found

    assert lines.in_turn("k", "a", SECONDS, lambda _: repeated(None, "found"), nothing) == "found"
    assert (lines._arrivals, lines._away) == ({}, {})
    assert lines.in_turn("k", "a", SECONDS, lambda _: repeated("had", None), nothing) is None
    assert list(lines._arrivals) == list(lines._away) == [("k", "a")]


def test_no_client_waits_three_times_as_long_as_it_takes_to_serve_all(clock: Clock) -> None:
    clients, each = 64, 0.045
    lines, waited = Lines(12, 6), list[float]()
    asked: dict[str, float] = {}
    coming = [(0.001 * number, number, 0) for number in range(clients)]
    in_line: list[tuple[int, int]] = []
    served_at = None
    while len(waited) < 40 * clients:
        if served_at is not None and served_at <= coming[0][0]:
            clock.now = served_at
            number, visit = in_line.pop(0)
            lines._note_served("k")
            lines.leave("k", lines._lines["k"][0])
            lines.remember(("k", f"{number}.{visit}"), comes_back=False)
            waited.append(clock.now - asked.pop(f"{number}.{visit}"))
            heapq.heappush(coming, (clock.now + 0.01, number, visit + 1))
            served_at = clock.now + each if in_line else None
            continue
        clock.now, number, visit = heapq.heappop(coming)
        name = f"{number}.{visit}"
        asked.setdefault(name, clock.now)
        if refused(lines, name):
            seconds = min(max(1, round(lines.seconds_until_turn("k", name) or 2)), 4)
            heapq.heappush(coming, (clock.now + seconds, number, visit))
        else:
            in_line.append((number, visit))
            served_at = served_at or clock.now + each
    assert clock.now < 40 * clients * each * 1.1
    assert max(waited) < 3 * clients * each
