"""Delete an item, and before it the items that go with it, so that a delete that breaks off can be repeated.

What goes along is found by `goes_with` in the items themselves (`items.py`), so it may belong to any resource of any
function. An item that is created while the one that it refers to is deleted may stay, with a reference that is missing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from shared.core.operations import outbox
from shared.core.operations.perform import Contended, pause
from shared.core.operations.ports import Condition, Conflict, Delete, Ports, Query, Snapshot, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.documents.operations.document_reads import log_header
from shared.documents.operations.document_writes import Deletion, deletion
from shared.documents.operations.stored_documents import check_precondition
from shared.documents.rules.documents import COLLECTION, path_of
from shared.documents.rules.preconditions import Precondition
from shared.history.rules.selection import HISTORY
from shared.resources.operations.items import existing, own_item
from shared.resources.rules.items import Item, Resource
from shared.resources.rules.references import META, SEPARATOR, key_of

GOES_WITH = (META, "goes_with")
PAGE = 100
"""Dependents that are read together."""


def delete(
    ports: Ports,
    resource: Resource,
    id_: str,
    owner: str | None,
    precondition: Precondition,
    check: Callable[[Item], Iterable[str]],
) -> None:
    """Delete an item. `check` raises a `Problem` if it may not be, and returns keys of documents that go before it.

    Raises `NotFound`, `PreconditionFailed`, and `Unavailable` if more go along than one call deletes: repeat it.
    """
    path = path_of(key_of(resource.name, id_))
    for attempt in range(LIMITS.rounds_max):
        [read] = ports.store.read(path)
        item = existing(resource, id_, own_item(resource, read, owner))
        more = list(check(item))
        check_precondition(precondition, read)
        _Cascade(ports).run(read.id)
        try:
            _commit(ports, [*_deletions(ports, more), deletion(read, log_header(ports.store, read, None))])
        except Conflict:
            pause(ports, attempt)
        else:
            return
    raise Contended(f"{path} is written by many at once")


def _deletions(ports: Ports, keys: Sequence[str]) -> Iterator[Deletion]:
    """Iterate over the deletions of documents, which are read only where they may have a history."""
    logged = [path_of(key) for key in keys if HISTORY.may_apply(key)]
    read = {found.id: found for found in (ports.store.read(*logged) if logged else ()) if found.data is not None}
    for key in keys:
        if found := read.get(key):
            yield deletion(found, log_header(ports.store, found, None))
        else:
            yield Deletion((Delete(path_of(key)),), ())


def _commit(ports: Ports, deletions: Sequence[Deletion]) -> None:
    writes = [write for each in deletions for write in each.writes]
    outbox.commit(ports, writes, [effect for each in deletions for effect in each.effects])


class _Cascade:
    """Deletes what goes with an item, level by level from below."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._left = LIMITS.cascade_items_max
        self._resources: dict[str, bool] = {}

    def run(self, key: str, above: frozenset[str] = frozenset()) -> None:
        """Delete what goes with a document; `above` are those whose deletion has led here."""
        above |= {key}
        while found := [each for each in self._going_with(key) if each.id not in above]:
            self._left -= len(found)
            if self._left < 0:
                raise Unavailable("more items depend on this one than one call deletes", retry_after_seconds=1)
            for each in found:
                if self._has_dependents(each.id.partition(SEPARATOR)[0]):
                    self.run(each.id, above)
            self._delete(found)

    def _going_with(self, key: str, limit: int = PAGE) -> tuple[Snapshot, ...]:
        where = (Condition(GOES_WITH, "array_contains", key),)
        return self._ports.store.query(Query(COLLECTION, where, limit=limit, bytes_max=LIMITS.read_bytes_max))

    def _has_dependents(self, resource: str) -> bool:
        """Return whether any item goes with one of a resource: read once for each resource."""
        if resource not in self._resources:
            self._resources[resource] = bool(self._going_with(key_of(resource, ""), limit=1))
        return self._resources[resource]

    def _delete(self, found: Sequence[Snapshot]) -> None:
        """Delete those that are still as they were read; the others are read again.

        What needs a task or has versions is a commit of its own.
        """
        made = [deletion(each, log_header(self._ports.store, each, None)) for each in found]
        plain = [each.writes[0] for each in made if _is_one_write(each)]
        for outcome in self._ports.store.write_each(plain) if plain else ():
            if not isinstance(outcome, WriteResult | Conflict):
                raise outcome
        for each in made:
            if not _is_one_write(each):
                with suppress(Conflict):  # it is read again
                    _commit(self._ports, [each])


def _is_one_write(made: Deletion) -> bool:
    return len(made.writes) == 1 and not made.effects
