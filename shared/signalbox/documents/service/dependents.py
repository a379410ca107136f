"""Delete a document together with those that depend on it. `goes_with` of a document has the keys that it depends on.

The document is deleted first, in one guarded commit, and its dependents afterwards: a deletion that is refused, or that
loses the race for its precondition, deletes nothing. The commit of a document with dependents contains a task that
deletes them. The process that committed deletes them at once, up to a limit. The task deletes the rest, if that process
dies or there are more. The task is due a few seconds later: if both ran at once, the process would miss the dependents
of documents that the task deletes, and answer before they are deleted. A dependent that has dependents is deleted in
the same way.

A dependent is deleted only if the document that it depends on is absent after the dependent was read: the document may
have been created again since, with new dependents. So a dependent of the deleted document survives if the document is
created again before its dependents are deleted.

A dependent may be created between the search for dependents and the commit of the deletion. Its creation, like every
put, causes a comparison of its copies, which marks the document as linked. If the comparison comes before the deletion,
the document is linked when it is deleted: therefore the deletion of a linked document always contains the task. If it
comes after, it finds the document absent, and the dependent is deleted then (`delete_late_dependent`).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from signalbox.core import outbox
from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import LINK_REFRESH, LINKS_QUEUE
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Conflict, Delete, Must, Ports, Query, Snapshot, WriteResult
from signalbox.core.problems import Problem, Unavailable
from signalbox.core.records.queries import Condition
from signalbox.core.times import microseconds
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model.stamped_contents import (
    COLLECTION,
    GOES_WITH,
    RESOURCE_SEPARATOR,
    Document,
    counts_as_linked,
    goes_with,
    path_of,
)
from signalbox.documents.storage.records import Found, log_header
from signalbox.documents.storage.writes import Deletion, deletion
from signalbox.history.model import HISTORY


def delete_with_dependents(ports: Ports, found: Found, also: Iterable[str] = ()) -> None:
    """Delete an existing document as it was read, the documents under the keys `also`, and all dependents of the first.

    Raises `Conflict` if the document has changed since; then nothing was deleted.
    """
    keys = [key for key in dict.fromkeys(also) if key != found.key]
    cascade = Cascade(ports)
    effects = cascade.tasks_of(found)
    commit(ports, [*deletions_of(ports, keys), _deletion(ports, found)], effects)
    if effects:
        try:
            cascade.run(found.key)
        except (Problem, Unavailable):
            ports.log.info("dependents left to the task", key=found.key)


def delete_dependents(ports: Ports, event_id: str, key: str, part: int) -> None:
    """Delete the dependents of a deleted document.

    If there are more than one task may delete, enqueue a task for the rest.
    """
    if not Cascade(ports).run(key):
        ports.queue.create([dependents_task(event_id, key, part + 1)])


def delete_late_dependent(ports: Ports, record: Snapshot, key: str) -> bool:
    """Delete a document that was put while the one that it depends on was deleted.

    Return whether `record` is such a document. `key` was absent in a read after the read of the document, and the
    document still shows the content of `key` from its put. A document that was put without that content stays. A
    document that has been refreshed since also stays, and so does an imported document, whose stamp is older than its
    record. Raises `Unavailable` if the document is written meanwhile.
    """
    found = Found.of(record)
    if found.document is None or not _was_put_with(found.document, record, key):
        return False
    try:
        delete_with_dependents(ports, found)
    except Conflict as error:
        raise Unavailable(f"{found.key} was written while it was deleted") from error
    return True


def _was_put_with(document: Document, record: Snapshot, key: str) -> bool:
    shown = (link for _, link in document.surveyed.links if link["key"] == key)
    if key not in goes_with(document.content) or all("link_missing" in link for link in shown):
        return False
    assert record.create_time is not None, "the document exists"
    oldest = microseconds(record.create_time - timedelta(seconds=LIMITS.put_seconds_max))
    stamp = document.stamp
    return stamp is not None and stamp.author == "put" and stamp.version >= oldest


def dependents_task(event_id: str, key: str, part: int = 0, not_before: datetime | None = None) -> Effect:
    """Return the task that deletes the dependents of a document, after the event of its deletion."""
    payload = {"event": event_id, "work": {"dependents": key, "part": part}}
    name = name_of("dependents", event_id, part)
    return Effect(name, LINKS_QUEUE, LINK_REFRESH, "dependents", payload, not_before=not_before)


class Cascade:
    """The deletion of dependents, at most `LIMITS.cascade_documents_max` of them."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._left = LIMITS.cascade_documents_max
        self._resources: dict[str, bool] = {}

    def run(self, key: str) -> bool:
        """Delete the documents that depend on a deleted one, at any distance. Return whether no dependent is left."""
        pending = [key]
        while pending:
            if not self._left:
                return False
            page = self.going_with(pending[-1], min(LIMITS.cascade_page_documents_max, self._left))
            if not page or self.exists(pending[-1]):
                pending.pop()
                continue
            self._left -= len(page)
            pending += self._delete(page)
        return True

    def tasks_of(self, found: Found) -> tuple[Effect, ...]:
        """Return the task that deletes the dependents of a document, or nothing if it has none.

        Only an unlinked document is searched for dependents: those that are created after the search compare their
        copies after the deletion.
        """
        if not counts_as_linked(found.document) and not self.going_with(found.key, 1):
            return ()
        assert found.record.update_time is not None, "the document exists"
        event_id = name_of(found.record.path, microseconds(found.record.update_time))
        due_at = found.record.read_time + timedelta(seconds=LIMITS.cascade_task_delay_seconds)
        return (dependents_task(event_id, found.key, not_before=due_at),)

    def going_with(self, key: str, limit: int) -> tuple[Snapshot, ...]:
        where = (Condition(GOES_WITH, "array_contains", key),)
        return self._ports.store.query(Query(COLLECTION, where, limit=limit, bytes_max=CORE_LIMITS.read_bytes_max))

    def exists(self, key: str) -> bool:
        return self._ports.store.read(path_of(key))[0].data is not None

    def _may_have_dependents(self, found: Found) -> bool:
        """Return whether a document is linked, or any document depends on an item of its resource.

        The search for dependents takes one query for each resource. The answer of a query may be old, which matters
        only for linked documents.
        """
        if counts_as_linked(found.document):
            return True
        resource = found.key.partition(RESOURCE_SEPARATOR)[0] + RESOURCE_SEPARATOR
        if resource not in self._resources:
            self._resources[resource] = bool(self.going_with(resource, 1))
        return self._resources[resource]

    def _delete(self, page: Sequence[Snapshot]) -> list[str]:
        """Delete the documents of a page that have not changed since they were read.

        Other documents are read again later. A deletion that needs a task or creates a version is a separate commit.
        Return the keys of the deleted documents that have dependents.
        """
        with_dependents, plain = [], []
        for found in map(Found.of, page):
            effects = self.tasks_of(found) if self._may_have_dependents(found) else ()
            made = _deletion(self._ports, found)
            if not effects and _is_one_write(made):
                plain.append(made.writes[0])
                continue
            with suppress(Conflict):
                commit(self._ports, [made], effects)
                with_dependents += [found.key] if effects else []
        for outcome in self._ports.store.write_each(plain) if plain else ():
            if not isinstance(outcome, WriteResult | Conflict):
                raise outcome
        return with_dependents


def _deletion(ports: Ports, found: Found) -> Deletion:
    return deletion(found, log_header(ports.store, found, None))


def deletions_of(ports: Ports, keys: Sequence[str]) -> Iterator[Deletion]:
    """Iterate over the deletions of documents.

    Only documents that may have versions are read. If documents have no events, all of them are read.
    """
    needed = [path_of(key) for key in keys if HISTORY.may_apply(key) or WRITERS.only_the_kit]
    records = ports.store.read(*needed) if needed else ()
    read = {record.id: Found.of(record) for record in records if record.data is not None}
    for key in keys:
        if found := read.get(key):
            yield _deletion(ports, found)
        else:
            yield Deletion((Delete(path_of(key), Must.NOT_EXIST if WRITERS.only_the_kit else None),), ())


def commit(ports: Ports, deletions: Sequence[Deletion], effects: Sequence[Effect]) -> None:
    writes = [write for made in deletions for write in made.writes]
    outbox.commit(ports, writes, [*(effect for made in deletions for effect in made.effects), *effects])


def _is_one_write(made: Deletion) -> bool:
    return len(made.writes) == 1 and not made.effects
