"""The rules of the local Cloud Tasks, without a server: values in, values out, and the time as an argument."""

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from google.cloud.tasks_v2.types import cloudtasks
from hypothesis import given
from hypothesis import strategies as st

from signalbox_tools.local.cloud_tasks.http_delivery import headers_of
from signalbox_tools.local.cloud_tasks.protobuf_messages import Task
from signalbox_tools.local.cloud_tasks.queue_rules import (
    RETENTION_SECONDS,
    RETRY_AFTER_SECONDS_MAX,
    SHARE_MIN,
    RateLimits,
    RetryPolicy,
    Throttle,
    ThrottleShare,
    Tombstones,
    retry_after_seconds,
)
from signalbox_tools.local.cloud_tasks.task_attempts import (
    DEADLINE_EXCEEDED,
    UNAVAILABLE,
    DispatchResult,
    Progress,
)

CreateTaskRequest: Any = cloudtasks.CreateTaskRequest.pb()

QUEUE = "projects/p/locations/l/queues/q"
NOW = 1_700_000_000.0
FOREVER = RetryPolicy(-1, 0, backoff_min_seconds=10, backoff_max_seconds=300, doublings_max=3)


def limited(attempts_max: int, retry_seconds_max: float) -> RetryPolicy:
    return RetryPolicy(attempts_max, retry_seconds_max, backoff_min_seconds=1, backoff_max_seconds=1, doublings_max=0)


def test_the_interval_doubles_then_grows_by_steps_then_stays_as_documented() -> None:
    assert [FOREVER.backoff_seconds(attempt) for attempt in range(1, 10)] == [10, 20, 40, 80, 160, 240, 300, 300, 300]


def test_the_interval_is_at_most_the_lifetime_of_a_task() -> None:
    longest = RetryPolicy(-1, 0.0, 315_576_000_000.0, 315_576_000_000.0, 16)
    assert longest.backoff_seconds(3) == RETENTION_SECONDS


def test_without_doublings_the_interval_grows_by_steps_from_the_start() -> None:
    retries = RetryPolicy(-1, 0, backoff_min_seconds=2, backoff_max_seconds=7, doublings_max=0)
    assert [retries.backoff_seconds(attempt) for attempt in range(1, 6)] == [2, 4, 6, 7, 7]


@given(attempt=st.integers(1, 10**6), doublings=st.integers(0, 10**6))
def test_the_interval_stays_between_its_limits_and_never_shrinks(attempt: int, doublings: int) -> None:
    retries = RetryPolicy(-1, 0, backoff_min_seconds=0.1, backoff_max_seconds=3600, doublings_max=doublings)
    assert 0.1 <= retries.backoff_seconds(attempt) <= retries.backoff_seconds(attempt + 1) <= 3600


@pytest.mark.parametrize(
    ("retries", "attempts", "seconds", "expired"),
    [
        (limited(3, 0), 2, 1e9, False),
        (limited(3, 0), 3, 0, True),
        (limited(3, 60), 3, 59, False),
        (limited(3, 60), 2, 61, False),
        (limited(3, 60), 3, 60, True),
        (limited(-1, 0), 10**9, 1e9, False),
        (limited(-1, 60), 1, 59, False),
        (limited(-1, 60), 1, 60, True),
    ],
)
def test_a_task_is_given_up_when_attempts_and_time_are_both_used_up(
    retries: RetryPolicy, attempts: int, seconds: float, expired: bool
) -> None:
    assert retries.exhausted(attempts, seconds) is expired


def test_a_task_of_31_days_is_given_up_whatever_its_limits() -> None:
    progress = Progress(NOW).dispatched(NOW)
    assert not progress.expired(limited(-1, 0), NOW - RETENTION_SECONDS + 1, NOW)
    assert progress.expired(limited(-1, 0), NOW - RETENTION_SECONDS, NOW)


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    throttle = Throttle(RateLimits(10, burst=3, concurrent_max=1), tokens=3, at=NOW)
    for _ in range(3):
        assert throttle.wait_seconds() == 0
        throttle = throttle.taken()
    assert throttle.wait_seconds() == pytest.approx(0.1)
    assert throttle.refilled(NOW + 0.05).wait_seconds() == pytest.approx(0.05)
    assert throttle.refilled(NOW + 0.15).wait_seconds() == 0
    assert throttle.refilled(NOW + 1000).tokens == 3


def test_a_clock_that_goes_back_fills_no_bucket() -> None:
    throttle = Throttle(RateLimits(10, burst=3, concurrent_max=1), tokens=0, at=NOW)
    assert throttle.refilled(NOW - 100).tokens == 0


def test_push_back_halves_the_rate_and_time_brings_it_back() -> None:
    throttle = Throttle(RateLimits(10, burst=3, concurrent_max=1), tokens=0, at=NOW).throttled(NOW)
    assert throttle.wait_seconds() == pytest.approx(0.2)
    assert throttle.refilled(NOW + 5).pace.share_at(NOW + 5) == 1


def test_push_back_of_one_overload_counts_once_and_never_stops_a_queue() -> None:
    pace = ThrottleShare().throttled(NOW).throttled(NOW + 0.1).throttled(NOW + 0.9)
    assert pace.share == 0.5
    for second in range(1, 100):
        pace = pace.throttled(NOW + second)
    assert SHARE_MIN <= pace.share < 0.1


def test_a_tombstone_holds_its_name_until_its_end() -> None:
    tombstones = Tombstones()
    tombstones.add("a", NOW + 10)
    assert tombstones.holds("a", NOW + 9.9)
    assert not tombstones.holds("a", NOW + 10)
    assert not tombstones.holds("b", NOW)
    tombstones.expire(NOW + 10)
    assert tombstones.ends_at == {}


def test_an_attempt_is_counted_when_it_begins_and_its_answer_when_it_comes() -> None:
    progress = Progress(NOW).dispatched(NOW + 1)
    assert (progress.dispatches, progress.responses, progress.first_dispatched_at) == (1, 0, NOW + 1)
    progress = progress.failed(DispatchResult(404, "no"), FOREVER, NOW + 2, NOW + 2).dispatched(NOW + 12)
    assert (progress.dispatches, progress.responses, progress.executions) == (2, 1, 1)
    assert (progress.first_dispatched_at, progress.last_dispatched_at, progress.due_at) == (NOW + 1, NOW + 12, NOW + 12)


@pytest.mark.parametrize(("status", "executions"), [(404, 1), (429, 1), (500, 0), (503, 0), (None, 0)])
def test_an_attempt_that_the_worker_answered_without_a_5xx_is_an_execution(status: int | None, executions: int) -> None:
    progress, answer = Progress(NOW).dispatched(NOW), DispatchResult(status, DEADLINE_EXCEEDED)
    assert progress.failed(answer, FOREVER, NOW, NOW).executions == executions


def test_a_retry_after_that_is_longer_than_the_interval_wins() -> None:
    progress = Progress(NOW).dispatched(NOW)
    longer, shorter = DispatchResult(503, retry_after_seconds=60), DispatchResult(503, retry_after_seconds=5)
    assert progress.failed(longer, FOREVER, NOW, NOW).due_at == NOW + 60
    assert progress.failed(shorter, FOREVER, NOW, NOW).due_at == NOW + 10


def test_the_interval_after_a_forced_run_counts_from_its_request() -> None:
    progress = Progress(NOW + 1000).dispatched(NOW)
    assert progress.failed(DispatchResult(500), FOREVER, NOW, NOW + 8).due_at == NOW + 10


def test_only_2xx_succeeds_and_only_429_and_503_push_back() -> None:
    statuses = (199, 200, 299, 300, 404, 429, 500, 503, None)
    assert [status for status in statuses if DispatchResult(status).succeeded] == [200, 299]
    assert [status for status in statuses if DispatchResult(status).throttles] == [429, 503]


def test_retry_after_is_read_as_seconds_or_as_a_date_within_its_limit() -> None:
    in_a_minute = format_datetime(datetime.fromtimestamp(NOW + 60, UTC), usegmt=True)
    assert retry_after_seconds("7", NOW) == 7
    assert retry_after_seconds(in_a_minute, NOW) == 60
    assert retry_after_seconds("soon", NOW) == 0
    assert retry_after_seconds("", NOW) == 0
    assert retry_after_seconds("99999999", NOW) == RETRY_AFTER_SECONDS_MAX


def test_the_headers_hold_the_counts_and_the_previous_response() -> None:
    progress = Progress(NOW).dispatched(NOW)
    spec = Task(name=f"{QUEUE}/tasks/t")
    assert headers_of(spec, progress) == {
        "User-Agent": "Google-Cloud-Tasks",
        "X-CloudTasks-QueueName": "q",
        "X-CloudTasks-TaskName": "t",
        "X-CloudTasks-TaskRetryCount": "0",
        "X-CloudTasks-TaskExecutionCount": "0",
        "X-CloudTasks-TaskETA": "1700000000.000000",
    }
    unanswered = progress.failed(DispatchResult(None, UNAVAILABLE), FOREVER, NOW, NOW).dispatched(NOW)
    assert "X-CloudTasks-TaskRetryReason" not in headers_of(spec, unanswered)
    assert "X-CloudTasks-TaskPreviousResponse" not in headers_of(spec, unanswered)
    answered = progress.failed(DispatchResult(503, "busy"), FOREVER, NOW, NOW).dispatched(NOW)
    assert headers_of(spec, answered)["X-CloudTasks-TaskPreviousResponse"] == "503"
    assert headers_of(spec, answered)["X-CloudTasks-TaskRetryReason"] == ""
    assert headers_of(spec, unanswered)["X-CloudTasks-TaskRetryCount"] == "1"
