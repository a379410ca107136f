"""A stored document as callers see it, with its entity tag."""

from dataclasses import dataclass
from typing import Self

from shared.core.operations.ports import Snapshot
from shared.core.rules.times import entity_tag
from shared.documents.rules import documents
from shared.documents.rules.documents import Content, Document, Stamp
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as callers see it. `etag` changes with what `document` shows, and no two contents share one."""

    document: Content
    etag: str
    created: bool = False

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> Self:
        """Return the document of a record that exists."""
        document = Document.from_record(snapshot.data)
        assert document is not None, "the record exists"
        return cls(documents.to_json(snapshot.id, document.content), _tag(document, snapshot))


def etag_of(snapshot: Snapshot) -> str | None:
    """Return a record's entity tag, or None if there is no record."""
    document = Document.from_record(snapshot.data)
    return None if document is None else _tag(document, snapshot)


def check_precondition(precondition: Precondition, snapshot: Snapshot) -> None:
    """Raise `PreconditionFailed` unless a write may go on. The content is hashed only if there is a precondition."""
    if precondition != UNCONDITIONAL:
        precondition.check_write(etag_of(snapshot))


def tag_of_stamp(stamp: Stamp) -> str:
    """Return the entity tag of a content that carries this stamp."""
    return f'"{stamp.tag}"'


def _tag(document: Document, snapshot: Snapshot) -> str:
    """Return a tag made from the stamp, which stays when only the kit's metadata changes.

    What another client has written has no stamp of its own: its tag is made from the record's update time.
    """
    if document.stamp is None or not document.stamp_matches:
        return entity_tag(snapshot.update_time)
    return tag_of_stamp(document.stamp)
