"""`signalbox tasks-emulator` with Google's Node client and Firebase's task queue functions, unchanged, from npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.auth import jwt

from signalbox_tools.local.child_processes import free_ports
from tests.emulator.cloud_tasks.started_emulator import Emulator, started
from tests.emulator.polling_until import eventually
from tests.required_programs import NPM

FOLDER = Path(__file__).with_name("tasks_emulator")
FILES = ("package.json", "package-lock.json", ".npmrc")
PAGE = Path(__file__).parents[2] / "docs" / "tasks-emulator.md"
TRIED = ("@google-cloud/tasks", "firebase-admin", "firebase-functions")

if TYPE_CHECKING:
    from typing import IO


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the locked packages; return their folder. Without npm the test is skipped."""
    NPM.require()
    folder = tmp_path_factory.mktemp("npm")
    for name in FILES:
        shutil.copy(FOLDER / name, folder)
    command = ["npm", "ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.mark.marathon
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["grpc", "rest"])
def test_googles_client_calls_each_method_and_its_tasks_are_delivered(
    packages: Path, tmp_path: Path, kind: str
) -> None:
    with started(tmp_path) as emulator:
        worker = f"http://127.0.0.1:{emulator.worker.port}"
        ports = [str(emulator.port), str(emulator.rest_port)]
        command = ["node", str(FOLDER / "google_client.mjs"), str(packages), kind, *ports, worker]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        got: dict[str, Any] = json.loads(ended.stdout)
        assert eventually(lambda: len(emulator.worker.of(kind)) == 2)
        calls = emulator.worker.of(kind)
    assert (got["created"], got["updated"]) == ([500, 3], [5, 3])
    assert (got["listed"], got["paused"], got["resumed"]) == (True, "PAUSED", "RUNNING")
    assert (got["tasks"], got["pages"]) == (["deleted", "later", "now"], ["hello"] * 3)
    assert 3599 <= got["due_in"] <= 3601
    assert "already exists" in got["twice"]
    assert "no longer exists" in got["gone"]
    assert (got["purged"], got["left"], bool(got["policy"])) == (True, 0, True)
    assert {call.headers["x-cloudtasks-taskname"] for call in calls} == {"now", "later"}
    for call in calls:
        assert (call.body, call.headers["content-type"]) == (b"hello", "text/plain")
        claims = jwt.decode(call.headers["authorization"].removeprefix("Bearer "), verify=False)
        assert (claims["aud"], claims["email"]) == ("https://worker", "caller@demo-project.iam.gserviceaccount.com")


class FirebaseQueue:
    """The function `send` with its queue."""

    def __init__(self, asks: IO[str], answers: IO[str]) -> None:
        self.asks, self.answers = asks, answers

    def call(self, method: str, *given: object) -> Any:
        print(json.dumps([method, *given]), file=self.asks, flush=True)
        return self.next()

    def next(self) -> Any:
        return json.loads(self.answers.readline())


@contextmanager
def firebase(packages: Path, folder: Path) -> Iterator[tuple[Emulator, FirebaseQueue]]:
    [port] = free_ports(1)
    with started(folder, f"--queue=send=http://127.0.0.1:{port}/send") as emulator:
        process = subprocess.Popen(
            ["node", str(FOLDER / "firebase_queue.mjs"), str(packages), str(port)],
            env={**os.environ, "CLOUD_TASKS_EMULATOR_HOST": f"127.0.0.1:{emulator.rest_port}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        queue = FirebaseQueue(process.stdin, process.stdout)
        assert queue.next() == "ready"
        yield emulator, queue
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.marathon
@pytest.mark.timeout(600)
def test_firebases_function_receives_what_is_enqueued_after_its_delay_and_not_what_was_deleted(
    packages: Path, tmp_path: Path
) -> None:
    with firebase(packages, tmp_path) as (emulator, queue):
        assert queue.call("enqueue", {"n": 1}, {"id": "later", "scheduleDelaySeconds": 3600}) == "done"
        assert queue.call("enqueue", {"n": 2}, {"id": "deleted", "scheduleDelaySeconds": 3600}) == "done"
        assert queue.call("enqueue", {"n": 1}, {"id": "later"}) == "functions/task-already-exists"
        assert [queue.call("delete", "deleted"), queue.call("delete", "deleted")] == ["done", "done"]
        emulator.advance(3601)
        account = "emulated-service-acct@email.com"
        assert queue.next() == {"received": {"n": 1}, "id": "later", "account": account}
        lines = [queue.call("enqueue", {"n": 3}, {"id": "now"}), queue.next()]
        assert "done" in lines
        assert {"received": {"n": 3}, "id": "now", "account": account} in lines


def test_the_page_names_the_versions_that_were_tried() -> None:
    versions = json.loads((FOLDER / "package.json").read_text("utf-8"))["dependencies"]
    page = PAGE.read_text("utf-8")
    assert [name for name in TRIED if f"{name} {versions[name]}" not in page] == []


def test_the_lock_says_what_is_installed_and_not_from_where() -> None:
    locked = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("integrity" in each and "resolved" not in each for path, each in locked.items() if path)
