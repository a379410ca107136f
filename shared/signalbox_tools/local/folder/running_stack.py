"""The address of a folder's local stack, in a file that the stack writes when it is up and removes when it ends.

A clone or an archive may also contain such a file. So its addresses count only if they are of this machine: no
command calls another host because of the file.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from signalbox.adapters.settings import SQLITE
from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import CatalogueError, database_in, databases_of
from signalbox.catalogue.whole_catalogue import closest
from signalbox_tools import http_client

FILE = "stack.json"
FILE_OF_THE_STORE = "SIGNALBOX_STORE_FILE"
SYNCHRONOUS = "SIGNALBOX_STORE_SYNCHRONOUS"
NONE_RUNS = "No local stack runs here. Start one: signalbox dev"
RESPONSE_SECONDS_MAX = 5.0
HERE = re.compile(r"(http://)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}:\d{1,5}/?")


def folder_of(project: Project, database: str) -> Path:
    """Return the folder of the stack of a project's functions with a database, or without one."""
    return project.state / "databases" / database if database else project.state


class NoStack(Exception):
    """No stack runs on the folder."""


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A running stack. `environment` has the variables of its functions, including those that name its store."""

    folder: str
    pid: int
    base_url: str
    store: str
    queues_url: str
    events_url: str
    environment: Mapping[str, str]

    @property
    def functions_log(self) -> Path:
        return Path(self.folder) / "functions.log"

    def serves(self) -> bool:
        """Return whether the functions respond."""
        try:
            http_client.send("GET", f"{self.base_url}?ready", timeout_seconds=RESPONSE_SECONDS_MAX)
        except OSError:
            return False
        return True

    def announce(self) -> None:
        """Write the file, readable by this user only, since it names the addresses of an emulator."""
        file = Path(self.folder) / FILE
        with suppress(OSError):
            file.unlink()
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            json.dump(asdict(self), opened)

    def withdraw(self) -> None:
        """Remove the file."""
        (Path(self.folder) / FILE).unlink(missing_ok=True)

    @classmethod
    def of_project(cls, environment: str = "") -> Self:
        """Return the stack of the project in which the program runs. Raises `NoStack`.

        An environment such as ``dev.payments`` names a database, whose functions have their own stack.
        """
        try:
            database = database_in(environment)
        except CatalogueError as error:
            raise NoStack(str(error)) from error
        project = Project.find()
        try:
            return cls.of(folder_of(project, database))
        except NoStack as error:
            known = databases_of(project.catalogue) if database else []
            if not database or database in known:
                raise
            raise NoStack(f"no function has the database {database!r}{closest(database, known)}") from error

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return the stack that runs on a folder. Raises `NoStack`."""
        try:
            with (folder / FILE).open("rb") as file:
                is_own = os.fstat(file.fileno()).st_uid == os.getuid()
                stack = cls(**{**json.load(file), "folder": str(folder)})
            if is_own and stack.pid > 0 and all(map(HERE.fullmatch, stack._addresses())) and stack._has_its_store():
                os.kill(stack.pid, 0)
                return stack
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise NoStack(NONE_RUNS) from error
        raise NoStack(f"{NONE_RUNS} ({folder / FILE} belongs to another user, or names another machine.)")

    def _addresses(self) -> Iterable[str]:
        own = (self.base_url, self.queues_url, self.events_url, self.environment["CLOUD_TASKS_EMULATOR_HOST"])
        emulator = self.environment.get("FIRESTORE_EMULATOR_HOST", "")
        return own if emulator == SQLITE else (*own, emulator)

    def _has_its_store(self) -> bool:
        """Return whether the file of the store exists, so that no command makes one."""
        emulator, file = (self.environment.get(name, "") for name in ("FIRESTORE_EMULATOR_HOST", FILE_OF_THE_STORE))
        return emulator != SQLITE or Path(file).is_file()
