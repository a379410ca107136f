"""Tasks of the local Cloud Tasks: validated, ordered by time, and acknowledged once they are on disk."""

import asyncio
import copy
import sqlite3
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud.tasks_v2.types import cloudtasks

from signalbox_tools.local.cloud_tasks.api_errors import RpcError
from signalbox_tools.local.cloud_tasks.api_methods import TaskMethods
from signalbox_tools.local.cloud_tasks.due_tasks import DueTasks, QueuedTask
from signalbox_tools.local.cloud_tasks.protobuf_messages import Queue, Task
from signalbox_tools.local.cloud_tasks.queue_configuration import read_queues
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry
from signalbox_tools.local.cloud_tasks.queue_rules import Tombstones
from signalbox_tools.local.cloud_tasks.request_validation import validate_queue, validate_task
from signalbox_tools.local.cloud_tasks.shared_by_queues import QueueContext
from signalbox_tools.local.cloud_tasks.sqlite_storage import SeparateFile, TaskStorage
from signalbox_tools.local.cloud_tasks.task_attempts import DispatchResult, Progress
from signalbox_tools.local.injected_faults import Chaos

CreateTaskRequest: Any = cloudtasks.CreateTaskRequest.pb()

QUEUE = "projects/p/locations/l/queues/q"
NOW = 1_700_000_000.0


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
        ({"http_request": {"url": "http://x", "headers": {"a": "x\r\nb: y"}}}, "invalid header"),
        ({"http_request": {"url": "http://x", "headers": {"a b": "x"}}}, "invalid header"),
        ({"http_request": {"url": "http://x", "headers": {"a:": "x"}}}, "invalid header"),
        ({"http_request": {"url": "http://"}}, "not a valid address"),
        ({"http_request": {"url": "http://[x"}}, "not a valid address"),
        ({"http_request": {"url": "http://x:99999/"}}, "not a valid address"),
        ({"http_request": {"url": "http://x/a b"}}, "not a valid address"),
        ({"http_request": {"url": "http://x", "http_method": 99}}, "httpMethod"),
        ({"http_request": {"url": "http://x", "oidc_token": {"audience": "x"}}}, "serviceAccountEmail"),
        ({"schedule_time": {"seconds": 10**18}}, "720h"),
        ({"retry_config": {"min_backoff": {"seconds": -1}}}, "negative"),
        ({"retry_config": {"max_retry_duration": {"seconds": -1}}}, "negative"),
        ({"retry_config": {"max_backoff": {"seconds": 2**62}}}, "too long"),
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


class HeldJournal(TaskStorage):
    """A storage whose disk answers only when the test allows it."""

    def __init__(self, path: Path) -> None:
        super().__init__(SeparateFile(path))
        self.disk = asyncio.get_running_loop().create_future()

    def add_task(self, *_: object) -> asyncio.Future[None]:
        return self.disk


async def two_creates_of_one_name(path: Path, error: Exception | None) -> tuple[bool, list[object], set[str]]:
    """Create a task twice before it is on disk; return whether one was answered by then, the answers, the tasks."""
    storage = HeldJournal(path)
    context = QueueContext(storage, no_delivery, Tombstones(), lambda: NOW, Chaos(), 3600)
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
