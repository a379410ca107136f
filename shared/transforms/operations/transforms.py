"""Store, get, list and delete transforms; the documents they apply to follow.

A change of a transform commits together with the task of its walk (see `shared/links/operations/fan_out_pages.py`),
named after the state that it replaced. So every change has its walk, once, wherever a process dies; a put that changes
nothing has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Ports, Put, Query, Snapshot
from shared.core.rules.effects import Decision, Effect, name_of
from shared.core.rules.listings import Listing
from shared.core.rules.problems import NotFound
from shared.core.rules.times import entity_tag
from shared.core.rules.values import same
from shared.transforms.rules import transforms as rules
from shared.transforms.rules.transforms import PutTransformRequest


@dataclass(frozen=True, slots=True)
class StoredTransform:
    """A transform as callers see it. `etag` changes with it, and never repeats."""

    transform: Any
    etag: str
    created: bool = False


def put(ports: Ports, request: PutTransformRequest) -> StoredTransform:
    """Store a transform, replacing what was there."""
    path = rules.path_of(request.name)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Snapshot]:
        [before] = read
        if same(rules.from_record(before.data), request.transform):
            return Decision((), before)
        write = Put(path, rules.to_record(request.transform), before.guard)
        return Decision((write,), before, walk_from(before))

    before, committed = perform(ports, [path], decide)
    time = committed.results[0].update_time if committed else before.update_time
    return StoredTransform(request.transform, entity_tag(time), created=before.data is None)


def get(ports: Ports, name: str) -> StoredTransform:
    """Return a transform. Raises `NotFound`."""
    [snapshot] = ports.store.read(rules.path_of(rules.check_name(name)))
    if snapshot.data is None:
        raise _not_found(name)
    return StoredTransform(rules.from_record(snapshot.data), entity_tag(snapshot.update_time))


@dataclass(frozen=True, slots=True)
class TransformsPage:
    """Transforms by name; `more` is the token of the next page as the answer holds it."""

    transforms: list[tuple[str, StoredTransform]]
    more: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the page as people see it."""
        shown = [{"name": name, "transform": one.transform, "etag": one.etag} for name, one in self.transforms]
        return {"transforms": shown, **self.more}


def find(ports: Ports, listing: Listing) -> TransformsPage:
    """Return a page of the transforms."""
    found = ports.store.query(Query(rules.COLLECTION, limit=listing.limit, after=listing.after))
    stored = [(one.id, StoredTransform(rules.from_record(one.data), entity_tag(one.update_time))) for one in found]
    return TransformsPage(stored, listing.next_page([one.id for one in found]))


def delete(ports: Ports, name: str) -> None:
    """Delete a transform: its links show untransformed copies again. Raises `NotFound`."""
    path = rules.path_of(rules.check_name(name))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        [before] = read
        if before.data is None:
            raise _not_found(name)
        return Decision((Delete(path, before.guard),), None, walk_from(before))

    perform(ports, [path], decide)


def walk_from(before: Snapshot) -> tuple[Effect, ...]:
    """Return the walk after a change of what was read; an absence is identified by the time of its read."""
    event_id = name_of(before.path, before.update_time or before.read_time)
    return (rules.walk_task(before.id, event_id),)


def _not_found(name: str) -> NotFound:
    return NotFound(f"Transform {name!r} does not exist.", field="name")
