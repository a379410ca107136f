"""Create, read and change items. Each is a document, so a write is a document's: one guarded commit, links embedded.

An item that its caller may not see is as one that does not exist.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Ports, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NotFound, Unavailable
from shared.documents.operations import link_inputs
from shared.documents.operations.document_reads import DocumentRead, Loaded
from shared.documents.operations.document_writes import put_write
from shared.documents.operations.stored_documents import StoredDocument, check_precondition
from shared.documents.rules import documents
from shared.documents.rules.documents import Content
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition
from shared.documents.rules.requests import PutRequest
from shared.resources.rules import items
from shared.resources.rules.items import Item, Resource, Values
from shared.resources.rules.references import key_of


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item with its entity tag, and whether this call has created it."""

    item: Item
    etag: str
    created: bool = False


Change = Callable[[Item | None], Values | None]
"""Return the fields of an item after a change, given the item or None; None leaves it alone. Raises a `Problem`."""


@dataclass(frozen=True, slots=True)
class ItemWrite:
    """Write an item. `set_fields` are those that the request sets: references among them are read with the item."""

    resource: Resource
    id: str
    owner: str | None
    set_fields: Values
    change: Change
    precondition: Precondition = UNCONDITIONAL

    @property
    def key(self) -> str:
        """Return the key of the item's document."""
        return key_of(self.resource.name, self.id)


def get(ports: Ports, resource: Resource, id_: str, owner: str | None) -> StoredItem:
    """Return an item. Raises `NotFound`."""
    [read] = ports.store.read(documents.path_of(key_of(resource.name, id_)))
    item = existing(resource, id_, own_item(resource, read, owner))
    return StoredItem(item, StoredDocument.from_snapshot(read).etag)


def existing(resource: Resource, id_: str, item: Item | None) -> Item:
    """Return the item. Raises `NotFound` if there is none."""
    if item is None:
        raise NotFound(f"{resource.name} has no item {id_[:100]!r}.", field="id")
    return item


def own_item(resource: Resource, read: Snapshot, owner: str | None) -> Item | None:
    """Return the item in a record, or None if there is none that this owner may see."""
    item = items.from_content(resource, read.id, documents.content_of(read.data))
    return None if item is None or (resource.owned and item.owner != owner) else item


def write(ports: Ports, request: ItemWrite) -> StoredItem:
    """Write an item, and return it as stored. Raises a `Problem` for what cannot be stored."""
    needed = link_inputs.input_paths(request.set_fields)
    for _ in range(LIMITS.rounds_max):
        stored, needed = _attempt(ports, request, needed)
        if stored is not None:
            return stored
    raise Unavailable(f"the references of {request.key} are changed by many clients at once")


def _attempt(ports: Ports, request: ItemWrite, paths: Sequence[str]) -> tuple[StoredItem | None, list[str]]:
    """Write, if all inputs of the item's links are among `paths`; return the inputs that it needs."""

    def content_of(own: Snapshot) -> Content:
        return _changed(request, own)[1]

    def decide(read: Loaded) -> Decision[Writes, tuple[StoredItem | None, list[str]]]:
        before, content = _changed(request, read.own)
        if before is not None and not content:
            return Decision((), (_stored(request.resource, StoredDocument.from_snapshot(read.own)), []))
        check_precondition(request.precondition, read.own)
        needed = link_inputs.input_paths(content)
        if read.embedded is None and not set(needed) <= set(paths):
            return Decision((), (None, needed))
        embedded = read.embed(content)
        _check_references(request, before, read, embedded)
        made = put_write(read.own, embedded, header=read.header)
        return Decision(made.writes, (_stored(request.resource, made.stored), needed), made.effects)

    return perform(ports, DocumentRead(request.key, paths, content_of), decide)[0]


def _changed(request: ItemWrite, own: Snapshot) -> tuple[Item | None, Content]:
    """Return the item before, and its document after the change; an empty one if it is left alone."""
    before = own_item(request.resource, own, request.owner)
    if own.data is not None:
        before = existing(request.resource, request.id, before)
    values = request.change(before)
    if values is None:
        return before, {}
    owner = before.owner if before else request.owner
    content = items.to_content(request.resource, values, before, owner, own.read_time)
    return before, PutRequest.from_request(request.key, content).content


def _check_references(request: ItemWrite, before: Item | None, read: Loaded, embedded: Content) -> None:
    """Check the references that are new, by their targets or, where these were too large to hold, by their copies."""
    model = request.resource.model
    values = {name: embedded[name] for name in model.fields if name in embedded}
    changes = items.changes_between(before.values if before else {}, values)
    targets: Mapping[str, Content | None] = read.embedding.sources
    if read.embedded is not None:
        targets = {copy["key"]: copy for value in changes.values() for copy in _copies(value)}
    items.check_references(model, changes, targets, request.owner)


def _copies(value: Any) -> list[Content]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]


def _stored(resource: Resource, stored: StoredDocument) -> StoredItem:
    content = {name: value for name, value in stored.document.items() if name != "key"}
    item = items.from_content(resource, stored.document["key"], content)
    assert item is not None, "an item was read or written"
    return StoredItem(item, stored.etag, stored.created)
