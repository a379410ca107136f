"""The SQLite store in several threads and processes, some of which are killed."""

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import SERVER_TIME, Conflict, Must, Put, Query
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Condition

ACCOUNTS = 8
BALANCE = 100
KILLS = int(os.environ.get("KILLS", "6"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def opened(file: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(file)) as store:
        yield store


def started(target: Any, *args: Any) -> Any:
    process = multiprocessing.get_context("fork").Process(target=target, args=args, daemon=True)
    process.start()
    return process


def in_threads(count: int, target: Any, *args: Any) -> None:
    threads = [threading.Thread(target=target, args=(*args, number)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_pairs(file: Path, number: int) -> None:
    """Keep two records equal, commit by commit."""
    store = SqliteStore(file)
    for n in range(10**9):
        store.commit([Put(f"d/{number}-a", {"n": n, "at": SERVER_TIME}), Put(f"d/{number}-b", {"n": n})])


@pytest.mark.slow
def test_a_read_sees_all_commits_up_to_its_time_and_none_after_it(file: Path) -> None:
    writers = [started(write_pairs, file, number) for number in range(2)]
    seen: list[tuple[datetime, dict[str, datetime]]] = []
    try:
        with closing(SqliteStore(file)) as store:
            ends_at = time.monotonic() + 3
            while time.monotonic() < ends_at:
                snapshots = store.read("d/0-a", "d/0-b", "d/1-a", "d/1-b")
                found = [(snapshot.data or {}).get("n") for snapshot in snapshots]
                assert found[0] == found[1]
                assert found[2] == found[3]
                times = {each.path: each.update_time for each in snapshots if each.update_time}
                assert all(update_time <= snapshots[0].read_time for update_time in times.values())
                seen.append((snapshots[0].read_time, times))
    finally:
        for writer in writers:
            writer.kill()
            writer.join()
    assert len(seen) > 300
    for (read_time, times), (_, later) in pairwise(seen):
        unseen = [update_time for path, update_time in later.items() if update_time != times.get(path)]
        assert all(update_time > read_time for update_time in unseen), "a commit was before a read that missed it"


def count_up(file: Path, times: int) -> None:
    store = SqliteStore(file)

    def count(_: int) -> None:
        for _ in range(times):
            while True:
                [read] = store.read("d/count")
                try:
                    store.commit([Put("d/count", {"n": (read.data or {"n": 0})["n"] + 1}, read.guard)])
                except Conflict:
                    continue
                break

    in_threads(4, count)


@pytest.mark.slow
def test_guards_hold_among_processes_and_threads(file: Path) -> None:
    processes = [started(count_up, file, 50) for _ in range(2)]
    for process in processes:
        process.join()
    with closing(SqliteStore(file)) as store:
        assert (store.read("d/count")[0].data or {})["n"] == 400


def test_commits_of_threads_in_one_transaction_have_separate_times_and_outcomes(opened: SqliteStore) -> None:
    outcomes: list[object] = []

    def create(number: int) -> None:
        for n in range(20):
            try:
                outcomes.append(opened.commit([Put(f"d/{n}", {"by": number}, Must.NOT_EXIST)]).commit_time)
            except Conflict as conflict:
                outcomes.append(conflict)

    in_threads(8, create)
    times = [outcome for outcome in outcomes if isinstance(outcome, datetime)]
    assert (len(outcomes), len(times), len(set(times))) == (160, 20, 20)


class EndedError(BaseException):
    """The end of a request's time, which the local stack raises in the request's thread."""


def test_commits_of_other_threads_have_an_outcome_when_the_thread_that_commits_is_ended(
    opened: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    committing = opened._committed
    outcomes: list[object] = []

    def commit() -> None:
        try:
            outcomes.append(opened.commit([Put("d/b", {})]))
        except Unavailable as error:
            outcomes.append(error)

    def ended(group: Any) -> Any:
        monkeypatch.setattr(opened, "_committed", committing)
        raise EndedError

    other = threading.Thread(target=commit)
    with opened._turn:
        other.start()
        while not opened._waiting:
            time.sleep(0.001)
        monkeypatch.setattr(opened, "_committed", ended)
        with pytest.raises(EndedError):
            opened._commit_group()
    other.join(timeout=5)
    assert [type(outcome) for outcome in outcomes] == [Unavailable]


BANK = """
import json, os, random, sys, threading
from pathlib import Path
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Change, Conflict, Must, Put
file, synchronous, notes, name, accounts = sys.argv[1:]
store = SqliteStore(Path(file), {"t": "transfers/{id}"}, synchronous)
out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def transfer(thread):
    rng = random.Random()
    n = 0
    while True:
        one, other = rng.sample(range(int(accounts)), 2)
        read = store.read(f"accounts/{one}", f"accounts/{other}")
        id_ = f"{name}-{thread}-{n}"
        try:
            done = store.commit([
                Change(f"accounts/{one}", {("balance",): read[0].data["balance"] - 1}, read[0].guard),
                Change(f"accounts/{other}", {("balance",): read[1].data["balance"] + 1}, read[1].guard),
                Put(f"transfers/{id_}", {"from": one, "to": other, "state": "done"}, Must.NOT_EXIST),
            ])
        except Conflict:
            continue
        os.write(out, (json.dumps([id_, done.commit_time.isoformat()]) + "\\n").encode())
        n += 1
for thread in range(3):
    threading.Thread(target=transfer, args=(thread,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_acknowledged_commits_survive_the_death_of_processes(file: Path, synchronous: str) -> None:
    """Processes move money and note each acknowledged transfer; they are killed, one by one and all at once."""
    with closing(SqliteStore(file)) as store:
        store.commit([Put(f"accounts/{n}", {"balance": BALANCE}) for n in range(ACCOUNTS)])
        assert store.count(Query("transfers", (Condition(("state",), "==", "done"),))) == 0  # makes the index
    notes = file.with_name("notes")
    numbers = iter(range(10**6))

    def start() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", BANK, str(file), synchronous, str(notes), f"p{next(numbers)}", str(ACCOUNTS)]
        return subprocess.Popen(command)

    rng = random.Random(7)
    running = [start() for _ in range(3)]
    try:
        for kill in range(KILLS):
            wait_for_transfers(notes)
            time.sleep(rng.uniform(0, 0.3))
            for process in list(running) if kill % 3 == 2 else [rng.choice(running)]:
                process.send_signal(signal.SIGKILL)
                process.wait()
                running[running.index(process)] = start()
            check_bank(file, notes)
        wait_for_transfers(notes)
    finally:
        for process in running:
            process.kill()
            process.wait()
    transfers, noted = check_bank(file, notes)
    assert transfers >= noted > 20


def wait_for_transfers(notes: Path) -> None:
    """Wait until some more transfers are noted: processes may take seconds to start."""
    noted, give_up_at = lines_of(notes), time.monotonic() + 60
    while lines_of(notes) < noted + 5:
        assert time.monotonic() < give_up_at, "no process commits any more"
        time.sleep(0.01)


def lines_of(notes: Path) -> int:
    return notes.read_bytes().count(b"\n") if notes.exists() else 0


def check_bank(file: Path, notes: Path) -> tuple[int, int]:
    """Check the store, perhaps while processes write: no transfer is lost or halved, each has its event and its entry.

    Return the numbers of transfers and of noted ones.
    """
    noted = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    with closing(SqliteStore(file)) as store, closing(sqlite3.connect(file)) as db:
        assert sum((each.data or {})["balance"] for each in store.query(Query("accounts"))) == ACCOUNTS * BALANCE
        for id_, at in noted:
            [read] = store.read(f"transfers/{id_}")
            assert read.update_time == datetime.fromisoformat(at), f"{id_} was acknowledged and is lost"
        db.execute("BEGIN")
        [records] = db.execute("SELECT count(*) FROM records WHERE collection = 'transfers'").fetchone()
        [events] = db.execute("SELECT count(DISTINCT path) FROM events").fetchone()
        [entries] = db.execute("SELECT count(*) FROM entries").fetchone()
        [sound] = db.execute("PRAGMA integrity_check").fetchone()
        assert (sound, events, entries) == ("ok", records, records)
    return records, len(noted)
