"""Time-outs of the local stack's requests: one thread ends those whose time is over, and no others."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from functions_framework.exceptions import RequestTimeoutException

from signalbox_infra.local.functions.time_outs import TimeOuts

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
