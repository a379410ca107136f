"""Read a document's versions: list them, what one of them held, and how two of them differ."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.operations.ports import Condition, Ports, Query, Snapshot
from shared.core.operations.record_sizes import is_full
from shared.core.rules import page_tokens
from shared.core.rules.limits import LIMITS
from shared.core.rules.listings import Listing
from shared.core.rules.problems import NotFound
from shared.core.rules.queries import ID
from shared.core.rules.times import rfc3339
from shared.history.rules import entries as log_entries
from shared.history.rules import json_patch, versions
from shared.history.rules.entries import Content, Entry
from shared.history.rules.references import Reference


@dataclass(frozen=True, slots=True)
class Version:
    """One version: since when the document held it (`at`), who made it, and how (`action`)."""

    version: int
    at: datetime
    author: str
    action: str

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, entry: Entry) -> "Version":
        """Return the version of an entry's record."""
        assert snapshot.create_time is not None, "a query finds only records that exist"
        return cls(entry.version, versions.valid_from(entry, snapshot.create_time), entry.author, entry.action)

    def to_json(self) -> dict[str, Any]:
        """Return the version as callers see it."""
        return {"version": self.version, "at": rfc3339(self.at), "author": self.author, "action": self.action}


@dataclass(frozen=True, slots=True)
class VersionContent:
    """A version with what it held; None: the document did not exist."""

    version: Version
    content: Content | None

    def to_json(self, key: str) -> dict[str, Any]:
        """Return the version as callers see it, its document with links as bare keys."""
        document = None if self.content is None else {"key": key, **self.content}
        return {**self.version.to_json(), "document": document}


@dataclass(frozen=True, slots=True)
class VersionsPage:
    """Versions, the latest first; `next_page_token` is empty on the last page."""

    versions: list[Version]
    next_page_token: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the page as callers see it."""
        more = {"next_page_token": self.next_page_token} if self.next_page_token else {}
        return {"versions": [each.to_json() for each in self.versions], **more}


@dataclass(frozen=True, slots=True)
class Changes:
    """The JSON Patch (RFC 6902) that makes one version of another; a document that did not exist is null in it."""

    before: int
    after: int
    patch: json_patch.Patch

    def to_json(self) -> dict[str, Any]:
        """Return the difference as callers see it."""
        return {"from": self.before, "to": self.after, "patch": self.patch}


def find(ports: Ports, key: str, listing: Listing) -> VersionsPage:
    """Return a page of a document's versions; none, if it has no history."""
    query = Query(
        log_entries.collection_of(key), limit=listing.limit, after=listing.after, bytes_max=LIMITS.read_bytes_max
    )
    page = ports.store.query(query)
    token = page_tokens.write(listing.mark, [], page[-1].id) if page and is_full(query, page) else ""
    return VersionsPage([Version.from_snapshot(one, _entry(one)) for one in page], token)


def read(ports: Ports, key: str, reference: Reference) -> VersionContent:
    """Return a version, by its number or by a time at which the document held it. Raises `NotFound`."""
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
            return VersionContent(found, versions.content_of(entries))
    raise NotFound(f"Document {key!r} has no version {reference}.", field="version")


def _back_from(ports: Ports, key: str, latest: int) -> Iterator[Snapshot]:
    """Iterate over the entries of versions up to one, the latest first, in pages that can be held."""
    begin = (Condition(ID, ">=", log_entries.id_of(latest)),)
    after: tuple[str, ...] = ()
    while True:
        query = Query(
            log_entries.collection_of(key), begin, (), LIMITS.history_segment_versions, after, LIMITS.read_bytes_max
        )
        page = ports.store.query(query)
        yield from page
        if not is_full(query, page):
            return
        after = (page[-1].id,)


def changes(ports: Ports, key: str, before: Reference, after: Reference) -> Changes:
    """Return how two versions of a document differ. Raises `NotFound`."""
    old, new = read(ports, key, before), read(ports, key, after)
    return Changes(old.version.version, new.version.version, _difference(old.content, new.content))


def _difference(before: Content | None, after: Content | None) -> json_patch.Patch:
    if before is None or after is None:
        return [] if before is after else json_patch.to_nothing() if after is None else json_patch.from_nothing(after)
    return json_patch.diff(before, after)


def _entry(snapshot: Snapshot) -> Entry:
    return Entry.from_record(snapshot.id, snapshot.data or {})
