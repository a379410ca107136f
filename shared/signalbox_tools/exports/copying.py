"""Export a database into a file, and import a file into a database.

An import checks the whole file first. Then it writes the records in commits of many, each with the record of its
progress. So it continues where it ended when it is run again after an interruption.

Firestore gives imported records new times. Waiters and messages are ordered by their create times, so they are written
one by one, in the order of the earlier times, and after all other records. The waiters of a semaphore or a rate also
contain its create time, which is replaced. The outbox is written last: a sweeper may enqueue its tasks at once.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from signalbox.adapters.system_clock import random_id
from signalbox.core import outbox
from signalbox.core.times import microseconds
from signalbox_tools.exports.databases import Database
from signalbox_tools.exports.files import IMPORTS, ExportFile, Header, Record, write
from signalbox_tools.local.folder.data_folder import IN_ORDER, OF_AN_INCARNATION

RECORDS_A_COMMIT = 400
BYTES_A_COMMIT = 2 * 1024 * 1024
SAID_AFTER = 20_000
"""Records after which the progress is printed again."""

Say = Callable[[str], None]


class Refused(Exception):
    """An export or import that would lose or mix data. The message names the remedy."""


def export(database: Database, source: str, path: Path, say: Say) -> tuple[Header, int]:
    """Write all records of a database into a new file; return its first line and the number of records.

    The file has its name when it is complete. Raises `Refused`, `Unavailable` and `OSError`.
    """
    if path.exists():
        raise Refused(f"{path} exists. Name another file, or delete it.")
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with database.all_records() as (read_time, records), open(partial, "xb", opener=_private) as file:
        header = Header(random_id(), read_time, source)
        count = write(file, header, _counted(_complete(records), "exported", say))
    partial.replace(path)
    return header, count


def _private(path: str, flags: int) -> int:
    """Open a file that only this user can read."""
    return os.open(path, flags, 0o600)


def _complete(records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        if record.path.startswith(f"{IMPORTS}/"):
            raise Refused("An import into this database was interrupted. Run it again to complete it; then export.")
        yield record


def _counted(records: Iterable[Record], done: str, say: Say) -> Iterator[Record]:
    for number, record in enumerate(records, 1):
        yield record
        if number % SAID_AFTER == 0:
            say(f"  {number:,} records {done}")


@dataclass(frozen=True, slots=True)
class Import:
    """The import of a file. `records` is the number of records in the file.

    Into Firestore, the records at the places `later` are written one by one after all others, in this order.
    `create_times` has the earlier create times of semaphores and rates, in microseconds.
    """

    file: ExportFile
    header: Header
    records: int
    later: tuple[int, ...]
    create_times: dict[str, int]

    @classmethod
    def of(cls, path: Path) -> "Import":
        """Check a whole file. Raises `BadFile` and `OSError`."""
        file = ExportFile(path)
        header, count = file.check()
        later: list[tuple[bool, datetime, int]] = []
        create_times: dict[str, int] = {}
        for _, place, record in file.records():
            if _is_later(record):
                later.append((_is_of_the_outbox(record), record.create_time, place))
            if _has_incarnations(record):
                create_times[record.path] = microseconds(record.create_time)
        return cls(file, header, count, tuple(place for _, _, place in sorted(later)), create_times)

    @property
    def progress_path(self) -> str:
        return f"{IMPORTS}/{self.header.export}"

    def check(self, database: Database, *, overwrite: bool) -> int:
        """Return the number of records that an earlier attempt has imported. Raises `Refused`."""
        if progress := database.read(self.progress_path):
            return int(progress.data["records"])
        paths = database.some_paths(2)
        if any(path.startswith(f"{IMPORTS}/") for path in paths):
            raise Refused("An import of another file into this database was interrupted. Complete it first.")
        if paths and not overwrite:
            raise Refused(
                f"The database has records, such as {paths[0]}. Name an empty one; or --overwrite, which replaces the "
                "records that have the same paths and keeps all others."
            )
        return 0

    def run(self, database: Database, begun: int, say: Say) -> None:
        """Write the records after the first `begun` ones. Raises `Unavailable`, `BadFile` and `OSError`."""
        done = begun
        for records in self._commits(database, begun):
            done += len(records)
            database.put([*records, self._progress(done)])
            if done // SAID_AFTER > (done - len(records)) // SAID_AFTER:
                say(f"  {done:,} of {self.records:,} records imported")
        database.delete(self.progress_path)

    def _progress(self, done: int) -> Record:
        now = self.header.read_time
        return Record(self.progress_path, {"records": done}, now, now)

    def _commits(self, database: Database, begun: int) -> Iterator[list[Record]]:
        """Iterate over the records of each commit."""
        later = () if database.keeps_times else self.later
        places = frozenset(later)
        at_once = (record for _, place, record in self.file.records() if place not in places)
        number, records, size = 0, list[Record](), 0
        for record in at_once:
            number += 1
            if number > begun:
                records.append(record)
                size += record.bytes
            if len(records) == RECORDS_A_COMMIT or size >= BYTES_A_COMMIT:
                yield records
                records, size = [], 0
        if records:
            yield records
        for place in later[max(0, begun - number) :]:
            yield [self._moved(database, self.file.at(place))]

    def _moved(self, database: Database, record: Record) -> Record:
        """Return a record with the new create time of the record above it, if it has the earlier one."""
        above = record.path.rsplit("/", 2)[0]
        if record.data.get("incarnation") != self.create_times.get(above, 0):
            return record
        return replace(record, data={**record.data, "incarnation": _create_time(database, above)})


def _create_time(database: Database, path: str) -> int:
    found = database.read(path)
    assert found is not None, "it was imported before"
    return microseconds(found.create_time)


def _has_incarnations(record: Record) -> bool:
    """Return whether records below this one refer to its create time."""
    collection, _, id_ = record.path.partition("/")
    return collection in OF_AN_INCARNATION and "/" not in id_


def _is_later(record: Record) -> bool:
    """Return whether a record is imported after all others: one that waits, or refers to a create time, or enqueues."""
    waits = record.collection in IN_ORDER and ("since" in record.data or "incarnation" in record.data)
    return waits or _is_of_the_outbox(record)


def _is_of_the_outbox(record: Record) -> bool:
    return record.path.startswith(f"{outbox.COLLECTION}/")
