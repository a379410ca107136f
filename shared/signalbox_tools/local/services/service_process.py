"""A service of the local stack as a running process: started, prepared, restarted, and replaced by a newer version."""

import contextlib
import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from signalbox.catalogue.project import Project
from signalbox_tools.local import child_processes
from signalbox_tools.local.logs.tracebacks import summary

READY_SECONDS_MAX = 60
DEATHS_MAX = 10
DEATHS_SECONDS = 30
FALSE_STARTS_MAX = 3
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 2.0
RETIRED_SECONDS_MAX = 10.0
"""The time in which a replaced process may finish its requests."""

log = logging.getLogger("signalbox")


class StackError(Exception):
    """The local stack cannot run. The message names the service and ends with its log.

    `trace` is the traceback of functions that do not load, or empty.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


def _serving(_: int) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Service:
    """A process to keep running.

    - `prepare` is called each time it becomes `ready`, and retried after an `OSError`.
    - `inherits` are file descriptors.
    - `load_error` is for a service that can be replaced while it runs. For a process id it returns None while the
      process loads, an empty text when it has loaded, or the reason why it cannot.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherits: tuple[int, ...] = ()
    prepare: Callable[[], None] = lambda: None
    loses: str = ""
    """The data that is lost when it exits, for the log message."""
    load_error: Callable[[int], str | None] = _serving
    after: tuple[str, ...] = ()
    """The services that must be ready before its first start."""
    is_needed: bool = True
    """Whether the catalogue has work for it. A service without work has no process, and counts as ready."""


@dataclass(slots=True, eq=False)
class _Replacement:
    """A newer version of a service, started next to the version that serves."""

    service: Service
    process: Popen[bytes]
    result: "Future[str]"
    ready_until: float
    log_file: Path
    log_begins_at: int

    def outcome(self) -> str | None:
        """Return None while the new version loads.

        When it serves, return an empty text. If it cannot serve, return the reason.
        """
        error = self.service.load_error(self.process.pid)
        if error is None and self.process.poll() is not None:
            ended = child_processes.ending(self.process.returncode)
            return self.service.load_error(self.process.pid) or self._after_its_log(ended)
        if error is None and time.monotonic() > self.ready_until:
            return self._after_its_log("not ready in time")
        return error

    def _after_its_log(self, reason: str) -> str:
        """Return a reason as the last line, after what the new version has logged. That of the old one is JSON."""
        lines = child_processes.tail(self.log_file, self.log_begins_at).splitlines()
        return "\n".join([*(line for line in lines if not line.startswith("{")), reason])


@dataclass(slots=True, eq=False)
class Child:
    service: Service
    log_file: Path
    process: Popen[bytes] | None = None
    prepared: bool = False
    start_at: float = 0.0
    ready_until: float = 0.0
    log_begins_at: int = 0
    """The length of the log file at the process's start."""
    started: bool = False
    false_starts: int = 0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=DEATHS_MAX))
    replacement: _Replacement | None = None
    retired: list[tuple[Popen[bytes], float]] = field(default_factory=list)

    @property
    def steady(self) -> bool:
        """Whether the service is neither starting nor stopping."""
        return self.prepared and self.replacement is None and not self.retired

    @property
    def running(self) -> list[Popen[bytes]]:
        """The service's processes: the one that serves, a newer one that is loading, and older ones that are ending."""
        newer = [self.replacement.process] if self.replacement else []
        return [*([self.process] if self.process else []), *newer, *(process for process, _ in self.retired)]

    def start(self) -> None:
        self.started = True
        self.log_begins_at, self.process = self._started(self.service)
        self.prepared, self.ready_until = False, time.monotonic() + READY_SECONDS_MAX

    def check(self) -> None:
        """Start, prepare or restart the service, as necessary. Raises `StackError` if it keeps failing."""
        if not self.service.is_needed and self.process is None:
            self.started = self.prepared = True
        elif self.process is None:
            if time.monotonic() >= self.start_at:
                self.start()
        elif self.process.poll() is not None:
            self._died(self.process)
        elif not self.prepared:
            self._prepare()
        if self.replacement:
            self._check_replacement(self.replacement)
        self.retired = [each for each in self.retired if not _ended(*each)]

    def restart(self, service: Service, result: "Future[str]") -> None:
        """Stop the process, and start the service as it is now, if it is needed."""
        self.service = service
        if self.process:
            child_processes.stop(self.process)
        self.process = None
        if service.is_needed:
            self.start()
        result.set_result("")

    def halt(self, _: Service, result: "Future[str]") -> None:
        """Stop the process; the service is not started again."""
        if self.process:
            child_processes.stop(self.process)
        self.process, self.start_at = None, math.inf
        result.set_result("")

    def replace(self, service: Service, result: "Future[str]") -> None:
        """Start a newer version next to the version that serves. The newer one takes over when it has loaded."""
        if self.replacement:  # it is out of date
            self._end_replacement(self.replacement, "replaced by a newer version")
        log_begins_at, process = self._started(service)
        ready_until = time.monotonic() + READY_SECONDS_MAX
        self.replacement = _Replacement(service, process, result, ready_until, self.log_file, log_begins_at)

    def _started(self, service: Service) -> tuple[int, Popen[bytes]]:
        """Start a service. Return the length of the log file before, and the process."""
        with self.log_file.open("ab") as output:
            return output.tell(), child_processes.start(
                service.command,
                output=output,
                environment={**os.environ, **service.environment},
                folder=Project.find().root,
                inherited=service.inherits,
            )

    def _check_replacement(self, newer: _Replacement) -> None:
        outcome = newer.outcome()
        if outcome is None:
            return
        if outcome:
            self._end_replacement(newer, outcome)
            return
        if self.process and self.process.poll() is None:
            self.process.terminate()  # it finishes its requests
            self.retired.append((self.process, time.monotonic() + RETIRED_SECONDS_MAX))
        self.service, self.process, self.prepared, self.replacement = newer.service, newer.process, True, None
        self.log_begins_at = newer.log_begins_at
        newer.result.set_result("")

    def _end_replacement(self, newer: _Replacement, why: str) -> None:
        self.replacement = None
        child_processes.kill(newer.process)
        newer.result.set_result(why)

    def _prepare(self) -> None:
        if self.service.ready():
            with contextlib.suppress(OSError):  # it has gone away again: its death is noticed next
                self.service.prepare()
                self.prepared, self.false_starts = True, 0
        elif time.monotonic() > self.ready_until:
            raise StackError(self._with_log("was not ready in time", self.log_begins_at))

    def _died(self, process: Popen[bytes]) -> None:
        child_processes.kill(process)  # its child processes may still run
        if not self.prepared and (error := self.service.load_error(process.pid)):
            raise StackError(f"not started: {summary(error)}", error)  # the result would be the same the next time
        is_false_start, ended = not self.prepared, child_processes.ending(process.returncode)
        self.false_starts += is_false_start
        self.process, self.prepared = None, False
        now = time.monotonic()
        self.deaths.append(now)
        recent = sum(now - death < DEATHS_SECONDS for death in self.deaths)
        if recent >= DEATHS_MAX:
            raise StackError(self._with_log(f"died {recent} times within {DEATHS_SECONDS} seconds ({ended})"))
        if self.false_starts >= FALSE_STARTS_MAX:
            raise StackError(self._with_log(f"died {self.false_starts} times before it was ready ({ended})"))
        self.start_at = now + min(PAUSE_SECONDS_MIN * 2.0 ** (recent - 1), PAUSE_SECONDS_MAX)
        what = f"died before it was ready ({ended})" if is_false_start else f"died ({ended})"
        what += f", restarting{self.service.loses and f'; {self.service.loses}'}"
        log.warning("%s", self._with_log(what, self.log_begins_at) if is_false_start else f"{self.service.name} {what}")

    def _with_log(self, what: str, since: int = 0) -> str:
        """Return a text about the service, and the end of its log: the file may be deleted later."""
        end = child_processes.tail(self.log_file, since)
        log_end = f"The end of its log, {self.log_file}:\n{end}" if end else "It has logged nothing."
        return f"{self.service.name} {what}. {log_end}"


def _ended(process: Popen[bytes], kill_at: float) -> bool:
    if process.poll() is None and time.monotonic() < kill_at:
        return False
    child_processes.kill(process)
    return True
