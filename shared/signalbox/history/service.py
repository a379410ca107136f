"""List, read and compare the versions of a document; delete old ones; record deletions by other clients."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from signalbox.core import listings
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.listings import Listing
from signalbox.core.ports import Conflict, Delete, Must, Ports, Put, Query, Snapshot
from signalbox.core.problems import NotFound
from signalbox.core.queries import ID, Condition
from signalbox.core.reads import is_full
from signalbox.core.times import rfc3339
from signalbox.history import machine
from signalbox.history.limits import LIMITS
from signalbox.history.model import (
    LAST,
    Content,
    Entry,
    Mark,
    Patch,
    collection_of,
    header_path,
    id_of,
    mark_after,
    patch_to_nothing,
    version_of,
)
from signalbox.history.requests import Reference


@dataclass(frozen=True, slots=True)
class Version:
    """One version: the time from which it was valid (`at`), its author, and the action that made it."""

    version: int
    at: datetime
    author: str
    action: str

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, entry: Entry) -> "Version":
        assert snapshot.create_time is not None, "a query finds only records that exist"
        return cls(entry.version, machine.valid_from(entry, snapshot.create_time), entry.author, entry.action)

    def to_json(self) -> dict[str, Any]:
        """Return the version as callers get it."""
        return {"version": self.version, "at": rfc3339(self.at), "author": self.author, "action": self.action}


@dataclass(frozen=True, slots=True)
class VersionContent:
    """A version with its content; None if the document did not exist."""

    version: Version
    content: Content | None

    def to_json(self, key: str) -> dict[str, Any]:
        """Return the version as callers get it, with links as bare keys."""
        document = None if self.content is None else {"key": key, **self.content}
        return {**self.version.to_json(), "document": document}


@dataclass(frozen=True, slots=True)
class VersionsPage:
    """Versions, the latest first; `next_page_token` is empty on the last page."""

    versions: list[Version]
    next_page_token: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the page as callers get it."""
        more = {"next_page_token": self.next_page_token} if self.next_page_token else {}
        return {"versions": [version.to_json() for version in self.versions], **more}


@dataclass(frozen=True, slots=True)
class Changes:
    """The JSON Patch (RFC 6902) between two versions. A document that did not exist is null."""

    before: int
    after: int
    patch: Patch

    def to_json(self) -> dict[str, Any]:
        """Return the difference as callers get it."""
        return {"from": self.before, "to": self.after, "patch": self.patch}


def find_versions(ports: Ports, key: str, listing: Listing) -> VersionsPage:
    """Return a page of a document's versions, empty if it has none."""
    query = Query(
        collection_of(key),
        limit=listing.limit,
        after=listing.after,
        bytes_max=CORE_LIMITS.read_bytes_max,
    )
    page = ports.store.query(query)
    token = listings.write_page_token(listing.mark, [], page[-1].id) if page and is_full(query, page) else ""
    return VersionsPage([Version.from_snapshot(record, _entry(record)) for record in page], token)


def read_version(ports: Ports, key: str, reference: Reference) -> VersionContent:
    """Return a version and its content. Raises `NotFound`."""
    entries: list[Entry] = []
    found: Version | None = None
    for snapshot in _back_from(ports, key, reference.latest):
        entry = _entry(snapshot)
        version = Version.from_snapshot(snapshot, entry)
        if found is None and not reference.fits(version.version, version.at):
            if reference.is_time:
                continue
            break
        found = found or version
        entries.append(entry)
        if entry.whole:
            return VersionContent(found, machine.content_of(entries))
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


def compare_versions(ports: Ports, key: str, before: Reference, after: Reference) -> Changes:
    """Return the difference of two versions. Raises `NotFound`."""
    old, new = read_version(ports, key, before), read_version(ports, key, after)
    return Changes(old.version.version, new.version.version, machine.difference(old.content, new.content))


def _entry(snapshot: Snapshot) -> Entry:
    return Entry.from_record(snapshot.id, snapshot.data or {})


# --- deletion ---

GROUP = 100
"""Versions that are read and deleted at once."""


def delete_before(ports: Ports, key: str, version: int) -> None:
    """Delete the versions before one. A repeated call finds none."""
    older = (Condition(ID, ">", id_of(version)),)
    query = Query(collection_of(key), older, (), GROUP, (), CORE_LIMITS.read_bytes_max)
    while True:
        page = ports.store.query(query)
        if page:
            ports.store.commit([Delete(record.path) for record in page])
        if not is_full(query, page):
            return


def forget(ports: Ports, key: str) -> None:
    """Delete all versions of a document. Its content becomes a version again with the next change."""
    delete_before(ports, key, LAST)


def note_deletion(ports: Ports, key: str, path: str, mark: Mark) -> None:
    """Record the deletion of a document with this mark by another client, unless the log has it already.

    Nothing is recorded if the document exists again.
    """
    latest = ports.store.query(Query(collection_of(key), limit=1))
    if not latest or version_of(latest[0].id) != mark.version:
        return
    found, header = ports.store.read(path, header_path(key))
    if found.data is None:
        gone = Entry(mark.version + 1, "delete", "", patch_to_nothing(), whole=True)
        at = f"{collection_of(key)}/{id_of(gone.version)}"
        after = mark_after(mark, gone.version)
        kept = Put(header.path, after.in_header().to_record(), header.guard)
        with suppress(Conflict):
            ports.store.commit([Put(at, gone.to_record(), Must.NOT_EXIST), kept])
