"""The deployment on this machine: Firestore, Cloud Tasks, events, schedules and all functions, from one catalogue.

    with Stack(folder=Path(".local")) as stack:
        httpx.put(stack.base_url + "documents/x", json={"a": 1})
        stack.wait_until_idle(10)

Every service is a separate process and is restarted when it dies. All processes end with this one, however it ends
(except by SIGKILL on other systems than Linux). The store is a SQLite file, or Google's emulator. Without a folder for
the data, a stack starts empty and deletes an earlier one's files in its folder. An emulator at
``FIRESTORE_EMULATOR_HOST`` is not used: its events go to the address on its command line.
"""

import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from signalbox.adapters.settings import SQLITE, Settings
from signalbox.adapters.sqlite.file import StoreFileError
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.entries import Schedule
from signalbox.catalogue.project import Project
from signalbox.core.ports import Query
from signalbox_tools import http_client
from signalbox_tools.exports.files import IMPORTS
from signalbox_tools.local import child_processes
from signalbox_tools.local.folder.data_folder import EMULATOR, DataFolder
from signalbox_tools.local.folder.folder_lock import FolderInUse, locked
from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.local.idle_check import IdleMonitor
from signalbox_tools.local.logs.call_totals import LogStats
from signalbox_tools.local.preparation import check, chosen_level, chosen_store, clear, installed_emulator
from signalbox_tools.local.reloading.reload import reload
from signalbox_tools.local.services.command_lines import functions_environment, services, stats
from signalbox_tools.local.services.function_settings import settings_of
from signalbox_tools.local.services.ports_and_sockets import plan
from signalbox_tools.local.services.supervisor import StackError, Supervisor

__all__ = ["Stack", "StackError"]

IDLE_PAUSE_SECONDS = 0.05
ENSURE_SECONDS_MAX = 30
DRIVERS = ("scheduler", "cloud-tasks", "events-deliver", "functions")
"""The services whose work changes documents, in the order in which they end."""

INTERRUPTED = "An import into {folder} was interrupted: run it again, or delete the data: signalbox data clear"

log = logging.getLogger("signalbox")


class Stack:
    """A running local stack; enter it to start it.

    - `folder` takes the databases and one log file for each service.
    - `port` None chooses a free one, and `catalogue` None the catalogue of the project.
    - `chaos`, such as ``twice=0.1,late=0.1``, injects faults into queues and events. If it is empty, the environment's
      variable ``CHAOS`` is used.
    - `settings` are the settings of the functions, except for addresses. If None, the settings follow from the
      catalogue.
    - `examples` is whether it serves the kit's examples, which the repository has.
    - `database` chooses the functions whose entries name it. If it is empty, these are the functions without one.
    - `others` has the base URLs of the stacks that serve other databases.
    - `data` is a folder that keeps documents, queues and events for the next stack. If None, the data ends with this
      stack.
    - `store` is ``sqlite`` or ``emulator``. If it is empty, the environment's variable ``STORE`` is used, and without
      that ``sqlite``.
    - `synchronous` is ``NORMAL``, with which the documents survive the death of all processes, or ``FULL``, with which
      they also survive a power cut. If it is empty, the variable ``SYNCHRONOUS`` is used, and without that ``NORMAL``.

    Raises `StackError` when a service cannot run, `CatalogueError`, and `OSError` when the port is taken.
    """

    def __init__(
        self,
        port: int | None = None,
        folder: Path = Path(".local"),
        chaos: str = "",
        catalogue: Path | None = None,
        settings: Settings | None = None,
        data: Path | None = None,
        store: str = "",
        synchronous: str = "",
        *,
        examples: bool = True,
        database: str = "",
        others: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.store = chosen_store(store or os.environ.get("STORE", ""))
        emulator = installed_emulator() if self.store == EMULATOR else None
        level = chosen_level(synchronous or os.environ.get("SYNCHRONOUS", ""))
        chaos = chaos or os.environ.get("CHAOS", "")
        catalogue = catalogue or Project.find().catalogue
        content = catalogues.load(catalogue, examples=examples, database=database)
        check(content)
        settings = settings or settings_of(content)
        self._data = DataFolder(data.resolve()) if data else None
        places = (catalogue.resolve(), content, self.folder, self._data, emulator)
        self._layout = plan(*places, settings, port, chaos, level, others)
        listed = services(self._layout)
        self.service_names = tuple(service.name for service in listed)
        self._supervisor = Supervisor(listed, self.folder)
        self._log_stats = LogStats(self.folder / "functions.log")
        self._idle_monitor = IdleMonitor(self._layout)
        self._events: Mapping[str, int] = {}
        self._exits = contextlib.ExitStack()

    @property
    def base_url(self) -> str:
        """The base URL for people; ends in a slash."""
        return self._layout.base_url

    @property
    def settings(self) -> Settings:
        """The functions' settings, which another client of the same database also needs."""
        return self._layout.settings

    @property
    def identity_url(self) -> str:
        """The address of the local Cloud Tasks' public keys, and of tokens for callers that are not tasks."""
        return self._layout.url("keys")

    @property
    def urls(self) -> dict[str, str]:
        """The URLs of the functions that people invoke, by name."""
        functions = self._layout.catalogue.functions.values()
        return {each.name: self.base_url + each.segment for each in functions if "people" in each.invoked_by}

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of all functions."""
        return tuple(function.folder for function in self._layout.catalogue.functions.values())

    def __enter__(self) -> Self:
        self._exits.callback(self._layout.close)
        try:
            self._hold_folders()
            self._exits.callback(self._supervisor.stop)
            self._exits.enter_context(child_processes.sigterm_raises())
            self._supervisor.start()
            if self._data:
                self._exits.callback(self._save)
            self._ensure_declared()
            running = self._running()
            running.announce()
            self._exits.callback(running.withdraw)
        except BaseException:
            self._exits.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()
        if error is None:
            self._supervisor.check()

    def _hold_folders(self) -> None:
        try:
            for folder in dict.fromkeys((self.folder, self._layout.databases)):
                self._exits.enter_context(locked(folder))
        except FolderInUse as error:
            raise StackError(str(error)) from error
        clear(self.folder, self.service_names, databases=self._data is None)
        if self._data and (warning := self._data.open(self._layout.ports["functions"], self.store)):
            log.warning("%s", warning)
        if self.store == SQLITE:
            self._check_store()

    def _check_store(self) -> None:
        try:
            with contextlib.closing(SqliteStore(self._layout.store_file)) as store:
                if store.query(Query(IMPORTS, limit=1)):
                    raise StackError(INTERRUPTED.format(folder=self._layout.databases))
        except StoreFileError as error:
            raise StackError(str(error)) from error

    def _running(self) -> RunningStack:
        layout = self._layout
        places = (str(self.folder), os.getpid(), self.base_url, self.store)
        urls = (layout.url("keys"), layout.url("events-deliver"))
        return RunningStack(*places, *urls, functions_environment(layout))

    def _save(self) -> None:
        """Stop everything that could change documents, and save all data. Ctrl-C does not interrupt it."""
        with child_processes.interrupts_ignored():
            for name in DRIVERS:
                self._supervisor.halt(name)
            if self._layout.emulator and self._data:
                self._idle_monitor.events_all_sent()
                self._data.save(self.settings)
            elif self._data:
                self._data.close()

    def wait(self) -> None:
        """Run until the stack fails. Raises its `StackError`."""
        self._supervisor.wait()

    def kill(self, name: str) -> None:
        """SIGKILL a service with its child processes; the supervisor restarts it."""
        self._supervisor.kill(name)

    def pid(self, name: str) -> int | None:
        """Return the process id of a service, which is also its process group, or None while it is down."""
        return self._supervisor.pid(name)

    def is_up(self, name: str) -> bool:
        """Return whether a service has been ready since it was last started."""
        return self._supervisor.ready(name)

    def reload(self) -> None:
        """Switch to the catalogue and the code as they are. If that raises `NotReloaded`, the old version serves."""
        self._layout = reload(self._layout, self._supervisor)
        self._idle_monitor = IdleMonitor(self._layout)
        self._ensure_declared()

    def _ensure_declared(self) -> None:
        """Create the semaphores and rates of the catalogue, or set their limits. Raises `StackError`."""
        for each in self._layout.catalogue.declared:
            url = f"{self.base_url}{each.function}/{quote(each.name, safe='')}"
            try:
                http_client.send_json("PUT", url, each.body, timeout_seconds=ENSURE_SECONDS_MAX)
            except http_client.HttpError as error:
                detail = f"The entry {each.name} of {each.function} in the catalogue cannot be made: {error}"
                raise StackError(detail) from error

    @property
    def schedules(self) -> Sequence[Schedule]:
        """The schedules of the project's tasks and flows. Those of the kit are left out."""
        return [each for each in self._layout.catalogue.schedules.values() if each.task]

    def counts(self) -> dict[str, int]:
        """Return counts since the start: the functions' ``calls``, ``reads``, …, and the ``events`` received."""
        self._events = stats(self._layout.url("events-deliver")) or self._events
        events = {"events": self._events.get("received", 0), "events_delivered": self._events.get("delivered", 0)}
        return {**self._log_stats.sums(), **events}

    def idle(self) -> bool:
        """Return whether the stack is idle: it has no pending task or event, and none appeared during this check.

        A task in the outbox is pending. Tasks scheduled far ahead do not count, nor do calls that the caller has not
        finished.
        """
        return self._idle_monitor.idle()

    def wait_until_idle(self, timeout_seconds: float) -> None:
        """Wait until the stack is idle. Raises `TimeoutError`, which names the pending work, or `StackError`."""
        deadline = time.monotonic() + timeout_seconds
        while not self.idle():
            self._supervisor.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not idle after {timeout_seconds} seconds: {self._idle_monitor.pending()}")
            time.sleep(IDLE_PAUSE_SECONDS)
