"""Store, get, list and delete transforms.

A change of a transform commits together with the first task of its walk, which refreshes the documents that have links
in the transform's field (`signalbox/links/service/refreshes.py`). The task is named after the state that the change
replaced. So each change has exactly one walk, wherever a process dies, and a put that changes nothing has none.
"""

from collections.abc import Mapping

from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.json_values import same
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Delete, Ports, Put, Query, Snapshot
from signalbox.core.problems import NotFound
from signalbox.core.surface.paging import Listing
from signalbox.core.times import entity_tag
from signalbox.transforms import machine
from signalbox.transforms.model import (
    TRANSFORMS,
    StoredTransform,
    transform_from_record,
    transform_path,
    transform_to_record,
)
from signalbox.transforms.requests import PutTransformRequest, check_transform_name


@dataclass(frozen=True, slots=True)
class TransformsPage:
    """Transforms with their names. `more` has the token of the next page, unless this page is the last."""

    transforms: list[tuple[str, StoredTransform]]
    more: Mapping[str, str]


def put(ports: Ports, request: PutTransformRequest) -> StoredTransform:
    """Store a transform, replacing the one with this name."""
    path = transform_path(request.name)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Snapshot]:
        [before] = read
        if same(transform_from_record(before.data), request.transform):
            return Decision((), before)
        write = Put(path, transform_to_record(request.transform), before.guard)
        return Decision((write,), before, walk_from(before))

    before, committed = perform(ports, [path], decide)
    time = committed.results[0].update_time if committed else before.update_time
    return StoredTransform(request.transform, entity_tag(time), created=before.data is None)


def get(ports: Ports, name: str) -> StoredTransform:
    """Return a transform. Raises `NotFound`."""
    [snapshot] = ports.store.read(transform_path(check_transform_name(name)))
    if snapshot.data is None:
        raise _not_found(name)
    return _stored(snapshot)


def find(ports: Ports, listing: Listing) -> TransformsPage:
    """Return a page of the transforms."""
    found = ports.store.query(Query(TRANSFORMS, limit=listing.limit, after=listing.after))
    stored = [(snapshot.id, _stored(snapshot)) for snapshot in found]
    return TransformsPage(stored, listing.next_page([snapshot.id for snapshot in found]))


def delete(ports: Ports, name: str) -> None:
    """Delete a transform; its links show untransformed copies again. Raises `NotFound`."""
    path = transform_path(check_transform_name(name))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        [before] = read
        if before.data is None:
            raise _not_found(name)
        return Decision((Delete(path, before.guard),), None, walk_from(before))

    perform(ports, [path], decide)


def walk_from(before: Snapshot) -> tuple[Effect, ...]:
    """Return the walk after a change of a transform, from the record as read before.

    An absent record is identified by the time of the read.
    """
    event_id = name_of(before.path, before.update_time or before.read_time)
    return (machine.walk_task(before.id, event_id),)


def _stored(snapshot: Snapshot) -> StoredTransform:
    return StoredTransform(transform_from_record(snapshot.data), entity_tag(snapshot.update_time))


def _not_found(name: str) -> NotFound:
    return NotFound(f"Transform {name!r} does not exist.", field="name")
