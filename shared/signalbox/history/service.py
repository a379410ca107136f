"""List, read and compare the versions of a document; delete old ones; record deletions by other clients."""

from collections.abc import Iterator
from contextlib import suppress

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Conflict, Delete, Must, Ports, Put, Query, Snapshot, is_full
from signalbox.core.problems import NotFound
from signalbox.core.records.queries import ID, Condition
from signalbox.core.surface.paging import Listing, write_page_token
from signalbox.history.limits import LIMITS
from signalbox.history.machine import kept_versions
from signalbox.history.model import (
    LAST,
    Content,
    Entry,
    Mark,
    collection_of,
    header_path,
    id_of,
    part_paths,
    version_of,
)
from signalbox.history.requests import Reference
from signalbox.history.shown import VersionChangesShown, VersionShown, VersionsShown


@dataclass(frozen=True, slots=True)
class VersionContent:
    """A version with its content, which is None if the document did not exist."""

    version: VersionShown
    content: Content | None


def find_versions(ports: Ports, key: str, listing: Listing) -> VersionsShown:
    """Return a page of a document's versions, empty if it has none."""
    query = Query(
        collection_of(key),
        limit=listing.limit,
        after=listing.after,
        bytes_max=CORE_LIMITS.read_bytes_max,
    )
    page = ports.store.query(query)
    token = write_page_token(listing.mark, [], page[-1].id) if page and is_full(query, page) else ""
    return VersionsShown([_version(record) for record in page], token)


def read_version(ports: Ports, key: str, reference: Reference) -> VersionContent:
    """Return a version and its content. Raises `NotFound`."""
    entries: list[Entry] = []
    found: VersionShown | None = None
    for snapshot in _back_from(ports, key, reference.latest):
        version = _version(snapshot)
        if found is None and not reference.fits(version.version, version.at):
            if reference.is_time:
                continue
            break
        found = found or version
        entry = _entry(ports, snapshot)
        if entry is None:
            break
        entries.append(entry)
        if entry.whole:
            return VersionContent(found, kept_versions.content_of(entries))
    raise NotFound(f"Document {key!r} has no version {reference}.", field="version")


def _back_from(ports: Ports, key: str, latest: int) -> Iterator[Snapshot]:
    """Iterate over the entries up to a version, the latest first, in pages of bounded size."""
    begin = (Condition(ID, ">=", id_of(latest)),)
    after: tuple[str, ...] = ()
    while True:
        query = Query(
            collection_of(key),
            begin,
            (),
            LIMITS.history_segment_versions,
            after,
            CORE_LIMITS.read_bytes_max,
        )
        page = ports.store.query(query)
        yield from page
        if not is_full(query, page):
            return
        after = (page[-1].id,)


def compare_versions(ports: Ports, key: str, before: Reference, after: Reference) -> VersionChangesShown:
    """Return the difference of two versions. Raises `NotFound`."""
    old, new = read_version(ports, key, before), read_version(ports, key, after)
    patch = kept_versions.difference(old.content, new.content)
    return VersionChangesShown(old.version.version, new.version.version, patch)


def _version(snapshot: Snapshot) -> VersionShown:
    """Return the version of an entry's record, whose patch is not read."""
    assert snapshot.create_time is not None, "a query finds only records that exist"
    entry = Entry.from_record(snapshot.id, {**(snapshot.data or {}), "patch": "[]", "packed": False})
    valid_from = kept_versions.valid_from(entry, snapshot.create_time)
    return VersionShown(entry.version, valid_from, entry.author, entry.action)


def _entry(ports: Ports, snapshot: Snapshot) -> Entry | None:
    """Return an entry with its parts, or None if it has been deleted since it was read."""
    data = snapshot.data or {}
    paths = part_paths(snapshot.path, data)
    parts = [part.data for part in ports.store.read(*paths) if part.data is not None] if paths else []
    return Entry.from_record(snapshot.id, data, parts) if len(parts) == len(paths) else None


# --- deletion ---


def delete_before(ports: Ports, key: str, version: int) -> None:
    """Delete the versions before a given one, the oldest first. So no earlier version ever seems valid at a later time.

    A repeated call finds nothing to delete.
    """
    deletes = [[Delete(path) for path in paths] for paths in paths_before(ports, key, version)]
    size = LIMITS.history_delete_page
    for last in range(len(deletes), 0, -size):
        ports.store.commit([delete for group in deletes[max(0, last - size) : last] for delete in group])


def paths_before(ports: Ports, key: str, version: int) -> Iterator[list[str]]:
    """Iterate over the versions before a given one, the latest first.

    Each version is the list of the paths of its records.
    """
    older = (Condition(ID, ">", id_of(version)),)
    after: tuple[str, ...] = ()
    while True:
        query = Query(collection_of(key), older, (), LIMITS.history_delete_page, after, CORE_LIMITS.read_bytes_max)
        page = ports.store.query(query)
        yield from ([record.path, *part_paths(record.path, record.data or {})] for record in page)
        if not is_full(query, page):
            return
        after = (page[-1].id,)


def forget(ports: Ports, key: str) -> None:
    """Delete all versions of a document. Its content becomes a version again with the next change."""
    delete_before(ports, key, LAST)


def note_deletion(ports: Ports, key: str, path: str, mark: Mark) -> None:
    """Record that another client has deleted a document with this mark, unless the log already has the deletion.

    Nothing is recorded if the document exists again.
    """
    latest = ports.store.query(Query(collection_of(key), limit=1))
    if not latest or version_of(latest[0].id) != mark.version:
        return
    found, header = ports.store.read(path, header_path(key))
    if found.data is None:
        recorded = kept_versions.ended_elsewhere(mark)
        [gone], after = recorded.entries, recorded.mark
        assert after is not None, "the log continues from its mark"
        entry = gone.to_records(f"{collection_of(key)}/{id_of(gone.version)}")
        kept = Put(header.path, after.in_header().to_record(), header.guard)
        with suppress(Conflict):
            ports.store.commit([*(Put(path, data, Must.NOT_EXIST) for path, data in entry.items()), kept])
