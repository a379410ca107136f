"""A command that a test starts is interrupted by SIGINT, and ends with its test, whatever happens."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import started_commands
from tests.emulator.polling_until import eventually
from tests.started_commands import interrupt, started

STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True)"
SLEEP = "time.sleep(60)"


@pytest.fixture(params=[signal.SIG_IGN, signal.default_int_handler])
def _handled_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ignore SIGINT in this process, as in a suite that a shell runs in the background; or do not."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    assert signal.getsignal(signal.SIGINT) == request.param
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_handled_here")
def test_sigint_ends_a_command_also_if_the_suite_ignores_it(tmp_path: Path) -> None:
    with started(
        (sys.executable, "-c", f"import time; print('ready', flush=True); {SLEEP}"), *with_output(tmp_path)
    ) as it:
        is_ready(it)
        interrupt(it)
    assert it.returncode == -signal.SIGINT


@pytest.mark.usefixtures("_handled_here")
def test_a_command_ends_with_a_test_that_fails(tmp_path: Path) -> None:
    def fail(process: subprocess.Popen[bytes]) -> None:
        is_ready(process)
        raise KeyError("the test's")

    with (
        pytest.raises(KeyError, match="the test's"),
        started(("sh", "-c", "echo ready; sleep 60 & exec sleep 60"), *with_output(tmp_path)) as process,
    ):
        fail(process)
    eventually(lambda: not group_lives(process))


def test_a_command_that_ignores_sigint_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started_commands, "GRACE_SECONDS", 0.1)
    with (
        pytest.raises(subprocess.TimeoutExpired),
        started((sys.executable, "-c", f"{STUBBORN}; {SLEEP}"), *with_output(tmp_path)) as process,
    ):
        is_ready(process)
    assert process.returncode == -signal.SIGKILL


def with_output(folder: Path) -> tuple[Path, None, int]:
    return folder, None, subprocess.PIPE


def is_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"


def group_lives(process: subprocess.Popen[bytes]) -> bool:
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    stats = (path.read_text().rpartition(") ")[2].split() for path in Path("/proc").glob("[0-9]*/stat"))
    return any(int(fields[2]) == process.pid and fields[0] != "Z" for fields in stats)
