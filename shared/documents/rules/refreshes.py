"""A refresh: a document's copies of some changed sources replaced by new ones, and nothing else read or changed."""

from enum import Enum
from typing import Any

from shared.core.rules import keys
from shared.core.rules.values import Path, same
from shared.documents.rules.copies import Embedding, any_too_large, copy_at
from shared.documents.rules.documents import Content, Document
from shared.documents.rules.fitting import MARK, fits_with_any_marks
from shared.documents.rules.links import links, size, with_copies


class Refresh(Enum):
    """Results of a refresh other than a new content."""

    UNCHANGED = "the copies are up to date"
    NORMALIZE = "the decision needs all targets of the document: normalize it"


def refresh_copies(key: str, document: Document, embedding: Embedding, hops: int = 0) -> Content | Refresh:
    """Return a document's content with its copies of the sources in `embedding` replaced.

    Returns `Refresh.NORMALIZE` for a document that is full or nearly so, that another client has written since, or that
    needs a transform which has not been read.
    """
    content = document.content
    found = links(content)
    stale = [(at, link) for at, link in found if keys.valid_key(link["key"]) and link["key"] in embedding.sources]
    if not document.stamp_matches or any_too_large(content):
        return Refresh.NORMALIZE
    if not all(embedding.covers(at, link) for at, link in stale):
        return Refresh.NORMALIZE
    copies = {at: copy_at(at, link, key, embedding, hops=hops) for at, link in stale}
    if all(same(_at(content, at), copy) for at, copy in copies.items()):
        return Refresh.UNCHANGED
    refreshed = with_copies(content, copies)
    return refreshed if fits_with_any_marks(refreshed, size(refreshed)) else Refresh.NORMALIZE


def mark_copies(content: Content, embedding: Embedding) -> Content:
    """Return a document's content with a mark in place of its copies of the sources in `embedding`."""
    found = ((at, link["key"]) for at, link in links(content))
    marks = {at: {"key": key, MARK: True} for at, key in found if keys.valid_key(key) and key in embedding.sources}
    return with_copies(content, marks)


def _at(value: Any, at: Path) -> Any:
    for step in at:
        value = value[step]
    return value
