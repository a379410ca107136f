"""Put, get, delete and find documents.

A put reads the document, what it links to and the transforms of those fields at one instant, embeds, and commits under
its own guard. It writes no other record: that copies elsewhere follow is the business of the event this write causes
(`links.py`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Must, Ports, Put, Query, Snapshot
from shared.core.operations.ports import NotFound as MissingRecord
from shared.core.rules import keys
from shared.core.rules.effects import Decision
from shared.core.rules.problems import NotFound
from shared.core.rules.times import entity_tag
from shared.documents.operations import embedding
from shared.documents.rules import documents as rules
from shared.documents.rules import links, queries
from shared.documents.rules.documents import Author, Content, Document
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as people see it. `etag` changes with what `document` shows, and no two contents ever share one."""

    document: Content
    etag: str
    created: bool = False


def put(ports: Ports, key: str, body: Any, precondition: Precondition = UNCONDITIONAL) -> Stored:
    """Store a document, replacing what its key held. Raises a `Problem` for what cannot be stored."""
    content = rules.check_body(keys.check_key(key), body)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Stored]:
        check(precondition, read[0])
        before = rules.decode(read[0].data)
        embedded = links.shape(key, content, embedding.given(read[1:]))
        write = embed(read[0], embedded, "put", linked=rules.linked_after_put(before))
        return Decision((write,), stored_by(write, embedded, created=before is None))

    return perform(ports, [rules.path_of(key), *embedding.needs(content)], decide)[0]


def embed(snapshot: Snapshot, content: Content, author: Author, *, linked: bool, hops: int = 0) -> Put:
    """Make the write that leaves `content` under a snapshot's path, if nobody has written there since."""
    before = rules.decode(snapshot.data)
    after = rules.written(before, content, author, snapshot.read_time, linked=linked, hops=hops)
    return Put(snapshot.path, rules.encode(after, links.link_keys(content), links.link_fields(content)), snapshot.guard)


def stored_by(write: Put, content: Content, *, created: bool) -> Stored:
    """Give what a write of the kit leaves behind, once it has landed, as people see it."""
    stamp = rules.stamp_of(write.data)
    assert stamp is not None, "the kit writes no document without its stamp"
    return Stored(rules.shown(write.path.rpartition("/")[2], content), _quoted(rules.version_tag(stamp)), created)


def get(ports: Ports, key: str) -> Stored:
    """Read a document. Raises `NotFound`."""
    [snapshot] = ports.store.read(rules.path_of(keys.check_key(key)))
    if snapshot.data is None:
        raise not_found(key)
    return stored(snapshot)


def stored(snapshot: Snapshot) -> Stored:
    """Give a record that exists as people see it."""
    document = _document(snapshot)
    return Stored(rules.shown(snapshot.id, document.content), _tag(document, snapshot))


def _document(snapshot: Snapshot) -> Document:
    document = rules.decode(snapshot.data)
    assert document is not None, "asked only of records that exist"
    return document


def delete(ports: Ports, key: str, precondition: Precondition = UNCONDITIONAL) -> None:
    """Delete a document; its copies elsewhere become `link_missing`. Raises `NotFound` and `PreconditionFailed`."""
    path = rules.path_of(keys.check_key(key))
    if precondition != UNCONDITIONAL:
        _delete_if(ports, path, precondition)
        return
    try:
        ports.store.commit([Delete(path, Must.EXIST)])
    except MissingRecord as conflict:
        raise not_found(key) from conflict


def _delete_if(ports: Ports, path: str, precondition: Precondition) -> None:
    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        [found] = read
        if found.data is None:
            raise not_found(found.id)
        check(precondition, found)
        return Decision((Delete(path, found.guard),), None)

    perform(ports, [path], decide)


@dataclass(frozen=True, slots=True)
class Found:
    """One page of a query; `next_page_token` is empty on the last."""

    documents: list[Content]
    next_page_token: str = ""


def find(ports: Ports, where: Sequence[str], order_by: Sequence[str], limit: str, page_token: str) -> Found:
    """Find documents by the fields they hold or embed; the arguments are texts as a URL has them. Raises `BadQuery`."""
    search = queries.parse(where, order_by, limit, page_token)
    page = ports.store.query(Query(rules.COLLECTION, search.where, search.order_by, search.limit, search.after))
    token = queries.token(page[-1].id, page[-1].data or {}, search) if len(page) == search.limit else ""
    return Found([rules.shown(one.id, _document(one).content) for one in page], token)


def count(ports: Ports, where: Sequence[str], others: Collection[str] = ()) -> int:
    """Count the documents that a query finds; `others` are the call's other parameters. Raises `BadQuery`."""
    return ports.store.count(Query(rules.COLLECTION, queries.parse_count(where, others)))


def not_found(key: str) -> NotFound:
    """Say that nothing lies under a key."""
    return NotFound(f"There is no document {key!r}.", field="key")


def check(precondition: Precondition, snapshot: Snapshot) -> None:
    """Raise `PreconditionFailed` unless a write may go on. Only who asks for a tag has the content hashed for it."""
    if precondition != UNCONDITIONAL:
        precondition.check_write(etag_of(snapshot))


def etag_of(snapshot: Snapshot) -> str | None:
    """Give the entity tag of what was read; None: there was nothing."""
    return None if snapshot.data is None else _tag(_document(snapshot), snapshot)


def _tag(document: Document, snapshot: Snapshot) -> str:
    """Make a document's entity tag of its version, which stays when only the kit's knowledge of it changes.

    What another client has written has no version of its own: then it is made of the record's update time.
    """
    if document.stamp is None or not document.in_shape:
        return entity_tag(snapshot.update_time)
    return _quoted(rules.version_tag(document.stamp))


def _quoted(tag: str) -> str:
    return f'"{tag}"'
