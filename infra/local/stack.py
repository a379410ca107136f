"""The whole kit on this machine: Firestore, Cloud Tasks, events, schedules and all functions, from one catalogue.

    with Stack(folder=Path(".local")) as stack:
        httpx.put(stack.base_url + "documents/x", json={"a": 1})
        stack.wait_until_idle(10)

Every part is a process of its own and is started again when it dies. Nothing is left behind, however this process ends
(on other systems than Linux: unless by SIGKILL). The store is Google's emulator where this machine has it, else one
embedded in the functions' process; both are in memory, so a stack starts empty and removes what an earlier one left in
its folder. An emulator at ``FIRESTORE_EMULATOR_HOST`` is not used: its events go where its own command line says.
"""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from infra import catalogue as catalogues
from infra.local import firestore_emulator
from infra.local.environment import settings_of
from infra.local.idle import IdleMonitor
from infra.local.log_stats import LogStats
from infra.local.services import parts, plan, stats
from infra.local.supervisor import ROOT, StackError, Supervisor
from infra.packaging.checks import check_all
from infra.packaging.imports import PackagingError
from shared.adapters.settings import EMBEDDED, Settings

__all__ = ["Stack", "StackError"]

IDLE_PAUSE_SECONDS = 0.05

log = logging.getLogger("signalbox")


class Stack:
    """A running local stack; enter it to start it.

    `port` None chooses a free one. `folder` takes the databases and one log a part. `chaos` such as
    ``twice=0.1,late=0.1`` makes queues and events misbehave; empty: what the environment's ``CHAOS`` says. `settings`
    are the functions', but for where things are; None: those that follow from the catalogue. Raises `StackError` when a
    part cannot run, `CatalogueError`, and `OSError` when the port is taken.
    """

    def __init__(
        self,
        port: int | None = None,
        folder: Path = Path(".local"),
        chaos: str = "",
        catalogue: Path = catalogues.CATALOGUE,
        settings: Settings | None = None,
    ) -> None:
        self.folder = folder.resolve()
        emulator = None if os.environ.get("SIGNALBOX_STORE") == EMBEDDED else firestore_emulator.find_installed()
        self.store = "emulator" if emulator else EMBEDDED
        chaos = chaos or os.environ.get("CHAOS", "")
        content = catalogues.load(catalogue)
        _check(content)
        settings = settings or settings_of(content)
        self._plan = plan(catalogue.resolve(), content, self.folder, emulator, settings, port, chaos)
        listed = parts(self._plan)
        self.service_names = tuple(part.name for part in listed)
        self._supervisor = Supervisor(listed, self.folder)
        self._log_stats = LogStats(self.folder / "functions.log")
        self._idle_monitor = IdleMonitor(self._plan)
        self._events: Mapping[str, int] = {}
        self._exits = contextlib.ExitStack()

    @property
    def base_url(self) -> str:
        """Give the base URL for people; ends in a slash."""
        return self._plan.base_url

    @property
    def settings(self) -> Settings:
        """Give what the functions are told: another client of the same database needs it too."""
        return self._plan.settings

    @property
    def identity_url(self) -> str:
        """Give where the queues' server gives its public keys, and tokens to callers that are no tasks."""
        return self._plan.url("keys")

    @property
    def urls(self) -> dict[str, str]:
        """Give the addresses of the functions that people invoke, by name."""
        functions = self._plan.catalogue.functions.values()
        return {each.name: self.base_url + each.segment for each in functions if "people" in each.invoked_by}

    def __enter__(self) -> Self:
        _clear(self.folder, self.service_names)
        self._exits.callback(self._plan.events_socket.close)
        self._exits.callback(self._plan.functions_socket.close)
        self._exits.callback(self._supervisor.stop)
        self._exits.enter_context(_sigterm_raises())
        try:
            self._supervisor.start()
        except BaseException:
            self._exits.close()
            raise
        if self.store == EMBEDDED:
            log.warning("embedded: the store is in the functions' process; for Google's emulator %s", _how_to_get_it())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()
        if error is None:
            self._supervisor.check()

    def wait(self) -> None:
        """Run until the stack fails. Raises its `StackError`."""
        self._supervisor.wait()

    def kill(self, name: str) -> None:
        """SIGKILL a part and all that it started; the supervisor starts it again."""
        self._supervisor.kill(name)

    def pid(self, name: str) -> int | None:
        """Give the process id of a part, which is also its process group; None while it is down."""
        return self._supervisor.pid(name)

    def is_up(self, name: str) -> bool:
        """Tell whether a part was found ready since it was last started."""
        return self._supervisor.ready(name)

    def deaths(self, name: str) -> int:
        """Count a part's recent deaths, at most ten."""
        return self._supervisor.deaths(name)

    def counts(self) -> dict[str, int]:
        """Count since the start: what the functions did (``calls``, ``reads``, …) and the ``events`` received."""
        self._events = stats(self._plan.url("events-deliver")) or self._events
        events = {"events": self._events.get("received", 0), "events_delivered": self._events.get("delivered", 0)}
        return {**self._log_stats.sums(), **events}

    def idle(self) -> bool:
        """Tell whether nothing is under way: no task, no event, and nothing that led to one while we looked.

        Tasks count unless they are scheduled far ahead. Calls by the caller are the caller's business.
        """
        return self._idle_monitor.idle()

    def wait_until_idle(self, timeout_seconds: float) -> None:
        """Return when nothing is under way. Raises `TimeoutError` with what still is, or `StackError`."""
        deadline = time.monotonic() + timeout_seconds
        while not self.idle():
            self._supervisor.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not idle after {timeout_seconds} seconds: {self._idle_monitor.activity()}")
            time.sleep(IDLE_PAUSE_SECONDS)


def _check(catalogue: catalogues.Catalogue) -> None:
    """Refuse here what would not run in the cloud. Raises `StackError` with what to change."""
    try:
        check_all(catalogue, ROOT)
    except PackagingError as error:
        raise StackError(str(error)) from error


def _clear(folder: Path, service_names: Sequence[str]) -> None:
    """Remove what an earlier stack left: its queues and events are about documents that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in (*folder.glob("*.sqlite*"), *(folder / f"{name}.log" for name in service_names)):
        if leftover.name.partition(".")[0] in (*service_names, "events"):
            leftover.unlink(missing_ok=True)


def _how_to_get_it() -> str:
    if os.environ.get("SIGNALBOX_STORE") == EMBEDDED:
        return "unset SIGNALBOX_STORE"
    return firestore_emulator.HOW_TO_GET_IT


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Make SIGTERM unwind like an exception, where nobody has decided otherwise."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
