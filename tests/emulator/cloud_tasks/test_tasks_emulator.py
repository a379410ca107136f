"""`signalbox tasks-emulator`: Google's client by gRPC and REST, Firebase's form, the clock, the page, kept data."""

from __future__ import annotations

import base64
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from google.auth import jwt
from google.cloud import tasks_v2

from signalbox_tools.local.child_processes import free_ports
from tests.emulator.cloud_tasks.started_emulator import Emulator, started
from tests.emulator.polling_until import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

PLACE = "projects/demo-project/locations/us-central1"
QUEUE = f"{PLACE}/queues/mail"
HOUR = timedelta(hours=1)


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


def test_an_address_is_called_as_it_is_written(emulator: Emulator) -> None:
    url = f"http://127.0.0.1:{emulator.worker.port}/written/a%7Eb%2Fc%41?signed=%7e%2b+%20&of=/200"
    emulator.by_grpc().create_task(parent=QUEUE, task=task_to(url))
    assert eventually(lambda: len(emulator.worker.of("written")) == 1)
    [call] = emulator.worker.of("written")
    assert url.endswith(call.path)


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


def test_a_task_without_an_address_goes_to_the_queues_target_by_grpc_as_well(emulator: Emulator) -> None:
    before = len(emulator.worker.of("default"))
    task = tasks_v2.Task(http_request=tasks_v2.HttpRequest(body=b"by gRPC"))
    made = emulator.by_grpc().create_task(parent=QUEUE, task=task)
    assert made.http_request.url == emulator.worker.url("default")
    assert eventually(lambda: len(emulator.worker.of("default")) == before + 1)


def test_firebases_request_without_a_version_and_an_address_goes_to_the_queues_target(emulator: Emulator) -> None:
    body = base64.b64encode(b'{"data": 1}').decode()
    task = {"task": {"httpRequest": {"url": "", "body": body, "headers": {"Content-Type": "application/json"}}}}
    emulator.call("POST", f"/{QUEUE}/tasks", task)
    assert eventually(lambda: b'{"data": 1}' in [call.body for call in emulator.worker.of("default")])


def test_a_task_without_an_address_in_a_queue_without_a_target_is_refused_with_the_option(emulator: Emulator) -> None:
    emulator.call("POST", f"/v2/{PLACE}/queues", {"name": f"{PLACE}/queues/untargeted"})
    refused = httpx.post(f"{emulator.base}/{PLACE}/queues/untargeted/tasks", json={"task": {"httpRequest": {}}})
    assert refused.status_code == 400
    assert "--queue untargeted=http://" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "mask", ["rateLimits.maxDispatchesPerSecond", "rate_limits.max_dispatches_per_second", "rateLimits"]
)
def test_a_mask_is_read_as_json_and_as_protobuf_write_it(emulator: Emulator, mask: str) -> None:
    before = emulator.call("PATCH", f"/v2/{QUEUE}", {"rateLimits": {"maxDispatchesPerSecond": 400}})
    assert before["rateLimits"]["maxDispatchesPerSecond"] == 400
    changed = emulator.call(
        "PATCH",
        f"/v2/{QUEUE}?updateMask={mask}",
        {"rateLimits": {"maxDispatchesPerSecond": 500}, "retryConfig": {"maxAttempts": 3}},
    )
    assert (changed["rateLimits"]["maxDispatchesPerSecond"], changed["retryConfig"]["maxAttempts"]) == (500, 100)


@pytest.mark.parametrize("kind", ["grpc", "rest"])
def test_an_update_of_a_queue_that_does_not_exist_creates_it(emulator: Emulator, kind: str) -> None:
    client = emulator.by_grpc() if kind == "grpc" else emulator.by_rest()
    name = f"{PLACE}/queues/updated-{kind}"
    client.update_queue(queue=tasks_v2.Queue(name=name, rate_limits={"max_dispatches_per_second": 7}))
    assert client.get_queue(name=name).rate_limits.max_dispatches_per_second == 7
    client.delete_queue(name=name)


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe{", b"[" * 200_000, b'{"task":' * 20_000 + b"1" + b"}" * 20_000, b"{" + b" " * 11_000_000],
    ids=["not UTF-8", "deep list", "deep object", "more than 10 MiB"],
)
def test_a_body_that_cannot_be_read_is_the_callers_mistake(emulator: Emulator, body: bytes) -> None:
    refused = httpx.post(f"{emulator.base}/v2/{QUEUE}/tasks", content=body)
    assert (refused.status_code, refused.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "status"),
    [
        ("POST", f"/v2/{PLACE}/queues/none/tasks", {"task": {"httpRequest": {"url": "http://x"}}}, 404, "NOT_FOUND"),
        ("POST", f"/v2/{QUEUE}/tasks", {"tsk": {}}, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v2/{QUEUE}/tasks", {"task": {"httpRequest": {"url": "ftp://x"}}}, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v2/{QUEUE}:explode", {}, 501, "UNIMPLEMENTED"),
        ("POST", "/emulator/clock", {"advance_seconds": -1}, 400, "INVALID_ARGUMENT"),
        ("POST", "/emulator/clock", {"advance_seconds": 1e300}, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v2/{QUEUE}/tasks", {"task": {"httpRequest": {"body": "not base64!"}}}, 400, "INVALID_ARGUMENT"),
        ("GET", f"/v2/{QUEUE}/tasks?pageToken=x", None, 400, "INVALID_ARGUMENT"),
        ("GET", f"/v2/{PLACE}/queues?pageToken=x", None, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v2/{QUEUE}:getIamPolicy", {}, 501, "UNIMPLEMENTED"),
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
    refused = httpx.post(f"{emulator.base}/v2/{QUEUE}:purge", json={}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["status"]) == (403, "PERMISSION_DENIED")


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


def test_a_moved_clock_is_kept_with_the_tasks_that_were_created_by_it(tmp_path: Path) -> None:
    with started(tmp_path) as emulator:
        emulator.call("POST", f"/v2/{QUEUE}:pause")
        emulator.advance(24 * HOUR.total_seconds())
        emulator.by_grpc().create_task(parent=QUEUE, task=task_to(emulator.worker.url("kept")))
        emulator.kill()
        emulator.start()
        assert emulator.call("GET", "/emulator/clock")["ahead_seconds"] == 24 * HOUR.total_seconds()
        emulator.call("POST", f"/v2/{QUEUE}:resume")
        assert eventually(lambda: len(emulator.worker.of("kept")) == 1)  # due now, not in a day


def test_a_task_that_runs_while_the_clock_moves_is_delivered_once(emulator: Emulator) -> None:
    held = emulator.worker.hold = threading.Event()
    client, name = emulator.by_grpc(), f"{QUEUE}/tasks/held"
    client.create_task(parent=QUEUE, task=task_to(emulator.worker.url("held"), name=name))
    assert eventually(lambda: len(emulator.worker.of("held")) == 1)
    emulator.advance(2 * HOUR.total_seconds())
    assert client.get_task(name=name).dispatch_count == 1
    emulator.worker.hold = None
    held.set()
    assert eventually(lambda: name not in [each.name for each in client.list_tasks(parent=QUEUE)])
    assert len(emulator.worker.of("held")) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--data=taken.sqlite"], "another emulator uses this file"),
        (["--data=text.txt"], "this file is not one of the emulator's"),
        (["--port=4001", "--rest-port=4001"], "need different ports"),
        (["--chaos=lost=0.1"], "unknown fault 'lost'"),
        (
            ["--queue=a b"],
            "--queue a b: projects/demo-project/locations/us-central1/queues/a b is not a name of a queue",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_its_remedy(tmp_path: Path, options: list[str], words: str) -> None:
    (tmp_path / "text.txt").write_text("these are not tasks, " * 100)
    taken = sqlite3.connect(tmp_path / "taken.sqlite", isolation_level=None)
    taken.execute("PRAGMA locking_mode = EXCLUSIVE")
    taken.execute("BEGIN EXCLUSIVE")
    port, rest_port = free_ports(2)
    ports = [] if "--port=4001" in options else [f"--port={port}", f"--rest-port={rest_port}"]
    command = [sys.executable, "-m", "signalbox_tools", "tasks-emulator", *ports, *options]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    taken.close()
    assert refused.returncode == 2
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("taken", ["--port", "--rest-port"])
def test_a_port_that_is_taken_is_refused_with_the_option(tmp_path: Path, taken: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        [free] = free_ports(1)
        ports = {"--port": free, "--rest-port": free} | {taken: used}
        command = [sys.executable, "-m", "signalbox_tools", "tasks-emulator", *(f"{k}={v}" for k, v in ports.items())]
        refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.startswith(f"{taken} {used}: Address already in use")) == (2, True)


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


def test_the_page_shows_markup_as_text_and_that_there_are_more_tasks(tmp_path: Path, page: Page) -> None:
    markup = "<img src=x onerror=document.title='run'>"
    with started(tmp_path) as emulator:
        client, due = emulator.by_grpc(), datetime.now(UTC) + HOUR
        for number in range(51):
            client.create_task(
                parent=QUEUE, task=task_to(f"http://127.0.0.1/{number}?{markup.replace(' ', '&')}", schedule_time=due)
            )
        page.goto(emulator.base)
        page.wait_for_selector("text=there are more")
        assert (page.locator("main tr").count(), page.locator("main img").count()) == (51, 0)
        assert page.title() == "Cloud Tasks emulator"
