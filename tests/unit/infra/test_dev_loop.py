"""The loop that reloads a stack after each change: an error of one reload does not end it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from signalbox_infra.local.reloading.dev_loop import DevLoop
from signalbox_infra.local.reloading.source_errors import source_errors
from signalbox_infra.local.stack import StackError
from tests.unit.infra.test_local_command import SECONDS_MAX

CATALOGUE = """
functions:
  greeter: {folder: greeter, invoked_by: [people]}
queues: {}
"""


class ReloadedStack:
    """A stack of one function, which reloads as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folders = (folder,)
        self.reload: Callable[[], None] = lambda: None


def test_a_reload_that_fails_half_way_is_announced_and_the_next_change_reloads(tmp_path: Path) -> None:
    catalogue, folder = tmp_path / "infra" / "catalogue.yaml", tmp_path / "greeter"
    for parent in (catalogue.parent, folder):
        parent.mkdir()
    catalogue.write_text(CATALOGUE)
    stack, lines = ReloadedStack(folder), SimpleQueue[str]()

    def refused() -> None:
        raise StackError("The entry till of semaphores in the catalogue cannot be made: 500")

    stack.reload = refused
    loop = DevLoop(stack, lambda line, _: lines.put(line), catalogue)  # type: ignore[arg-type]
    loop.watch()
    loop.start()
    try:
        (folder / "main.py").write_text("ONE = 1\n")
        assert lines.get(timeout=SECONDS_MAX).startswith("reloaded only in part: The entry till of semaphores")
        stack.reload = lambda: None
        (folder / "main.py").write_text("TWO = 2\n")
        assert lines.get(timeout=SECONDS_MAX).startswith("reloaded in ")
    finally:
        loop.stop()


def test_a_check_that_takes_too_long_finds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stalled(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 30)

    monkeypatch.setattr(subprocess, "run", stalled)
    assert source_errors([tmp_path], tmp_path) == []
