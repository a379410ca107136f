"""Keep the parts of the local stack running: start them, wait until they are ready, start again what dies.

One thread does all of it, because on Linux a child ends with the thread that started it: so even SIGKILL of this
process ends the parts. A part that dies `DEATHS_MAX` times within `DEATHS_SECONDS`, or `FALSE_STARTS_MAX` times without
having been ready in between, ends the whole stack, with what it said last.
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
LOOK_SECONDS = 0.03
DEATHS_MAX = 10
DEATHS_SECONDS = 30
FALSE_STARTS_MAX = 3
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 2.0
ROOT = Path(__file__).resolve().parents[2]

log = logging.getLogger("signalbox")


class StackError(Exception):
    """The local stack cannot run. The message says which part and what it said last."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process to keep running.

    `prepare` is called whenever it has become `ready`, and again after an `OSError`. `inherits` are file descriptors.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherits: tuple[int, ...] = ()
    prepare: Callable[[], None] = lambda: None
    loses: str = ""
    """What is lost when it dies, for the log."""


@dataclass(slots=True, eq=False)
class _Child:
    part: Service
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
                self.part.command,
                output=output,
                environment={**os.environ, **self.part.environment},
                folder=ROOT,
                inherited=self.part.inherits,
            )
        self.prepared, self.ready_until = False, time.monotonic() + READY_SECONDS_MAX

    def look(self) -> None:
        """Do what is due: start, prepare, or note a death. Raises `StackError` when there is no point in going on."""
        if self.process is None:
            if time.monotonic() >= self.start_at:
                self.start()
        elif self.process.poll() is not None:
            self._died(self.process)
        elif not self.prepared:
            self._prepare()

    def _prepare(self) -> None:
        if self.part.ready():
            with contextlib.suppress(OSError):  # it went away again: its death is noticed next
                self.part.prepare()
                self.prepared, self.false_starts = True, 0
        elif time.monotonic() > self.ready_until:
            raise StackError(self._said("was not ready in time"))

    def _died(self, process: Popen[bytes]) -> None:
        processes.kill(process)  # what it started may still run
        self.false_starts += not self.prepared
        self.process, self.prepared = None, False
        now = time.monotonic()
        self.deaths.append(now)
        recent = sum(now - death < DEATHS_SECONDS for death in self.deaths)
        if recent >= DEATHS_MAX:
            raise StackError(self._said(f"died {recent} times within {DEATHS_SECONDS} seconds"))
        if self.false_starts >= FALSE_STARTS_MAX:
            raise StackError(self._said(f"died {self.false_starts} times before it was ready"))
        self.start_at = now + min(PAUSE_SECONDS_MIN * 2.0 ** (recent - 1), PAUSE_SECONDS_MAX)
        log.warning("%s died and is started again%s", self.part.name, self.part.loses and f"; {self.part.loses}")

    def _said(self, what: str) -> str:
        return f"{self.part.name} {what}. Its log, {self.log_file}, ends:\n{processes.tail(self.log_file)}"


class Supervisor:
    """Runs parts until stopped. All methods may be called from any thread."""

    def __init__(self, parts: Sequence[Service], folder: Path) -> None:
        self._children = {part.name: _Child(part, folder / f"{part.name}.log") for part in parts}
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._up, self._stopping, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start all parts and return when all are ready. Raises `StackError`."""
        self._thread.start()
        self._up.wait()
        self.check()

    def stop(self) -> None:
        """End all parts; return when nothing of them is left."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._ended.wait()

    def check(self) -> None:
        """Raise the `StackError` that has ended the stack, if one has."""
        if self._error is not None:
            raise StackError(str(self._error)) from self._error

    def wait(self) -> None:
        """Return when the stack has ended by itself, with its `StackError`."""
        self._ended.wait()
        self.check()

    def kill(self, name: str) -> None:
        """SIGKILL a part with all it started. It will be started again."""
        self.check()
        if process := self._children[name].process:
            processes.kill(process)

    def pid(self, name: str) -> int | None:
        """Give the process id of a part, which leads its process group; None while it is not running."""
        process = self._children[name].process
        return process.pid if process else None

    def ready(self, name: str) -> bool:
        """Tell whether a part is up, as far as is known."""
        return self._children[name].prepared

    def deaths(self, name: str) -> int:
        """Count the recent deaths of a part."""
        return len(self._children[name].deaths)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(LOOK_SECONDS):
                for child in self._children.values():
                    child.look()
                if all(child.prepared for child in self._children.values()):
                    self._up.set()
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is raised to whoever waits)
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
