"""Run the programs that a deployment needs: `terraform` and `gcloud`, from the PATH.

Everything else in this package takes a `Run`, so that a test can replace them. A missing program has the status 127, as
in a shell.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

NOT_FOUND = 127


class CommandFailed(Exception):
    """A program ended with an error. The message is its output."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A program's exit status and output: `text` from standard output, `error` from standard error."""

    status: int
    text: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.status == 0


class Run(Protocol):
    def __call__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        watch: Callable[[str], None] | None = None,
    ) -> Outcome:
        """Run a command in a folder, with these variables added to the environment; `watch` gets each line."""


def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[str], None] | None = None,
) -> Outcome:
    """Run a program from the PATH.

    If there is a `watch`, it gets each line as it arrives, and `text` has both outputs.
    """
    errors = subprocess.STDOUT if watch else subprocess.PIPE
    try:
        process = subprocess.Popen(  # noqa: S603  the program is ours to choose, and no shell reads its arguments
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    except FileNotFoundError:
        return Outcome(NOT_FOUND, error=f"{command[0]}: not found")
    with process:
        if not watch:
            text, error = process.communicate()
            return Outcome(process.returncode, text, error)
        with _left_to_the_program():
            text = _watched(process, watch)
            process.wait()
    return Outcome(process.returncode, text)


@contextmanager
def _left_to_the_program() -> Iterator[None]:
    """Leave Ctrl-C to the program, which saves its state and exits; then raise `KeyboardInterrupt`.

    The program does not inherit a handler of ours; it would inherit an ignored signal.
    """
    interrupted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM, which a cancelled build sends, like Ctrl-C: the command cleans up and ends."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _watched(process: subprocess.Popen[str], watch: Callable[[str], None]) -> str:
    """Pass on each line as it arrives, and return them all."""
    lines = []
    for line in process.stdout or ():
        watch(line)
        lines.append(line)
    return "".join(lines)
