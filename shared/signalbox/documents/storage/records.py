"""A document's record as it was read, with the other records that its write needs: its wanted note and the header of
its log.
"""

from collections.abc import Sequence
from typing import Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Snapshot, Store
from signalbox.core.problems import TooLarge
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import Document, StoredDocument, document_json, wanted_path
from signalbox.history.model import HISTORY, header_path


@dataclass(frozen=True, slots=True)
class Found:
    """A document's record as it was read, and the decoded document.

    `document` is None if the record does not exist. `whole` is false if only the record's metadata was read. `wanted`
    is true if the document does not exist and its wanted note was read: some document embeds its key.
    """

    record: Snapshot
    document: Document | None
    whole: bool = True
    wanted: bool = False

    @classmethod
    def of(cls, record: Snapshot, *, whole: bool = True) -> Self:
        return cls(record, Document.from_record(record.data), whole)

    @property
    def key(self) -> str:
        """The document's key."""
        return self.record.id

    @property
    def content(self) -> Content | None:
        """The document's content, or None if the document does not exist."""
        return None if self.document is None else self.document.content

    @property
    def etag(self) -> str | None:
        """The document's entity tag, or None if the document does not exist."""
        return None if self.document is None else self.document.etag(self.record.update_time)

    @property
    def stored(self) -> StoredDocument:
        """The document as callers see it. It must exist."""
        assert self.document is not None, "the record exists"
        json = document_json(self.key, self.document.content)
        return StoredDocument(json, self.document.etag(self.record.update_time))


def read_whole(store: Store, paths: Sequence[str]) -> tuple[Snapshot, ...]:
    """Read records at one instant, in order.

    Raises `TooLarge` if the records exceed what one request may keep in memory.
    """
    read = store.read_some((), paths, LIMITS.read_bytes_max) if paths else ()
    if len(read) < len(paths):
        raise TooLarge(f"The documents that are read at once take more than {LIMITS.read_bytes_max:,} bytes.")
    return read


def noted(store: Store, found: Found, *, again: bool) -> Found:
    """Return the document as read, with its wanted note if the write of a new document needs it.

    Only writes without an event need it, and only if they read `again`: the first attempt has a guard, and fails if
    there is a note.
    """
    if found.document is not None or not again or not WRITERS.only_the_kit:
        return found
    [note] = store.read(wanted_path(found.key))
    return replace(found, wanted=note.data is not None)


def needs_header(found: Found, content: Surveyed | None) -> bool:
    """Return whether a write of `content` (None: a deletion) needs the header of the document's log.

    The log continues from its header if the document has no mark of it.
    """
    before = found.document
    if not HISTORY.rules or (before is None and content is None) or (before is not None and before.history is not None):
        return False
    after = content.content if content else None
    return HISTORY.rule_of(found.key, found.content, after) is not None


def log_header(store: Store, found: Found, content: Surveyed | None) -> Snapshot | None:
    """Return the header of the document's log if a write of `content` needs it.

    The header is read after the document.
    """
    return store.read(header_path(found.key))[0] if needs_header(found, content) else None
