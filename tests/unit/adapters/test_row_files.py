"""Files of rows, on this machine and in Google's client against an emulator of Cloud Storage."""

import gzip
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from gcp_storage_emulator.server import create_server

from signalbox import Function, NotFound, Unit, batch, read_rows, write_rows
from signalbox.adapters import row_files, settings
from signalbox.adapters.row_files import LINE_BYTES_MAX, BadRows, write_archive
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox_tools.local.child_processes import free_ports

ROWS = [{"n": 1, "name": "Grüße"}, {"n": 2, "name": "a\nb"}]


@pytest.fixture(scope="module")
def storage() -> Iterator[pytest.MonkeyPatch]:
    [port] = free_ports(1)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="shop")
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
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


@pytest.mark.usefixtures("storage")
def test_a_file_that_was_not_written_whole_is_not_there(tmp_path: Path) -> None:
    def failing() -> Iterator[dict[str, str]]:
        yield {"text": "x" * 3_000_000}
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


WRONG = {
    "a.ndjson": (b'{"a": 1}\n{"a": \n', "a.ndjson, line 2: Line 1, column"),
    "b.ndjson": (b"[1]\n", "b.ndjson, line 1: write an object"),
    "c.ndjson": (b'{"a": "' + b"x" * LINE_BYTES_MAX + b'"}\n', "line 1: it has more than 1,048,576 bytes"),
    "d.ndjson": (b'{"a": 1, "a": 2}\n', "line 1: An object has this name twice"),
    "e.ndjson": (b'"\xff"\n', "line 1: Byte 1 is not UTF-8"),
    "f.csv": (b"a,a\n1,2\n", "line 1: each column needs a name of its own"),
    "g.csv": (b"a,b\n1,2\n1\n", "line 3: 1 values for 2 columns"),
    "h.csv": (b"a\n\xff\n", "h.csv: 'utf-8' codec can't decode"),
    "i.ndjson.gz": (b"no", "i.ndjson.gz: Not a gzipped file"),
    "j.ndjson.gz": (gzip.compress(b'{"a": 1}\n')[:-8], "j.ndjson.gz: Compressed file ended"),
    "l.ndjson.gz": (gzip.compress(b'{"a": 1}\n')[:10] + b"\xff" * 20, "l.ndjson.gz: Error -3"),
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


def test_a_file_whose_own_name_is_a_pattern_is_read(tmp_path: Path) -> None:
    for name, row in (("orders[1].ndjson", {"n": 1}), ("orders1.ndjson", {"n": 2})):
        write_rows(tmp_path / name, [row])
    assert list(read_rows(tmp_path / "orders[1].ndjson")) == [{"n": 1}]
    assert list(read_rows(tmp_path / "orders[12].ndjson")) == [{"n": 2}]


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write_rows(tmp_path / f"rows-{number}.ndjson", [{"n": number}])
    for order in (sorted, lambda found: sorted(found, reverse=True)):
        glob = Path.glob
        with monkeypatch.context() as patch:
            patch.setattr(Path, "glob", lambda path, name, order=order, glob=glob: iter(order(glob(path, name))))
            assert [row["n"] for row in read_rows(tmp_path / "rows-*.ndjson")] == [0, 1, 2, 3]


@pytest.mark.usefixtures("storage")
def test_a_read_asks_for_one_generation_of_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    from google.cloud.storage import Blob

    write_rows("gs://shop/generations.ndjson", ROWS)
    asked = []
    download = Blob.download_as_bytes

    def noted(blob: Blob, *given: object, **options: object) -> object:
        asked.append(options.get("if_generation_match"))
        return download(blob, *given, **options)

    monkeypatch.setattr(Blob, "download_as_bytes", noted)
    assert list(read_rows("gs://shop/generations.ndjson")) == ROWS
    assert asked
    assert set(asked) == {
        row_files._blob("gs://shop/generations.ndjson").bucket.get_blob("generations.ndjson").generation
    }


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
