"""The tutorial and the README's function, followed in a copy of the project: files, test and calls."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox_tools.local import child_processes
from tests.emulator.pages.page_blocks import PROJECT, README, block, run_calls, serving

pytestmark = pytest.mark.marathon  # it sets up a clone

NOT_CLONED = (".git", ".venv", ".local", "dist", "__pycache__", ".*_cache", ".hypothesis")
PAGE = "docs/tutorial.md"
TERMINAL = "terminal.txt"
TEXT = (PROJECT / PAGE).read_text("utf-8")
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
INSERT = re.compile(r"<!-- insert: (\S+) (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
APPEND = re.compile(r"<!-- append: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
SIGNALBOX = (".venv/bin/python", "-m", "signalbox_tools")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which a reader has made the README's function and followed the tutorial."""
    folder = tmp_path_factory.mktemp("tutorial") / "clone"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*NOT_CLONED))
    (folder / ".venv").symlink_to((PROJECT / ".venv").resolve())
    for text in (README, TEXT):
        for name, content in FILE.findall(text):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        for name, heading, content in INSERT.findall(text):
            before, line, after = (folder / name).read_text().partition(f"\n{heading}\n")
            assert line
            (folder / name).write_text(before + line + content + after)
        for name, content in APPEND.findall(text):
            (folder / name).write_text((folder / name).read_text() + content)
    return folder


@pytest.fixture(scope="module")
def dev(clone: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`make dev` in that copy, on a free port."""
    port = child_processes.free_port()
    with (clone / TERMINAL).open("wb") as terminal, serving(clone, port, terminal.fileno()) as process:
        yield process, port


def test_the_tutorials_test_passes(clone: Path) -> None:
    command = block("run: tutorial test", PAGE)
    done = subprocess.run(["bash", "-c", command], cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_tutorials_calls_answer_as_it_shows(dev: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = dev
    posted, shown = block("run: tutorial calls", PAGE).split("sleep 3\n")
    assert run_calls(posted, port) == [{"batch": "paris", "photos": 2}]
    assert child_processes.wait_until(lambda: is_printed("paris", port), process, timeout_seconds=20)
    assert child_processes.wait_until(lambda: permit_is_free("press", port), process, timeout_seconds=20)
    batch, units, document, press = run_calls(shown, port)
    assert (batch["state"], batch["size"], batch["failed"]) == ("completed", 2, 0)
    assert [unit["result"]["thumbnail"] for unit in units["units"]] == ["small-seine.jpg", "small-louvre.jpg"]
    assert (document["photos"], document["printed_with_token"] > 0) == (2, True)
    assert press["free"] == 1


def test_the_readmes_function_and_the_http_pages_calls_work(dev: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = dev
    assert httpx.post(f"http://127.0.0.1:{port}/printers").status_code == 202
    assert child_processes.wait_until(lambda: permit_is_free("printer", port), process, timeout_seconds=20)
    _, wait, batch, shown = run_calls(block("run: coordination", "docs/http.md"), port)
    assert wait["acquired"] is True
    assert (batch["size"], shown["size"]) == (2, 2)
    assert child_processes.wait_until(lambda: is_printed("lisbon", port), process, timeout_seconds=20)
    assert child_processes.wait_until(lambda: permit_is_free("printer", port), process, timeout_seconds=20)


def test_the_terminal_shows_requests_tasks_events_and_what_the_functions_print(
    clone: Path, dev: tuple[subprocess.Popen[bytes], int]
) -> None:
    process, port = dev
    httpx.post(f"http://127.0.0.1:{port}/printers").raise_for_status()
    httpx.post(f"http://127.0.0.1:{port}/albums/oslo", json={"photos": ["a.jpg"]}).raise_for_status()
    wanted = (
        r"POST +/albums/oslo +202 +\d+ ms",
        r"task +albums\.thumbnail oslo/0 +204 +\d+ ms",
        r"task +albums\.print_album press +204 +\d+ ms",
        r"event +link_fan_out documents/album-oslo +200 +\d+ ms",
        r"printers │ \d+ hello",
    )
    shown = clone / TERMINAL

    def complete() -> bool:
        return all(re.search(line, shown.read_text("utf-8")) for line in wanted)

    assert child_processes.wait_until(complete, process, timeout_seconds=20), shown.read_text("utf-8")


def is_printed(album: str, port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/documents/album-{album}").status_code == 200


def permit_is_free(semaphore: str, port: int) -> bool:
    shown: dict[str, Any] = httpx.get(f"http://127.0.0.1:{port}/semaphores/{semaphore}").json()
    return bool(shown["free"] == shown["permits"])


def shown(clone: Path, command: str) -> str:
    """Return what a command prints about the stack."""
    return subprocess.run([*SIGNALBOX, command], cwd=clone, capture_output=True, text=True, check=True).stdout


def is_swept(clone: Path) -> bool:
    """Return whether the sweeper has been called: two seconds after the start of the stack."""
    return re.search(r"last sweep +\d+ s ago", shown(clone, "status")) is not None


def test_status_and_logs_show_the_running_stack(clone: Path, dev: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = dev
    httpx.post(f"http://127.0.0.1:{port}/printers").raise_for_status()
    assert child_processes.wait_until(lambda: permit_is_free("printer", port), process, timeout_seconds=20)
    assert child_processes.wait_until(lambda: is_swept(clone), process, timeout_seconds=20)
    status, logs = shown(clone, "status"), shown(clone, "logs")
    for line in (r"stack +http://127.0.0.1:\d+/", r"functions +up", r"queue tasks +\d+ waiting", r"outbox +empty"):
        assert re.search(line, status), status
    assert re.search(r"printers │ \d+ hello", logs), logs
