"""Start a command as a terminal does, and end it whatever happens: `make dev` in a test leaves no stack behind.

A shell makes the commands that it starts in the background ignore SIGINT, and so does each process that they start. So
a test that sends SIGINT would wait in vain, and leave its processes behind.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from signalbox_tools.local.child_processes import kill

GRACE_SECONDS = 30


@contextmanager
def started(
    command: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    output: int = subprocess.DEVNULL,
    errors: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a separate process group, which SIGINT interrupts, until the context ends.

    Then the group gets SIGINT, and SIGKILL as soon as the command has ended or `GRACE_SECONDS` are over.
    """
    with default_interrupts():
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    with process:
        try:
            yield process
        finally:
            try:
                interrupt(process)
            finally:
                kill(process)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Send SIGINT to a command that was `started`, as Ctrl-C does, and wait until it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(GRACE_SECONDS)


@contextmanager
def default_interrupts() -> Iterator[None]:
    """Let the processes that are started in the context be interrupted, also if this process ignores SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("only the main thread can set how processes handle a signal")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
