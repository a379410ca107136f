"""A stack that is killed while it saves its data leaves what was saved before, and the next one starts from it."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from signalbox.adapters.settings import SQLITE
from signalbox.catalogue.project import KIT
from signalbox.core.ports import Must, Put
from signalbox.testing.memory_store import MemoryStore
from signalbox_tools.local.folder.data_folder import (
    EMULATOR,
    STATE_FILE,
    DataFolder,
    correct_incarnations,
    create_again,
    create_times,
)
from signalbox_tools.local.folder.folder_lock import FolderInUse, locked
from signalbox_tools.local.services.service_process import StackError

SAVE = """import sys
from pathlib import Path
from types import SimpleNamespace
from signalbox_tools.local.folder.data_folder import DataFolder
DataFolder(Path(sys.argv[1])).save(SimpleNamespace(project="p", database="d", firestore_emulator=sys.argv[2]))
"""


class Emulator(http.server.ThreadingHTTPServer):
    """An emulator that begins an export and never ends it."""

    daemon_threads = True

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        emulator = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                (Path(asked["export_directory"]) / asked["export_name"]).mkdir()
                emulator.begun.set()
                emulator.over.wait()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named as http.server names it
                """Log nothing."""

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.over.set()
        server.shutdown()


def test_a_save_that_is_killed_leaves_the_documents_that_were_saved_before(tmp_path: Path, emulator: Emulator) -> None:
    folder = DataFolder(tmp_path)
    assert folder.open(8080, EMULATOR) == ""
    (tmp_path / "documents-1").mkdir()
    folder.close(export="documents-1", incarnations={})
    assert folder.open(8080, EMULATOR) == ""
    saving = subprocess.Popen(
        [sys.executable, "-c", SAVE, str(tmp_path), f"127.0.0.1:{emulator.server_port}"], cwd=KIT.root
    )
    assert emulator.begun.wait(100)
    saving.kill()
    saving.wait()
    assert len(list(tmp_path.glob("documents-*"))) == 2
    assert "was killed: its queues are kept, its documents are of 2" in folder.open(8080, EMULATOR)
    assert folder.seed == tmp_path / "documents-1" / "documents-1.overall_export_metadata"


def test_a_state_file_that_was_begun_does_not_count(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.open(8080, EMULATOR)
    folder.close(export="documents-1")
    (tmp_path / f"{STATE_FILE}.new").write_text('{"export": "docu')
    assert folder.seed is not None
    assert folder.open(8080, EMULATOR) == ""


def test_a_folder_that_another_store_has_saved_is_refused(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.close(export="documents-1")  # as saved before folders named their store
    with pytest.raises(StackError, match="are those of Google's Firestore emulator: start with STORE=emulator"):
        folder.open(8080, SQLITE)
    assert folder.open(8080, EMULATOR) == ""
    other = DataFolder(tmp_path / "other")
    other.path.mkdir()
    other.open(8080, SQLITE)
    with pytest.raises(StackError, match="start without STORE=emulator"):
        other.open(8080, EMULATOR)


def test_a_folder_whose_stack_was_killed_needs_no_warning_if_its_documents_are_in_a_file(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    assert [folder.open(8080, SQLITE) for _ in range(2)] == ["", ""]


def test_clearing_deletes_all_data_and_nothing_else(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.open(8080, SQLITE)
    (tmp_path / "archives").mkdir()
    for name in ("store.sqlite", "store.sqlite-wal", "cloud-tasks.sqlite", "archives/a", "my.txt"):
        (tmp_path / name).touch()
    assert folder.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.txt", "stack.lock"]
    assert not folder.clear()
    assert not DataFolder(tmp_path / "absent").clear()


def test_data_in_use_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").touch()
    with locked(tmp_path), pytest.raises(FolderInUse):
        DataFolder(tmp_path).clear()
    assert (tmp_path / "store.sqlite").exists()


def test_what_waited_is_created_again_in_its_order() -> None:
    seconds = count()
    store = MemoryStore(lambda: datetime.fromtimestamp(next(seconds), UTC))
    paths = [f"semaphores/s/waiters/{id_}" for id_ in ("a", "b", "c")]
    for path in paths:
        store.commit([Put(path, {"since": 1, "path": path}, Must.NOT_EXIST)])
    create_again(store, [paths[2], paths[0], "semaphores/s/waiters/gone", paths[1]])
    read = sorted(store.read(*paths), key=lambda one: one.create_time or one.read_time)
    assert [one.id for one in read] == ["c", "a", "b"]
    assert [one.data for one in read] == [{"since": 1, "path": one.path} for one in read]


def test_waiters_of_semaphores_and_rates_are_those_of_the_present_ones_after_an_import() -> None:
    seconds = count()
    store = MemoryStore(lambda: datetime.fromtimestamp(next(seconds), UTC))
    paths = ["semaphores/s/waiters/w", "semaphores/s/releases/x", "rates/r/rate_waits/v", "rates/r/rate_waits/old"]
    store.commit([Put("semaphores/s", {}), Put("rates/r", {})])
    before = {"semaphores/s": 11, "rates/r": 22}
    for path, incarnation in zip(paths, (11, 11, 22, 21), strict=True):
        store.commit([Put(path, {"incarnation": incarnation})])
    correct_incarnations(store, before)
    now = create_times(store)
    assert now.keys() == before.keys()
    expected = [now["semaphores/s"], now["semaphores/s"], now["rates/r"], 21]
    assert [(read.data or {})["incarnation"] for read in store.read(*paths)] == expected
