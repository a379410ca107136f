"""The folder that keeps the data of a local stack, so that the next stack continues from there (``DATA=folder``).

Queues, events and the documents of a SQLite store are on disk, and outlive killed processes. The documents
of Google's emulator are in its memory, so they are exported when the stack ends, after everything that could change
them, and imported when the next one starts. The emulator gives imported records new create times. The waiters of a
semaphore or a rate contain that time, which is corrected. Waiters, events and calls are ordered by their create times,
so their records are created again, in the earlier order.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.settings import SQLITE, Settings, settings
from signalbox.catalogue.project import Project
from signalbox.core.ports import Change, Delete, Must, Put, Query, Snapshot, Store
from signalbox.core.times import microseconds
from signalbox_tools import http_client
from signalbox_tools.local.folder.folder_lock import locked
from signalbox_tools.local.services.service_process import StackError

EXPORT_SECONDS_MAX = 120
STATE_FILE = "saved.json"
DATABASES = "databases"
PAGE = 500
EMULATOR = "emulator"
FILES = ("store.sqlite*", "cloud-tasks.sqlite*", "events.sqlite*")
ALL_DATA = (*FILES, "archives", "payloads", "documents-*", f"{STATE_FILE}*")
OF_AN_INCARNATION = {"semaphores": ("waiters", "releases"), "rates": ("rate_waits",)}
"""The collections below a semaphore and a rate in whose records `incarnation` is the create time of that record."""

IN_ORDER = (*(name for names in OF_AN_INCARNATION.values() for name in names), "mailbox")
"""Collections whose records are ordered by their create times while they have a `since`."""

HEADER = "!"
"""The id of a mailbox's header, which needs no order."""

_OTHER = {
    EMULATOR: "Google's Firestore emulator: start with STORE=emulator",
    SQLITE: "a SQLite store: start without STORE=emulator",
}


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The folder of ``DATA``."""

    path: Path

    @classmethod
    def of(cls, project: Project) -> Path:
        """Return the folder that keeps the data of a project unless another one is named."""
        return project.state / "data"

    def of_database(self, database: str) -> Path:
        """Return the folder that keeps the data of the functions of a database, within this one."""
        return self.path / DATABASES / database

    @property
    def port(self) -> int | None:
        """The port that the tasks in the folder call, or None."""
        return self._state().get("port")

    @property
    def seed(self) -> Path | None:
        """The file that the emulator imports, or None."""
        name = str(self._state().get("export", ""))
        return self.path / name / f"{name}.overall_export_metadata" if name else None

    @property
    def store_file(self) -> Path:
        """The file of a SQLite store."""
        return self.path / "store.sqlite"

    @property
    def store(self) -> str:
        """The store that has the documents, or an empty text if there are none."""
        state = self._state()
        return str(state.get("store", EMULATOR if "export" in state else ""))

    def claim(self, store: str) -> None:
        """Note which store has the documents."""
        self._write({**self._state(), "store": store})

    def open(self, port: int, store: str) -> str:
        """Note that a stack uses the folder with a store. Return a warning or an empty text.

        Raises `StackError` for another port or another store.
        """
        state = self._state()
        if (saved_by := self.store or store) != store:
            raise StackError(f"The documents in {self.path} are those of {_OTHER[saved_by]}, or use another folder")
        if state.get("port", port) != port:
            raise StackError(
                f"The tasks in {self.path} call port {state['port']}: start with PORT={state['port']}, or delete the "
                "data: signalbox data clear"
            )
        self._write({**state, "port": port, "store": store, "clean": False})
        if store == SQLITE or state.get("clean", True):
            return ""
        return f"The last stack on {self.path} was killed: its queues are kept, its documents are of {_saved(state)}"

    def save(self, chosen: Settings) -> None:
        """Export the documents of an emulator after its last writer has ended. Raises `OSError`."""
        name = f"documents-{time.time_ns()}"
        database = f"projects/{chosen.project}/databases/{chosen.database}"
        url = f"http://{chosen.firestore_emulator}/emulator/v1/projects/{chosen.project}:export"
        body = {"database": database, "export_directory": str(self.path), "export_name": name}
        headers = {"Content-Type": "application/json", "Authorization": "Bearer owner"}
        http_client.send(
            "POST", url, content=json.dumps(body).encode(), headers=headers, timeout_seconds=EXPORT_SECONDS_MAX
        )
        order = waiting_in_order(f"http://{chosen.firestore_emulator}/v1/{database}")
        self.close(export=name, incarnations=create_times(runtime.firestore(chosen)), order=order)
        for old in self.path.glob("documents-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)

    def clear(self) -> bool:
        """Delete all data, also that of other databases; return whether there was any.

        Raises `FolderInUse` while a stack uses the folder.
        """
        others = [each.clear() for each in map(DataFolder, self.path.glob(f"{DATABASES}/*"))]
        if not self.path.is_dir():
            return any(others)
        with locked(self.path):
            found = [path for pattern in ALL_DATA for path in self.path.glob(pattern)]
            for path in found:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return bool(found) or any(others)

    def close(self, **more: Any) -> None:
        """Note that a stack has saved its data and left the folder."""
        self._write({**self._state(), "clean": True, "saved_at": time.time(), **more})

    def correct(self, chosen: Settings) -> None:
        """Correct the records that depend on create times, after an import. It may be repeated."""
        store, state = runtime.firestore(chosen), self._state()
        if before := state.get("incarnations"):
            correct_incarnations(store, before)
        create_again(store, state.get("order", ()))

    def correct_in_a_process(self, environment: Mapping[str, str]) -> None:
        """Run `correct` in a separate process: the one that supervises the services opens no connections.

        Raises `OSError`.
        """
        command = [sys.executable, "-m", "signalbox_tools.local.folder.data_folder", str(self.path)]
        done = subprocess.run(command, env=dict(environment), cwd=Project.find().root, check=False)  # noqa: S603 (a list, no shell)
        if done.returncode:
            raise OSError(f"correcting {self.path} ended with exit code {done.returncode}")

    def _state(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return dict(json.loads((self.path / STATE_FILE).read_text("utf-8")))
        return {}

    def _write(self, state: Mapping[str, Any]) -> None:
        newer = self.path / f"{STATE_FILE}.new"
        newer.write_text(json.dumps(state), "utf-8")
        newer.replace(self.path / STATE_FILE)


def create_times(store: Store) -> dict[str, int]:
    """Return the create time of each semaphore and rate, in microseconds, by its record's path."""
    found = (each for collection in OF_AN_INCARNATION for each in _all(store, collection))
    return {each.path: microseconds(each.create_time) for each in found if each.create_time}


def correct_incarnations(store: Store, before: Mapping[str, int]) -> None:
    """Replace the earlier create times of semaphores and rates by the present ones in the records below them."""
    for path, now in create_times(store).items():
        for name in OF_AN_INCARNATION[path.partition("/")[0]]:
            for each in _all(store, f"{path}/{name}"):
                if each.data and each.data.get("incarnation") == before.get(path):
                    store.commit([Change(each.path, {("incarnation",): now}, Must.EXIST)])


def waiting_in_order(database_url: str) -> list[str]:
    """Return the paths of all records that wait, in the order of their create times. Raises `OSError`."""
    found = [record for collection in IN_ORDER for record in _of_all_parents(database_url, collection)]
    return [path for _, path in sorted(found) if not path.endswith(f"/{HEADER}")]


def _of_all_parents(database_url: str, collection: str) -> Iterator[tuple[str, str]]:
    """Iterate over the create times and paths of the waiting records of all collections of one name."""
    query = {
        "select": {"fields": [{"fieldPath": "__name__"}]},
        "from": [{"collectionId": collection, "allDescendants": True}],
        "orderBy": [{"field": {"fieldPath": "since"}}],
    }
    answer = http_client.send(
        "POST",
        f"{database_url}/documents:runQuery",
        content=json.dumps({"structuredQuery": query}).encode(),
        headers={"Content-Type": "application/json", "Authorization": "Bearer owner"},
        timeout_seconds=EXPORT_SECONDS_MAX,
    )
    for found in json.loads(answer):
        if document := found.get("document"):
            created_at = datetime.fromisoformat(document["createTime"]).isoformat(timespec="microseconds")
            yield created_at, document["name"].partition("/documents/")[2]


def create_again(store: Store, paths: Sequence[str]) -> None:
    """Delete records and create them again one by one, so that their create times are in this order."""
    for path in paths:
        [read] = store.read(path)
        if read.data is not None:
            store.commit([Delete(path)])
            store.commit([Put(path, read.data, Must.NOT_EXIST)])


def _all(store: Store, collection: str) -> Iterator[Snapshot]:
    page = store.query(Query(collection, limit=PAGE))
    while page:
        yield from page
        page = store.query(Query(collection, limit=PAGE, after=(page[-1].id,)))


def _saved(state: Mapping[str, Any]) -> str:
    saved_at = state.get("saved_at")
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(saved_at)) if saved_at else "no time: none were saved"


if __name__ == "__main__":
    DataFolder(Path(sys.argv[1])).correct(settings())
