"""Queries for the documents that a change concerns, and guarded writes that mark documents as linked.

Marks let the change of a document start a fan-out. An existing target is marked `linked`. For a missing one a note is
written under `wanted`, which the event of its creation reads.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import (
    AlreadyExists,
    Change,
    Must,
    Ports,
    Put,
    Query,
    Snapshot,
    Write,
    WriteResult,
    snapshot_bytes,
)
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Condition
from signalbox.documents.model.stamped_contents import COLLECTION, Document, path_of, wanted_path
from signalbox.links.limits import LIMITS
from signalbox.links.model import LINK_FIELDS, LINK_KEYS, LINKED

Read = Sequence[Snapshot]

# --- queries ---


def linking_documents(key: str, after: str, limit: int) -> Query:
    """Return the query for the documents that embed a key, ordered by their own keys."""
    linking = Condition(LINK_KEYS, "array_contains", key)
    return Query(COLLECTION, (linking,), (), limit, (after,) if after else (), CORE_LIMITS.read_bytes_max)


def documents_with_links(field: str, after: str) -> Query:
    """Return the query for the documents that have links in a transform's field, ordered by their own keys."""
    linking = Condition(LINK_FIELDS, "array_contains", field)
    position = (after,) if after else ()
    return Query(COLLECTION, (linking,), (), LIMITS.walk_documents_max, position, CORE_LIMITS.read_bytes_max)


def next_limit(page: Sequence[Snapshot]) -> int:
    """Return the number of documents that the next page may have, if they are as large as those of this page."""
    total_bytes = sum(map(snapshot_bytes, page))
    return max(1, min(LIMITS.page_copies_max, CORE_LIMITS.read_bytes_max * len(page) // total_bytes))


def read_both(ports: Ports, inputs: Sequence[str], linking: Sequence[str]) -> tuple[Read, Read, list[str]]:
    """Read inputs, and as many documents as fit into memory; return both, and the paths that were not read.

    A document may also be one of the inputs.
    """
    read = ports.store.read_some(inputs, linking, CORE_LIMITS.read_bytes_max)
    records = read[len(inputs) :]
    found = {record.path for record in records}
    return read[: len(inputs)], records, [path for path in linking if path not in found]


def pause_or_give_up(ports: Ports, attempt: int) -> None:
    """Sleep before the next attempt to refresh documents. Raises `Unavailable` after the last one."""
    if attempt >= CORE_LIMITS.rounds_max:
        raise Unavailable("documents that embed a changed one are written by many clients at once")
    pause(ports, attempt)


# --- marks ---


def has_wanted_note(read: Iterable[Snapshot]) -> bool:
    """Return whether a note was read: some document embedded the key before the document under it was created."""
    return any(note.data is not None for note in read)


def marked_in_groups(
    ports: Ports, keys: Sequence[str], extra_paths: Sequence[str] = ()
) -> Iterator[tuple[Snapshot, ...]]:
    """Mark targets as linked. Iterate over groups that fit into memory, each as `mark_linked` returns it."""
    waiting = list(keys)
    while waiting:
        marked = mark_linked(ports, waiting, extra_paths)
        yield marked
        done = {target.id for target in marked[: len(marked) - len(extra_paths)]}
        waiting = [key for key in waiting if key not in done]


def mark_linked(ports: Ports, keys: Sequence[str], extra_paths: Sequence[str] = ()) -> tuple[Snapshot, ...]:
    """Mark targets as linked. Return each target as it was under its mark, then the records at `extra_paths`.

    If the targets are too large to be kept in memory together, only the first ones are marked and returned, at least
    one.

    An existing target is marked in a separate commit, guarded by the read before it, so the mark was set on the target
    that was read. For a missing target a note is written, then the target is read again. Most targets are already
    marked and cost one read. Raises `Unavailable` if the guards keep failing.
    """
    marked: dict[str, Snapshot] = {}
    noted: set[str] = set()
    read = ports.store.read_some(extra_paths, [path_of(key) for key in keys], CORE_LIMITS.read_bytes_max)
    extras, read = read[: len(extra_paths)], read[len(extra_paths) :]
    returned = waiting = [target.id for target in read]
    for attempt in range(CORE_LIMITS.rounds_max):
        if attempt:
            read = ports.store.read_some((), [path_of(key) for key in waiting], CORE_LIMITS.read_bytes_max)
            waiting = [target.id for target in read]
            returned = [key for key in returned if key in marked or key in waiting]
        marked |= {target.id: target for target in read if is_linked(target, noted)}
        to_mark = [target for target in read if target.id not in marked]
        outcomes = ports.store.write_each([mark_write(target) for target in to_mark]) if to_mark else ()
        written = [
            target
            for target, outcome in zip(to_mark, outcomes, strict=True)
            if isinstance(outcome, WriteResult | AlreadyExists)  # a note may have existed before
        ]
        marked |= {target.id: target for target in written if target.data is not None}
        noted |= {target.id for target in written if target.data is None}
        waiting = [key for key in waiting if key not in marked]
        if not waiting:
            return (*(marked[key] for key in returned), *extras)
        pause(ports, attempt)
    raise Unavailable("a link's target is written by many clients at once")


def is_linked(target: Snapshot, noted: Container[str]) -> bool:
    """Return whether a target is marked. The mark of a missing target is its note; `noted` has the keys with a note."""
    document = Document.from_record(target.data)
    return target.id in noted if document is None else document.linked is not False


def mark_write(target: Snapshot) -> Write:
    """Return the write that marks a target as linked, or the note that a missing target is wanted."""
    if target.data is None:
        return Put(wanted_path(target.id), {}, Must.NOT_EXIST)
    return Change(target.path, {LINKED: True}, target.guard)


def unmarked(ports: Ports, targets: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the targets that are not marked as linked."""
    missing = [target.id for target in targets if target.data is None]
    notes = ports.store.read(*map(wanted_path, missing)) if missing else ()
    noted = {note.id for note in notes if note.data is not None}
    return [target for target in targets if not is_linked(target, noted)]
