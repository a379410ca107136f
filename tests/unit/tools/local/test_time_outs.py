"""Time-outs of the local stack's requests: one thread ends those whose time is over, and no others."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from functions_framework.exceptions import RequestTimeoutException

from signalbox_tools.local.functions.time_outs import TimeOuts

LONG_SECONDS, SHORT_SECONDS = 600.0, 0.05


def work_until_ended(time_outs: TimeOuts, seconds: float) -> None:
    """Work in Python until the time is over."""
    with time_outs.ended_after(seconds):
        for _ in range(60_000):
            time.sleep(0.001)


def test_code_is_interrupted_at_the_time_out() -> None:
    with pytest.raises(RequestTimeoutException):
        work_until_ended(TimeOuts(), SHORT_SECONDS)


def test_a_shorter_time_out_is_not_kept_waiting_by_a_longer_one() -> None:
    time_outs = TimeOuts()
    with time_outs.ended_after(LONG_SECONDS), pytest.raises(RequestTimeoutException):
        work_until_ended(time_outs, SHORT_SECONDS)


def test_only_the_thread_whose_time_is_over_is_interrupted() -> None:
    time_outs, ended = TimeOuts(), threading.Event()

    def work_in_time() -> str:
        with time_outs.ended_after(LONG_SECONDS):
            assert ended.wait(LONG_SECONDS)
        return "done"

    with ThreadPoolExecutor(2) as pool:
        in_time, too_long = pool.submit(work_in_time), pool.submit(work_until_ended, time_outs, SHORT_SECONDS)
        assert isinstance(too_long.exception(), RequestTimeoutException)
        ended.set()
        assert in_time.result() == "done"


def test_a_request_that_has_ended_is_not_interrupted_afterwards() -> None:
    time_outs = TimeOuts()
    with time_outs.ended_after(SHORT_SECONDS):
        pass
    for _ in range(100):
        time.sleep(SHORT_SECONDS / 50)  # an exception would be raised here


def test_any_number_of_requests_share_a_thread() -> None:
    time_outs, before = TimeOuts(), threading.active_count()
    with ExitStack() as requests:
        for _ in range(20):
            requests.enter_context(time_outs.ended_after(LONG_SECONDS))
        assert threading.active_count() == before + 1


def test_a_request_that_could_not_start_the_thread_is_forgotten_and_the_next_one_starts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_threads_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    time_outs = TimeOuts()
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", no_threads_left)
        with pytest.raises(RuntimeError, match="can't start"), time_outs.ended_after(SHORT_SECONDS):
            pass
    with pytest.raises(RequestTimeoutException):
        work_until_ended(time_outs, 2 * SHORT_SECONDS)
    for _ in range(100):
        time.sleep(SHORT_SECONDS / 50)  # an exception of the first request would be raised here


def test_calls_within_a_call_that_end_at_the_same_time_are_interrupted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    outer, raised = TimeOuts(), list[int]()
    monkeypatch.setattr("signalbox_tools.local.functions.time_outs._raise_in", raised.append)
    monkeypatch.setattr("signalbox_tools.local.functions.time_outs.time.monotonic", lambda: 0.0)
    with outer.ended_after(SHORT_SECONDS), outer.ended_after(SHORT_SECONDS):
        monkeypatch.setattr("signalbox_tools.local.functions.time_outs.time.monotonic", lambda: 1.0)
        while not raised:
            time.sleep(SHORT_SECONDS / 50)
        time.sleep(SHORT_SECONDS)
    assert raised == [threading.get_ident()]
