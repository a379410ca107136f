"""`signalbox tasks-emulator` as a process, with a worker to which it delivers."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
from google.auth.credentials import AnonymousCredentials
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport, CloudTasksRestTransport

from signalbox_tools.local.child_processes import free_ports
from tests.emulator.cloud_tasks.local_cloud_tasks import Worker, serving


class Emulator:
    """The emulator, with the queue `mail`, whose tasks without an address go to the worker."""

    def __init__(self, folder: Path, worker: Worker, *options: str) -> None:
        self.folder, self.worker, self.options = folder, worker, options
        self.port, self.rest_port = free_ports(2)
        self.base = f"http://127.0.0.1:{self.rest_port}"
        self.process: subprocess.Popen[str]

    def start(self) -> None:
        command = [sys.executable, "-m", "signalbox_tools", "tasks-emulator", f"--port={self.port}"]
        command += [f"--rest-port={self.rest_port}", f"--queue=mail={self.worker.url('default')}"]
        command += self.options
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert "REST and a page on" in self.process.stdout.readline()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        return httpx.request(method, f"{self.base}{path}", json=body, headers=headers).raise_for_status().json()

    def advance(self, seconds: float) -> None:
        self.call("POST", "/emulator/clock", {"advance_seconds": seconds})

    def by_grpc(self) -> tasks_v2.CloudTasksClient:
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        return tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))

    def by_rest(self) -> tasks_v2.CloudTasksClient:
        host = f"127.0.0.1:{self.rest_port}"
        transport = CloudTasksRestTransport(host=host, url_scheme="http", credentials=AnonymousCredentials())
        return tasks_v2.CloudTasksClient(transport=transport)


@contextmanager
def started(folder: Path, *options: str) -> Iterator[Emulator]:
    """Start the emulator with more options, and kill it at the end."""
    with serving(Worker()) as worker:
        emulator = Emulator(folder, worker, *options)
        emulator.start()
        yield emulator
        emulator.kill()
