"""`signalbox data export` and `import`: what one database has, another has after them, in values, times and order."""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.adapters.sqlite.events import EventLog
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import SERVER_TIME, Change, Must, Put, Query, Store
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Condition, Order
from signalbox.core.records.record_values import same
from signalbox.core.times import microseconds
from signalbox_tools.exports import copying
from signalbox_tools.exports.copying import Import, Refused, export
from signalbox_tools.exports.databases import Database, FirestoreDatabase, SqliteDatabase
from signalbox_tools.exports.files import IMPORTS, BadFile, Record
from signalbox_tools.exports.typed_values import fields_of, typed_fields
from tests.contract.generated_values import records

DATA: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "one as a double": 1.0,
    "least": -(2**63),
    "most": 2**63 - 1,
    "minus zero": -0.0,
    "small": 5e-324,
    "large": 1.7976931348623157e308,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "empty text": "",
    "text": 'é 漢字 😀 "quoted" \\ \x00 \n  end',
    "first time": datetime(1, 1, 1, tzinfo=UTC),
    "last time": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "time": datetime(2026, 11, 29, 8, 30, 0, 1, tzinfo=UTC),
    "bytes": {"__bytes__": "AAEC/w=="},
    "no bytes": {"__bytes__": ""},
    "point": {"__geo_point__": [48.85, -2.35]},
    "reference": {"__reference__": "projects/p/databases/(default)/documents/documents/a"},
    "list": [1, 1.0, True, None, "1", {}],
    "empty list": [],
    "map": {"a.b": {"`": [{"list": [{"deep": {"__bytes__": "AA=="}}]}]}, "é": 0},
    "empty map": {},
    "a `name`.with \\ dots": 1,
}


Databases = Callable[[str], tuple[Database, Store]]


@pytest.fixture
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Databases]:
    """Make an empty database of a kind, with a store for its records."""
    with ExitStack() as stack:

        def make(kind: str) -> tuple[Database, Store]:
            name = uuid.uuid4().hex
            if kind == "sqlite":
                file = tmp_path / f"{name}.sqlite"
                database: Database = stack.enter_context(closing(SqliteDatabase(file)))
                return database, stack.enter_context(closing(SqliteStore(file, {"any": "documents/{id}"})))
            place = (f"demo-{name}", "(default)", request.getfixturevalue("firestore_emulator"))
            database = stack.enter_context(closing(FirestoreDatabase(*place)))
            return database, stack.enter_context(closing(FirestoreStore(*place)))

        yield make


def exported(database: Database, path: Path) -> Path:
    export(database, "a test", path, print)
    return path


def imported(path: Path, database: Database, *, overwrite: bool = False) -> None:
    found = Import.of(path)
    found.run(database, found.check(database, overwrite=overwrite), print)


def lines(path: Path) -> dict[str, Any]:
    """Return the lines of the records by path."""
    parsed = map(json.loads, path.read_text("utf-8").splitlines()[1:-1])
    return {line["path"]: line for line in parsed}


@pytest.mark.parametrize("kinds", [("sqlite", "firestore", "sqlite"), ("firestore", "sqlite", "firestore")])
def test_values_of_every_kind_arrive_unchanged_through_all_databases(
    databases: Databases, kinds: Sequence[str], tmp_path: Path
) -> None:
    database, store = databases(kinds[0])
    store.commit([Put("documents/a", DATA), Put("documents/a/below/b", {}), Put("a/b/c/d/e/f", {"n": 1})])
    first = exported(database, tmp_path / "0")
    for number, kind in enumerate(kinds[1:], 1):
        database, store = databases(kind)
        imported(tmp_path / f"{number - 1}", database)
        exported(database, tmp_path / f"{number}")
        [read] = store.read("documents/a")
        assert same(read.data, {name: DATA[name] for name in sorted(DATA)})
    fields = [{path: line["fields"] for path, line in lines(tmp_path / f"{n}").items()} for n in range(3)]
    assert fields[0] == fields[1] == fields[2]
    assert fields[0].keys() == {"documents/a", "documents/a/below/b", "a/b/c/d/e/f"}
    assert first.stat().st_mode & 0o077 == 0


def test_a_file_imported_into_a_file_keeps_times_and_causes_no_events_and_later_commits_are_later(
    databases: Databases, tmp_path: Path
) -> None:
    database, store = databases("sqlite")
    store.commit([Put("documents/a", {"n": 1})])
    store.commit([Change("documents/a", {("n",): 2}, Must.EXIST)])
    path = exported(database, tmp_path / "export")
    [before] = store.read("documents/a")
    other, into = databases("sqlite")
    into.query(Query("documents", (Condition(("n",), "==", 2),), (Order(("n",)),)))  # makes an index
    imported(path, other)
    [after] = into.read("documents/a")
    assert (after.create_time, after.update_time, after.data) == (before.create_time, before.update_time, {"n": 2})
    assert [each.path for each in into.query(Query("documents", (Condition(("n",), "==", 2),)))] == ["documents/a"]
    assert isinstance(into, SqliteStore)
    with closing(EventLog(tmp_path / into._file.name)) as log:
        assert log.counts().received == 0
    assert into.commit([Put("documents/b", {})]).commit_time > (after.update_time or after.read_time)


@pytest.mark.parametrize("kind", ["sqlite", "firestore"])
def test_all_records_of_an_export_are_those_of_one_instant(databases: Databases, kind: str) -> None:
    database, store = databases(kind)
    store.commit([Put("documents/a", {"n": 1}), Put("documents/b", {"n": 1})])
    with database.all_records() as (read_time, records):
        first = next(records)
        store.commit([Put("documents/a", {"n": 2}), Put("documents/b", {"n": 2}), Put("documents/c", {})])
        found = [first, *records]
    assert [(record.path, record.data) for record in found] == [("documents/a", {"n": 1}), ("documents/b", {"n": 1})]
    assert all(record.update_time <= read_time for record in found)


def test_an_export_of_firestore_has_all_pages(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signalbox_tools.exports.databases.PAGE", 3)
    monkeypatch.setattr("signalbox_tools.exports.databases.PAGE_BYTES_MAX", 10_000)
    database, store = databases("firestore")
    paths = {f"{collection}/{n}" for collection in ("a", "a/0/b", "c/not a record/b") for n in range(4)}
    store.commit([Put(path, {"text": "x" * 4_000}) for path in paths])
    assert lines(exported(database, tmp_path / "export")).keys() == paths


WAITING = [f"{above}/{id_}" for above in ("semaphores/s/waiters", "rates/r/rate_waits") for id_ in ("c", "a", "b")]


@pytest.mark.parametrize("kind", ["sqlite", "firestore"])
def test_waiters_keep_their_order_and_their_semaphore_and_the_outbox_comes_last(
    databases: Databases, tmp_path: Path, kind: str
) -> None:
    database, store = databases("sqlite")
    store.commit([Put("outbox/o", {"tasks": []}), Put("objects/x/mailbox/!", {})])
    store.commit([Put("semaphores/s", {}), Put("rates/r", {})])
    made = {path: incarnation(store, path) for path in ("semaphores/s", "rates/r")}
    for path in WAITING:
        above = path.rpartition("/")[0].rpartition("/")[0]
        store.commit([Put(path, {"since": SERVER_TIME, "incarnation": made[above]})])
    store.commit([Put("semaphores/s/waiters/of an earlier one", {"incarnation": 1})])
    file = exported(database, tmp_path / "export")

    database, store = databases(kind)
    imported(file, database)
    for above, collection in (("semaphores/s", "waiters"), ("rates/r", "rate_waits")):
        waiters = store.query(Query(f"{above}/{collection}", order_by=(Order(("since",)),)))
        in_order = sorted(waiters, key=lambda each: each.create_time or each.read_time)
        assert [each.id for each in in_order] == ["c", "a", "b"]
        assert {(each.data or {})["incarnation"] for each in waiters} == {incarnation(store, above)}
    [earlier] = store.read("semaphores/s/waiters/of an earlier one")
    assert earlier.data == {"incarnation": 1}
    if kind == "firestore":
        [last, *others] = store.read("outbox/o", "semaphores/s", "objects/x/mailbox/!", *WAITING)
        assert all((last.create_time or last.read_time) > (each.create_time or each.read_time) for each in others)


def incarnation(store: Store, path: str) -> int:
    [found] = store.read(path)
    assert found.create_time is not None
    return microseconds(found.create_time)


class Failing:
    """A database whose commits fail after some that succeed."""

    def __init__(self, database: Database, commits: int) -> None:
        self._database, self._left = database, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def put(self, records: Sequence[Record]) -> None:
        if self._left == 0:
            raise Unavailable("the network is down")
        self._left -= 1
        self._database.put(records)


@pytest.mark.parametrize("kind", ["sqlite", "firestore"])
def test_an_import_that_was_interrupted_anywhere_continues_where_it_ended(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(copying, "RECORDS_A_COMMIT", 2)
    source, store = databases("sqlite")
    store.commit([Put(f"documents/{n}", {"n": n}) for n in range(5)])
    for path in ("outbox/o", *(f"objects/x/mailbox/{n}" for n in range(2))):
        store.commit([Put(path, {"since": 1})])
    file = exported(source, tmp_path / "export")
    for commits in range(1, 4 if kind == "sqlite" else 6):
        database, _ = databases(kind)
        found = Import.of(file)
        with pytest.raises(Unavailable):
            found.run(Failing(database, commits), 0, print)
        with pytest.raises(Refused, match="interrupted"):
            exported(database, tmp_path / f"of {commits}")
        begun = found.check(database, overwrite=False)
        assert 0 < begun <= 2 * commits
        written = Counting(database)
        found.run(written, begun, print)
        assert written.count == 8 - begun
        assert lines(exported(database, tmp_path / f"of {commits}")).keys() == lines(file).keys()


class Counting(Failing):
    """A database that counts the records written, without those of the progress."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, -1)
        self.count = 0

    def put(self, records: Sequence[Record]) -> None:
        super().put(records)
        self.count += len(records) - 1


@pytest.mark.parametrize("kind", ["sqlite", "firestore"])
def test_a_database_with_records_is_refused_unless_they_may_be_replaced(
    databases: Databases, tmp_path: Path, kind: str
) -> None:
    source, store = databases("sqlite")
    store.commit([Put("documents/a", {"n": 1})])
    path = exported(source, tmp_path / "export")
    database, store = databases(kind)
    store.commit([Put("documents/a", {"n": 2, "m": 2}), Put("documents/b", {"n": 2})])
    with pytest.raises(Refused, match=r"has records, such as documents/a\. .* --overwrite"):
        imported(path, database)
    imported(path, database, overwrite=True)
    assert [each.data for each in store.query(Query("documents"))] == [{"n": 1}, {"n": 2}]


def test_a_database_with_half_of_another_export_is_refused(databases: Databases, tmp_path: Path) -> None:
    source, store = databases("sqlite")
    store.commit([Put("documents/a", {})])
    database, store = databases("sqlite")
    store.commit([Put(f"{IMPORTS}/another", {"records": 1}), Put("documents/b", {})])
    for overwrite in (False, True):
        with pytest.raises(Refused, match="another file into this database was interrupted"):
            imported(exported(source, tmp_path / f"export {overwrite}"), database, overwrite=overwrite)


LINE = '{"path":"a/b","create_time":"2026-01-01T00:00:00Z","update_time":"2026-01-01T00:00:00Z","fields":{}}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "Line 3 is not JSON"),
        ("[]", "Line 3 is not an object"),
        (
            LINE.replace('"fields"', '"field"'),
            "Line 3 has not exactly the members create_time, fields, path, update_time",
        ),
        (LINE.replace("a/b", "a"), "Line 3 is not a record: 'a' is not the path of a record"),
        (LINE.replace("a/b", "a/__b__"), "is not the path of a record"),
        (LINE.replace("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"), "a time needs its zone"),
        (LINE.replace('"update_time":"2026', '"update_time":"2025'), "Line 3: a record is created, then updated"),
        (LINE.replace('"update_time":"2026', '"update_time":"9026'), "Line 3: a record is created, then updated"),
        (LINE.replace("{}", "[]"), "fields is not an object"),
        (LINE.replace("{}", '{"a":1}'), "fields.a is not an object with one typed value"),
        (LINE.replace("{}", '{"a":{"intValue":"1"}}'), "fields.a has the type 'intValue'"),
        (LINE.replace("{}", '{"a":{"integerValue":1}}'), "fields.a: '1' is not a valid integerValue"),
        (LINE.replace("{}", '{"a":{"integerValue":"9223372036854775808"}}'), "is not a valid integerValue"),
        (LINE.replace("{}", '{"a":{"bytesValue":"A"}}'), "is not a valid bytesValue"),
        (LINE.replace("{}", '{"a":{"geoPointValue":{"latitude":91,"longitude":0}}}'), "is not a valid geoPointValue"),
        (LINE.replace("{}", '{"a":{"stringValue":"\\ud800"}}'), "is not a valid stringValue"),
        (LINE.replace("{}", '{"a":{"doubleValue":"nan"}}'), "is not a valid doubleValue"),
        (LINE.replace("{}", '{"a":{"timestampValue":5}}'), "is not a valid timestampValue"),
        (LINE.replace("{}", '{"__a__":{"nullValue":null}}'), "has the name '__a__', which Firestore refuses"),
        (LINE.replace("{}", '{"a":{"arrayValue":{"values":[{"arrayValue":{}}]}}}'), "a list directly in a list"),
        (LINE.replace("{}", '{"a":{"mapValue":{"fields":' * 21 + "{}" + "}}}" * 21), "is nested deeper than 20 levels"),
        (LINE.replace("{}", '{"a":{"stringValue":"' + "x" * 1_048_576 + '"}}'), "at most 1,048,576 bytes"),
        ("[" * 100_000, "Line 3 is not JSON"),
    ],
)
def test_a_line_that_is_not_a_record_is_named_and_nothing_is_written(
    databases: Databases, tmp_path: Path, line: str, said: str
) -> None:
    source, store = databases("sqlite")
    store.commit([Put("documents/a", {}), Put("documents/b", {})])
    path = exported(source, tmp_path / "export")
    first, kept, _, end = path.read_text().splitlines()
    path.write_text("\n".join([first, kept, line, end, ""]))
    database, store = databases("sqlite")
    with pytest.raises(BadFile, match=said):
        imported(path, database)
    assert store.query(Query("documents")) == ()


@pytest.mark.parametrize("cut", [1, 2, 3, "a record"])
def test_a_file_that_is_cut_or_lacks_a_record_is_refused(databases: Databases, tmp_path: Path, cut: int | str) -> None:
    source, store = databases("sqlite")
    store.commit([Put("documents/a", {}), Put("documents/b", {})])
    path = exported(source, tmp_path / "export")
    kept = path.read_text().splitlines()
    path.write_text("\n".join([kept[0], *kept[2:]] if cut == "a record" else kept[: int(cut)]))
    with pytest.raises(BadFile, match="the file is cut, or lines were"):
        Import.of(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, r"a newer release wrote this file \(format 2; this release reads 1\)"),
        ({"read_time": "9000-01-01T00:00:00Z"}, "in the future"),
        ({"read_time": "soon"}, "not the beginning of an export"),
        ({"format": float("inf")}, "not the beginning of an export"),
        ({"export": None, "format": None}, "not the beginning of an export"),
    ],
)
def test_a_first_line_that_is_not_ours_is_refused(
    databases: Databases, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    source, _ = databases("sqlite")
    path = exported(source, tmp_path / "export")
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *others]))
    with pytest.raises(BadFile, match=said):
        Import.of(path)


def test_an_export_that_is_interrupted_leaves_no_file_of_its_name(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, store = databases("sqlite")
    store.commit([Put("documents/a", {})])
    monkeypatch.setattr(copying, "write", no_space)
    with pytest.raises(OSError, match="No space"):
        exported(database, tmp_path / "export")
    assert not (tmp_path / "export").exists()
    monkeypatch.undo()
    exported(database, tmp_path / "export")
    with pytest.raises(Refused, match=r"export exists\. Name another file, or delete it"):
        exported(database, tmp_path / "export")


def no_space(*_: Any) -> int:
    raise OSError("No space left on device")


@given(records)
def test_the_line_of_a_record_contains_all_of_it(data: dict[str, Any]) -> None:
    line = json.dumps(typed_fields(data), ensure_ascii=False, allow_nan=False)
    assert same(fields_of(json.loads(line)), data)


def test_a_vector_passes_through_a_file(databases: Databases, tmp_path: Path) -> None:
    vector = {"vector": {"__type__": "__vector__", "value": [1.0, 2.0]}}
    database, store = databases("firestore")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    database.put([Record("documents/a", vector, now, now)])
    other, _ = databases("sqlite")
    imported(exported(database, tmp_path / "1"), other)
    last, store = databases("firestore")
    imported(exported(other, tmp_path / "2"), last)
    assert store.read("documents/a")[0].data == vector
