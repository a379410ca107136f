"""Shorten a document's log: delete the versions that no kept one is read with. And note what another client deleted."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from shared.core.operations.ports import Condition, Conflict, Delete, Must, Ports, Put, Query
from shared.core.operations.record_sizes import is_full
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadValue
from shared.core.rules.queries import ID
from shared.history.rules import entries, json_patch
from shared.history.rules.entries import Entry, Mark

GROUP = 100
"""Versions that are read and deleted at once."""


def run(ports: Ports, work: Mapping[str, Any]) -> None:
    """Carry out the task of a log. Raises `Unavailable` (transient: retry), or `BadValue` for an invalid payload."""
    match work:
        case {"compact": str(key), "before": int(before)}:
            delete_before(ports, key, before)
        case _:
            raise BadValue("Invalid payload of a task of histories.")


def delete_before(ports: Ports, key: str, version: int) -> None:
    """Delete the versions before one. A repeat finds none."""
    older = (Condition(ID, ">", entries.id_of(version)),)
    query = Query(entries.collection_of(key), older, (), GROUP, (), LIMITS.read_bytes_max)
    while True:
        page = ports.store.query(query)
        if page:
            ports.store.commit([Delete(one.path) for one in page])
        if not is_full(query, page):
            return


def forget(ports: Ports, key: str) -> None:
    """Delete all versions of a document. What it holds becomes a version again with its next change."""
    delete_before(ports, key, entries.LAST)


def note_deletion(ports: Ports, key: str, path: str, mark: Mark) -> None:
    """Record that a document with this mark is gone, if the log does not have it: another client has deleted it.

    If the document is there again, its creation has gone before: then nothing is recorded.
    """
    latest = ports.store.query(Query(entries.collection_of(key), limit=1))
    if not latest or entries.version_of(latest[0].id) != mark.version:
        return
    found, header = ports.store.read(path, entries.header_path(key))
    if found.data is None:
        gone = Entry(mark.version + 1, "delete", "", json_patch.to_nothing(), whole=True)
        at = f"{entries.collection_of(key)}/{entries.id_of(gone.version)}"
        after = entries.mark_after(mark, gone.version)
        kept = Put(header.path, after.in_header().to_record(), header.guard)
        with suppress(Conflict):
            ports.store.commit([Put(at, gone.to_record(), Must.NOT_EXIST), kept])
