"""The rules of the local Cloud Tasks, without a server: values in, values out, and a time that is given."""

import asyncio
import copy
import random
import sqlite3
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud.tasks_v2.types import cloudtasks
from hypothesis import given
from hypothesis import strategies as st

from infra.local.chaos import Chaos, parse
from infra.local.cloud_tasks.configuration import read_queues
from infra.local.cloud_tasks.context import QueueContext
from infra.local.cloud_tasks.dispatcher import RETRY_AFTER_SECONDS_MAX, headers_of, retry_after_seconds
from infra.local.cloud_tasks.due_tasks import DueTasks, QueuedTask
from infra.local.cloud_tasks.errors import RpcError
from infra.local.cloud_tasks.messages import Queue, Task
from infra.local.cloud_tasks.methods import TaskMethods
from infra.local.cloud_tasks.progress import DEADLINE_EXCEEDED, UNAVAILABLE, DispatchResult, Executions, Progress
from infra.local.cloud_tasks.queue_registry import QueueRegistry
from infra.local.cloud_tasks.queue_rules import (
    RETENTION_SECONDS,
    SHARE_MIN,
    RateLimits,
    RetryPolicy,
    Throttle,
    ThrottleShare,
    Tombstones,
)
from infra.local.cloud_tasks.storage import TaskStorage
from infra.local.cloud_tasks.validation import validate_queue, validate_task

CreateTaskRequest: Any = cloudtasks.CreateTaskRequest.pb()

QUEUE = "projects/p/locations/l/queues/q"
NOW = 1_700_000_000.0
FOREVER = RetryPolicy(-1, 0, backoff_min_seconds=10, backoff_max_seconds=300, doublings_max=3)


def limited(attempts_max: int, retry_seconds_max: float) -> RetryPolicy:
    return RetryPolicy(attempts_max, retry_seconds_max, backoff_min_seconds=1, backoff_max_seconds=1, doublings_max=0)


def test_the_interval_doubles_then_grows_by_steps_then_stays_as_documented() -> None:
    assert [FOREVER.backoff_seconds(attempt) for attempt in range(1, 10)] == [10, 20, 40, 80, 160, 240, 300, 300, 300]


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
    tombstones.bury("a", NOW + 10)
    assert tombstones.holds("a", NOW + 9.9)
    assert not tombstones.holds("a", NOW + 10)
    assert not tombstones.holds("b", NOW)
    tombstones.expire(NOW + 10)
    assert tombstones.ends_at == {}


def test_an_attempt_is_counted_when_it_begins_and_its_answer_when_it_comes() -> None:
    progress = Progress(NOW).dispatched(NOW + 1)
    assert (progress.dispatches, progress.responses, progress.first_dispatched_at) == (1, 0, NOW + 1)
    progress = progress.failed(DispatchResult(404, "no"), FOREVER, Executions.ANSWERED, NOW + 2, NOW + 2).dispatched(
        NOW + 12
    )
    assert (progress.dispatches, progress.responses, progress.executions) == (2, 1, 1)
    assert (progress.first_dispatched_at, progress.last_dispatched_at, progress.due_at) == (NOW + 1, NOW + 12, NOW + 12)


@pytest.mark.parametrize(
    ("status", "answered", "documented"), [(404, 1, 1), (429, 1, 1), (500, 1, 0), (503, 1, 0), (None, 0, 0)]
)
def test_which_attempts_are_executions_depends_on_the_reading(
    status: int | None, answered: int, documented: int
) -> None:
    progress, answer = Progress(NOW).dispatched(NOW), DispatchResult(status, DEADLINE_EXCEEDED)
    assert progress.failed(answer, FOREVER, Executions.ANSWERED, NOW, NOW).executions == answered
    assert progress.failed(answer, FOREVER, Executions.DOCUMENTED, NOW, NOW).executions == documented


def test_a_retry_after_that_is_longer_than_the_interval_wins() -> None:
    progress = Progress(NOW).dispatched(NOW)
    longer, shorter = DispatchResult(503, retry_after_seconds=60), DispatchResult(503, retry_after_seconds=5)
    assert progress.failed(longer, FOREVER, Executions.ANSWERED, NOW, NOW).due_at == NOW + 60
    assert progress.failed(shorter, FOREVER, Executions.ANSWERED, NOW, NOW).due_at == NOW + 10


def test_the_interval_after_a_forced_run_counts_from_its_request() -> None:
    progress = Progress(NOW + 1000).dispatched(NOW)
    assert progress.failed(DispatchResult(500), FOREVER, Executions.ANSWERED, NOW, NOW + 8).due_at == NOW + 10


def test_only_2xx_succeeds_and_only_429_and_503_push_back() -> None:
    statuses = (199, 200, 299, 300, 404, 429, 500, 503, None)
    assert [status for status in statuses if DispatchResult(status).succeeded] == [200, 299]
    assert [status for status in statuses if DispatchResult(status).throttles] == [429, 503]


def test_retry_after_is_read_as_seconds_or_as_a_date_within_its_limit() -> None:
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert retry_after_seconds({"Retry-After": "7"}) == 7
    assert 50 < retry_after_seconds({"Retry-After": in_a_minute}) <= 60
    assert retry_after_seconds({"Retry-After": "soon"}) == 0
    assert retry_after_seconds({}) == 0
    assert retry_after_seconds({"Retry-After": "99999999"}) == RETRY_AFTER_SECONDS_MAX


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
    unanswered = progress.failed(DispatchResult(None, UNAVAILABLE), FOREVER, Executions.ANSWERED, NOW, NOW).dispatched(
        NOW
    )
    assert headers_of(spec, unanswered)["X-CloudTasks-TaskRetryReason"] == UNAVAILABLE
    assert "X-CloudTasks-TaskPreviousResponse" not in headers_of(spec, unanswered)
    assert headers_of(spec, unanswered)["X-CloudTasks-TaskRetryCount"] == "1"


def waiting(name: str) -> QueuedTask:
    return QueuedTask(Task(name=name), Progress(NOW), named=True)


def test_an_agenda_yields_tasks_by_time_and_then_by_arrival() -> None:
    agenda = DueTasks()
    for name, due_at in (("c", 3.0), ("a", 1.0), ("b", 1.0)):
        agenda.put(waiting(name), due_at)
    assert agenda.length == 3
    assert [agenda.pop().spec.name for _ in range(3) if agenda.next_due_at() is not None] == ["a", "b", "c"]
    assert (agenda.length, agenda.next_due_at()) == (0, None)


def test_an_agenda_forgets_the_old_place_of_what_was_moved_or_removed() -> None:
    agenda, moved, removed, cancelled = DueTasks(), waiting("moved"), waiting("removed"), waiting("cancelled")
    for task in (moved, removed, cancelled):
        agenda.put(task, 1.0)
    agenda.put(moved, 9.0)
    agenda.remove(removed)
    agenda.cancel(cancelled)
    assert (agenda.length, agenda.next_due_at(), agenda.pop()) == (1, 9.0, moved)
    assert removed.gone
    assert not cancelled.gone


def new_task(**fields: Any) -> Any:
    return Task(**{"http_request": {"url": "http://127.0.0.1/"}} | fields)


def test_a_task_gets_the_services_defaults() -> None:
    task = new_task(dispatch_count=7)
    validate_task(task, QUEUE, NOW + 0.5)
    assert task.http_request.http_method == 1
    assert task.dispatch_deadline.seconds == 600
    assert (task.schedule_time.seconds, task.schedule_time.nanos) == (int(NOW), 500_000_000)
    assert (task.create_time.seconds, task.create_time.nanos) == (int(NOW), 0)
    assert task.dispatch_count == 0


def test_a_retry_configuration_of_a_tasks_own_gets_the_services_defaults() -> None:
    task = new_task(retry_config={"max_attempts": 2})
    validate_task(task, QUEUE, NOW)
    config = task.retry_config
    assert (config.max_attempts, config.max_doublings, config.max_backoff.seconds) == (2, 16, 3600)
    assert config.min_backoff.nanos == 100_000_000


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "t"}, "must be formatted"),
        ({"name": "projects/p/locations/l/queues/other/tasks/t"}, "must be the same"),
        ({"name": f"{QUEUE}/tasks/a.b"}, "Task ID"),
        ({"name": f"{QUEUE}/tasks/{'x' * 501}"}, "Task ID"),
        ({"http_request": {}}, "url"),
        ({"http_request": {"url": "ftp://x"}}, "url"),
        ({"http_request": {"url": "http://x/" + "y" * 2083}}, "2083"),
        ({"http_request": {"url": "http://x", "http_method": 2, "body": b"x"}}, "GET"),
        ({"http_request": {"url": "http://x", "body": b"x" * 1_000_000}}, "too large"),
        ({"http_request": {"url": "http://x", "headers": {"a": "x" * 80_000}}}, "80KB"),
        ({"http_request": {"url": "http://x", "headers": {"a": "x\r\nb: y"}}}, "invalid_argument header"),
        ({"schedule_time": {"seconds": int(NOW) + 30 * 86400 + 1}}, "720h"),
        ({"dispatch_deadline": {"seconds": 14}}, "15s"),
        ({"dispatch_deadline": {"seconds": 1801}}, "30m"),
        ({"retry_config": {"max_attempts": -2}}, "maxAttempts"),
    ],
)
def test_a_task_beyond_the_services_limits_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(RpcError, match=words) as refused:
        validate_task(new_task(**fields), QUEUE, NOW)
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_what_the_local_service_lacks_is_refused_and_not_ignored() -> None:
    with pytest.raises(RpcError) as refused:
        validate_task(Task(app_engine_http_request={"relative_uri": "/"}), QUEUE, NOW)
    assert refused.value.code is grpc.StatusCode.UNIMPLEMENTED


def test_queues_are_read_from_json_with_the_catalogues_names() -> None:
    (queue,) = read_queues(
        f'{{"{QUEUE}": {{"dispatches_per_second": 100, "concurrent_max": 8, "attempts_max": -1,'
        ' "backoff_min_seconds": 0.2, "backoff_max_seconds": 60, "doublings_max": 8}}'
    )
    assert (queue.name, queue.rate_limits.max_dispatches_per_second) == (QUEUE, 100)
    assert (queue.rate_limits.max_burst_size, queue.rate_limits.max_concurrent_dispatches) == (100, 8)
    assert (queue.retry_config.max_attempts, queue.retry_config.min_backoff.nanos) == (-1, 200_000_000)


def test_faults_are_read_from_text_and_a_seed_repeats_their_draws() -> None:
    chaos = parse("twice=0.5, lose_answers=1,seed=7")
    assert chaos == Chaos(twice=0.5, lose_answers=1)
    assert chaos.loses_answer()
    draws = [parse("twice=0.5,seed=7").second_delivery_seconds() for _ in range(2)]
    assert draws[0] == draws[1]
    assert parse("") == Chaos()
    assert Chaos(draw=random.Random(1)).delay_seconds() == 0


def test_a_late_delivery_and_one_out_of_order_stay_within_their_limits() -> None:
    for faults, seconds_max in (("late=1", 3.0), ("reorder=1", 0.3), ("late=1,reorder=1", 3.3)):
        chaos = parse(faults + ",seed=7")
        delays = [chaos.delay_seconds() for _ in range(100)]
        assert 0 <= min(delays) < seconds_max / 4
        assert seconds_max / 2 < max(delays) <= seconds_max


class HeldJournal(TaskStorage):
    """A storage whose disk answers only when the test allows it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.disk = asyncio.get_running_loop().create_future()

    def add_task(self, *_: object) -> asyncio.Future[None]:
        return self.disk


async def two_creates_of_one_name(path: Path, error: Exception | None) -> tuple[bool, list[object], set[str]]:
    """Create a task twice before it is on disk; return whether one was answered by then, the answers, the tasks."""
    storage = HeldJournal(path)
    context = QueueContext(storage, no_delivery, Tombstones(), lambda: NOW, Chaos(), Executions.ANSWERED, 3600)
    lines = QueueRegistry(context)
    await lines.configure([shaped_queue()])
    request = CreateTaskRequest(parent=QUEUE, task=new_task(name=f"{QUEUE}/tasks/t"))
    creates = [asyncio.ensure_future(TaskMethods(lines).create_task(copy.deepcopy(request))) for _ in range(2)]
    await asyncio.sleep(0.05)
    answered = any(create.done() for create in creates)
    storage.disk.set_result(None) if error is None else storage.disk.set_exception(error)
    answers = await asyncio.gather(*creates, return_exceptions=True)
    await storage.close()
    return answered, list(answers), set(lines.find(QUEUE).tasks)


async def no_delivery(_: object, __: Progress) -> DispatchResult:
    return DispatchResult(200)


def shaped_queue() -> Any:
    queue = Queue(name=QUEUE)
    validate_queue(queue)
    return queue


def test_neither_created_nor_exists_is_answered_before_the_task_is_on_disk(tmp_path: Path) -> None:
    answered, answers, tasks = asyncio.run(two_creates_of_one_name(tmp_path / "storage.db", None))
    assert not answered
    assert getattr(answers[0], "name", None) == f"{QUEUE}/tasks/t"
    assert isinstance(answers[1], RpcError)
    assert answers[1].code is grpc.StatusCode.ALREADY_EXISTS
    assert tasks == {f"{QUEUE}/tasks/t"}


def test_a_disk_that_fails_leaves_the_name_free_and_answers_neither(tmp_path: Path) -> None:
    full = sqlite3.OperationalError("disk full")
    answered, answers, tasks = asyncio.run(two_creates_of_one_name(tmp_path / "storage.db", full))
    assert (answered, answers, tasks) == (False, [full, full], set())


@pytest.mark.parametrize("text", ["twiced=1", "late=2", "late=x", "late"])
def test_an_unknown_fault_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)
