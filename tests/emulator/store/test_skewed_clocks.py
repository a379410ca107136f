"""Clients whose clocks are an hour wrong steal nothing, lose nothing and wait in the order of their calls.

Python's `time.time` is shifted in their processes; and where the machine has libfaketime (`apt-get install faketime`),
once more the clock of all that runs in them.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.adapters.system_clock import SystemClock
from signalbox.core.ports import Ports
from signalbox.semaphores.model.semaphore import path_of
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings, views
from signalbox.testing.recorded_log import RecordedLog
from tests.emulator.store.skewed_client import NoQueue

pytestmark = pytest.mark.slow

LIBRARIES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1")
HOUR = 3_600
LEASE_SECONDS = 600
CLOCKS = {"ahead": HOUR, "right": 0, "behind": -HOUR}
VISITS = 5
SHIFTED = """\
import runpy, sys, time, types, grpc._channel
shift, real = int(sys.argv.pop(1)), time.time
# gRPC's deadlines go to a library in C, which has a clock of its own
grpc._channel.time = types.SimpleNamespace(**{**vars(time), "time": real})
time.time = lambda: real() + shift
runpy.run_module("tests.emulator.store.skewed_client", run_name="__main__", alter_sys=True)
"""


class Client:
    """A client in a separate process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def begin(self, *said: Any) -> None:
        """Call without waiting for the answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Return the answer to the last call."""
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def call(self, *said: Any) -> Any:
        self.begin(*said)
        return self.answer()


def preload() -> str:
    """Return the path of libfaketime, or nothing."""
    return next((str(path) for pattern in LIBRARIES for path in Path("/").glob(pattern[1:])), "")


def start(library: str, shift_seconds: int, *said: str) -> "subprocess.Popen[str]":
    """Start a client whose clock is so many seconds ahead, by libfaketime if its path is given."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    if not library:
        return subprocess.Popen([sys.executable, "-c", SHIFTED, str(shift_seconds), *said], **pipes)
    faked = {"LD_PRELOAD": library, "FAKETIME": f"{shift_seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    command = [sys.executable, "-m", "tests.emulator.store.skewed_client", *said]
    return subprocess.Popen(command, env=os.environ | faked, **pipes)


LIBRARY = preload()
MEANS = ["", *([pytest.param(LIBRARY, marks=pytest.mark.marathon)] if LIBRARY else [])]


@pytest.fixture(scope="module")
def project() -> str:
    return f"demo-{uuid.uuid4().hex}"


@pytest.fixture(scope="module", params=MEANS, ids=lambda library: "libfaketime" if library else "python")
def processes(request: pytest.FixtureRequest, firestore_emulator: str, project: str) -> Iterator[dict[str, Client]]:
    started = {name: start(request.param, shift, firestore_emulator, project) for name, shift in CLOCKS.items()}
    yield {name: Client(process) for name, process in started.items()}
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.fixture
def ports(firestore_emulator: str, project: str) -> Iterator[Ports]:
    with closing(FirestoreStore(project, "(default)", firestore_emulator)) as store:
        yield Ports(store, NoQueue(), SystemClock(), RecordedLog())


@pytest.fixture
def name(ports: Ports) -> str:
    name = uuid.uuid4().hex
    settings.put(ports, name, SemaphoreSettings(1, LEASE_SECONDS))
    return name


@pytest.fixture
def clients(processes: dict[str, Client], name: str) -> dict[str, Client]:
    for client in processes.values():
        client.call("use", name)
    return processes


def test_their_clocks_are_an_hour_wrong(clients: dict[str, Client]) -> None:
    now = {name: client.call("now") for name, client in clients.items()}
    assert now["ahead"] - now["right"] > HOUR / 2
    assert now["right"] - now["behind"] > HOUR / 2


def test_no_clock_steals_a_lease_or_ends_it_or_moves_its_end(
    clients: dict[str, Client], ports: Ports, name: str
) -> None:
    lease = clients["right"].call("acquire", "a")
    for wrong in (clients["ahead"], clients["behind"]):
        assert wrong.call("acquire", "of another") is None
        wrong.call("sweep")
        ends_at = datetime.fromisoformat(wrong.call("renew", lease))
        [read] = ports.store.read(path_of(name))
        assert timedelta() < ends_at - read.read_time <= timedelta(seconds=LEASE_SECONDS)
    assert clients["right"].call("signal", lease) is True
    assert clients["behind"].call("acquire", "b") is not None


def test_waiters_are_granted_permits_in_the_order_of_their_calls(
    clients: dict[str, Client], ports: Ports, name: str
) -> None:
    lease = clients["right"].call("acquire", "first")
    for caller in ("ahead", "right", "behind"):
        assert clients[caller].call("wait", f"of {caller}") is False
    granted = []
    for caller in ("behind", "ahead", "right"):
        clients[caller].call("signal", lease)
        [held] = views.get(ports, name).leases
        lease = held.lease_id
        granted.append(lease.partition("~")[0])
    assert granted == ["of ahead", "of right", "of behind"]


def test_never_two_are_inside(clients: dict[str, Client]) -> None:
    for caller, client in clients.items():
        client.begin("visits", caller, VISITS)
    assert [client.answer() for client in clients.values()] == [0, 0, 0]
