"""Keep what a local stack stores in a folder, so that the next stack continues from there (``DATA=folder``).

Queues and events are on disk anyway. Documents are in the memory of Google's emulator, so they are exported when the
stack ends, after everything that could change them, and imported when the next one starts. The emulator gives imported
records new create times; a semaphore's waiters refer to that time of their semaphore, so they are corrected.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.settings import Settings, settings
from signalbox.core.ports import Change, Must, Query, Snapshot, Store
from signalbox.core.times import microseconds
from signalbox_infra import http_client
from signalbox_infra.local.services.child import ROOT, StackError

EXPORT_SECONDS_MAX = 120
STATE_FILE = "saved.json"
PAGE = 500
OF_A_SEMAPHORE = ("waiters", "releases")
"""Collections below a semaphore whose records name its create time, as their `incarnation`."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The folder of ``DATA``."""

    path: Path

    @property
    def seed(self) -> Path | None:
        """Return the file that the emulator imports; None: there is none."""
        name = str(self._state().get("export", ""))
        return self.path / name / f"{name}.overall_export_metadata" if name else None

    def open(self, port: int) -> str:
        """Note that a stack uses the folder. Returns a warning or nothing. Raises `StackError` for another port."""
        state = self._state()
        if state.get("port", port) != port:
            raise StackError(f"The tasks in {self.path} call port {state['port']}: start with PORT={state['port']}")
        self._write({**state, "port": port, "clean": False})
        if state.get("clean", True):
            return ""
        return f"The last stack on {self.path} was killed: its queues are kept, its documents are of {_saved(state)}"

    def save(self, chosen: Settings) -> None:
        """Export the documents of an emulator that has no more writers. Raises `OSError`."""
        name = f"documents-{time.time_ns()}"
        database = f"projects/{chosen.project}/databases/{chosen.database}"
        url = f"http://{chosen.firestore_emulator}/emulator/v1/projects/{chosen.project}:export"
        body = {"database": database, "export_directory": str(self.path), "export_name": name}
        headers = {"Content-Type": "application/json", "Authorization": "Bearer owner"}
        http_client.send(
            "POST", url, content=json.dumps(body).encode(), headers=headers, timeout_seconds=EXPORT_SECONDS_MAX
        )
        self.close(export=name, semaphores=create_times(runtime.firestore(chosen)))
        for old in self.path.glob("documents-*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)

    def close(self, **more: Any) -> None:
        """Note that a stack has left the folder in order."""
        self._write({**self._state(), "clean": True, "saved_at": time.time(), **more})

    def correct(self, chosen: Settings) -> None:
        """Correct the records that name the create time of their semaphore, after an import. Repeating it is fine."""
        if before := self._state().get("semaphores"):
            correct_incarnations(runtime.firestore(chosen), before)

    def correct_in_a_process(self, environment: Mapping[str, str]) -> None:
        """Run `correct` in a process of its own: gRPC does not survive the forks of a supervisor. Raises `OSError`."""
        command = [sys.executable, "-m", "signalbox_infra.local.folder.data_folder", str(self.path)]
        done = subprocess.run(command, env=dict(environment), cwd=ROOT, check=False)  # noqa: S603 (a list, no shell)
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
    """Return the create time of each semaphore, in microseconds, by its record's path."""
    return {each.path: microseconds(each.create_time) for each in _all(store, "semaphores") if each.create_time}


def correct_incarnations(store: Store, before: Mapping[str, int]) -> None:
    """Replace the create times that semaphores had by those that they have now, in the records below them."""
    for path, now in create_times(store).items():
        for name in OF_A_SEMAPHORE:
            for each in _all(store, f"{path}/{name}"):
                if each.data and each.data.get("incarnation") == before.get(path):
                    store.commit([Change(each.path, {("incarnation",): now}, Must.EXIST)])


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
