"""`semaphores run`: a command that runs while a lease is held, and no longer.

Signals are handled before the lease is asked for: one that arrives until the command runs ends the wait, and releases
what was granted; later ones go to the command and its children. While the lease is released, which may be retried for
a minute, the first one waits for the release, and a second one ends it. The command's process group ends with this
process, however this process ends (`command_guard`).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from signalbox_tools.cli.command_guard import PASSED_ON, SIGNALLED, is_ignored
from signalbox_tools.terminal_text import visible_lines

if TYPE_CHECKING:
    from signalbox.client.blocking.semaphores import HeldLease, Semaphore

LOOK_SECONDS = 0.5
"""The interval at which it is checked whether the lease is lost."""

QUIET_SECONDS = 1.0
"""A wait that takes longer is reported."""

GUARD = str(Path(__file__).resolve().with_name("command_guard.py"))

# Exit statuses, as far as they exist those of a shell and of `timeout`.
NO_SEMAPHORE = 123
NO_PERMIT = 124
LEASE_LOST = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127


class _Interrupted(BaseException):
    """A signal arrived before the command was started."""

    def __init__(self, number: int) -> None:
        self.number = number


class LeasedCommand:
    """A command, and the signals that it receives in place of this process."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._lease: HeldLease | None = None
        self._is_starting = False
        self._is_releasing = False
        self._kept: list[int] = []

    def run(self, semaphore: "Semaphore", timeout: float, permits: int, lease_seconds: float | None) -> int:
        """Run the command under a lease, and return the exit status, which is one of the above or the command's."""
        from signalbox.client import ApiError, LeaseLost, NotFound
        from signalbox.client.identity import NoIdentity

        if status := _refusal(self._command[0]):
            return status
        before = {number: signal.signal(number, self._receive) for number in PASSED_ON if not is_ignored(number)}
        # If it is ignored, the system keeps no child's exit status.
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            with (
                _reported(f"Waiting for {permits} permit{'s' if permits > 1 else ''} of {semaphore.name}.") as report,
                semaphore.lease(timeout, permits=permits, lease_seconds=lease_seconds) as lease,
            ):
                report.cancel()
                self._lease = lease
                try:
                    self._status = self._run_under(lease)
                finally:
                    self._is_releasing = True
        except _Interrupted as interrupt:
            return self._interrupted(interrupt.number)
        except TimeoutError as error:
            return _ended(str(error), NO_PERMIT)
        except LeaseLost as error:
            return _ended(str(error), LEASE_LOST)
        except NotFound as error:
            return _ended(str(error), NO_SEMAPHORE if self._process is None else LEASE_LOST)
        except (ApiError, NoIdentity) as error:
            if self._status is None:
                raise
            return _ended(f"The lease was not released, and ends by itself: {error}", self._status)
        else:
            return self._status
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupted(self, number: int) -> int:
        """Return the exit status after a signal that did not go to the command."""
        name = signal.Signals(number).name
        if self._process is None:
            return _ended(f"Stopped by {name}.", SIGNALLED + number)
        status = LEASE_LOST if self._status is None else self._status
        if self._lease is not None and self._lease.is_released:
            return status
        return _ended(f"Stopped by {name}: the lease may not be released, and ends by itself.", status)

    def _receive(self, number: int, _: object) -> None:
        if self._is_starting:
            self._kept.append(number)
        elif self._process is None or self._is_releasing:
            raise _Interrupted(number)
        elif self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it ended, and its status is being read
                os.killpg(self._process.pid, number)

    def _run_under(self, lease: "HeldLease") -> int:
        """Run the command until it ends or the lease is lost. At the end, whatever ends it, its group has ended."""
        reading, writing = os.pipe()
        try:
            self._is_starting = True
            self._process = self._started(reading, {**os.environ, "SIGNALBOX_TOKEN": str(lease.token)})
            self._is_starting = False
            for number in self._kept:
                self._receive(number, None)
            return self._waited(self._process, lease)
        finally:
            os.close(writing)  # if the command still runs, the guard ends its group
            if self._process is not None:
                self._process.wait()
                _take_terminal_back(self._process.pid)

    def _started(self, reading: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        guarded = [sys.executable, "-I", "-S", GUARD, str(reading), *self._command]
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # the guard begins with them blocked
        try:
            return subprocess.Popen(guarded, env=environment, pass_fds=[reading], process_group=0)  # noqa: S603 (the user's own command)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
            os.close(reading)

    def _waited(self, process: subprocess.Popen[bytes], lease: "HeldLease") -> int:
        while True:
            try:
                status = process.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                lease.check()
                continue
            if status < 0:  # the guard was killed, and its group has no other
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return SIGNALLED - status
            return status


def _refusal(program: str) -> int:
    """Return the exit status for a program that cannot be run, or 0, before a permit is taken for it."""
    if shutil.which(program):
        return 0
    if shutil.which(program, os.F_OK):
        return _ended(f"{program} is not executable.", NOT_EXECUTABLE)
    return _ended(f"There is no program {program}.", NOT_FOUND)


def _ended(reason: str, status: int) -> int:
    click.echo(visible_lines(reason), err=True)
    return status


@contextlib.contextmanager
def _reported(waiting: str) -> Iterator[threading.Timer]:
    """Print what is waited for, unless the timer that is returned is cancelled before."""
    timer = threading.Timer(QUIET_SECONDS, click.echo, [visible_lines(waiting)], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()


def _take_terminal_back(group: int) -> None:
    """Make this process's group the terminal's foreground again, if the command's group was."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with Path("/dev/tty").open("rb", buffering=0) as terminal:
            if os.tcgetpgrp(terminal.fileno()) == group:
                os.tcsetpgrp(terminal.fileno(), os.getpgrp())
    except OSError:
        pass  # there is no terminal
    finally:
        signal.signal(signal.SIGTTOU, before)
