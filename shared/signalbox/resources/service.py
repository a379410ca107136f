"""Write, read, list and delete items. An item is a document: writing one is one guarded commit with its links embedded.

An item that its caller may not see is treated as one that does not exist.

Lists: Firestore serves equality conditions, and one order without conditions, from indexes that it keeps by itself. An
order with a condition needs a composite index, and every list has a condition, the name of its resource. If that index
is missing and the items are few, all of them are read, and filtered and sorted here.

Deletion: an item is deleted first, and its dependents afterwards, by a task of the same commit
(`documents/service/dependents.py`). Dependent items are found by `goes_with` in their documents, so they may belong to
any resource of any function. An item that is created during the deletion of the item on which it depends is deleted
when its copies are compared.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from signalbox.core.effects import Decision, receipt_path
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, pause, perform
from signalbox.core.ports import AlreadyExists, Conflict, Ports, RecordMissing, Stale
from signalbox.core.problems import BadQuery, Contended, NeedsIndex, NotFound, OtherBody, Unavailable
from signalbox.core.surface.paging import write_page_token
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import StoredDocument, path_of
from signalbox.documents.requests import UNCONDITIONAL, CountRequest, FindRequest, Precondition, PutRequest
from signalbox.documents.service import single_documents
from signalbox.documents.service.dependents import delete_with_dependents
from signalbox.documents.service.single_documents import Receipt, check_precondition
from signalbox.documents.storage import embedded_copies
from signalbox.documents.storage.embedded_copies import DocumentRead, Loaded
from signalbox.documents.storage.records import Found
from signalbox.documents.storage.writes import put_write
from signalbox.resources import machine, requests
from signalbox.resources.limits import LIMITS
from signalbox.resources.model import items
from signalbox.resources.model.fields import key_of, masked
from signalbox.resources.model.items import Item, Resource, Values
from signalbox.resources.problems import ItemDeleted
from signalbox.resources.requests import ListRequest

SORTED_AT_ONCE = 100
"""Items of a resource that are read before it is counted: a count costs a request, and reads a thousandth."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item with its entity tag; `created` is true if this call has created it."""

    item: Item
    etag: str
    created: bool = False


Change = Callable[[Item | None], Values | None]
"""Returns the new fields of an item, given the item or None. None means no change. Raises a `Problem`."""


@dataclass(frozen=True, slots=True)
class ItemWrite:
    """A write of an item. The targets of references in `set_fields` are read together with the item."""

    resource: Resource
    id: str
    owner: str | None
    set_fields: Values
    change: Change
    precondition: Precondition = UNCONDITIONAL
    receipt: Receipt | None = None

    @property
    def key(self) -> str:
        """The key of the item's document."""
        return key_of(self.resource.name, self.id)


def get_item(ports: Ports, resource: Resource, id_: str, owner: str | None) -> StoredItem:
    """Return an item. Raises `NotFound`."""
    read = Found.of(ports.store.read(path_of(key_of(resource.name, id_)))[0])
    item = existing(resource, id_, own_item(resource, read, owner))
    return StoredItem(item, read.stored.etag)


def existing(resource: Resource, id_: str, item: Item | None) -> Item:
    """Return the item, or raise `NotFound` if it is None."""
    if item is None:
        raise NotFound(f"{resource.name} has no item {id_[:100]!r}.", field="id")
    return item


def own_item(resource: Resource, read: Found, owner: str | None) -> Item | None:
    """Return the item of a record, or None if this owner may not see it."""
    item = items.from_content(resource, read.key, read.content)
    return None if item is None or (resource.owned and item.owner != owner) else item


def write_item(ports: Ports, request: ItemWrite) -> StoredItem:
    """Write an item, and return it as stored. Raises a `Problem` if it cannot be stored.

    With a receipt, the item is created once: a repeat returns the item. Raises `OtherBody` for a repeat with another
    body, `ItemDeleted` if the item was deleted since, and `Contended`.
    """
    if request.receipt is None:
        return _write(ports, request)
    try:
        stored = _write(ports, request)
    except AlreadyExists:
        stored = None
    if stored is None or not stored.created:
        check_repeated(ports, request, request.receipt)
    if stored is not None:
        return stored
    try:
        return get_item(ports, request.resource, request.id, request.owner)
    except NotFound as error:
        raise Contended(f"{request.key} is written by many clients at once") from error


def check_repeated(ports: Ports, request: ItemWrite, receipt: Receipt) -> None:
    """Raise the problem of a repeated creation, if it has one."""
    done, item = ports.store.read(receipt_path(receipt.name), path_of(request.key))
    if (done.data or {}).get("digest", receipt.digest) != receipt.digest:
        raise OtherBody("Another item was created with this `Idempotency-Key`.", field="Idempotency-Key")
    if done.data is not None and item.data is None:
        raise ItemDeleted("The item that was created with this `Idempotency-Key` was deleted.", field="Idempotency-Key")


def _write(ports: Ports, request: ItemWrite) -> StoredItem:
    needed = embedded_copies.input_paths(Surveyed(request.set_fields))
    for _ in range(CORE_LIMITS.rounds_max):
        stored, needed = _attempt(ports, request, needed)
        if stored is not None:
            return stored
    raise Unavailable(f"too many clients change the references of {request.key} at once")


def _attempt(ports: Ports, request: ItemWrite, paths: Sequence[str]) -> tuple[StoredItem | None, list[str]]:
    """Write the item if all inputs of its links are among `paths`.

    Return the stored item, or None if an input was missing, and the paths of the inputs that the links need.
    """

    def content_of(own: Found) -> Surveyed:
        return _changed(request, own)[1]

    def decide(read: Loaded) -> Decision[Writes, tuple[StoredItem | None, list[str]]]:
        before, content = _changed(request, read.own)
        if before is not None and not content.content:
            return Decision((), (_stored(request.resource, read.own.stored), []))
        check_precondition(request.precondition, read.own)
        needed = embedded_copies.input_paths(content)
        if read.embedded is None and not set(needed) <= set(paths):
            return Decision((), (None, needed))
        embedded = read.embed(content)
        _check_references(request, before, read, embedded.content)
        made = put_write(read.own, embedded, header=read.header)
        receipts = () if request.receipt is None else (request.receipt.write,)
        return Decision((*made.writes, *receipts), (_stored(request.resource, made.stored), needed), made.effects)

    retry_on = (Conflict,) if request.receipt is None else (Stale, RecordMissing)
    reading = DocumentRead(request.key, paths, content_of, note=request.receipt is not None)
    return perform(ports, reading, decide, retry_on=retry_on)[0]


def _changed(request: ItemWrite, own: Found) -> tuple[Item | None, Surveyed]:
    """Return the item before the change, and the content of its document after the change.

    The content is empty if nothing changes.
    """
    before = own_item(request.resource, own, request.owner)
    if own.document is not None:
        before = existing(request.resource, request.id, before)
    values = request.change(before)
    if values is None:
        return before, Surveyed({})
    owner = before.owner if before else request.owner
    content = items.to_content(request.resource, values, before, owner, own.record.read_time)
    return before, PutRequest.from_request(request.key, content).content


def _check_references(request: ItemWrite, before: Item | None, read: Loaded, embedded: Content) -> None:
    """Check new references against their targets, or against their copies if the targets were too large for memory."""
    model = request.resource.model
    values = {name: embedded[name] for name in model.fields if name in embedded}
    changes = machine.changes_between(before.values if before else {}, values)
    targets: Mapping[str, Content | None] = read.embedding.sources
    if read.embedded is not None:
        targets = {copy["key"]: copy for value in changes.values() for copy in _copies(value)}
    machine.check_references(model, changes, targets, request.owner)


def _copies(value: Any) -> list[Content]:
    return [link for link in (value if isinstance(value, list) else [value]) if isinstance(link, dict)]


def _stored(resource: Resource, stored: StoredDocument) -> StoredItem:
    content = {name: value for name, value in stored.document.items() if name != "key"}
    item = items.from_content(resource, stored.document["key"], content)
    assert item is not None, "an item was read or written"
    return StoredItem(item, stored.etag, stored.created)


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of items, the token of the next page (empty on the last), and the total if it was requested."""

    items: list[Item]
    next_page_token: str = ""
    total: int | None = None


def list_items(ports: Ports, resource: Resource, request: ListRequest) -> ItemPage:
    """Return a page of items. Raises `NeedsIndex` if a large resource lacks the index for the query."""
    if request.by_id_descending:
        refusal = BadQuery(
            "A list of this size cannot be sorted by `id` descending. Sort by another field, or ascending.",
            field="_sort",
        )
        return _sorted_here(ports, resource, request, refusal)
    if request.reads_copies:
        detail = "A list of this size can be neither filtered nor sorted by fields of the items that it refers to."
        return _sorted_here(ports, resource, request, BadQuery(detail))
    try:
        return _indexed(ports, resource, request)
    except NeedsIndex as refusal:
        return _sorted_here(ports, resource, request, refusal)


def _indexed(ports: Ports, resource: Resource, request: ListRequest) -> ItemPage:
    total = single_documents.count(ports, CountRequest(request.where)) if request.wants_total else None
    after = _skipped(ports, request)
    if after is None or not request.limit:
        return ItemPage([], total=total)
    page = single_documents.find(ports, request.find(request.limit, after))
    return ItemPage(_items(resource, page.documents), page.next_page_token, total)


def _skipped(ports: Ports, request: ListRequest) -> tuple[object, ...] | None:
    """Return the position after the items to skip, or None if there are no further items."""
    after, left = request.after, request.start
    while left:
        page = single_documents.find(ports, request.find(min(left, CORE_LIMITS.query_limit_max), after))
        left -= len(page.documents)
        if not page.next_page_token:
            return None
        after = request.cursor(page.next_page_token)
    return after


def _sorted_here(ports: Ports, resource: Resource, request: ListRequest, refusal: BadQuery) -> ItemPage:
    """Filter and sort all items in this process, and return a page of them. Raises `refusal` if there are too many."""
    every = _all_items(ports, request, refusal)
    found = requests.matching([masked_item(resource, document, request.owner) for document in every], request)
    rest = requests.behind(found, request) if request.after else found
    shown = rest[request.start : request.start + request.limit]
    token = ""
    if shown and len(rest) > request.start + request.limit:
        *values, key = requests.position_of(shown[-1], request)
        token = write_page_token(request.mark, values, key)
    return ItemPage(_items(resource, shown), token, len(found) if request.wants_total else None)


def _all_items(ports: Ports, request: ListRequest, refusal: BadQuery) -> Sequence[Content]:
    """Return all items of a small resource. Raises `refusal` for a large one, at the price of a count and few items."""
    few = min(LIMITS.resource_sorted_max, SORTED_AT_ONCE)
    first = single_documents.find(ports, FindRequest(request.base, (), few))
    if not first.next_page_token:
        return first.documents
    if single_documents.count(ports, CountRequest(request.base)) > LIMITS.resource_sorted_max:
        raise refusal
    every = single_documents.find(ports, FindRequest(request.base, (), LIMITS.resource_sorted_max + 1))
    if every.next_page_token:
        raise refusal
    return every.documents


def masked_item(resource: Resource, document: Content, owner: str | None) -> Content:
    """Return a document whose copies are only those that its reader may see."""
    references = (field.name for field in resource.model.fields.values() if field.refers_to)
    return document | {name: masked(document[name], owner) for name in references if name in document}


def _items(resource: Resource, found: Sequence[Content]) -> list[Item]:
    """Return the items of the documents that a query found."""
    contents = [
        (document["key"], {name: value for name, value in document.items() if name != "key"}) for document in found
    ]
    read = (items.from_content(resource, key, content) for key, content in contents)
    return [item for item in read if item is not None]


def delete_item(
    ports: Ports,
    resource: Resource,
    id_: str,
    owner: str | None,
    precondition: Precondition,
    check: Callable[[Item], Iterable[str]],
) -> None:
    """Delete an item.

    `check` raises a `Problem` to refuse, and otherwise returns the keys of documents to delete with the item. The
    documents that depend on the item are deleted after it. Raises `NotFound` and `PreconditionFailed`.
    """
    path = path_of(key_of(resource.name, id_))
    for attempt in range(CORE_LIMITS.rounds_max):
        read = Found.of(ports.store.read(path)[0])
        item = existing(resource, id_, own_item(resource, read, owner))
        also = list(check(item))
        check_precondition(precondition, read)
        try:
            delete_with_dependents(ports, read, also)
        except Conflict:
            pause(ports, attempt)
        else:
            return
    raise Contended(f"{path} is written by many clients at once")
