"""Supervise the services of the local stack: start them, wait until they are ready, restart those that die.

One thread does all of it, because on Linux a child ends with the thread that started it: so even SIGKILL of this
process ends the services. A service that dies `DEATHS_MAX` times within `DEATHS_SECONDS`, or `FALSE_STARTS_MAX` times
without having been ready in between, ends the whole stack with the end of its log.
"""

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from infra.local import processes

READY_SECONDS_MAX = 60
CHECK_SECONDS = 0.03
DEATHS_MAX = 10
DEATHS_SECONDS = 30
FALSE_STARTS_MAX = 3
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 2.0
ROOT = Path(__file__).resolve().parents[2]

log = logging.getLogger("signalbox")


class StackError(Exception):
    """The local stack cannot run. The message names the service and ends with its log."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process to keep running.

    `prepare` is called each time it becomes `ready`, and retried after an `OSError`. `inherits` are file descriptors.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherits: tuple[int, ...] = ()
    prepare: Callable[[], None] = lambda: None
    loses: str = ""
    """What is lost when it exits, for the log message."""


@dataclass(slots=True, eq=False)
class _Child:
    service: Service
    log_file: Path
    process: Popen[bytes] | None = None
    prepared: bool = False
    start_at: float = 0.0
    ready_until: float = 0.0
    false_starts: int = 0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=DEATHS_MAX))

    def start(self) -> None:
        with self.log_file.open("ab") as output:
            self.process = processes.start(
                self.service.command,
                output=output,
                environment={**os.environ, **self.service.environment},
                folder=ROOT,
                inherited=self.service.inherits,
            )
        self.prepared, self.ready_until = False, time.monotonic() + READY_SECONDS_MAX

    def check(self) -> None:
        """Start, prepare or restart the service, whichever is due. Raises `StackError` if it keeps failing."""
        if self.process is None:
            if time.monotonic() >= self.start_at:
                self.start()
        elif self.process.poll() is not None:
            self._died(self.process)
        elif not self.prepared:
            self._prepare()

    def _prepare(self) -> None:
        if self.service.ready():
            with contextlib.suppress(OSError):  # it went away again: its death is noticed next
                self.service.prepare()
                self.prepared, self.false_starts = True, 0
        elif time.monotonic() > self.ready_until:
            raise StackError(self._with_log("was not ready in time"))

    def _died(self, process: Popen[bytes]) -> None:
        processes.kill(process)  # what it started may still run
        self.false_starts += not self.prepared
        self.process, self.prepared = None, False
        now = time.monotonic()
        self.deaths.append(now)
        recent = sum(now - death < DEATHS_SECONDS for death in self.deaths)
        if recent >= DEATHS_MAX:
            raise StackError(self._with_log(f"died {recent} times within {DEATHS_SECONDS} seconds"))
        if self.false_starts >= FALSE_STARTS_MAX:
            raise StackError(self._with_log(f"died {self.false_starts} times before it was ready"))
        self.start_at = now + min(PAUSE_SECONDS_MIN * 2.0 ** (recent - 1), PAUSE_SECONDS_MAX)
        log.warning("%s died, restarting%s", self.service.name, self.service.loses and f"; {self.service.loses}")

    def _with_log(self, what: str) -> str:
        return f"{self.service.name} {what}. The end of its log, {self.log_file}:\n{processes.tail(self.log_file)}"


class Supervisor:
    """Runs services until stopped. All methods may be called from any thread."""

    def __init__(self, services: Sequence[Service], folder: Path) -> None:
        self._children = {service.name: _Child(service, folder / f"{service.name}.log") for service in services}
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._up, self._stopping, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start all services and return when all are ready. Raises `StackError`."""
        self._thread.start()
        self._up.wait()
        self.check()

    def stop(self) -> None:
        """Stop all services and wait for their processes."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._ended.wait()

    def check(self) -> None:
        """Raise the `StackError` that has ended the stack, if one has."""
        if self._error is not None:
            raise StackError(str(self._error)) from self._error

    def wait(self) -> None:
        """Wait until a service fails permanently. Raises its `StackError`."""
        self._ended.wait()
        self.check()

    def kill(self, name: str) -> None:
        """SIGKILL a service with all its child processes. It is restarted."""
        self.check()
        if process := self._children[name].process:
            processes.kill(process)

    def pid(self, name: str) -> int | None:
        """Return the process id of a service, which leads its process group; None while it is not running."""
        process = self._children[name].process
        return process.pid if process else None

    def ready(self, name: str) -> bool:
        """Return whether a service was ready when last checked."""
        return self._children[name].prepared

    def deaths(self, name: str) -> int:
        """Count the recent deaths of a service."""
        return len(self._children[name].deaths)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(CHECK_SECONDS):
                for child in self._children.values():
                    child.check()
                if all(child.prepared for child in self._children.values()):
                    self._up.set()
        except BaseException as error:  # noqa: BLE001 (raised to the callers of check and wait)
            self._error = error
        finally:
            self._stop_all()
            self._ended.set()
            self._up.set()

    def _stop_all(self) -> None:
        running = [child.process for child in self._children.values() if child.process]
        for process in running:
            processes.signal_group(process, processes.SIGTERM)
        for process in running:
            processes.stop(process)
