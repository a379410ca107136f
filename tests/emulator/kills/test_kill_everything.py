"""A stack is killed with all of its processes: what it has acknowledged is there when the next one starts.

`KILLS` sets the number of kills.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from signalbox_tools.local import child_processes
from tests.emulator.polling_until import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent"),
]

KILLS = int(os.environ.get("KILLS", "2"))
SECONDS_MAX = 60.0
WRITES_MAX = 30
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


def kill_while_they_write(folder: Path, port: int, level: str, kill: int) -> list[str]:
    """Kill a stack while others write; return the keys of the documents that it has acknowledged."""
    url = f"http://127.0.0.1:{port}/"
    writers = [Writer(url, f"k{kill}-w{number}") for number in range(4)]

    def all_have_written() -> bool:
        return all(len(writer.acknowledged) > 3 for writer in writers)

    with stack_of(folder, port, level) as owner:
        httpx.put(f"{url}documents/town", json={"name": f"town {kill}"}, timeout=SECONDS_MAX).raise_for_status()
        for writer in writers:
            writer.start()
        eventually(all_have_written, SECONDS_MAX)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        for writer in writers:
            writer.join(SECONDS_MAX)
    eventually(lambda: not child_processes.listens(port), SECONDS_MAX)
    return [key for writer in writers for key in writer.acknowledged]


@pytest.mark.parametrize("level", ["NORMAL", pytest.param("FULL", marks=pytest.mark.marathon)])
def test_every_acknowledged_write_and_its_copies_survive_the_death_of_all_processes(tmp_path: Path, level: str) -> None:
    port = child_processes.free_port()
    noted = [key for kill in range(KILLS) for key in kill_while_they_write(tmp_path, port, level, kill)]
    url = f"http://127.0.0.1:{port}/"
    with stack_of(tmp_path, port, level), httpx.Client(base_url=url, timeout=SECONDS_MAX) as http:
        http.put("documents/town", json={"name": "last"}).raise_for_status()
        assert [http.get(f"documents/{key}").status_code for key in noted] == [200] * len(noted)

        def current() -> int:
            found = http.get("documents", params={"where": "town.name==last", "count": "true"}).raise_for_status()
            return int(found.json()["count"])

        eventually(lambda: current() >= len(noted), SECONDS_MAX)
    assert len(noted) >= 16 * KILLS
