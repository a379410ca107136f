"""A process of the local Cloud Tasks with a client of it, and a worker that its tasks call."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

from signalbox_tools.local.child_processes import free_port

LOCATION = "projects/p/locations/l"
QUICK = {"min_backoff": timedelta(seconds=0.05), "max_backoff": timedelta(seconds=0.05), "max_attempts": -1}


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
        command = [
            sys.executable,
            "-m",
            "signalbox_tools.local.cloud_tasks",
            *ports,
            "--database",
            str(database),
            *options,
        ]
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
