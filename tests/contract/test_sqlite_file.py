"""The file of a SQLite store: its indexes, its time, and what happens if it cannot be used."""

import fcntl
import os
import resource
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from signalbox.adapters.sqlite import file as sqlite_file
from signalbox.adapters.sqlite import store as sqlite_store
from signalbox.adapters.sqlite.events import EventLog
from signalbox.adapters.sqlite.file import MACHINE_CLOCK, VERSION, Clock, Connection, StoreFileError, cannot_be_used
from signalbox.adapters.sqlite.plans import IndexKey, plan
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Change, Conflict, Data, Delete, Increment, Must, Put, Query
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Condition, Order
from signalbox.core.times import instant

SECOND = 1_000_000
HOUR = 3_600 * SECOND


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def opened(file: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(file)) as store:
        yield store


class SetClock:
    """A machine's clock that is set, next to one that is not."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_900_000_000 * SECOND, 50 * SECOND

    def opened(self, file: Path) -> "closing[SqliteStore]":
        return closing(SqliteStore(file, clock=Clock(lambda: self.wall, lambda: self.steady)))

    def pass_(self, microseconds: int) -> None:
        self.wall += microseconds
        self.steady += microseconds


# --- indexes ---


def test_an_index_that_one_process_made_is_kept_by_another(file: Path) -> None:
    with closing(SqliteStore(file)) as one, closing(SqliteStore(file)) as other:
        one.commit([Put("d/a", {"v": 1, "w": [1, 2]})])
        query = Query("d", (Condition(("w",), "array_contains", 2),), (Order(("v",), True),))
        assert [each.id for each in other.query(query)] == ["a"]
        one.commit([Put("d/b", {"v": 2, "w": [2]}), Put("d/c", {"v": 3, "w": [3]})])
        one.commit([Change("d/a", {("v",): Increment(5)})])
        assert [each.id for each in other.query(query)] == ["a", "b"]
        one.commit([Delete("d/a")])
        assert [each.id for each in other.query(query)] == ["b"]


def test_an_index_in_pieces_contains_what_is_committed_between_them(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "RECORDS_A_PIECE", 2)
    index = IndexKey("d", plan(Query("d", (Condition(("v",), ">", 0),))).needs[0].fields)
    with closing(SqliteStore(file)) as one, closing(SqliteStore(file)) as other:
        one.commit([Put(f"d/{n}", {"v": n}) for n in range(1, 8)])
        for piece in range(3):
            one._make_a_piece(index)
            other.commit([Delete(f"d/{piece + 1}"), Change(f"d/{7 - piece}", {("v",): 100 + piece})])
            other.commit([Put(f"d/new{piece}", {"v": 50 + piece})])
        assert index not in one._indexes.complete
        found = {(each.id, (each.data or {})["v"]) for each in other.query(Query("d", (Condition(("v",), ">", 0),)))}
    assert found == {("4", 4), ("7", 100), ("6", 101), ("5", 102), ("new0", 50), ("new1", 51), ("new2", 52)}


def test_an_index_of_few_records_is_made_in_one_transaction(opened: SqliteStore, file: Path) -> None:
    opened.commit([Put("d/a", {"v": 1})])
    assert [each.id for each in opened.query(Query("d", (), (Order(("v",)),)))] == ["a"]
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT indexes FROM head").fetchone() == (1,)


def test_a_commit_computes_the_keys_of_the_indexes_of_its_records_fields_only(
    opened: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.commit([Put(f"d/{n}", {"m": {f"f{n}": n}}) for n in range(3)])
    queries = [Query("d", (), (Order(("m", f"f{n}")),)) for n in range(3)]
    assert [[each.id for each in opened.query(query)] for query in queries] == [["0"], ["1"], ["2"]]
    computed, keys = set(), IndexKey.keys

    def noted(index: IndexKey, data: Data) -> Collection[bytes]:
        computed.add(index.fields[0].field)
        return keys(index, data)

    monkeypatch.setattr(IndexKey, "keys", noted)
    opened.commit([Put("d/1", {"m": {"f2": 1}}, Must.EXIST)])
    assert computed == {("m", "f1"), ("m", "f2")}
    assert [[each.id for each in opened.query(query)] for query in queries] == [["0"], [], ["1", "2"]]


SHAPES = {
    "range": Query("d", (Condition(("v",), ">", 5),)),
    "descending with a cursor": Query("d", (), (Order(("v",), True),), after=(5, "x")),
    "equal and sorted": Query("d", (Condition(("w",), "==", 1),), (Order(("v",), True),)),
    "two equalities": Query("d", (Condition(("w",), "==", 1), Condition(("t",), "array_contains", "x"))),
    "several values": Query("d", (Condition(("w",), "in", [1, 2]),)),
    "all of a group": Query("d", group=True),
    "range in a group": Query("d", (Condition(("v",), ">", 5),), group=True),
    "a whole collection": Query("d"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_query_scans_an_index_in_its_order(opened: SqliteStore, file: Path, shape: str) -> None:
    query = SHAPES[shape]
    opened.commit([Put(f"d/{n}", {"v": n, "w": n % 3, "t": ["x"]}) for n in range(100)])
    opened.query(query)
    planned = plan(query)
    with closing(sqlite3.connect(file)) as db:
        values = [1 if isinstance(value, IndexKey) else value for value in planned.values]
        steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {planned.sql}", values)]
    assert steps
    assert all(step.startswith("SEARCH") for step in steps if "several" not in shape), steps


# --- time ---


def test_a_clock_that_is_set_back_does_not_set_back_the_time_of_any_process(file: Path) -> None:
    machine = SetClock()
    with machine.opened(file) as one, machine.opened(file) as two:
        [read] = one.read("d/a")
        machine.wall -= HOUR
        machine.pass_(SECOND)
        assert two.commit([Put("d/a", {"n": 1})]).commit_time == read.read_time + timedelta(microseconds=SECOND + 1)
        machine.pass_(SECOND)
        assert one.read("d/a")[0].read_time == read.read_time + timedelta(seconds=2)


def test_the_time_follows_a_clock_that_is_set_forward(file: Path) -> None:
    machine = SetClock()
    with machine.opened(file) as one, machine.opened(file) as two:
        one.commit([Put("d/a", {"n": 1})])
        machine.wall += HOUR
        assert one.read("d/a")[0].read_time == instant(machine.wall)
        assert two.commit([Put("d/a", {"n": 2})]).commit_time == instant(machine.wall + 1)


def test_after_a_boot_the_time_is_that_of_the_clock_and_not_before_the_last_commit(file: Path) -> None:
    machine = SetClock()
    with machine.opened(file) as store:
        last = store.commit([Put("d/a", {"n": 1})]).commit_time
    machine.steady, machine.wall = SECOND, machine.wall + HOUR
    with machine.opened(file) as store:
        assert store.read("d/a")[0].read_time == instant(machine.wall)
    machine.steady, machine.wall = 2 * SECOND, machine.wall - 10 * HOUR
    with machine.opened(file) as store:
        assert store.commit([Put("d/a", {"n": 2})]).commit_time > last


def test_after_a_boot_the_time_does_not_stand_still_until_the_clock_has_caught_up(file: Path) -> None:
    machine = SetClock()
    with machine.opened(file) as store:
        machine.wall += HOUR
        last = store.commit([Put("d/a", {"n": 1})]).commit_time
    machine.steady, machine.wall = SECOND, machine.wall - HOUR + SECOND
    with machine.opened(file) as store:
        assert store.read("d/a")[0].read_time == last
        machine.pass_(5 * SECOND)
        assert store.read("d/a")[0].read_time == last + timedelta(seconds=5)
        assert store.commit([Put("d/a", {"n": 2})]).commit_time == last + timedelta(seconds=5, microseconds=1)


def test_the_time_is_that_of_the_machine(opened: SqliteStore) -> None:
    before = instant(MACHINE_CLOCK.wall())
    [read] = opened.read("d/a")
    assert abs(read.read_time - before) < timedelta(seconds=1)


# --- events ---


def test_events_are_those_of_changes_that_a_trigger_matches_in_their_order(file: Path) -> None:
    with closing(SqliteStore(file, {"t": "d/{id}", "u": "d/{id}"})) as store, closing(EventLog(file)) as log:
        created = store.commit([Put("d/a", {"n": 1}), Put("e/a", {"n": 1})])
        store.commit([Put("d/a", {"n": 1})])  # changes nothing
        with pytest.raises(Conflict):
            store.commit([Put("d/a", {}, Must.NOT_EXIST)])
        store.commit([Delete("d/a")])
        numbers = [number for number, _ in log.after(0)]
        events = [log.event(number) for number in numbers]
        assert [(event.trigger, event.before.data, event.after.data) for event in events] == [
            ("t", None, {"n": 1}),
            ("u", None, {"n": 1}),
            ("t", {"n": 1}, None),
            ("u", {"n": 1}, None),
        ]
        assert {event.after.update_time for event in events[:2]} == {created.commit_time}
        assert len({event.id for event in events}) == 4
        log.end(numbers[:2], numbers[2:3])
        assert log.after(0) == [(numbers[3], "u")]
        counts = log.counts()
        assert (counts.received, counts.left, counts.delivered, counts.given_up) == (4, 1, 2, 1)


def test_a_checkpoint_empties_the_log_and_commits_make_none_before_it_is_long(file: Path) -> None:
    with closing(SqliteStore(file)) as store, closing(EventLog(file)) as log:
        for n in range(1_500):
            store.commit([Put("d/a", {"n": n})])
        log_bytes = file.with_name("store.sqlite-wal").stat().st_size
        assert log_bytes > 1_500 * 4_096
        log.checkpoint()
        store.commit([Put("d/a", {"n": 0})])
        for n in range(100):
            store.commit([Put("d/a", {"n": n})])
        assert file.with_name("store.sqlite-wal").stat().st_size == log_bytes


def test_a_log_that_a_long_read_made_long_is_cut_after_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "LOG_BYTES_KEPT_MAX", 100_000)
    with closing(SqliteStore(file)) as store, closing(EventLog(file)) as log, closing(sqlite3.connect(file)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM head").fetchone()
        for n in range(10):
            store.commit([Put("d/a", {"n": n, "text": str(n) * 50_000})])
            log.checkpoint()
        assert file.with_name("store.sqlite-wal").stat().st_size > 500_000
        reader.rollback()
        log.checkpoint()
        store.commit([Put("d/a", {})])
        assert file.with_name("store.sqlite-wal").stat().st_size <= 100_000


# --- files that cannot be used ---


def test_a_store_whose_files_were_deleted_acknowledges_nothing_and_uses_no_other_file(file: Path) -> None:
    with closing(SqliteStore(file)) as store, closing(SqliteStore(file)) as other:
        store.commit([Put("d/a", {"n": 1})])
        for each in file.parent.iterdir():
            each.unlink()
        for _ in range(2):
            for opened in (store, other):
                with pytest.raises(Unavailable, match="was deleted while it was used"):
                    opened.commit([Put("d/a", {"n": 2})])
                with pytest.raises(Unavailable, match="was deleted while it was used"):
                    opened.read("d/a")
    with closing(SqliteStore(file)) as again:
        again.commit([Put("d/a", {"n": 3})])


def test_a_lock_file_that_was_deleted_is_made_again_and_all_use_the_new_one(file: Path) -> None:
    with closing(SqliteStore(file)) as store:
        store.commit([Put("d/a", {"n": 1})])
        file.with_name("store.sqlite.lock").unlink()
        with pytest.raises(Unavailable):
            store.read("d/a")
        assert store.read("d/a")[0].data == {"n": 1}


def test_a_forked_process_does_not_keep_the_lock_of_one_that_died(file: Path) -> None:
    held = Connection(file, "NORMAL")
    fcntl.flock(held._lock, fcntl.LOCK_EX)
    reading, writing = os.pipe()
    forked, tell_forked = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.close(tell_forked)
        os.read(reading, 1)
        os._exit(0)
    os.close(tell_forked)
    os.read(forked, 1)
    os.close(forked)
    try:
        held.close_lock()  # as the kernel does when a process dies
        with file.with_name("store.sqlite.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)
        held.close()


def in_a_fork(act: Callable[[], str]) -> str:
    """Return the result of a call in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            said = act()
        except Exception as error:  # noqa: BLE001  told to the test
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def a_commit(file: Path) -> str:
    with closing(SqliteStore(file)) as store:
        return str(store.commit([Put("d/forked", {"n": 1})]).results[0].values)


def test_a_process_that_was_forked_during_a_commit_does_not_wait_for_it_for_ever(file: Path) -> None:
    with closing(Connection(file, "NORMAL")) as connection, connection.writing() as db:
        db.execute("UPDATE head SET time = time + 1")
        said = in_a_fork(lambda: a_commit(file))
        assert said.startswith(f"StoreFileError: {file} was open when this process was forked")
        db.execute("COMMIT")
    assert a_commit(file) == "{}"


def test_a_forked_process_uses_files_that_were_not_open_at_the_fork(file: Path) -> None:
    a_commit(file)
    with closing(SqliteStore(file.with_name("another.sqlite"))):
        assert in_a_fork(lambda: a_commit(file)) == "{}"


def test_a_connection_that_is_closed_while_it_holds_the_lock_releases_it(file: Path) -> None:
    with closing(SqliteStore(file)) as store:
        connection = Connection(file, "NORMAL")
        with connection.exclusive():
            connection.close()
        store.commit([Put("d/a", {"n": 1})])


def test_a_file_in_the_place_of_the_pipe_of_notices_is_replaced(file: Path) -> None:
    pipe = file.with_name("store.sqlite.notices")
    pipe.write_text("...")
    with closing(SqliteStore(file)), closing(EventLog(file)):
        assert pipe.is_fifo()


def test_a_pipe_that_cannot_be_made_is_named(file: Path) -> None:
    file.with_name("store.sqlite.notices").mkdir()
    with pytest.raises(StoreFileError, match="cannot be used as a pipe"):
        SqliteStore(file)


def test_a_folder_in_the_place_of_the_file_is_refused(file: Path) -> None:
    file.mkdir()
    with pytest.raises(StoreFileError, match="cannot be written"):
        SqliteStore(file)


def test_a_process_without_free_descriptors_answers_that_the_store_is_unavailable(opened: SqliteStore) -> None:
    """The lock can be opened, the file cannot."""
    opened._idle.pop().close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    for spare in (0, 1, 2, 3):
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, hard))
        try:
            with pytest.raises(Unavailable):
                opened.read("d/a")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert opened.read("d/a")[0].data is None


def test_a_file_of_a_newer_release_is_refused(file: Path) -> None:
    SqliteStore(file).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StoreFileError, match="was written by a newer release"):
        SqliteStore(file)


def test_a_database_of_another_program_is_refused_and_left_as_it_is(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreFileError, match="is a database of another program"):
        SqliteStore(file)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]


@pytest.mark.parametrize("damage", ["not a file of SQLite", "pages"])
def test_a_damaged_file_is_refused_and_left_as_it_is(file: Path, damage: str) -> None:
    with closing(SqliteStore(file)) as store:
        store.commit([Put("d/a", {"text": "x" * 10_000})])
    content = file.read_bytes()
    damaged = b"?" * 4_096 + content[4_096:] if damage == "pages" else b"a text" * 100
    file.write_bytes(damaged)
    with pytest.raises(StoreFileError, match=r"store\.sqlite is damaged"):
        SqliteStore(file)
    assert file.read_bytes() == damaged


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SQLITE_READONLY", "the file and its folder must be writable"),
        ("SQLITE_FULL", "the disk is full"),
        ("SQLITE_CORRUPT", "signalbox data clear"),
    ],
)
def test_a_file_that_sqlite_cannot_open_is_refused_with_the_remedy(file: Path, name: str, said: str) -> None:
    error = sqlite3.OperationalError("no")
    error.sqlite_errorname = name
    assert said in cannot_be_used(file, error)


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFileError, match="must be writable"):
        SqliteStore(tmp_path / "absent" / "store.sqlite")


def test_a_commit_to_a_full_disk_is_unavailable_and_nothing_is_half_written(opened: SqliteStore) -> None:
    opened.commit([Put("d/a", {"n": 1})])
    [connection] = opened._idle
    [pages] = connection.db.execute("PRAGMA page_count").fetchone()
    connection.db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unavailable, match="full"):
        opened.commit([Put("d/a", {"n": 2}), Put("d/b", {"text": "x" * 100_000})])
    assert [each.data for each in opened.read("d/a", "d/b")] == [{"n": 1}, None]
    opened.commit([Put("d/a", {"n": 3})])
    assert opened.read("d/a")[0].data == {"n": 3}


def test_a_store_that_was_opened_before_a_fork_is_refused(opened: SqliteStore) -> None:
    opened._process += 1
    with pytest.raises(RuntimeError, match="open it after the fork"):
        opened.read("d/a")
