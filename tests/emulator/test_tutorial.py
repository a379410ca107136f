"""The tutorial, followed in a copy of the project: its files, its test and its calls."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.local import processes
from tests.emulator.pages import PROJECT, block, run_calls, serving

NOT_CLONED = (".git", ".venv", ".local", "dist", "__pycache__", ".*_cache", ".hypothesis")
PAGE = "docs/tutorial.md"
TEXT = (PROJECT / PAGE).read_text("utf-8")
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
INSERT = re.compile(r"<!-- insert: (\S+) (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which a reader has created and changed the tutorial's files."""
    folder = tmp_path_factory.mktemp("tutorial") / "clone"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*NOT_CLONED))
    (folder / ".venv").symlink_to((PROJECT / ".venv").resolve())
    for name, content in FILE.findall(TEXT):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    for name, heading, content in INSERT.findall(TEXT):
        before, line, after = (folder / name).read_text().partition(f"\n{heading}\n")
        assert line
        (folder / name).write_text(before + line + content + after)
    return folder


def test_the_tutorials_test_passes(clone: Path) -> None:
    command = block("run: tutorial test", PAGE)
    done = subprocess.run(["bash", "-c", command], cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_tutorials_calls_answer_as_it_shows(clone: Path) -> None:
    port = processes.free_port()
    with serving(clone, port) as process:
        calls = block("run: tutorial calls", PAGE)
        posted, shown = calls.split("sleep 3\n")
        assert run_calls(posted, port) == [{"batch": "paris", "photos": 2}]
        album = f"http://127.0.0.1:{port}/documents/album-paris"
        assert processes.wait_until(lambda: httpx.get(album).status_code == 200, process, timeout_seconds=20)
        assert processes.wait_until(lambda: permit_is_free(port), process, timeout_seconds=20)
        batch, units, document, press = run_calls(shown, port)
        assert (batch["state"], batch["size"], batch["failed"]) == ("completed", 2, 0)
        assert [unit["result"]["thumbnail"] for unit in units["units"]] == ["small-seine.jpg", "small-louvre.jpg"]
        assert (document["photos"], document["printed_with_token"] > 0) == (2, True)
        assert press["free"] == 1


def permit_is_free(port: int) -> bool:
    shown: dict[str, Any] = httpx.get(f"http://127.0.0.1:{port}/semaphores/press").json()
    return bool(shown["free"] == shown["permits"])
