"""The file of an export: NDJSON with a line for its beginning, a line for each record, and a line for its end.

    {"export": "f3…", "format": 1, "read_time": "2026-11-29T08:30:00.000001Z", "source": "…"}
    {"path": "documents/x", "create_time": "…", "update_time": "…", "fields": {"a": {"integerValue": "1"}}}
    {"end": "f3…", "records": 1}

All records are those of one instant, `read_time`. The last line shows that the file is complete.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from signalbox.core.keys import check_path
from signalbox.core.ports import Data, Snapshot
from signalbox.core.problems import BadKey, TooLarge
from signalbox.core.records.record_values import map_bytes, record_bytes
from signalbox.core.times import rfc3339
from signalbox_tools.exports.typed_values import fields_of, time_of, typed_fields

FORMAT = 1
"""The newest format that this release writes and reads."""

IMPORTS = "data_imports"
"""The collection of the record of an import that is not complete. Its id is the name of the export."""

CLOCKS_DIFFER_MAX = timedelta(days=1)

MEMBERS = {"path", "create_time", "update_time", "fields"}


class BadFile(Exception):
    """A file that is not a complete export. The message names the line."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record with its times."""

    path: str
    data: Data
    create_time: datetime
    update_time: datetime

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Record":
        """Return the record of a snapshot that a query has found."""
        assert snapshot.data is not None, "a query finds only records that exist"
        assert snapshot.create_time is not None, "a query finds only records that exist"
        assert snapshot.update_time is not None, "a query finds only records that exist"
        return cls(snapshot.path, snapshot.data, snapshot.create_time, snapshot.update_time)

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(self.path, self.data, self.update_time, self.update_time, self.create_time)

    @property
    def bytes(self) -> int:
        """The size of its fields."""
        return map_bytes(self.data)

    @property
    def collection(self) -> str:
        """The last name of its collection."""
        return self.path.rpartition("/")[0].rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Header:
    """The first line. `export` is a random name of this export, `source` the database that it was made from."""

    export: str
    read_time: datetime
    source: str


def write(file: IO[bytes], header: Header, records: Iterable[Record]) -> int:
    """Write an export and return the number of its records."""
    first = {"export": header.export, "format": FORMAT, "read_time": rfc3339(header.read_time), "source": header.source}
    file.write(_line(first))
    count = 0
    for record in records:
        file.write(_line(_written(record)))
        count += 1
    file.write(_line({"end": header.export, "records": count}))
    return count


def _written(record: Record) -> dict[str, Any]:
    times = {"create_time": rfc3339(record.create_time), "update_time": rfc3339(record.update_time)}
    return {"path": record.path, **times, "fields": typed_fields(record.data)}


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class ExportFile:
    """A file to read. Raises `BadFile`, and `OSError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def header(self) -> Header:
        """Read the first line."""
        with self._path.open("rb") as file:
            first = _parsed(file.readline(), 1)
        try:
            kept = Header(str(first["export"]), time_of(first["read_time"]), str(first["source"]))
            form = int(first["format"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadFile("Line 1 is not the beginning of an export by `signalbox data export`.") from error
        if form > FORMAT:
            raise BadFile(f"Line 1: a newer release wrote this file (format {form}; this release reads {FORMAT}).")
        if kept.read_time > datetime.now(UTC) + CLOCKS_DIFFER_MAX:
            raise BadFile(
                f"Line 1: the export is of {kept.read_time}, which is in the future. Set this machine's clock."
            )
        return kept

    def records(self) -> Iterator[tuple[int, int, Record]]:
        """Iterate over the records, each with its number, counted from 0, and its place in the file."""
        read_time = self.header().read_time
        with self._path.open("rb") as file:
            file.readline()
            number, place = 0, file.tell()
            for line in file:
                parsed = _parsed(line, number + 2)
                if "end" in parsed:
                    return
                yield number, place, _record(parsed, number + 2, read_time)
                number, place = number + 1, place + len(line)

    def at(self, place: int) -> Record:
        """Read the record at a place that `records` returned."""
        with self._path.open("rb") as file:
            file.seek(place)
            return _record(_parsed(file.readline(), 0), 0, datetime.max.replace(tzinfo=UTC))

    def check(self) -> tuple[Header, int]:
        """Read the whole file; return its header and the number of its records."""
        header, count = self.header(), 0
        for number, _, _ in self.records():
            count = number + 1
        self._check_end(header, count)
        return header, count

    def _check_end(self, header: Header, count: int) -> None:
        with self._path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 1_000))
            end = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        if end != _line({"end": header.export, "records": count}).rstrip(b"\n"):
            raise BadFile(
                f"The last line is not the end of an export with {count:,} records: the file is cut, or lines were "
                "added or removed. Export again, or correct the number in the last line."
            )


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"Line {number:,} is not JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise BadFile(f"Line {number:,} is not an object.")
    return parsed


def _record(parsed: dict[str, Any], number: int, read_time: datetime) -> Record:
    """Return the record of a line. Raises `BadFile`."""
    if parsed.keys() != MEMBERS:
        raise BadFile(f"Line {number:,} has not exactly the members {', '.join(sorted(MEMBERS))}.")
    try:
        check_path(parsed["path"])
        data = fields_of(parsed["fields"])
        record_bytes(parsed["path"], map_bytes(data))
        record = Record(parsed["path"], data, time_of(parsed["create_time"]), time_of(parsed["update_time"]))
    except (AttributeError, TypeError, ValueError, BadKey, TooLarge) as error:
        raise BadFile(f"Line {number:,} is not a record: {error}") from error
    if not record.create_time <= record.update_time <= read_time:
        raise BadFile(f"Line {number:,}: a record is created, then updated, and then exported (at {read_time}).")
    return record
