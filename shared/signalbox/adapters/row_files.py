"""Rows in files, on this machine or in Cloud Storage: read as units of a batch, and written from its results.

    batch("import").populate((load.call(**row) for row in read_rows("gs://shop/orders-*.ndjson")), per_task=20)
    write_rows("gs://shop/results.ndjson", batch("import").results())

A file has one JSON object a line (``.ndjson``, ``.jsonl``), or is a table with the names in its first line (``.csv``);
each may be compressed (``.gz``). One row and a megabyte of the file are in memory at a time.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from os import fsync
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from signalbox.adapters import runtime
from signalbox.adapters.http.json_bodies import parse, render
from signalbox.adapters.settings import settings
from signalbox.core.problems import NotFound, Problem

CLOUD = "gs://"
WILDCARDS = "*?["
COMPRESSED = ".gz"
LINES = (".ndjson", ".jsonl")
TABLE = ".csv"
CHUNK_BYTES = 1024 * 1024
"""Bytes of an object in Cloud Storage that are read or written at a time; a multiple of 256 KiB."""

LINE_BYTES_MAX = 1024 * 1024
"""Bytes of a row: more than a task's payload can have."""


class BadRows(Problem):
    title = "A file of rows cannot be read"


def read_rows(source: str | Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a file, or of all files that match a pattern, in the order of their names.

    `source` is a path, or ``gs://BUCKET/NAME``; its last part may have ``*``, ``?`` and ``[…]``. A row of a table has
    strings. A repeat yields the same rows in the same order while the files do not change. Raises `NotFound` if no file
    matches, and `BadRows` naming file and line. Cloud Storage needs the package google-cloud-storage, and the role
    roles/storage.objectViewer for the function's account.
    """
    for name, opened in _files(str(source)):
        with opened as stream:
            yield from _rows(name, stream)


def write_rows(target: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows to a file, one JSON object a line, and return their number. The whole file is replaced, or nothing is.

    `target` is a path or ``gs://BUCKET/NAME`` and ends in ``.ndjson`` or ``.jsonl``, and ``.gz`` to compress it. Raises
    `BadRows`. Cloud Storage needs the role roles/storage.objectUser.
    """
    runtime.check_permitted()
    name = str(target)
    if _kind(name) not in LINES:
        raise BadRows(f"{name} must end in .ndjson or .jsonl, or in one of these and .gz.")
    if name.startswith(CLOUD):
        with _blob(name).open("wb", chunk_size=CHUNK_BYTES) as stream:  # an error discards it
            return _write(name, stream, rows)
    part = Path(f"{name}.{uuid4().hex}.part")  # unique to this call: two deliveries of a task may write at once
    try:
        with part.open("wb") as stream:
            count = _write(name, stream, rows)
            stream.flush()
            fsync(stream.fileno())  # a power failure never leaves the name on part of a file
        part.replace(name)
    finally:
        part.unlink(missing_ok=True)
    return count


def write_archive(target: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as `write_rows` does, and create the folders of a file.

    An archive that exists is not replaced: an earlier delivery has written all of it. A late delivery may have read the
    log of another run with the same id, and a bucket with a retention policy refuses to replace an object. Outside the
    cloud, an object is a file below `Settings.archives`, unless Google's client uses an emulator, so tests and the
    local stack never write to a deployment's bucket. Raises `BadRows`.
    """
    place = target
    if target.startswith(CLOUD) and not (settings().in_cloud or settings().storage_emulator):
        place = str(Path(settings().archives, target.removeprefix(CLOUD)))
    if _blob(place).exists() if place.startswith(CLOUD) else Path(place).exists():
        return
    if not place.startswith(CLOUD):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    write_rows(place, rows)


def _files(source: str) -> Iterator[tuple[str, AbstractContextManager[IO[bytes]]]]:
    found = sorted(_objects(source) if source.startswith(CLOUD) else _paths(source), key=lambda each: each[0])
    if not found:
        raise NotFound(f"No file matches {source}.")
    for name, _ in found:
        if _kind(name) not in (*LINES, TABLE):
            raise BadRows(f"{name} must end in .ndjson, .jsonl or .csv, or in one of these and .gz.")
    for name, file in found:
        yield name, file.open("rb") if isinstance(file, Path) else _reading(file)


def _paths(source: str) -> Iterator[tuple[str, Path]]:
    path = Path(source)
    is_pattern = set(path.name) & set(WILDCARDS) and not path.is_file()
    found = path.parent.glob(path.name) if is_pattern else [path]
    return ((str(each), each) for each in found if each.is_file())


def _objects(source: str) -> Iterator[tuple[str, Any]]:
    """Iterate over the objects that match; ``*`` also matches a slash, as Cloud Storage's names have no folders."""
    bucket, pattern = _place(source)
    end = min((pattern.index(sign) for sign in WILDCARDS if sign in pattern), default=len(pattern))
    for each in _client().list_blobs(bucket, prefix=pattern[:end]):
        if each.name == pattern or fnmatchcase(each.name, pattern):
            yield f"{CLOUD}{bucket}/{each.name}", each


def _reading(file: Any) -> Any:
    """Open one generation of an object. A read that finds another generation raises."""
    return file.open("rb", chunk_size=CHUNK_BYTES, if_generation_match=file.generation)


def _place(name: str) -> tuple[str, str]:
    bucket, _, path = name.removeprefix(CLOUD).partition("/")
    if not (bucket and path):
        raise BadRows(f"{name}: write gs://BUCKET/NAME.")
    return bucket, path


def _blob(name: str) -> Any:
    bucket, path = _place(name)
    return _client().bucket(bucket).blob(path)


def _client() -> Any:
    try:
        from google.cloud.storage import Client
    except ImportError as error:
        raise BadRows(
            "gs:// needs the package google-cloud-storage: add it to the function's requirements.in."
        ) from error
    return Client()


def _kind(name: str) -> str:
    return Path(name.removesuffix(COMPRESSED)).suffix.lower()


def _rows(name: str, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    plain: Any = gzip.GzipFile(fileobj=stream) if name.endswith(COMPRESSED) else stream
    try:
        yield from _of_table(name, plain) if _kind(name) == TABLE else _of_lines(name, plain)
    except (gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise BadRows(f"{name}: {error}.") from error


def _of_lines(name: str, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise BadRows(f"{name}, line {number}: it has more than {LINE_BYTES_MAX:,} bytes.")
        if line.strip():
            yield _object(f"{name}, line {number}", line)


def _object(where: str, line: bytes) -> dict[str, Any]:
    try:
        row = parse(line.strip())
    except Problem as problem:
        raise BadRows(f"{where}: {problem.detail.replace(' of the body', '')}") from problem
    if not isinstance(row, dict):
        raise BadRows(f"{where}: write an object, {{…}}.")
    return row


def _of_table(name: str, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    lines = csv.reader(_text_lines(name, stream), strict=True)  # a quote that is never closed hides the rows after it
    try:
        names = next(lines, [])
        if len(set(names)) < len(names) or not all(names):
            raise BadRows(f"{name}, line 1: each column needs a name of its own.")
        for values in lines:
            if values and len(values) != len(names):
                raise BadRows(f"{name}, line {lines.line_num}: {len(values)} values for {len(names)} columns.")
            if values:
                yield dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise BadRows(f"{name}, line {lines.line_num}: {error}.") from error


def _text_lines(name: str, stream: IO[bytes]) -> Iterator[str]:
    text, number = io.TextIOWrapper(stream, "utf-8-sig", newline=""), 0
    while line := text.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise BadRows(f"{name}, line {number}: it has more than {LINE_BYTES_MAX:,} bytes.")
        yield line


def _write(name: str, stream: Any, rows: Iterable[Mapping[str, Any]]) -> int:
    if name.endswith(COMPRESSED):
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:  # the same bytes each time
            return _lines(compressed, rows)
    return _lines(stream, rows)


def _lines(stream: Any, rows: Iterable[Mapping[str, Any]]) -> int:
    count = 0
    for row in rows:
        stream.write(render(row) + b"\n")
        count += 1
    return count
