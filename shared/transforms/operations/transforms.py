"""Store, get and delete transforms; the documents they apply to follow.

A change of a transform commits together with the task that starts its walk (see `link_pages.py`), named after the very
state that it replaced. So every change has its walk, once, wherever a process dies; one that changes nothing has none.
"""

from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Delete, Ports, Put, Snapshot
from shared.core.rules.effects import Decision, Effect, name_of
from shared.core.rules.problems import NotFound
from shared.core.rules.times import entity_tag
from shared.core.rules.values import same
from shared.transforms.rules import transforms as rules


@dataclass(frozen=True, slots=True)
class Stored:
    """A transform as people see it. `etag` changes with it, and never repeats."""

    transform: Any
    etag: str
    created: bool = False


def put(ports: Ports, name: str, transform: Any) -> Stored:
    """Store a transform for the links in a field, replacing what was there. Raises a `Problem` for what is none."""
    path = rules.path_of(rules.check_name(name))
    rules.check(transform)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Snapshot]:
        [before] = read
        if same(rules.decode(before.data), transform):
            return Decision((), before)
        return Decision((Put(path, rules.encode(transform), before.guard),), before, walk_from(before))

    before, committed = perform(ports, [path], decide)
    time = committed.results[0].update_time if committed else before.update_time
    return Stored(transform, entity_tag(time), created=before.data is None)


def get(ports: Ports, name: str) -> Stored:
    """Read a transform. Raises `NotFound`."""
    [snapshot] = ports.store.read(rules.path_of(rules.check_name(name)))
    if snapshot.data is None:
        raise _not_found(name)
    return Stored(rules.decode(snapshot.data), entity_tag(snapshot.update_time))


def delete(ports: Ports, name: str) -> None:
    """Delete a transform: its links show their targets as they are again. Raises `NotFound`."""
    path = rules.path_of(rules.check_name(name))

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        [before] = read
        if before.data is None:
            raise _not_found(name)
        return Decision((Delete(path, before.guard),), None, walk_from(before))

    perform(ports, [path], decide)


def walk_from(before: Snapshot) -> tuple[Effect, ...]:
    """Ask for the walk of what replaces a transform; what is not there is told apart by when it was seen to be so."""
    event_id = name_of(before.path, before.update_time or before.read_time)
    return (rules.walk_task(before.id, event_id),)


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no transform {name!r}.", field="name")
