"""Faults of resources: items, what depends on them, lists by copies, and creations that are repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.ports import Delete, Ports, Put, Snapshot
from signalbox.documents.model.contents import Content
from signalbox.documents.model.stamped_contents import path_of
from signalbox.documents.requests import Precondition
from signalbox.documents.service import dependents
from signalbox.documents.service.single_documents import Receipt, check_precondition
from signalbox.documents.storage.records import Found
from signalbox.documents.storage.writes import Deletion, DocumentWrite
from signalbox.resources.model.fields import key_of
from signalbox.resources.model.items import Item, Resource
from signalbox.resources.service import existing, own_item
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always, original
from tests.simulation.worlds import resources as resources_world

delete_item = original("resources.delete_item")
delete_with_dependents = original("resources.delete_with_dependents")
commit = original("documents.commit in dependents")
dependents_task = original("documents.dependents_task")
put_write = original("resources.put_write")
receipt_write = Receipt.write.fget  # type: ignore[attr-defined]  # a property has the function that computes it


def _resources(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), resources_world.run)


def _cascade(ports: Ports, key: str) -> None:
    """Delete the dependents of a document that still exists."""
    for snapshot in dependents.Cascade(ports).going_with(key, 100):
        _cascade(ports, snapshot.id)
        delete_with_dependents(ports, Found.of(snapshot))


def _dependents_first(ports: Ports, found: Found, also: Iterable[str] = ()) -> None:
    _cascade(ports, found.key)
    delete_with_dependents(ports, found, also)


def _checked_at_the_end(
    ports: Ports,
    resource: Resource,
    id_: str,
    owner: str | None,
    precondition: Precondition,
    check: Callable[[Item], Iterable[str]],
) -> None:
    """The precondition is checked when the dependents are deleted."""
    key = key_of(resource.name, id_)
    read = Found.of(ports.store.read(path_of(key))[0])
    existing(resource, id_, own_item(resource, read, owner))
    if not _holds(precondition, read):
        _cascade(ports, key)
    delete_item(ports, resource, id_, owner, precondition, check)


def _holds(precondition: Precondition, read: Found) -> bool:
    try:
        check_precondition(precondition, read)
    except Exception:  # noqa: BLE001  whatever it refuses
        return False
    return True


def _without_its_task(ports: Ports, deletions: Sequence[Any], effects: Sequence[Effect]) -> None:
    del effects
    commit(ports, deletions, ())


def _every_copy(_: Resource, document: Content, __: str | None) -> Content:
    return document


def _replacing(receipt: Receipt) -> Put:
    return replace(receipt_write(receipt), guard=None)


def _unread(_: Ports, keys: Sequence[str]) -> list[Deletion]:
    return [Deletion((Delete(path_of(key)),), ()) for key in keys]


def _named_by_the_item(_: str, key: str, part: int = 0, not_before: datetime | None = None) -> Effect:
    return dependents_task(key, key, part, not_before)


def _without_tasks(before: Found, embedded: Content, header: Snapshot | None = None) -> DocumentWrite:
    return replace(put_write(before, embedded, header=header), effects=())


FAULTS = (
    _resources("resource-1", "the item before its dependents", "resources.delete_with_dependents", _dependents_first),
    _resources("resource-1", "the precondition before the dependents", "resources.delete_item", _checked_at_the_end),
    _resources("resource-1", "the task of a deletion", "documents.commit in dependents", _without_its_task),
    _resources("resource-1", "the absence of what was deleted", "documents.Cascade.exists", lambda *_: False),
    _resources("resource-1", "the task of a linked item", "documents.counts_as_linked in dependents", lambda _: False),
    _resources("resource-1", "a dependent that came too late", "links.delete_late_dependent", lambda *_: False),
    _resources("resource-1", "the deletion in the name of its task", "documents.dependents_task", _named_by_the_item),
    _resources("resource-2", "conditions on what a reader may see", "resources.masked_item", _every_copy),
    _resources("resource-3", "comparing a repeated creation", "resources.check_repeated", lambda *_: None),
    _resources("resource-3", "a receipt that must not exist", "resources.Receipt.write", property(_replacing)),
    _resources("resource-4", "the tasks of a written item", "resources.put_write", _without_tasks),
    _resources("resource-4", "the read of what a hook deletes", "documents.deletions_of in dependents", _unread),
)
