"""The local Cloud Tasks as callers and workers see it: the official client, a real worker, a real process to kill."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth import jwt

from signalbox_tools.local.child_processes import free_port
from signalbox_tools.local.cloud_tasks.http_delivery import Dispatcher
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key
from signalbox_tools.local.cloud_tasks.protobuf_messages import Task
from signalbox_tools.local.cloud_tasks.task_attempts import DEADLINE_EXCEEDED, UNAVAILABLE, Progress
from signalbox_tools.local.function_processes import FunctionProcesses
from tests.emulator.cloud_tasks.local_cloud_tasks import LOCATION, QUICK, Server, Worker, serving
from tests.emulator.cloud_tasks.local_cloud_tasks import queue as queue
from tests.emulator.cloud_tasks.local_cloud_tasks import server as server
from tests.emulator.cloud_tasks.local_cloud_tasks import worker as worker
from tests.emulator.polling_until import eventually


def succeeds(create: Callable[[], object]) -> bool:
    """Create a task, and return whether its name was free."""
    try:
        create()
    except exceptions.AlreadyExists:
        return False
    return True


def test_a_task_is_delivered_as_it_was_created(server: Server, worker: Worker, queue: str) -> None:
    given = {"headers": {"X-Own": "1"}, "body": b"{}", "http_method": "PUT"}
    task = server.create(queue, worker.url("given"), "t1", request=given)
    assert task.name == f"{queue}/tasks/t1"
    assert task.http_request.body == b""
    (call,) = eventually(lambda: worker.of("given"))
    assert (call.method, call.body, call.headers["x-own"]) == ("PUT", b"{}", "1")
    assert "content-type" not in call.headers
    assert call.headers["user-agent"] == "Google-Cloud-Tasks"
    assert call.headers["x-cloudtasks-queuename"] == queue.rpartition("/")[2]
    assert call.headers["x-cloudtasks-taskname"] == "t1"
    assert float(call.headers["x-cloudtasks-tasketa"]) == pytest.approx(task.schedule_time.timestamp(), abs=1e-3)
    eventually(lambda: server.stats(queue)["done"] == 1)
    counts = {"created": 1, "dispatched": 1, "done": 1, "dropped": 0}
    assert server.stats(queue) == {"waiting": 0, "running": 0, "next_due_at": None, **counts}


def test_headers_that_belong_to_the_service_are_replaced(server: Server, worker: Worker, queue: str) -> None:
    own = {"User-Agent": "me", "Host": "elsewhere", "X-CloudTasks-TaskName": "forged", "X-AppEngine-Foo": "1"}
    server.create(queue, worker.url("forged"), "real", request={"headers": own | {"Content-Type": "text/plain"}})
    (call,) = eventually(lambda: worker.of("forged"))
    assert call.headers["user-agent"] == "Google-Cloud-Tasks"
    assert call.headers["host"] == f"127.0.0.1:{worker.port}"
    assert call.headers["x-cloudtasks-taskname"] == "real"
    assert call.headers["content-type"] == "text/plain"
    assert "x-appengine-foo" not in call.headers


def test_a_failed_task_is_retried_with_its_counts(server: Server, worker: Worker, queue: str) -> None:
    server.create(queue, worker.url("failing", "500,404,302,200"))
    calls = eventually(lambda: len(worker.of("failing")) == 4 and worker.of("failing"))
    counts = [(c.headers["x-cloudtasks-taskretrycount"], c.headers["x-cloudtasks-taskexecutioncount"]) for c in calls]
    assert counts == [("0", "0"), ("1", "0"), ("2", "1"), ("3", "2")]
    previous = [call.headers.get("x-cloudtasks-taskpreviousresponse") for call in calls]
    assert previous == [None, "500", "404", "302"]
    assert [call.headers.get("x-cloudtasks-taskretryreason") for call in calls] == [None, "", "", ""]


def test_a_refused_connection_is_a_retry_but_no_execution(server: Server, queue: str) -> None:
    away = Worker(port=free_port())
    task = server.create(queue, away.url("away"))
    eventually(lambda: server.client.get_task(name=task.name).dispatch_count >= 2)
    with serving(away):
        (call,) = eventually(lambda: away.of("away"))
    assert int(call.headers["x-cloudtasks-taskretrycount"]) >= 2
    assert call.headers["x-cloudtasks-taskexecutioncount"] == "0"


def test_a_task_is_dropped_after_its_last_attempt(server: Server, worker: Worker) -> None:
    queue = server.queue("three-attempts", retry_config=QUICK | {"max_attempts": 3})
    server.create(queue, worker.url("hopeless", "500"))
    server.create(queue, worker.url("own", "500"), retry_config=QUICK | {"max_attempts": 1})
    eventually(lambda: server.stats(queue)["dropped"] == 2)
    assert len(worker.of("hopeless")) == 3
    assert len(worker.of("own")) == 1


def test_a_name_is_taken_while_its_task_exists_and_for_a_while_after(
    server: Server, worker: Worker, queue: str
) -> None:
    server.client.pause_queue(name=queue)
    server.create(queue, worker.url("taken"), "name")
    with pytest.raises(exceptions.AlreadyExists, match="Requested entity already exists"):
        server.create(queue, worker.url("taken"), "name")
    server.client.resume_queue(name=queue)
    eventually(lambda: server.stats(queue)["done"] == 1)
    with pytest.raises(exceptions.AlreadyExists, match="existed too recently"):
        server.create(queue, worker.url("taken"), "name")
    with pytest.raises(exceptions.NotFound, match="no longer exists"):
        server.client.get_task(name=f"{queue}/tasks/name")
    eventually(lambda: succeeds(lambda: server.create(queue, worker.url("taken"), "name")))
    eventually(lambda: len(worker.of("taken")) == 2)


def test_of_many_creates_of_one_name_exactly_one_succeeds(server: Server, worker: Worker, queue: str) -> None:
    def create(_: int) -> bool:
        return succeeds(lambda: server.create(queue, worker.url("raced"), "raced"))

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(create, range(64))) == 1
    eventually(lambda: server.stats(queue)["done"] == 1)
    assert len(worker.of("raced")) == 1


def test_a_task_does_not_run_before_its_time(server: Server, worker: Worker, queue: str) -> None:
    due = datetime.now(UTC) + timedelta(seconds=0.5)
    server.create(queue, worker.url("later"), schedule_time=due)
    server.create(queue, worker.url("now"))
    eventually(lambda: worker.of("later"))
    assert worker.of("later")[0].at >= due.timestamp()
    assert worker.of("now")[0].at < worker.of("later")[0].at


def test_a_call_that_cannot_be_gets_the_services_status(server: Server, worker: Worker, queue: str) -> None:
    with pytest.raises(exceptions.NotFound, match="Queue does not exist"):
        server.create(f"{LOCATION}/queues/none", worker.url("x"))
    with pytest.raises(exceptions.InvalidArgument, match="720h"):
        server.create(queue, worker.url("x"), schedule_time=datetime.now(UTC) + timedelta(days=31))
    with pytest.raises(exceptions.InvalidArgument, match="too large"):
        server.create(queue, worker.url("x"), request={"body": b"x" * 1_000_001})
    with pytest.raises(exceptions.NotFound, match="not found"):
        server.client.delete_task(name=f"{queue}/tasks/none")
    with pytest.raises(exceptions.AlreadyExists):
        server.queue(queue.rpartition("/")[2])
    with pytest.raises(exceptions.InvalidArgument, match="maxDispatchesPerSecond"):
        server.queue("too-fast", rate_limits={"max_dispatches_per_second": 501})


def test_a_token_is_signed_by_the_keys_that_are_served(server: Server, worker: Worker, queue: str) -> None:
    token = {"service_account_email": "tasks@p.iam", "audience": "https://audience"}
    server.create(queue, worker.url("signed"), request={"oidc_token": token, "headers": {"Authorization": "mine"}})
    (call,) = eventually(lambda: worker.of("signed"))
    bearer = call.headers["authorization"].removeprefix("Bearer ")
    certs = server.get("/oauth2/v1/certs")
    claims = jwt.decode(bearer, certs=certs, audience="https://audience")
    assert (claims["email"], claims["iss"]) == ("tasks@p.iam", "https://accounts.google.com")
    (key,) = server.get("/oauth2/v3/certs")["keys"]
    assert (key["kid"], key["kty"], key["alg"]) == (next(iter(certs)), "RSA", "RS256")
    with pytest.raises(ValueError, match="audience"):
        jwt.decode(bearer, certs=certs, audience="https://other")


def test_a_batch_of_creates_names_those_that_failed(server: Server, worker: Worker, queue: str) -> None:
    def request(name: str) -> dict[str, Any]:
        return {
            "parent": queue,
            "task": {"name": f"{queue}/tasks/{name}", "http_request": {"url": worker.url("batch")}},
        }

    requests = [request("a"), request("bad name"), request("b")]
    batch = {"parent": queue, "requests": requests, "request_id": "once"}
    operation = server.client.batch_create_tasks(request=batch)
    created = operation.result().tasks
    assert [task.name[-1] for task in created] == ["a", "b"]
    assert operation.metadata.state.name == "PARTIALLY_SUCCEEDED"
    assert {index: status.code for index, status in operation.metadata.failed_requests.items()} == {1: 3}
    again = server.client.batch_create_tasks(request=batch)
    assert again.operation.name == operation.operation.name
    hopeless = server.client.batch_create_tasks(request={"parent": queue, "requests": [request("a")]})
    with pytest.raises(exceptions.Aborted):
        hopeless.result()
    eventually(lambda: len(worker.of("batch")) == 2)


def test_a_deadline_that_passes_and_a_worker_that_is_away_are_no_answers(worker: Worker) -> None:
    worker.hold = threading.Event()

    async def reasons() -> list[tuple[int | None, str]]:
        urls = [worker.url("slow"), f"http://127.0.0.1:{free_port()}/", "http://in valid/"]
        specs = [Task(http_request={"url": url, "http_method": 1}, dispatch_deadline={"nanos": 10**8}) for url in urls]
        async with Dispatcher(Identity(new_private_key()), FunctionProcesses(), "") as dispatcher:
            answers = [await dispatcher.deliver(spec, Progress(0).dispatched(0)) for spec in specs]
        return [(answer.status, answer.reason) for answer in answers]

    assert asyncio.run(reasons()) == [(None, DEADLINE_EXCEEDED), (None, UNAVAILABLE), (None, UNAVAILABLE)]
    worker.hold.set()
