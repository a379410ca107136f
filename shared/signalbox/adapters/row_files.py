"""Rows in files, on this machine or in Cloud Storage: read as units of a batch, and written from its results.

    batch("import").populate((load.call(**row) for row in read_rows("gs://shop/orders-*.ndjson")), per_task=20)
    write_rows("gs://shop/results.ndjson", batch("import").results())

A file has one JSON object a line (``.ndjson``, ``.jsonl``), or is a table with the names in its first line (``.csv``);
each may be compressed (``.gz``). One row and a megabyte of the file are in memory at a time.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from itertools import count
from os import fsync
from pathlib import Path
from stat import S_IMODE
from typing import IO, Any, AnyStr
from uuid import uuid4

from signalbox.adapters import runtime
from signalbox.adapters.http.json_bodies import DEPTH_MAX, parse, render
from signalbox.adapters.settings import settings
from signalbox.core.problems import NotFound, Problem

CLOUD = "gs://"
WILDCARDS = "*?["
COMPRESSED = ".gz"
MAGIC = b"\x1f\x8b"
"""The first bytes of compressed data. No UTF-8 begins with them."""

ENCODINGS = ("", "identity", "gzip")
"""Values of an object's Content-Encoding that can be read; an object without one has ""."""

ESCAPED = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, in a text that is decoded with "surrogateescape"."""

PART = re.compile(r"\.[0-9a-f]{32}\.part")
"""Names of files that are being written."""

LINES = (".ndjson", ".jsonl")
TABLE = ".csv"
CHUNK_BYTES = 1024 * 1024
"""Bytes of an object in Cloud Storage that are read or written at a time; a multiple of 256 KiB."""

LINE_BYTES_MAX = 1024 * 1024
"""Bytes of a row: more than a task's payload can have."""

MAY_DIFFER = re.compile(rb"[0-9]{100}|\\ud")
"""What a rendered line has, somewhere, if its parser refuses a number, or reads two surrogates as one character."""

SCALARS = frozenset((str, int, float, bool, type(None)))


class BadRows(Problem):
    title = "A file of rows cannot be read"


def read_rows(source: str | Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a file, or of all files that match a pattern, in the order of their names.

    `source` is a path, or ``gs://BUCKET/NAME``; its last part may have ``*``, ``?`` and ``[…]``. A row of a table has
    strings. An object that Cloud Storage stores with ``Content-Encoding: gzip`` is unpacked. A repeat yields the same
    rows in the same order while the files do not change. Raises `NotFound` if no file matches, and `BadRows` naming
    file and line. Cloud Storage needs the package google-cloud-storage, and the role roles/storage.objectViewer for the
    function's account.
    """
    for name, file in _files(str(source)):
        with _opened(name, file) as stream:
            yield from _of_table(name, stream) if _kind(name) == TABLE else _of_lines(name, stream)


def write_rows(target: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows to a file, one JSON object a line, and return their number. The whole file is replaced, or nothing is.

    `target` is a path or ``gs://BUCKET/NAME`` and ends in ``.ndjson`` or ``.jsonl``, and ``.gz`` to compress it. A file
    that is replaced keeps its permissions, and a symbolic link still names its file. Raises `BadRows` for a row that
    `read_rows` would not read as it was given: NaN, a name that is not a text, more than 1 MiB. Cloud Storage needs the
    role roles/storage.objectUser on the bucket.
    """
    runtime.check_permitted()
    name = str(target)
    if _kind(name) not in LINES:
        raise BadRows(f"{name} must end in .ndjson or .jsonl, or in one of these and .gz.")
    if name.startswith(CLOUD):
        with _blob(name).open("wb", chunk_size=CHUNK_BYTES) as stream:  # an error discards it
            return _write(name, stream, rows)
    file = Path(name).resolve()  # a link stays, and the file that it names is replaced
    part = file.with_name(f".{uuid4().hex}.part")  # unique to this call: two deliveries of a task may write at once
    try:
        with part.open("xb") as stream:
            if file.exists():
                part.chmod(S_IMODE(file.stat().st_mode))
            written = _write(name, stream, rows)
            stream.flush()
            fsync(stream.fileno())  # a power failure never leaves the name on part of a file
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return written


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


def _files(source: str) -> list[tuple[str, Any]]:
    """Return the files or objects that match, each under its name."""
    found = sorted(_objects(source) if source.startswith(CLOUD) else _paths(source), key=lambda each: each[0])
    if not found:
        raise NotFound(f"No file matches {source}.")
    for name, _ in found:
        if _kind(name) not in (*LINES, TABLE):
            raise BadRows(f"{name} must end in .ndjson, .jsonl or .csv, or in one of these and .gz.")
    return found


def _paths(source: str) -> Iterator[tuple[str, Path]]:
    path = Path(source)
    is_pattern = set(path.name) & set(WILDCARDS) and not path.is_file()
    found = path.parent.glob(path.name) if is_pattern else [path]
    return ((str(each), each) for each in found if each.is_file() and not PART.fullmatch(each.name))


def _objects(source: str) -> Iterator[tuple[str, Any]]:
    """Iterate over the objects that match; ``*`` also matches a slash, as Cloud Storage's names have no folders."""
    bucket, pattern = _place(source)
    end = min((pattern.index(sign) for sign in WILDCARDS if sign in pattern), default=len(pattern))
    for each in _client().list_blobs(bucket, prefix=pattern[:end]):
        is_folder = each.name.endswith("/")  # an empty object, by which the Cloud console shows a folder
        if each.name == pattern or (fnmatchcase(each.name, pattern) and not is_folder):
            yield f"{CLOUD}{bucket}/{each.name}", each


@contextmanager
def _opened(name: str, file: Any) -> Iterator[Any]:
    """Open the content of a file or of an object. Raises `BadRows` at the end if not all stored bytes were read."""
    size, encoding = (file.stat().st_size, "") if isinstance(file, Path) else (file.size, file.content_encoding or "")
    if encoding.lower() not in ENCODINGS:
        raise BadRows(f"{name} has the Content-Encoding {encoding}: store it with gzip or without an encoding.")
    layers = (encoding.lower() == "gzip") + name.endswith(COMPRESSED)
    if layers and not size:
        raise BadRows(f"{name}, line 1: the file is empty, but a compressed file has at least a header.")
    with file.open("rb") if isinstance(file, Path) else _stored(file) as stored:
        yield _unpacked(name, stored, layers)
        if not isinstance(file, Path) and stored.tell() != size:
            raise BadRows(f"{name}: Cloud Storage sent {stored.tell():,} of {size:,} bytes.")


def _stored(file: Any) -> Any:
    """Open the stored bytes of one generation of an object. A read that finds another generation raises.

    Without `raw_download`, Google's client unpacks each chunk of an object with a Content-Encoding, and asks for the
    next chunk at a position among the unpacked bytes: rows are lost.
    """
    return file.open("rb", chunk_size=CHUNK_BYTES, if_generation_match=file.generation, raw_download=True)


def _unpacked(name: str, stored: Any, layers: int) -> Any:
    """Return the content of stored bytes. A ``.gz`` with a Content-Encoding may be compressed once or twice."""
    if not layers:
        return stored
    content = gzip.GzipFile(fileobj=stored)
    with _at(f"{name}, line 1"):
        return gzip.GzipFile(fileobj=content, mode="rb") if layers > 1 and content.peek(2)[:2] == MAGIC else content


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


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Raise `BadRows` with a place for content that cannot be unpacked."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BadRows(f"{where}: {error}.") from error


def _of_lines(name: str, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    for where, line in _numbered(name, stream):
        if line.strip():
            yield _object(where, line)


def _numbered(name: str, stream: IO[AnyStr]) -> Iterator[tuple[str, AnyStr]]:
    """Iterate over lines, each with its place. Raises `BadRows` with the place."""
    for number in count(1):
        where = f"{name}, line {number}"
        with _at(where):
            line = stream.readline(LINE_BYTES_MAX + 1)
        if not line:
            return
        if len(line) > LINE_BYTES_MAX:
            raise BadRows(f"{where}: it has more than {LINE_BYTES_MAX:,} bytes.")
        yield where, line


def _object(where: str, line: bytes) -> dict[str, Any]:
    try:
        row = parse(line.strip())
    except Problem as problem:
        raise BadRows(f"{where}: {problem.detail.replace(' of the body', '')}") from problem
    if not isinstance(row, dict):
        raise BadRows(f"{where}: write an object, {{…}}.")
    return row


def _of_table(name: str, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES_MAX))  # of all readers; Python's own is 128 KiB
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
    # Text is decoded in chunks: only escapes of wrong bytes show the line that has them.
    text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
    for where, line in _numbered(name, text):
        if not line.isascii() and ESCAPED.search(line):
            raise BadRows(f"{where}: it is not UTF-8.")
        yield line
    text.detach()  # without this, the stream is closed with it


def _write(name: str, stream: Any, rows: Iterable[Mapping[str, Any]]) -> int:
    if name.endswith(COMPRESSED):
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressed:  # the same bytes each time
            return _write_lines(name, compressed, rows)
    return _write_lines(name, stream, rows)


def _write_lines(name: str, stream: Any, rows: Iterable[Mapping[str, Any]]) -> int:
    number = 0
    for number, row in enumerate(rows, 1):
        stream.write(_line(f"{name}, line {number}", row))
    return number


def _line(where: str, row: Mapping[str, Any]) -> bytes:
    """Render a row. Raises `BadRows` for one that `read_rows` would refuse, or read as another one."""
    if not isinstance(row, Mapping):
        raise BadRows(f"{where}: a row is a dict, not a {type(row).__name__}.")
    members = dict(row)
    try:
        line = render(members, exact=True) + b"\n"
        _check_names(where, members)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRows(f"{where}: {error}") from error
    if len(line) > LINE_BYTES_MAX:
        raise BadRows(f"{where}: it has more than {LINE_BYTES_MAX:,} bytes.")
    if line.count(b"{") + line.count(b"[") > DEPTH_MAX or MAY_DIFFER.search(line):
        _check_read_back(where, line)
    return line


def _check_read_back(where: str, line: bytes) -> None:
    """Raise `BadRows` if a line is refused or read as another one. Reading each line takes as long as writing it."""
    if render(_object(where, line)) != line.removesuffix(b"\n"):
        raise BadRows(f"{where}: a text has two surrogates that would be read as one character.")


def _check_names(where: str, value: Any) -> None:
    """Raise `BadRows` for a name that is not a text: JSON would make one of it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise BadRows(f"{where}: the name {name!r} is not a str: convert it before you write the row.")
            if type(inner) not in SCALARS:  # most are: a call for each would take longer than rendering
                _check_names(where, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            if type(inner) not in SCALARS:
                _check_names(where, inner)
    elif is_dataclass(value):
        for field in fields(value):
            _check_names(where, getattr(value, field.name))
