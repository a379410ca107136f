"""The loop that reloads a stack: after a reload that failed, the next change is reloaded."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from signalbox_tools.local.reloading.dev_loop import DevLoop
from signalbox_tools.local.reloading.source_errors import source_errors
from signalbox_tools.local.stack import StackError
from tests.unit.tools.local.test_local_command import SECONDS_MAX

CATALOGUE = """
functions:
  greeter: {folder: greeter, invoked_by: [people]}
queues: {}
"""


class ReloadedStack:
    """A stack of one function. A test sets its `reload`."""

    def __init__(self, folder: Path) -> None:
        self.folders = (folder,)
        self.reload: Callable[[], None] = lambda: None


@pytest.mark.parametrize("error", [StackError("no semaphore"), OSError("the stack does not respond")])
def test_after_a_reload_that_failed_any_change_is_reloaded(tmp_path: Path, error: Exception) -> None:
    catalogue, folder = tmp_path / "infra" / "catalogue.yaml", tmp_path / "greeter"
    for parent in (catalogue.parent, folder):
        parent.mkdir()
    catalogue.write_text(CATALOGUE)
    stack, lines = ReloadedStack(folder), SimpleQueue[str]()

    def refused() -> None:
        raise error

    def line_with(text: str) -> str:
        while text not in (line := lines.get(timeout=SECONDS_MAX)):
            pass
        return line

    stack.reload = refused
    loop = DevLoop(stack, lambda line, _: lines.put(line), catalogue)  # type: ignore[arg-type]  # the loop needs no more of a stack
    loop.watch()
    loop.start()
    try:
        (folder / "main.py").write_text("ONE = 1\n")
        assert str(error) in line_with("did not finish")
        stack.reload = lambda: None
        (catalogue.parent / "other.py").write_text("IS_SERVED = False\n")
        assert line_with("infra/other.py").startswith("reloaded in ")
        catalogue.write_bytes("# café".encode("latin-1"))
        assert line_with("catalogue.yaml").startswith("reloaded in ")
        (folder / "main.py").write_text("TWO = 2\n")
        assert line_with("greeter/main.py").startswith("reloaded in ")
    finally:
        loop.stop()


def test_a_check_that_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stalled(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 30)

    monkeypatch.setattr(subprocess, "run", stalled)
    assert source_errors([tmp_path], tmp_path) == []
