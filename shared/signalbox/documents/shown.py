"""Documents in requests, and the answers about documents."""

from collections.abc import Sequence
from typing import Annotated, Any

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.surface.field_rules import Described, Range, key_schema
from signalbox.documents.limits import LIMITS
from signalbox.documents.model.contents import Content

DocumentContent = Annotated[
    Content,
    Described(
        {
            "description": f"""\
Any JSON object without the field `_signalbox`; nested at most {CORE_LIMITS.depth_max} deep, at most
{LIMITS.document_bytes_max:,} bytes and {LIMITS.index_entries_max:,} index entries (two a field, one a list's item) as
stored, numbers of 64 bits. `key`, if present, equals the key in the URL.

An object in it with a `key` that is a string is a link: a copy of the document under that key is stored in it. Instead
of a copy there may be `link_missing` (no document has that key), `link_cycle` (the copy would return to a document on
its own path), `link_too_deep` (copies are nested over at most {LIMITS.link_levels_max} links), `link_too_large` or
`link_transform_failed`, each true.
""",
            "example": {"type": "Person", "name": "Fred", "address": {"key": "1234567"}},
        },
        "Content",
    ),
]
"""A document in a request to its address."""

PostedContent = Annotated[
    DocumentContent,
    Described(
        {"properties": {"key": {"type": "string", **key_schema(CORE_LIMITS.key_bytes_max)}}},
        "PostedContent",
    ),
]
"""A document in a request to the address of all documents."""

DocumentShown = Annotated[
    DocumentContent,
    Described({"required": ["key"], "properties": {"key": {"type": "string"}}}, "Document"),
]
"""A document in an answer."""


@dataclass(frozen=True, slots=True)
class DocumentsShown:
    """One page, the last if it has no `next_page_token`.

    A page ends before `limit` with the document that brings its size to 4 MiB.
    """

    documents: Sequence[DocumentShown]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class DocumentCountShown:
    """The number of documents that meet all conditions."""

    count: Annotated[int, Range(0)]


@dataclass(frozen=True, slots=True)
class PutResultShown:
    """The outcome of one of several documents: its entity tag, or the problem that refused it."""

    key: str | None
    status: Annotated[int, Range(200, 599)]
    etag: str = ""
    problem: Annotated[Any, Described({"$ref": "#/components/schemas/Problem"})] = None


@dataclass(frozen=True, slots=True)
class PutResultsShown:
    """The results of several documents, in the order of the request."""

    results: Annotated[tuple[PutResultShown, ...], Described({"maxItems": LIMITS.bulk_puts_max})]
