"""A request that exceeds its time-out ends there, in a process of functions-framework with the deployment's settings.

Cloud Run answers 504 at the time-out and leaves the code running; Cloud Tasks then delivers the task again.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

INFRA = Path(__file__).parents[3] / "infra"
SWITCH = "THREADED_TIMEOUT_ENABLED"
TIMEOUT_SECONDS = 1
START_SECONDS = 20
CODE = """
import time

def work(request):
    delivery = request.args["delivery"]
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        with open("steps", "a") as steps:
            print(delivery, file=steps)
        time.sleep(0.02)
    return "done"
"""


def deployed_switch() -> dict[str, str]:
    """Return the switch as the catalogue's lock sets it for functions that queues call."""
    deployments = yaml.safe_load((INFRA / "catalogue.lock.yaml").read_text("utf-8"))["deployments"].values()
    [value] = {each["env"].get(SWITCH) for each in deployments if "queue" in each["callers"]}
    return {SWITCH: value}


@contextmanager
def serving(folder: Path, settings: dict[str, str]) -> Iterator[int]:
    (folder / "main.py").write_text(CODE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = (sys.executable, "-m", "functions_framework", "--target=work", "--host=127.0.0.1", f"--port={port}")
    environment = os.environ | {"THREADS": "4", "CLOUD_RUN_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS)} | settings
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def deliver(port: int, delivery: str) -> None:
    """Send a request and hang up at its time-out, as Cloud Run does."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"POST /?delivery={delivery} HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n".encode())
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.recv(1)
        except TimeoutError:
            return


def steps_after_the_redelivery(folder: Path, settings: dict[str, str]) -> int:
    """Return the number of steps of the first delivery after the first step of the second."""
    with serving(folder, settings) as port:
        deliver(port, "first")
        time.sleep(0.2)  # the shortest backoff of the queue for tasks
        deliver(port, "second")
    steps = (folder / "steps").read_text().split()
    assert steps[0] == "first"
    return steps[steps.index("second") :].count("first")


def test_a_request_that_exceeds_its_timeout_does_not_run_next_to_its_redelivery(tmp_path: Path) -> None:
    assert steps_after_the_redelivery(tmp_path, deployed_switch()) == 0


def test_without_the_switch_it_would(tmp_path: Path) -> None:
    assert steps_after_the_redelivery(tmp_path, {}) > 0


@pytest.mark.parametrize("name", [SWITCH, "CLOUD_RUN_TIMEOUT_SECONDS"])
def test_a_catalogue_cannot_set_the_switch_itself(name: str, tmp_path: Path) -> None:
    from signalbox.catalogue.catalogue_errors import CatalogueError
    from signalbox.catalogue.function_entries import Function

    (tmp_path / "main.py").write_text("")
    with pytest.raises(CatalogueError, match=f"env names {name}, a variable of the platform"):
        Function(name="desk", folder=tmp_path, invoked_by=("people",), env={name: "1"})
