"""Read streams of records: each is decoded as it comes, and the rest of a stream is left once enough is held."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.adapters.firestore.records import snapshot
from shared.adapters.firestore.values import timestamp
from shared.core.operations.ports import Snapshot
from shared.core.operations.record_sizes import size_bytes

PathOf = Callable[[str], str]
"""Turns a record's full name into its path."""


def records_by_name(
    answers: Iterable[Any], path_of: PathOf, needed: Collection[str], bytes_max: int | None = None
) -> dict[str, Snapshot]:
    """Read `BatchGetDocumentsResponse`s, which come in any order; return the records by name.

    With `bytes_max`, reading ends when the records read take so many bytes, one that is not needed and all `needed`
    ones among them.
    """
    read: dict[str, Snapshot] = {}
    wanted, total, full = set(needed), 0, False
    at = None
    for answer in answers:
        at = _later(at, answer)
        name = answer.found.name or answer.missing
        if not name or (full and name not in wanted):
            continue
        document = answer.found if answer.HasField("found") else None
        read[name] = snapshot(path_of(name), document, timestamp(answer.read_time))
        if bytes_max is not None:
            wanted.discard(name)
            total += size_bytes(read[name])
            full = total >= bytes_max and not read.keys() <= set(needed)
            if full and not wanted:
                break
    return {name: _at(one, at) for name, one in read.items()}


def matching_records(answers: Iterable[Any], path_of: PathOf, bytes_max: int | None) -> tuple[Snapshot, ...]:
    """Read `RunQueryResponse`s until the records take `bytes_max`."""
    found: list[Snapshot] = []
    total = 0
    at = None
    for answer in answers:
        at = _later(at, answer)
        if not answer.HasField("document"):
            continue
        found.append(snapshot(path_of(answer.document.name), answer.document, timestamp(answer.read_time)))
        if bytes_max is not None:
            total += size_bytes(found[-1])
            if total >= bytes_max:
                break
    return tuple(_at(one, at) for one in found)


def _later(at: datetime | None, answer: Any) -> datetime | None:
    """Return the instant at which all responses of a stream so far hold.

    They may have several read times, growing; the API guarantees that earlier responses hold at the later ones.
    """
    if not answer.HasField("read_time"):
        return at
    time = timestamp(answer.read_time)
    return time if at is None else max(at, time)


def _at(one: Snapshot, at: datetime | None) -> Snapshot:
    return one if at is None or one.read_time == at else replace(one, read_time=at)
