"""`signalbox tasks-emulator`: Google's client by gRPC and REST, Firebase's form, the clock, the page, kept data."""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from google.auth import jwt
from google.auth.credentials import AnonymousCredentials
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport, CloudTasksRestTransport

from signalbox_tools.local.child_processes import free_ports
from tests.emulator.cloud_tasks.local_cloud_tasks import Worker, serving
from tests.emulator.polling_until import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

PLACE = "projects/demo-project/locations/us-central1"
QUEUE = f"{PLACE}/queues/mail"
HOUR = timedelta(hours=1)


class Emulator:
    def __init__(self, folder: Path, worker: Worker) -> None:
        self.folder, self.worker = folder, worker
        self.port, self.rest_port = free_ports(2)
        self.base = f"http://127.0.0.1:{self.rest_port}"
        self.process: subprocess.Popen[str]

    def start(self) -> None:
        command = [sys.executable, "-m", "signalbox_tools", "tasks-emulator", f"--port={self.port}"]
        command += [f"--rest-port={self.rest_port}", f"--queue=mail={self.worker.url('default')}"]
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
def started(folder: Path) -> Iterator[Emulator]:
    with serving(Worker()) as worker:
        emulator = Emulator(folder, worker)
        emulator.start()
        yield emulator
        emulator.kill()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with started(tmp_path_factory.mktemp("tasks")) as emulator:
        yield emulator


def task_to(url: str, **more: Any) -> Any:
    return {"http_request": {"url": url, "body": b"hello", **more.pop("request", {})}, **more}


@pytest.mark.parametrize("kind", ["grpc", "rest"])
def test_googles_client_creates_reads_pauses_and_delivers(emulator: Emulator, kind: str) -> None:
    client = emulator.by_grpc() if kind == "grpc" else emulator.by_rest()
    wanted = tasks_v2.Queue(name=f"{PLACE}/queues/{kind}")
    queue = client.create_queue(parent=PLACE, queue=wanted)
    assert queue.rate_limits.max_dispatches_per_second == 500
    client.pause_queue(name=queue.name)
    made = client.create_task(parent=queue.name, task=task_to(emulator.worker.url(kind, "500,200")))
    assert [each.name for each in client.list_tasks(parent=queue.name)] == [made.name]
    assert emulator.worker.of(kind) == []
    client.resume_queue(name=queue.name)
    assert eventually(lambda: len(emulator.worker.of(kind)) == 2)
    first, again = emulator.worker.of(kind)
    assert (first.body, first.headers["x-cloudtasks-taskretrycount"]) == (b"hello", "0")
    assert (again.headers["x-cloudtasks-taskretrycount"], again.headers["x-cloudtasks-taskpreviousresponse"]) == (
        "1",
        "500",
    )
    client.delete_queue(name=queue.name)


def test_a_delayed_task_is_delivered_when_the_clock_is_moved_and_not_before(emulator: Emulator) -> None:
    due = datetime.now(UTC) + 24 * HOUR
    emulator.by_grpc().create_task(parent=QUEUE, task=task_to(emulator.worker.url("later"), schedule_time=due))
    emulator.advance(HOUR.total_seconds())
    time.sleep(0.5)
    assert emulator.worker.of("later") == []
    emulator.advance(24 * HOUR.total_seconds())
    assert eventually(lambda: len(emulator.worker.of("later")) == 1)


def test_a_token_is_signed_for_the_account_and_the_audience(emulator: Emulator) -> None:
    token = {"service_account_email": "caller@demo-project.iam.gserviceaccount.com", "audience": "https://worker"}
    task = task_to(emulator.worker.url("signed"), request={"oidc_token": token})
    emulator.by_grpc().create_task(parent=QUEUE, task=task)
    assert eventually(lambda: len(emulator.worker.of("signed")) == 1)
    [call] = emulator.worker.of("signed")
    claims = jwt.decode(call.headers["authorization"].removeprefix("Bearer "), verify=False)
    assert (claims["aud"], claims["email"]) == ("https://worker", token["service_account_email"])
    [key] = emulator.call("GET", "/oauth2/v3/certs")["keys"]
    assert key["alg"] == "RS256"


def test_firebases_request_without_a_version_and_an_address_goes_to_the_queues_target(emulator: Emulator) -> None:
    body = base64.b64encode(b'{"data": 1}').decode()
    task = {"task": {"httpRequest": {"url": "", "body": body, "headers": {"Content-Type": "application/json"}}}}
    emulator.call("POST", f"/{QUEUE}/tasks", task)
    assert eventually(lambda: [call.body for call in emulator.worker.of("default")] == [b'{"data": 1}'])


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "status"),
    [
        ("POST", f"/v2/{PLACE}/queues/none/tasks", {"task": {"httpRequest": {"url": "http://x"}}}, 404, "NOT_FOUND"),
        ("POST", f"/v2/{QUEUE}/tasks", {"tsk": {}}, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v2/{QUEUE}/tasks", {"task": {"httpRequest": {"url": "ftp://x"}}}, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v2/{QUEUE}:explode", {}, 501, "UNIMPLEMENTED"),
        ("POST", "/emulator/clock", {"advance_seconds": -1}, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v2/{PLACE}/queues", {"name": QUEUE}, 409, "ALREADY_EXISTS"),
    ],
)
def test_what_is_refused_has_googles_form_of_errors(
    emulator: Emulator, method: str, path: str, body: Any, code: int, status: str
) -> None:
    refused = httpx.request(method, f"{emulator.base}{path}", json=body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["status"]) == (code, code, status)
    assert error["message"]


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
def test_pages_of_other_sites_are_refused(emulator: Emulator, headers: dict[str, str]) -> None:
    assert httpx.post(f"{emulator.base}/v2/{QUEUE}:purge", json={}, headers=headers).status_code == 403


def test_a_killed_emulator_has_lost_nothing(tmp_path: Path) -> None:
    with started(tmp_path) as emulator:
        client, due = emulator.by_grpc(), datetime.now(UTC) + HOUR
        for number in range(20):
            task = task_to(emulator.worker.url("kept"), name=f"{QUEUE}/tasks/t-{number}", schedule_time=due)
            client.create_task(parent=QUEUE, task=task)
        emulator.kill()
        emulator.start()
        assert len(list(emulator.by_grpc().list_tasks(parent=QUEUE))) == 20
        emulator.advance(2 * HOUR.total_seconds())
        assert eventually(lambda: len(emulator.worker.of("kept")) == 20)


def test_the_page_shows_a_waiting_task_and_runs_it(emulator: Emulator, page: Page) -> None:
    client, due = emulator.by_grpc(), datetime.now(UTC) + 1000 * HOUR / 2
    client.create_task(
        parent=QUEUE, task=task_to(emulator.worker.url("shown"), name=f"{QUEUE}/tasks/shown", schedule_time=due)
    )
    page.goto(emulator.base)
    row = page.locator("tr", has_text="shown")
    row.locator("button", has_text="Run now").click()
    assert eventually(lambda: len(emulator.worker.of("shown")) == 1)
    page.locator("main button", has_text="Pause").first.click()
    page.wait_for_selector("text=paused")
    page.locator("main button", has_text="Resume").first.click()
    page.wait_for_selector("text=running")
