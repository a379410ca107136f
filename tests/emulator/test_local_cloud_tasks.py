"""The local Cloud Tasks as callers and workers see it: the official client, a real worker, a real process to kill."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.auth import jwt
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

from infra.local.cloud_tasks.dispatcher import Dispatcher
from infra.local.cloud_tasks.identity import Identity, new_private_key
from infra.local.cloud_tasks.messages import Task
from infra.local.cloud_tasks.progress import DEADLINE_EXCEEDED, UNAVAILABLE, Progress

LOCATION = "projects/p/locations/l"
QUICK = {"min_backoff": timedelta(seconds=0.05), "max_backoff": timedelta(seconds=0.05), "max_attempts": -1}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(check: Callable[[], Any], seconds: float = 10) -> Any:
    """Wait until a check returns a true value, and return that."""
    until = time.monotonic() + seconds
    while not (result := check()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)
    return result


def succeeds(create: Callable[[], object]) -> bool:
    """Create a task, and tell whether its name was free."""
    try:
        create()
    except exceptions.AlreadyExists:
        return False
    return True


@dataclass(frozen=True)
class Call:
    """A request that the worker got; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class Worker:
    """An HTTP server that answers `/NAME/500,404,200` with each of the statuses in turn, and then with the last."""

    port: int = 0
    calls: list[Call] = field(default_factory=list)
    answer_headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event | None = None
    parallel: int = 0
    parallel_max: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, name: str, statuses: str = "200") -> str:
        return f"http://127.0.0.1:{self.port}/{name}/{statuses}"

    def of(self, name: str) -> list[Call]:
        return [call for call in list(self.calls) if call.path.startswith(f"/{name}/")]

    def take(self, call: Call) -> int:
        with self.lock:
            earlier = sum(other.path == call.path for other in self.calls)
            self.calls.append(call)
            self.parallel += 1
            self.parallel_max = max(self.parallel, self.parallel_max)
        if self.hold is not None:
            self.hold.wait(10)
        with self.lock:
            self.parallel -= 1
        statuses = call.path.rsplit("/", 1)[1].split(",")
        return int(statuses[min(earlier, len(statuses) - 1)])


@contextmanager
def serving(worker: Worker) -> Iterator[Worker]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(worker.take(Call(self.command, self.path, headers, body, time.time())))
            for name, value in ({"Content-Length": "0"} | worker.answer_headers).items():
                self.send_header(name, value)
            self.end_headers()

        do_POST = do_PUT = do_GET = answer  # noqa: N815  the names are the library's

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", worker.port), Handler)
    server.daemon_threads = True
    worker.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield worker
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Server:
    """A process of the local Cloud Tasks, with a client of it."""

    def __init__(self, database: Path, *options: str) -> None:
        self.database, self.port, self.keys_port = database, free_port(), free_port()
        ports = ["--port", str(self.port), "--keys-port", str(self.keys_port)]
        command = [sys.executable, "-m", "infra.local.cloud_tasks", *ports, "--database", str(database), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.client = tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=self.channel))

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.keys_port}{path}", timeout=5) as answer:
            return json.load(answer)

    def stats(self, queue: str) -> dict[str, int]:
        numbers: dict[str, int] = self.get("/stats")[queue]
        return numbers

    def queue(self, name: str, **settings: Any) -> str:
        queue = {"name": f"{LOCATION}/queues/{name}", "retry_config": QUICK} | settings
        return str(self.client.create_queue(parent=LOCATION, queue=tasks_v2.Queue(queue)).name)

    def create(self, queue: str, url: str, name: str = "", **fields: Any) -> tasks_v2.Task:
        request = {"url": url} | fields.pop("request", {})
        task = {"http_request": request} | ({"name": f"{queue}/tasks/{name}"} if name else {}) | fields
        return self.client.create_task(parent=queue, task=tasks_v2.Task(task), timeout=5)

    def names(self, queue: str) -> set[str]:
        return {task.name.rpartition("/")[2] for task in self.client.list_tasks(parent=queue)}

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(10)
        self.channel.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def running(database: Path, *options: str) -> Iterator[Server]:
    server = Server(database, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("tasks") / "tasks.db", "--tombstone-seconds", "2") as server:
        yield server


@pytest.fixture
def worker() -> Iterator[Worker]:
    with serving(Worker()) as worker:
        yield worker


@pytest.fixture
def queue(server: Server, request: pytest.FixtureRequest) -> str:
    return server.queue("q-" + request.node.name.replace("_", "-").strip("[]")[:90])


def test_a_task_is_delivered_as_it_was_given(server: Server, worker: Worker, queue: str) -> None:
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


def test_a_failed_task_comes_again_with_its_counts(server: Server, worker: Worker, queue: str) -> None:
    server.create(queue, worker.url("failing", "500,404,302,200"))
    calls = eventually(lambda: len(worker.of("failing")) == 4 and worker.of("failing"))
    counts = [(c.headers["x-cloudtasks-taskretrycount"], c.headers["x-cloudtasks-taskexecutioncount"]) for c in calls]
    assert counts == [("0", "0"), ("1", "1"), ("2", "2"), ("3", "3")]
    previous = [call.headers.get("x-cloudtasks-taskpreviousresponse") for call in calls]
    assert previous == [None, "500", "404", "302"]
    assert calls[1].headers["x-cloudtasks-taskretryreason"] == "HTTP status code 500"


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


def test_a_name_is_taken_while_its_task_lives_and_for_a_while_after(server: Server, worker: Worker, queue: str) -> None:
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


def test_tasks_are_listed_in_pages_and_bodies_shown_only_when_asked_for(
    server: Server, worker: Worker, queue: str
) -> None:
    server.client.pause_queue(name=queue)
    for number in range(5):
        server.create(queue, worker.url("listed"), f"t{number}", request={"body": b"secret"})
    pages = list(server.client.list_tasks(request={"parent": queue, "page_size": 2}).pages)
    assert [[task.name[-2:] for task in page.tasks] for page in pages] == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert pages[0].tasks[0].http_request.body == b""
    full = server.client.get_task(request={"name": f"{queue}/tasks/t0", "response_view": "FULL"})
    assert full.http_request.body == b"secret"


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


def test_a_worker_that_pushes_back_is_left_alone_as_long_as_it_says(server: Server, worker: Worker, queue: str) -> None:
    worker.answer_headers = {"Retry-After": "1"}
    server.create(queue, worker.url("busy", "503,200"))
    first, second = eventually(lambda: len(worker.of("busy")) == 2 and worker.of("busy"))
    assert second.at - first.at >= 0.9


def test_a_token_is_signed_by_the_keys_that_are_served(server: Server, worker: Worker, queue: str) -> None:
    token = {"service_account_email": "tasks@p.iam", "audience": "https://audience"}
    server.create(queue, worker.url("signed"), request={"oidc_token": token, "headers": {"Authorization": "mine"}})
    (call,) = eventually(lambda: worker.of("signed"))
    bearer = call.headers["authorization"].removeprefix("Bearer ")
    certs = server.get("/oauth2/v1/certs")
    claims = jwt.decode(bearer, certs=certs, audience="https://audience")  # type: ignore[no-untyped-call]
    assert (claims["email"], claims["iss"]) == ("tasks@p.iam", "https://accounts.google.com")
    (key,) = server.get("/oauth2/v3/certs")["keys"]
    assert (key["kid"], key["kty"], key["alg"]) == (next(iter(certs)), "RSA", "RS256")
    with pytest.raises(ValueError, match="audience"):
        jwt.decode(bearer, certs=certs, audience="https://other")  # type: ignore[no-untyped-call]


def test_a_batch_of_creates_says_which_of_them_failed(server: Server, worker: Worker, queue: str) -> None:
    def request(name: str) -> dict[str, Any]:
        return {
            "parent": queue,
            "task": {"name": f"{queue}/tasks/{name}", "http_request": {"url": worker.url("batch")}},
        }

    requests = [request("a"), request("bad name"), request("b")]
    batch = {"parent": queue, "requests": requests, "request_id": "once"}
    operation = server.client.batch_create_tasks(request=batch)
    created = operation.result().tasks  # type: ignore[no-untyped-call]
    assert [task.name[-1] for task in created] == ["a", "b"]
    assert operation.metadata.state.name == "PARTIALLY_SUCCEEDED"
    assert {index: status.code for index, status in operation.metadata.failed_requests.items()} == {1: 3}
    again = server.client.batch_create_tasks(request=batch)
    assert again.operation.name == operation.operation.name
    hopeless = server.client.batch_create_tasks(request={"parent": queue, "requests": [request("a")]})
    with pytest.raises(exceptions.Aborted):
        hopeless.result()  # type: ignore[no-untyped-call]
    eventually(lambda: len(worker.of("batch")) == 2)


def test_a_deadline_that_passes_and_a_worker_that_is_away_are_no_answers(worker: Worker) -> None:
    worker.hold = threading.Event()

    async def reasons() -> list[tuple[int | None, str]]:
        urls = [worker.url("slow"), f"http://127.0.0.1:{free_port()}/", "http://in valid/"]
        specs = [Task(http_request={"url": url, "http_method": 1}, dispatch_deadline={"nanos": 10**8}) for url in urls]
        async with Dispatcher(Identity(new_private_key())) as dispatcher:
            answers = [await dispatcher.deliver(spec, Progress(0).dispatched(0)) for spec in specs]
        return [(answer.status, answer.reason) for answer in answers]

    assert asyncio.run(reasons()) == [(None, DEADLINE_EXCEEDED), (None, UNAVAILABLE), (None, UNAVAILABLE)]
    worker.hold.set()


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, worker: Worker) -> None:
    database = tmp_path / "tasks.db"
    with running(database) as server:
        queue, paused = server.queue("working"), server.queue("paused")
        server.create(queue, worker.url("done"), "done")
        server.create(queue, worker.url("failing", "500,500,500,200"), "failing", retry_config=SLOW)
        server.client.pause_queue(name=paused)
        server.create(paused, worker.url("kept"), "kept")
        eventually(lambda: server.stats(queue)["done"] == 1 and len(worker.of("failing")) == 1)
        eventually(lambda: server.client.get_task(name=f"{queue}/tasks/failing").response_count == 1)
        keys = server.get("/oauth2/v3/certs")
        server.create(queue, worker.url("last"), "last")  # its commit takes the counts before it to the disk
        server.end(signal.SIGKILL)
    with running(database) as server:
        assert server.names(paused) == {"kept"}
        with pytest.raises(exceptions.AlreadyExists, match="existed too recently"):
            server.create(queue, worker.url("done"), "done")
        failing = eventually(lambda: len(worker.of("failing")) >= 2 and worker.of("failing")[1])
        assert failing.headers["x-cloudtasks-taskretrycount"] == "1"
        assert failing.headers["x-cloudtasks-taskexecutioncount"] == "1"
        assert server.get("/oauth2/v3/certs") == keys
        assert server.client.get_queue(name=paused).state.name == "PAUSED"
        server.client.resume_queue(name=paused)
        eventually(lambda: worker.of("kept"))


SLOW = {"min_backoff": timedelta(seconds=1), "max_backoff": timedelta(seconds=1), "max_attempts": -1}


def test_no_task_is_lost_when_the_server_is_killed_amid_creates(tmp_path: Path, worker: Worker) -> None:
    database = tmp_path / "tasks.db"
    acknowledged: set[str] = set()
    with running(database) as server:
        queue = server.queue("killed")
        server.client.pause_queue(name=queue)

        def create(thread: int) -> None:
            for number in range(10_000):
                name = f"t{thread}-{number}"
                try:
                    server.create(queue, worker.url("amid"), name)
                except (exceptions.GoogleAPICallError, ValueError):  # ValueError: the channel is closed
                    return
                acknowledged.add(name)

        with ThreadPoolExecutor(8) as threads:
            creators = [threads.submit(create, thread) for thread in range(8)]
            eventually(lambda: len(acknowledged) >= 200)
            os.kill(server.process.pid, signal.SIGKILL)
            for creator in creators:
                creator.result(10)
    with running(database) as server:
        names = server.names(queue)
        assert acknowledged <= names
        assert len(names) <= len(acknowledged) + 8


def test_sigterm_ends_it_at_once_and_what_was_running_runs_again(tmp_path: Path, worker: Worker) -> None:
    queues = json.dumps({f"{LOCATION}/queues/q": settings(10)})
    queue, worker.hold = f"{LOCATION}/queues/q", threading.Event()
    with running(tmp_path / "tasks.db", "--queues", queues) as server:
        server.create(queue, worker.url("broken-off"), "t")
        eventually(lambda: worker.of("broken-off"))
        began = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - began < 5
    worker.hold.set()
    (tmp_path / "queues.json").write_text(json.dumps({queue: settings(20)}))
    with running(tmp_path / "tasks.db", "--queues", str(tmp_path / "queues.json")) as server:
        eventually(lambda: server.stats(queue)["done"] == 1)
        assert len(worker.of("broken-off")) == 2
        assert server.client.get_queue(name=queue).rate_limits.max_dispatches_per_second == 20


def settings(rate: float) -> dict[str, float]:
    backoff = {"backoff_min_seconds": 0.2, "backoff_max_seconds": 60, "doublings_max": 8}
    return {"dispatches_per_second": rate, "concurrent_max": 8, "attempts_max": -1} | backoff


def test_a_second_server_on_the_same_file_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "tasks.db") as server:
        command = [sys.executable, "-m", "infra.local.cloud_tasks", "--port", str(free_port())]
        second = subprocess.run(
            [*command, "--database", str(server.database)], capture_output=True, text=True, check=False, timeout=20
        )
        assert second.returncode != 0
        assert "database is locked" in second.stderr


def test_faults_on_demand_repeat_tasks_and_lose_answers_but_lose_no_task(tmp_path: Path, worker: Worker) -> None:
    faults = "twice=0.3,reorder=0.3,lose_answers=0.3,seed=7"
    with running(tmp_path / "tasks.db", "--chaos", faults) as server:
        queue, lost = server.queue("faulty"), 0
        for number in range(60):
            try:
                server.create(queue, worker.url("faulty"), f"t{number}")
            except exceptions.ServiceUnavailable:
                lost += 1
        eventually(lambda: server.stats(queue)["done"] == 60 and server.stats(queue)["running"] == 0)
    times = Counter(call.headers["x-cloudtasks-taskname"] for call in worker.of("faulty"))
    assert set(times) == {f"t{number}" for number in range(60)}
    assert 5 <= lost <= 35
    retried = [c for c in worker.of("faulty") if c.headers["x-cloudtasks-taskretrycount"] != "0"]
    assert len(retried) > 5
    assert len(worker.of("faulty")) > 60 + len(retried)
