"""Queues of the local Cloud Tasks as their callers see them: paused, purged, listed, changed, and limited in rate."""

import threading

import pytest
from google.api_core import exceptions
from google.cloud import tasks_v2

from tests.emulator.cloud_tasks.local_cloud_tasks import LOCATION, Server, Worker
from tests.emulator.cloud_tasks.local_cloud_tasks import queue as queue
from tests.emulator.cloud_tasks.local_cloud_tasks import server as server
from tests.emulator.cloud_tasks.local_cloud_tasks import worker as worker
from tests.emulator.polling_until import eventually


def test_a_paused_queue_keeps_its_tasks_until_it_is_resumed(server: Server, worker: Worker, queue: str) -> None:
    server.client.pause_queue(name=queue)
    for number in range(3):
        server.create(queue, worker.url("paused"), f"t{number}")
    assert server.names(queue) == {"t0", "t1", "t2"}
    assert server.stats(queue)["waiting"] == 3
    server.client.delete_task(name=f"{queue}/tasks/t1")
    assert worker.of("paused") == []
    server.client.resume_queue(name=queue)
    eventually(lambda: server.stats(queue)["done"] == 2)
    assert {call.headers["x-cloudtasks-taskname"] for call in worker.of("paused")} == {"t0", "t2"}


def test_a_forced_run_ignores_that_its_queue_is_paused(server: Server, worker: Worker, queue: str) -> None:
    server.client.pause_queue(name=queue)
    task = server.create(queue, worker.url("forced", "500,200"), "t")
    assert server.client.run_task(name=task.name).dispatch_count == 1
    failed = eventually(lambda: (t := server.client.get_task(name=task.name)).response_count == 1 and t)
    assert failed.last_attempt.response_status.message == "INTERNAL(13): HTTP status code 500"
    assert server.stats(queue)["waiting"] == 1
    server.client.run_task(name=task.name)
    eventually(lambda: server.stats(queue)["done"] == 1)
    assert len(worker.of("forced")) == 2


def test_purged_tasks_do_not_run_and_their_names_stay_taken(server: Server, worker: Worker, queue: str) -> None:
    server.client.pause_queue(name=queue)
    server.create(queue, worker.url("purged"), "t")
    assert server.client.purge_queue(name=queue).purge_time is not None
    assert server.names(queue) == set()
    with pytest.raises(exceptions.AlreadyExists, match="existed too recently"):
        server.create(queue, worker.url("purged"), "t")
    server.client.resume_queue(name=queue)
    server.create(queue, worker.url("after"), "u")
    eventually(lambda: worker.of("after"))
    assert worker.of("purged") == []


def test_tasks_are_listed_in_pages_and_bodies_shown_only_on_request(server: Server, worker: Worker, queue: str) -> None:
    server.client.pause_queue(name=queue)
    for number in range(5):
        server.create(queue, worker.url("listed"), f"t{number}", request={"body": b"secret"})
    pages = list(server.client.list_tasks(request={"parent": queue, "page_size": 2}).pages)
    assert [[task.name[-2:] for task in page.tasks] for page in pages] == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert pages[0].tasks[0].http_request.body == b""
    full = server.client.get_task(request={"name": f"{queue}/tasks/t0", "response_view": "FULL"})
    assert full.http_request.body == b"secret"


def test_a_negative_page_size_is_refused(server: Server, queue: str) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="page size"):
        server.client.list_tasks(request={"parent": queue, "page_size": -1})
    with pytest.raises(exceptions.InvalidArgument, match="page size"):
        server.client.list_queues(request={"parent": LOCATION, "page_size": -1})


def test_a_queue_is_created_listed_changed_and_deleted(server: Server) -> None:
    queue = server.queue("changing", rate_limits={"max_dispatches_per_second": 5}, retry_config={})
    assert queue in {listed.name for listed in server.client.list_queues(parent=LOCATION)}
    created = server.client.get_queue(name=queue)
    assert (created.rate_limits.max_burst_size, created.retry_config.max_attempts) == (5, 100)
    change = tasks_v2.Queue(
        {"name": queue, "rate_limits": {"max_dispatches_per_second": 9}, "retry_config": {"max_attempts": 7}}
    )
    changed = server.client.update_queue(queue=change, update_mask={"paths": ["rate_limits.max_dispatches_per_second"]})
    assert (changed.rate_limits.max_dispatches_per_second, changed.retry_config.max_attempts) == (9, 100)
    assert server.client.update_queue(queue=change).retry_config.max_attempts == 7
    server.client.delete_queue(name=queue)
    with pytest.raises(exceptions.NotFound):
        server.client.get_queue(name=queue)
    with pytest.raises(exceptions.FailedPrecondition, match="existed too recently"):
        server.queue("changing")


def test_a_queue_runs_no_more_tasks_at_once_than_it_may(server: Server, worker: Worker) -> None:
    queue = server.queue("two-at-once", rate_limits={"max_concurrent_dispatches": 2})
    worker.hold = threading.Event()
    for _ in range(6):
        server.create(queue, worker.url("held"))
    eventually(lambda: worker.parallel == 2)
    assert (server.stats(queue)["running"], server.stats(queue)["waiting"]) == (2, 4)
    worker.hold.set()
    eventually(lambda: server.stats(queue)["done"] == 6)
    assert worker.parallel_max == 2


def test_a_queue_dispatches_a_burst_and_then_at_its_rate(server: Server, worker: Worker) -> None:
    queue = server.queue("ten-a-second", rate_limits={"max_dispatches_per_second": 10})
    server.client.pause_queue(name=queue)
    for _ in range(17):
        server.create(queue, worker.url("rated"))
    server.client.resume_queue(name=queue)
    eventually(lambda: server.stats(queue)["done"] == 17)
    times = sorted(call.at for call in worker.of("rated"))
    assert times[16] - times[0] >= 0.5  # seven beyond the burst of ten, a tenth of a second each, and some tolerance
    assert times[9] - times[0] < times[16] - times[0]


def test_a_worker_that_pushes_back_gets_no_task_before_its_retry_after(
    server: Server, worker: Worker, queue: str
) -> None:
    worker.answer_headers = {"Retry-After": "1"}
    server.create(queue, worker.url("busy", "503,200"))
    first, second = eventually(lambda: len(worker.of("busy")) == 2 and worker.of("busy"))
    assert second.at - first.at >= 0.9
