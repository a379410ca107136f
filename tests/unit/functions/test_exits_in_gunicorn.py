"""Code that would end its process, in a worker of gunicorn with threads, as it serves functions in the cloud."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from signalbox.core.effects import Effect, TaskEnvelope

ROOT = Path(__file__).parents[3]

MAIN = """
import asyncio, os, sys
from signalbox import Function, Request, Response

app = Function("exits")

def leave(how):
    if how == "exit":
        sys.exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    raise asyncio.CancelledError

@app.task
def work(how: str) -> None:
    leave(how)

@app.http("GET", "/pid")
def pid(request: Request) -> int:
    return os.getpid()

@app.http("GET", "/leave/{how}")
def route(request: Request, how: str) -> None:
    leave(how)

@app.object
class Till:
    coins: int = 0

    def add(self, how: str) -> None:
        leave(how)

exits = app.entry_point()
"""

SERVED = """
from pathlib import Path
from signalbox.testing import Harness

harness = Harness().__enter__()
harness.load(Path(__file__).parent / "exits")
application = harness.functions.app("exits")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Serve a function with one worker; yield its port."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "exits").mkdir()
    (folder / "exits" / "main.py").write_text(MAIN)
    (folder / "served.py").write_text(SERVED)
    listening = socket.create_server(("127.0.0.1", 0))
    bind = f"--bind=fd://{listening.fileno()}"
    command = (sys.executable, "-m", "gunicorn", bind, "--workers=1", "--threads=4", "served:application")
    path = os.pathsep.join([str(folder), str(ROOT / "shared")])
    fds, quiet = (listening.fileno(),), subprocess.DEVNULL
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": path}, pass_fds=fds, stdout=quiet, stderr=quiet
    ) as process:
        yield listening.getsockname()[1]
        process.terminate()
    listening.close()


def answer(port: int, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "interrupt", "cancelled"])
def test_code_that_raises_an_exit_is_answered_with_500_by_a_worker_that_goes_on(server: int, how: str) -> None:
    before = answer(server, "GET", "/pid")
    task = Effect(f"id-{how}", "tasks", "exits", "work", {"how": how}, path="/tasks/work")
    assert answer(server, "POST", "/tasks/work", TaskEnvelope.of(task).to_json())[0] == 500
    assert answer(server, "GET", f"/leave/{how}")[0] == 500
    status, failed = answer(server, "POST", "/objects/Till/a/add", {"how": how})
    assert (status, json.loads(failed)["type"]) == (500, "urn:signalbox:problem:method-failed")
    assert answer(server, "GET", "/pid") == before
