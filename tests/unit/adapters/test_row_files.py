"""Files of rows, on this machine and in Google's client against an emulator of Cloud Storage."""

import csv
import gzip
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.server import create_server
from google.api_core.exceptions import PreconditionFailed
from google.cloud.storage import Client
from hypothesis import given
from hypothesis import settings as runs
from hypothesis import strategies as st

from signalbox import Function, NotFound, Unit, batch, read_rows, write_rows
from signalbox.adapters import row_files, settings
from signalbox.adapters.row_files import LINE_BYTES_MAX, BadRows, write_archive
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox_tools.local.child_processes import free_ports

ROWS = [{"n": 1, "name": "Grüße"}, {"n": 2, "name": "a\nb"}]


def _as_google(request: Any, response: Any, storage: Any) -> None:
    """Send an object as Cloud Storage does, where the emulator differs.

    Ranges are of the stored bytes, a range beyond them is 416, the encoding is in a header, and another generation than
    the one asked for is 412.
    """
    bucket, name = request.params["bucket_name"], request.params["object_id"]
    stored = storage.get_file_obj(bucket, name)
    start = int((request.get_header("range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
    if request.query.get("ifGenerationMatch", [stored["generation"]]) != [stored["generation"]]:
        response.status = HTTPStatus.PRECONDITION_FAILED
    elif start and start >= len(storage.get_file(bucket, name)):
        response.status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    else:
        objects.download(request, response, storage)
        if "contentEncoding" in stored:
            response["Content-Encoding"] = stored["contentEncoding"]


@pytest.fixture(scope="module")
def storage() -> Iterator[pytest.MonkeyPatch]:
    [port] = free_ports(1)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="shop")
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        for _, handlers in emulator.HANDLERS:
            if handlers.get("GET") is objects.download:
                patch.setitem(handlers, "GET", _as_google)
        yield patch
    server.stop()


@pytest.mark.parametrize("end", ["ndjson", "jsonl", "ndjson.gz"])
def test_rows_are_read_as_they_were_written(tmp_path: Path, end: str) -> None:
    file = tmp_path / f"rows.{end}"
    assert write_rows(file, iter(ROWS)) == 2
    assert list(read_rows(file)) == ROWS
    first = file.read_bytes()
    write_rows(file, ROWS)
    assert file.read_bytes() == first


@pytest.mark.parametrize("backwards", [False, True])
def test_files_are_read_in_the_order_of_their_names_whatever_the_order_of_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    """In a later delivery, another order would be another body (`OtherBody`)."""
    found = Path.glob
    monkeypatch.setattr(Path, "glob", lambda *given: iter(sorted(found(*given), reverse=backwards)))
    for number in (2, 1, 3):
        write_rows(tmp_path / f"rows-{number}.ndjson", [{"n": number}])
    assert [row["n"] for row in read_rows(tmp_path / "rows-*.ndjson")] == [1, 2, 3]


@pytest.mark.parametrize("end", ["ndjson", "ndjson.gz"])
@pytest.mark.usefixtures("storage")
def test_rows_in_cloud_storage(end: str) -> None:
    for number in (2, 1):
        write_rows(f"gs://shop/in/rows-{number}.{end}", [{"n": number * 10 + each} for each in range(3)])
    write_rows(f"gs://shop/in/rows-3.other.{end}", [{"n": 0}])
    assert [row["n"] for row in read_rows(f"gs://shop/in/rows-[12].{end}")] == [10, 11, 12, 20, 21, 22]
    assert next(read_rows(f"gs://shop/in/rows-2.{end}")) == {"n": 20}
    with pytest.raises(NotFound, match="No file matches gs://shop/out/"):
        list(read_rows(f"gs://shop/out/*.{end}"))


def _store(name: str, stored: bytes, encoding: str | None = None) -> None:
    blob = Client().bucket("shop").blob(name)
    blob.content_encoding = encoding
    blob.upload_from_string(stored)


def _table(rows: int) -> bytes:
    """Return a table that compression makes only half as long."""
    digits = random.Random(1)
    return b"a,b\n" + b"".join(b"%d,%x\n" % (number, digits.getrandbits(160)) for number in range(rows))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "CHUNK_BYTES", 16 * 1024)


@pytest.mark.parametrize("encoding", [None, "gzip", "GZIP"])
@pytest.mark.parametrize("end", ["csv", "csv.gz"])
@pytest.mark.usefixtures("storage", "small_chunks")
def test_an_object_of_several_chunks_has_all_its_rows_whatever_its_encoding(end: str, encoding: str | None) -> None:
    packed = gzip.compress(_table(3_000)) if encoding or end == "csv.gz" else _table(3_000)
    assert len(packed) > 3 * row_files.CHUNK_BYTES
    _store(f"encoded/rows.{end}", packed, encoding)
    assert [int(row["a"]) for row in read_rows(f"gs://shop/encoded/rows.{end}")] == list(range(3_000))


@pytest.mark.usefixtures("storage", "small_chunks")
def test_a_compressed_object_that_is_stored_compressed_again_is_read() -> None:
    _store("twice/rows.csv.gz", gzip.compress(gzip.compress(_table(3_000))), "gzip")
    assert sum(1 for _ in read_rows("gs://shop/twice/rows.csv.gz")) == 3_000


@pytest.mark.usefixtures("storage", "small_chunks")
def test_an_object_of_which_not_all_bytes_came_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _store("cut/rows.csv", _table(3_000))
    [blob] = Client().list_blobs("shop", prefix="cut/")
    blob._properties["size"] = str(blob.size + 1)
    monkeypatch.setattr(row_files, "_objects", lambda _: [("gs://shop/cut/rows.csv", blob)])
    with pytest.raises(BadRows, match=r"Cloud Storage sent [\d,]+ of [\d,]+ bytes"):
        list(read_rows("gs://shop/cut/rows.csv"))


@pytest.mark.usefixtures("storage")
def test_an_object_with_an_encoding_that_cannot_be_unpacked_is_refused() -> None:
    _store("odd/rows.csv", b"a\n1\n", "br")
    with pytest.raises(BadRows, match="has the Content-Encoding br: store it with gzip or without"):
        list(read_rows("gs://shop/odd/rows.csv"))


@pytest.mark.usefixtures("storage", "small_chunks")
def test_an_object_that_is_replaced_while_it_is_read_is_not_read_on() -> None:
    _store("replaced/rows.csv", _table(3_000))
    rows = read_rows("gs://shop/replaced/rows.csv")
    next(rows)
    _store("replaced/rows.csv", _table(3_000))
    with pytest.raises(PreconditionFailed):
        list(rows)


@pytest.mark.usefixtures("storage")
def test_the_mark_of_a_folder_is_not_a_file_of_rows() -> None:
    _store("marked/", b"")
    _store("marked/rows.csv", b"a\n1\n")
    assert list(read_rows("gs://shop/marked/*")) == [{"a": "1"}]


@pytest.mark.usefixtures("storage")
def test_a_file_that_was_not_written_whole_is_not_there(tmp_path: Path) -> None:
    def failing() -> Iterator[dict[str, str]]:
        yield from ({"text": "x" * 900_000} for _ in range(4))
        raise RuntimeError("no more")

    for target in (f"{tmp_path}/out.ndjson", "gs://shop/broken/out.ndjson"):
        write_rows(target, ROWS)
        with pytest.raises(RuntimeError):
            write_rows(target, failing())
        assert list(read_rows(target)) == ROWS
    assert [path.name for path in tmp_path.iterdir()] == ["out.ndjson"]


@pytest.mark.usefixtures("storage")
def test_an_archive_that_exists_is_not_written_again(tmp_path: Path) -> None:
    before = settings.bind(replace(settings.settings(), storage_emulator="is set"))
    try:
        for archive in ("gs://shop/archive/run.ndjson", f"{tmp_path}/archive/run.ndjson"):
            write_archive(archive, ROWS)
            write_archive(archive, [])  # a bucket with a retention policy would refuse it
            assert list(read_rows(archive)) == ROWS
    finally:
        settings.bind(before)


def test_a_file_has_its_name_only_when_the_disk_has_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(row_files, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_archive(f"{tmp_path}/run.ndjson", ROWS)
    assert list(tmp_path.iterdir()) == []


def test_two_deliveries_that_write_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "out.ndjson"

    def interrupted() -> Iterator[dict[str, int]]:
        yield {"n": 1}
        write_rows(file, ({"n": each} for each in (3, 4, 5)))
        yield {"n": 2}

    write_rows(file, interrupted())
    assert list(read_rows(file)) == [{"n": 1}, {"n": 2}]
    assert [path.name for path in tmp_path.iterdir()] == ["out.ndjson"]


def test_a_table_has_strings_under_the_names_of_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('\ufeffname,count\r\n"Smith, J",1\r\n\r\n"two\nlines",2\r\n', "utf-8")
    assert list(read_rows(tmp_path / "a.csv")) == [
        {"name": "Smith, J", "count": "1"},
        {"name": "two\nlines", "count": "2"},
    ]


def test_a_table_has_fields_as_long_as_a_line_may_be(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f'name,text\na,"{"x" * 1_000_000}"\n')
    assert list(read_rows(tmp_path / "rows.csv")) == [{"name": "a", "text": "x" * 1_000_000}]


WRONG = {
    "a.ndjson": (b'{"a": 1}\n{"a": \n', "a.ndjson, line 2: Line 1, column"),
    "b.ndjson": (b"[1]\n", "b.ndjson, line 1: write an object"),
    "c.ndjson": (b'{"a": "' + b"x" * LINE_BYTES_MAX + b'"}\n', "line 1: it has more than 1,048,576 bytes"),
    "d.ndjson": (b'{"a": 1, "a": 2}\n', "line 1: An object has this name twice"),
    "e.ndjson": (b'"\xff"\n', "line 1: Byte 1 is not UTF-8"),
    "f.csv": (b"a,a\n1,2\n", "line 1: each column needs a name of its own"),
    "g.csv": (b"a,b\n1,2\n1\n", "line 3: 1 values for 2 columns"),
    "h.csv": (b"a\n\xc3\xa9\n\xff\n1\n", "h.csv, line 3: it is not UTF-8"),
    "i.ndjson.gz": (b"no", "i.ndjson.gz, line 1: Not a gzipped file"),
    "j.ndjson.gz": (gzip.compress(b'{"a": 1}\n')[:-8], "j.ndjson.gz, line 2: Compressed file ended"),
    "l.ndjson.gz": (gzip.compress(b'{"a": 1}\n')[:10] + b"\xff" * 20, "l.ndjson.gz, line 1: Error -3"),
    "p.csv.gz": (gzip.compress(b"a\n1\n")[:-8], "p.csv.gz, line 3: Compressed file ended"),
    "q.csv.gz": (b"", "q.csv.gz, line 1: the file is empty"),
    "r.ndjson.gz": (b"", "r.ndjson.gz, line 1: the file is empty"),
    "m.csv": (b'a,b\n1,"tea\n2,coffee\n', "line 3: unexpected end of data"),
    "n.csv": (b'a,b\n1,"tea"s\n', "line 2: ',' expected after '\"'"),
    "o.csv": (b"a,b\n" + b"1," * LINE_BYTES_MAX, "line 2: it has more than 1,048,576 bytes"),
    "k.txt": (b"", "must end in .ndjson, .jsonl or .csv"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    content, says = WRONG[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadRows) as refused:
        list(read_rows(tmp_path / name))
    assert says in refused.value.detail


def _nested(levels: int) -> Any:
    return [_nested(levels - 1)] if levels else 1


_CIRCLE: dict[str, Any] = {}
_CIRCLE["itself"] = _CIRCLE

REFUSED: dict[str, tuple[Any, str]] = {
    "NaN": ({"a": float("nan")}, "line 2: JSON has neither NaN nor infinities"),
    "an infinity": ({"a": [{"b": float("-inf")}]}, "line 2: JSON has neither NaN nor infinities"),
    "a number as a name": ({"a": {1: 2}}, "line 2: the name 1 is not a str"),
    "None as a name": ({None: 2}, "line 2: the name None is not a str"),
    "a name twice": ({"a": [{1: 2, "1": 3}]}, "line 2: the name 1 is not a str"),
    "levels": ({"a": _nested(100)}, "line 2: Objects and lists nest at most 100 deep"),
    "many levels": ({"a": _nested(900)}, "line 2: "),
    "a circle": (_CIRCLE, "line 2: "),
    "a long row": ({"a": "x" * LINE_BYTES_MAX}, "line 2: it has more than 1,048,576 bytes"),
    "a long number": ({"a": 10**200}, "line 2: An integer of 201 digits"),
    "a long negative number": ({"a": [-(10**99)]}, "line 2: An integer of 101 digits"),
    "halves of a character": ({"a": "\ud83d\ude00"}, "line 2: a text has two surrogates"),
    "halves of a character in a name": ({"a": {"\ud83d\ude00": 1}}, "line 2: a text has two surrogates"),
    "no JSON": ({"a": object()}, "line 2: a object cannot be rendered as JSON"),
    "a list": ([1], "line 2: a row is a dict, not a list"),
    "None": (None, "line 2: a row is a dict, not a NoneType"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_row_that_cannot_be_read_as_it_is_given_is_not_written(tmp_path: Path, what: str) -> None:
    row, says = REFUSED[what]
    file = tmp_path / "rows.ndjson"
    write_rows(file, ROWS)
    with pytest.raises(BadRows) as refused:
        write_rows(file, [{"a": 1}, row])
    assert f"{file}, {says}" in refused.value.detail
    assert list(read_rows(file)) == ROWS


def test_a_row_of_the_most_bytes_and_levels_is_written_and_read(tmp_path: Path) -> None:
    rows = [{"a": "x" * (LINE_BYTES_MAX - len(b'{"a": ""}\n'))}, {"a": _nested(99)}, MappingProxyType({"a": 1})]
    write_rows(tmp_path / "rows.ndjson", rows)
    assert list(read_rows(tmp_path / "rows.ndjson")) == [dict(row) for row in rows]


def test_a_row_that_only_looks_like_one_that_is_refused_is_written_and_read(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"a": "{[" * 100},
        {"a": "7" * 200},
        {"a": -(10**98)},
        {"\udc80": "\ude00\ud83d"},
        {"a": "\\ud83d\\ude00"},
    ]
    write_rows(tmp_path / "rows.ndjson", rows)
    assert list(read_rows(tmp_path / "rows.ndjson")) == rows


def test_a_row_is_not_parsed_to_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(row_files, "parse", parsed.append)
    write_rows(tmp_path / "rows.ndjson", ROWS)
    assert parsed == []


def test_a_file_that_is_replaced_keeps_its_permissions_and_the_links_to_it(tmp_path: Path) -> None:
    file, link = tmp_path / "private" / "rows.ndjson", tmp_path / "rows.ndjson"
    file.parent.mkdir()
    file.touch(0o600)
    link.symlink_to(file)
    write_rows(link, ROWS)
    assert (link.is_symlink(), file.stat().st_mode & 0o777) == (True, 0o600)
    assert list(read_rows(file)) == ROWS
    assert [path.name for path in tmp_path.rglob("*.part")] == []


def test_a_link_to_a_file_that_is_not_there_creates_the_file(tmp_path: Path) -> None:
    (tmp_path / "link.ndjson").symlink_to("rows.ndjson")
    write_rows(tmp_path / "link.ndjson", ROWS)
    assert list(read_rows(tmp_path / "rows.ndjson")) == ROWS


def test_a_name_of_as_many_bytes_as_a_folder_takes_is_written(tmp_path: Path) -> None:
    file = tmp_path / f"{'x' * 248}.ndjson"
    write_rows(file, ROWS)
    assert list(read_rows(file)) == ROWS


@pytest.mark.parametrize("pattern", ["orders*", "*"])
def test_a_file_that_another_process_writes_does_not_belong_to_a_pattern(tmp_path: Path, pattern: str) -> None:
    write_rows(tmp_path / "orders.ndjson", [{"n": 1}])
    seen: list[dict[str, Any]] = []

    def rows() -> Iterator[dict[str, int]]:
        yield {"n": 2}
        seen.extend(read_rows(tmp_path / pattern))

    write_rows(tmp_path / "orders.ndjson", rows())
    assert seen == [{"n": 1}]


TEXTS = st.text("ab ,\"'\\{\n\r\t\0\x1f\x85é\u2028\ufeff😀", max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


ROW_LISTS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=4)


@pytest.fixture(scope="module")
def no_fsync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_files, "fsync", lambda _: None)
        yield


@pytest.mark.usefixtures("no_fsync")
@runs(max_examples=40)
@given(rows=ROW_LISTS, end=st.sampled_from(["ndjson", "jsonl.gz"]))
def test_rows_that_are_written_are_read_and_are_lines_of_json(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], end: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"rows.{end}"
    assert write_rows(file, rows) == len(rows)
    assert list(read_rows(file)) == rows
    plain = (gzip.decompress if end.endswith(".gz") else bytes)(file.read_bytes())
    assert [json.loads(line) for line in plain.splitlines()] == rows  # bytes are split at \n and \r only


@st.composite
def odd_bytes(draw: st.DrawFn) -> bytes:
    """Return lines of a table or of JSON, with quotes, line ends of every kind, byte order marks, and wrong bytes."""
    lines = [b"a,b\n", b"1,2\n", b'{"a": 1}\n', b"\n", b"\r\n", b"\r"]
    parts = [b"a", b",", b'"', b"\xef\xbb\xbf", b"\xff", b"\xc3\xa9"]
    return b"".join(draw(st.lists(st.sampled_from(lines + parts), max_size=9)))


def _table_of_python(raw: bytes) -> list[dict[str, str]] | None:
    """Return a table as Python's csv reads it, or None if it is wrong."""
    try:
        names, *lines = list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), strict=True)) or [[]]
    except (UnicodeDecodeError, csv.Error):
        return None
    lines = [line for line in lines if line]
    is_right = len({*names}) == len(names) and all(names) and all(len(line) == len(names) for line in lines)
    return [dict(zip(names, line, strict=True)) for line in lines] if is_right else None


def _lines_of_python(raw: bytes) -> list[dict[str, Any]] | None:
    """Return the objects of lines as Python's json reads them, or None if one is wrong."""
    try:
        rows = [json.loads(line.decode("utf-8-sig")) for line in raw.split(b"\n") if line.strip()]
    except ValueError:
        return None
    return rows if all(isinstance(row, dict) for row in rows) else None


@pytest.mark.parametrize(("end", "read"), [("csv", _table_of_python), ("ndjson", _lines_of_python)])
@runs(max_examples=50)
@given(raw=odd_bytes(), cut=st.none() | st.integers(0, 40))
def test_any_bytes_are_read_as_python_reads_them_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    raw: bytes,
    cut: int | None,
    end: str,
    read: Callable[[bytes], list[Any] | None],
) -> None:
    """`cut`: how many bytes of the compressed file are left; none: it is not compressed."""
    packed = gzip.compress(raw)
    is_whole = cut is None or cut >= len(packed)
    file = tmp_path_factory.getbasetemp() / (f"odd.{end}" if cut is None else f"odd.{end}.gz")
    file.write_bytes(raw if cut is None else packed[:cut])
    expected = read(raw) if is_whole else None
    if expected is None:
        with pytest.raises(BadRows, match=", line "):
            list(read_rows(file))
    else:
        assert list(read_rows(file)) == expected


def test_a_file_whose_own_name_is_a_pattern_is_read(tmp_path: Path) -> None:
    for name, row in (("orders[1].ndjson", {"n": 1}), ("orders1.ndjson", {"n": 2})):
        write_rows(tmp_path / name, [row])
    assert list(read_rows(tmp_path / "orders[1].ndjson")) == [{"n": 1}]
    assert list(read_rows(tmp_path / "orders[12].ndjson")) == [{"n": 2}]


def test_a_wrong_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRows, match=r"must end in \.ndjson or \.jsonl"):
        write_rows(tmp_path / "a.csv", [])
    with pytest.raises(BadRows, match="write gs://BUCKET/NAME"):
        list(read_rows("gs://shop"))
    with pytest.raises(NotFound):
        list(read_rows(tmp_path / "none.ndjson"))


PEAK = """
import sys, tracemalloc
from signalbox import read_rows

tracemalloc.start()
assert sum(1 for _ in read_rows(sys.argv[1])) == 3_000
print(tracemalloc.get_traced_memory()[1])
"""


def test_a_large_file_is_not_in_memory(tmp_path: Path) -> None:
    """In a process of its own: the threads of other tests also allocate memory."""
    file = tmp_path / "large.ndjson"
    write_rows(file, ({"text": "x" * 10_000} for _ in range(3_000)))
    ran = subprocess.run([sys.executable, "-c", PEAK, str(file)], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < file.stat().st_size / 10


@pytest.mark.usefixtures("storage")
def test_a_batch_from_files_with_its_results_in_a_file(harness: Harness) -> None:
    app = Function("imports")

    @app.task
    def double(units: list[Unit], n: list[int]) -> list[int]:
        return [2 * each for each in n]

    @app.task
    def load() -> None:
        calls = (double.call(n=[row["n"]]) for row in read_rows("gs://shop/load/*.ndjson"))
        batch("doubles").populate(calls, per_task=20, on_complete=keep.call())

    @app.task
    def keep() -> None:
        write_rows("gs://shop/results.ndjson", batch("doubles").results())

    harness.add(app)
    for part in range(3):
        write_rows(f"gs://shop/load/{part}.ndjson", ({"n": part * 100 + each} for each in range(100)))
    load.call().enqueue()
    harness.run()
    assert sorted(row["result"] for row in read_rows("gs://shop/results.ndjson")) == [2 * each for each in range(300)]


@pytest.mark.slow
def test_a_repeat_continues_a_batch_that_died_while_it_was_populated(harness: Harness, tmp_path: Path) -> None:
    app = Function("imports")

    @app.task
    def work(n: int) -> int:
        return n

    harness.add(app)
    write_rows(tmp_path / "rows.ndjson", ({"n": each} for each in range(10_500)))

    def calls(most: int | None) -> Iterator[object]:
        for row in islice(read_rows(tmp_path / "rows.ndjson"), most):
            yield work.call(**row)
        if most is not None:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        batch("b").populate(calls(10_200))  # type: ignore[arg-type]  # calls of one task
    assert batch("b").status()["state"] == "open"
    assert batch("b").populate(calls(None))["size"] == 10_500  # type: ignore[arg-type]  # as above
