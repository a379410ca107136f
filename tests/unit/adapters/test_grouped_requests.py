"""Requests of one key that arrive while earlier ones are handled are handled together, by one of their threads."""

from __future__ import annotations

import ctypes
import linecache
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from threading import Event, Lock, get_ident
from types import FrameType
from typing import Any

import pytest

from signalbox.adapters import grouped_requests
from signalbox.adapters.grouped_requests import Gathering
from signalbox.core.problems import Unavailable

SECONDS_MAX = 30


class Handler:
    """Handles groups, each after its gate is open; answers each item in capitals."""

    def __init__(self, gates: int) -> None:
        self.groups: list[list[str]] = []
        self.gates = [Event() for _ in range(gates)]
        self.begun = [Event() for _ in range(gates)]
        self._lock = Lock()

    def handle(self, items: Mapping[str, str]) -> dict[str, str | Exception]:
        with self._lock:
            number = len(self.groups)
            self.groups.append(sorted(items))
        self.begun[number].set()
        assert self.gates[number].wait(SECONDS_MAX)
        if "exit" in items.values():
            raise SystemExit
        if "down" in items.values():
            raise ConnectionError("down")
        return {id_: ValueError(id_) if item == "wrong" else item.upper() for id_, item in items.items()}


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


def entered(gathering: Gathering[str, str], key: str) -> int:
    return len(gathering._lines[key].waiting) if key in gathering._lines else 0


def begin(
    pool: ThreadPoolExecutor, gathering: Gathering[str, str], handler: Handler | EndedThere, *items: tuple[str, str]
) -> list[Future[str]]:
    """Hand in items one after the other, while an earlier group is handled."""
    futures = []
    for id_, item in items:
        before = entered(gathering, "k")
        futures.append(pool.submit(gathering.answer, "k", id_, item, handler.handle))
        while entered(gathering, "k") == before and not futures[-1].done():
            pass
    return futures


def group_behind_a_first(
    pool: ThreadPoolExecutor, gathering: Gathering[str, str], handler: Handler, *items: tuple[str, str]
) -> list[Future[str]]:
    """Hand in items while a first request is handled, and let all be handled. Return the first and the others."""
    first = pool.submit(gathering.answer, "k", "a", "x", handler.handle)
    assert handler.begun[0].wait(SECONDS_MAX)
    others = begin(pool, gathering, handler, *items)
    for gate in handler.gates:
        gate.set()
    return [first, *others]


def test_what_arrives_while_a_group_is_handled_is_the_next_group(pool: ThreadPoolExecutor) -> None:
    gathering, handler = Gathering[str, str](10), Handler(2)
    first = pool.submit(gathering.answer, "k", "a", "x", handler.handle)
    assert handler.begun[0].wait(SECONDS_MAX)
    others = begin(pool, gathering, handler, ("b", "y"), ("c", "z"))
    for gate in handler.gates:
        gate.set()
    assert [first.result(SECONDS_MAX), *(each.result(SECONDS_MAX) for each in others)] == ["X", "Y", "Z"]
    assert handler.groups == [["a"], ["b", "c"]]
    assert not gathering._lines


def test_a_group_is_bounded_and_has_each_id_once(pool: ThreadPoolExecutor) -> None:
    gathering, handler = Gathering[str, str](2), Handler(4)
    first = pool.submit(gathering.answer, "k", "a", "x", handler.handle)
    assert handler.begun[0].wait(SECONDS_MAX)
    others = begin(pool, gathering, handler, ("b", "1"), ("b", "2"), ("c", "3"), ("d", "4"))
    for gate in handler.gates:
        gate.set()
    assert [each.result(SECONDS_MAX) for each in (first, *others)] == ["X", "1", "2", "3", "4"]
    assert handler.groups == [["a"], ["b", "c"], ["b", "d"]]


def test_each_request_raises_its_own_error(pool: ThreadPoolExecutor) -> None:
    gathering, handler = Gathering[str, str](10), Handler(2)
    first, good, wrong = group_behind_a_first(pool, gathering, handler, ("b", "y"), ("c", "wrong"))
    assert first.result(SECONDS_MAX) == "X"
    assert good.result(SECONDS_MAX) == "Y"
    with pytest.raises(ValueError, match="c"):
        wrong.result(SECONDS_MAX)


def test_an_error_of_a_group_is_that_of_its_first_request_and_the_outcome_of_the_others_is_unknown(
    pool: ThreadPoolExecutor,
) -> None:
    gathering, handler = Gathering[str, str](10), Handler(2)
    first, down, other = group_behind_a_first(pool, gathering, handler, ("b", "down"), ("c", "y"))
    with pytest.raises(ConnectionError):
        down.result(SECONDS_MAX)
    with pytest.raises(Unavailable):
        other.result(SECONDS_MAX)
    assert first.result(SECONDS_MAX) == "X"


def test_code_that_ends_its_thread_leaves_no_request_waiting(pool: ThreadPoolExecutor) -> None:
    gathering, handler = Gathering[str, str](10), Handler(3)
    first, deadly, other = group_behind_a_first(pool, gathering, handler, ("b", "exit"), ("c", "y"))
    with pytest.raises(SystemExit):
        deadly.result(SECONDS_MAX)
    with pytest.raises(Unavailable):
        other.result(SECONDS_MAX)
    assert first.result(SECONDS_MAX) == "X"
    assert gathering.answer("k", "d", "z", handler.handle) == "Z"


def test_a_request_whose_thread_is_ended_while_it_waits_leaves_its_place(pool: ThreadPoolExecutor) -> None:
    gathering, handler = Gathering[str, str](10), Handler(3)
    first = pool.submit(gathering.answer, "k", "a", "x", handler.handle)
    assert handler.begun[0].wait(SECONDS_MAX)
    idents = list[int]()

    def timed_out() -> str:
        idents.append(get_ident())
        return gathering.answer("k", "b", "y", handler.handle)

    ended = pool.submit(timed_out)
    while not entered(gathering, "k"):
        pass
    [other] = begin(pool, gathering, handler, ("c", "z"))
    end_thread(idents[0], TimeoutError)
    for gate in handler.gates:
        gate.set()
    with pytest.raises(TimeoutError):
        ended.result(SECONDS_MAX)
    with pytest.raises(Unavailable):  # they were one group, which the thread of the first was to handle
        other.result(SECONDS_MAX)
    assert first.result(SECONDS_MAX) == "X"
    later = pool.submit(gathering.answer, "k", "d", "w", handler.handle)
    assert later.result(SECONDS_MAX) == "W"
    assert not gathering._lines


class EndedThere:
    """Handles items. Ends the thread that handled `item` after `at` more steps in `Gathering`."""

    def __init__(self, handler: Handler, item: str, at: int) -> None:
        self._handler = handler
        self._item = item
        self.left = at
        self._seen = set[int]()
        self.has_ended = False

    def handle(self, items: Mapping[str, str]) -> dict[str, str | Exception]:
        answers = self._handler.handle(items)
        if self._item in items.values():
            sys.settrace(self._trace)
        return answers

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != grouped_requests.__file__:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        releases = (
            line.strip() == "with self._lock:" and frame.f_lineno in self._seen
        )  # no time-out ends a thread there
        self._seen.add(frame.f_lineno)
        if event in ("call", "line") and not releases:
            self.left -= 1
            if self.left < 0:
                self.has_ended = True
                raise TimeoutError  # this ends the trace, too
        return self._trace


@pytest.mark.parametrize("item", ["x", "y"])
def test_a_thread_that_is_ended_while_it_leaves_lets_all_others_go_on(pool: ThreadPoolExecutor, item: str) -> None:
    """At each step: `x` is alone in its group, and `y` is handled by the same thread as `z`."""
    for at in count():
        gathering, handler = Gathering[str, str](10), Handler(3)
        ending = EndedThere(handler, item, at)
        first = pool.submit(gathering.answer, "k", "a", "x", ending.handle)
        assert handler.begun[0].wait(SECONDS_MAX)
        others = begin(pool, gathering, ending, ("b", "y"), ("c", "z"))
        for gate in handler.gates:
            gate.set()
        for one in (first, *others):
            assert isinstance(one.exception(SECONDS_MAX), TimeoutError | Unavailable | None)
        ending.left = sys.maxsize
        later = pool.submit(gathering.answer, "k", "d", "w", handler.handle)
        assert (later.result(SECONDS_MAX), gathering._lines) == ("W", {})
        if not ending.has_ended:
            break
    assert at > 10


def end_thread(ident: int, error: type[BaseException]) -> None:
    """Raise an error in a thread, as functions-framework does at the time-out of a request."""
    set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert set_error(ctypes.c_ulong(ident), ctypes.py_object(error)) == 1


def test_requests_of_other_keys_do_not_wait(pool: ThreadPoolExecutor) -> None:
    gathering, handler = Gathering[str, str](10), Handler(2)
    first = pool.submit(gathering.answer, "k", "a", "x", handler.handle)
    assert handler.begun[0].wait(SECONDS_MAX)
    handler.gates[1].set()
    assert gathering.answer("other", "a", "y", handler.handle) == "Y"
    handler.gates[0].set()
    assert first.result(SECONDS_MAX) == "X"
