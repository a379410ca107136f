"""A power cut loses any of the writes that were not flushed to the disk: the file is sound, and has the first commits.

With ``NORMAL``, commits write to the log only, and a checkpoint flushes the log before it writes the file. So a cut can
lose the writes to the log since the last checkpoint. They are lost here in a copy of the files.
"""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from signalbox.adapters.sqlite.events import EventLog
from signalbox.adapters.sqlite.file import Synchronous
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Must, Put, Query
from signalbox.core.records.queries import Condition
from signalbox_tools.local.cloud_tasks.protobuf_messages import Task, new_progress
from signalbox_tools.local.cloud_tasks.sqlite_storage import StoreFile, TaskStorage

SECTOR = 512
COMMITS = 60
FLUSHED = 25
"""The commits before the checkpoint."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the file of a store that has committed some more since its last checkpoint."""
    file = tmp_path_factory.mktemp("running") / "store.sqlite"
    with closing(SqliteStore(file, {"t": "pairs/{id}"})) as store, closing(EventLog(file)) as log:
        store.count(of_pairs())
        for n in range(COMMITS):
            if n == FLUSHED:
                log.checkpoint()
            store.commit([Put("head/one", {"n": n + 1}), *(Put(f"pairs/{n}-{side}", {"n": n}, NEW) for side in "ab")])
        yield file


NEW = Must.NOT_EXIST


def of_pairs() -> Query:
    return Query("pairs", (Condition(("n",), ">=", 0),))


def cut(running: Path, folder: Path, rng: random.Random) -> Path:
    """Copy the files, and lose writes to the log: its end, and some of the sectors before that."""
    file = folder / "store.sqlite"
    shutil.copy(running, file)
    log = bytearray(running.with_name("store.sqlite-wal").read_bytes())
    for start in range(0, len(log), SECTOR):
        if rng.random() < 0.01:
            log[start : start + SECTOR] = rng.randbytes(len(log[start : start + SECTOR]))
    file.with_name("store.sqlite-wal").write_bytes(log[: rng.randrange(len(log) + 1)])
    return file


@pytest.mark.parametrize("seed", range(12))
def test_after_a_power_cut_the_file_has_the_first_commits_whole(running: Path, tmp_path: Path, seed: int) -> None:
    file = cut(running, tmp_path, random.Random(seed))
    with closing(SqliteStore(file)) as store, closing(EventLog(file)) as log, closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        commits = (store.read("head/one")[0].data or {"n": 0})["n"]
        assert FLUSHED <= commits <= COMMITS
        assert {each.id for each in store.query(Query("pairs", limit=1_000))} == {
            f"{n}-{side}" for n in range(commits) for side in "ab"
        }
        assert store.count(of_pairs()) == len(log.after(0)) == 2 * commits
        last = store.read("head/one")[0].update_time
        assert last is None or store.commit([Put("head/one", {"n": 0})]).commit_time > last


@pytest.mark.parametrize("level", ["NORMAL", "FULL"])
def test_after_a_power_cut_the_documents_lack_no_task_that_they_had_enqueued(
    tmp_path: Path, level: Synchronous
) -> None:
    """The queues of a stack are in the file of its documents: one log has the commits of both, in their order."""
    file = tmp_path / "store.sqlite"

    async def run() -> None:
        storage = TaskStorage(StoreFile(file, level))
        with closing(SqliteStore(file)) as store, closing(EventLog(file)) as log:
            for n in range(COMMITS):
                if n == FLUSHED:
                    log.checkpoint()
                task = Task(name=f"q/tasks/{n}")
                await storage.add_task("q", True, task, new_progress(task))
                store.commit([Put("head/one", {"n": n + 1})])
            for seed in range(12):
                (folder := tmp_path / str(seed)).mkdir()
                await check(cut(file, folder, random.Random(seed)))
        await storage.close()

    async def check(file: Path) -> None:
        storage = TaskStorage(StoreFile(file, level))
        tasks = len([*storage.tasks()])
        await storage.close()
        with closing(SqliteStore(file)) as store:
            documents = (store.read("head/one")[0].data or {"n": 0})["n"]
        assert FLUSHED <= documents <= tasks <= documents + 1

    asyncio.run(run())


@pytest.mark.parametrize(("level", "number"), [("NORMAL", 1), ("FULL", 2)])
def test_every_connection_has_the_level_of_its_store(tmp_path: Path, level: Synchronous, number: int) -> None:
    store = SqliteStore(tmp_path / "store.sqlite", synchronous=level)
    with closing(store), store._connected() as one, store._connected() as other:
        levels = [each.db.execute("PRAGMA synchronous").fetchone()[0] for each in (one, other)]
    assert levels == [number, number]
