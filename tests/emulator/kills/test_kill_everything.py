"""A stack is killed with all of its processes: what it has acknowledged is there when the next one starts.

Semaphores are deleted meanwhile, each with a holder and waiters. What a deletion leaves, another one finishes.

`KILLS` sets the number of kills.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Query
from signalbox.semaphores.sweep import BELOW
from signalbox_tools.local import child_processes
from signalbox_tools.local.folder.data_folder import DataFolder
from tests.emulator.polling_until import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent"),
]

KILLS = int(os.environ.get("KILLS", "2"))
SECONDS_MAX = 60.0
WRITES_MAX = 30
DELETIONS_MAX = 6
MEAL = {"table": "t", "seats": 5, "rounds": 1, "seat": 1, "meal": 1, "first": "f", "token": "1"}
EAT = {"function": "philosophers", "task": "eat", "payload": MEAL}
ROOT = Path(__file__).parents[3]
STACK = """
import pathlib, sys
from signalbox_tools.local.stack import Stack
port, folder, level = sys.argv[1:]
where = {"folder": pathlib.Path(folder), "data": pathlib.Path(folder, "data")}
with Stack(int(port), **where, store="sqlite", synchronous=level) as stack:
    print("up", flush=True)
    stack.wait()
"""


@contextmanager
def stack_of(folder: Path, port: int, level: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a stack in another process. It is killed at the end."""
    command = [sys.executable, "-c", STACK, str(port), str(folder), level]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "shared")}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


class Writer(threading.Thread):
    """Puts documents, each with a link to the same one, until the server is gone."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(daemon=True)
        self.url, self.prefix = url, name
        self.acknowledged: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=SECONDS_MAX) as http, suppress(httpx.HTTPError):
            for n in range(WRITES_MAX):
                key = f"{self.prefix}-{n}"
                http.put(f"documents/{key}", json={"n": n, "town": {"key": "town"}}).raise_for_status()
                self.acknowledged.append(key)


class Deleter(threading.Thread):
    """Makes semaphores with a holder and waiters, and deletes them, until the server is gone."""

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.url, self.prefix = url, prefix
        self.made: list[str] = []
        self.deleted: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=SECONDS_MAX) as http, suppress(httpx.HTTPError):
            for n in range(DELETIONS_MAX):
                name = f"{self.prefix}-{n}"
                self.made.append(name)
                http.put(f"semaphores/{name}", json={"permits": 1, "lease_seconds": 600}).raise_for_status()
                for wait in [{"id": "holder"}, *({"id": f"w{each}", "continuation": EAT} for each in range(3))]:
                    http.post(f"semaphore-wait/{name}", json=wait).raise_for_status()
                http.delete(f"semaphores/{name}").raise_for_status()
                self.deleted.append(name)


def kill_while_they_write(folder: Path, port: int, level: str, kill: int) -> tuple[list[str], Deleter]:
    """Kill a stack while others write; return the keys of the documents that it has acknowledged, and the deleter."""
    url = f"http://127.0.0.1:{port}/"
    deleter = Deleter(url, f"k{kill}")
    writers = [Writer(url, f"k{kill}-w{number}") for number in range(4)]

    def all_have_written() -> bool:
        return all(len(writer.acknowledged) > 3 for writer in writers) and bool(deleter.deleted)

    with stack_of(folder, port, level) as owner:
        httpx.put(f"{url}documents/town", json={"name": f"town {kill}"}, timeout=SECONDS_MAX).raise_for_status()
        for thread in (*writers, deleter):
            thread.start()
        eventually(all_have_written, SECONDS_MAX)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        for thread in (*writers, deleter):
            thread.join(SECONDS_MAX)
    eventually(lambda: not child_processes.listens(port), SECONDS_MAX)
    return [key for writer in writers for key in writer.acknowledged], deleter


def check_deletions(http: httpx.Client, data: Path, deleters: Sequence[Deleter]) -> None:
    """Check that acknowledged deletions have lasted, and that others leave nothing once they are repeated."""
    for deleter in deleters:
        answers = {name: http.delete(f"semaphores/{name}").status_code for name in deleter.made}
        assert {answers[name] for name in deleter.deleted} == {404}
        assert set(answers.values()) <= {204, 404}
        with closing(SqliteStore(DataFolder(data).store_file)) as store:
            below = [f"semaphores/{name}/{collection}" for name in deleter.made for collection in BELOW]
            eventually(lambda: not any(store.query(Query(path, limit=1)) for path in below), SECONDS_MAX)  # noqa: B023  called in this round


@pytest.mark.parametrize("level", ["NORMAL", pytest.param("FULL", marks=pytest.mark.marathon)])
def test_every_acknowledged_write_and_its_copies_survive_the_death_of_all_processes(tmp_path: Path, level: str) -> None:
    port = child_processes.free_port()
    kills = [kill_while_they_write(tmp_path, port, level, kill) for kill in range(KILLS)]
    noted = [key for keys, _ in kills for key in keys]
    url = f"http://127.0.0.1:{port}/"
    with stack_of(tmp_path, port, level), httpx.Client(base_url=url, timeout=SECONDS_MAX) as http:
        http.put("documents/town", json={"name": "last"}).raise_for_status()
        assert [http.get(f"documents/{key}").status_code for key in noted] == [200] * len(noted)
        check_deletions(http, tmp_path / "data", [deleter for _, deleter in kills])

        def current() -> int:
            found = http.get("documents", params={"where": "town.name==last", "count": "true"}).raise_for_status()
            return int(found.json()["count"])

        eventually(lambda: current() >= len(noted), SECONDS_MAX)
    assert len(noted) >= 16 * KILLS
