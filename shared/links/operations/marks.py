"""Mark documents as linked, so that their changes start a fan-out.

An existing target is marked `linked`. For a missing one a note is written under `wanted`, where its creation looks.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

from shared.core.operations.perform import pause
from shared.core.operations.ports import AlreadyExists, Change, Must, Outcome, Ports, Put, Snapshot, Write, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.documents.rules.documents import RESERVED, Document, path_of

LINKED = (RESERVED, "linked")
WANTED = "wanted"


def has_wanted_note(read: Iterable[Snapshot]) -> bool:
    """Return whether a note was read: some document embedded the key before the document under it was created."""
    return any(note.data is not None for note in read)


def wanted_path(key: str) -> str:
    """Return the path of the note that some document embeds a missing key."""
    return f"{WANTED}/{key}"


def marked_in_groups(
    ports: Ports, keys: Sequence[str], extra_paths: Sequence[str] = ()
) -> Iterator[tuple[Snapshot, ...]]:
    """Mark targets as linked; iterate over groups of them that can be held together, each as `mark_linked` returns."""
    waiting = list(keys)
    while waiting:
        marked = mark_linked(ports, waiting, extra_paths)
        yield marked
        done = {target.id for target in marked[: len(marked) - len(extra_paths)]}
        waiting = [key for key in waiting if key not in done]


def mark_linked(ports: Ports, keys: Sequence[str], extra_paths: Sequence[str] = ()) -> tuple[Snapshot, ...]:
    """Mark targets as linked; return them, each as read under its mark, and then the records at `extra_paths`.

    Of targets that are too large to be held together, only the first are marked and returned, one at least.

    An existing target is marked in a commit of its own, guarded by the read before it, so what was read is known to
    have been there under the mark. For a missing one a note is written, and then it is read again. Most targets are
    marked already and cost one read. Raises `Unavailable` when the guards kept losing.
    """
    marked: dict[str, Snapshot] = {}
    noted: set[str] = set()
    read = ports.store.read_some(extra_paths, [path_of(key) for key in keys], LIMITS.read_bytes_max)
    extras, read = read[: len(extra_paths)], read[len(extra_paths) :]
    held = waiting = [each.id for each in read]
    for attempt in range(LIMITS.rounds_max):
        if attempt:
            read = ports.store.read_some((), [path_of(key) for key in waiting], LIMITS.read_bytes_max)
            waiting = [each.id for each in read]
            held = [key for key in held if key in marked or key in waiting]
        marked |= {each.id: each for each in read if _is_linked(each, noted)}
        unmarked = [each for each in read if each.id not in marked]
        outcomes = ports.store.write_each([_mark_write(each) for each in unmarked]) if unmarked else ()
        landed = [each for each, outcome in zip(unmarked, outcomes, strict=True) if _is_marked(outcome)]
        marked |= {each.id: each for each in landed if each.data is not None}
        noted |= {each.id for each in landed if each.data is None}
        waiting = [key for key in waiting if key not in marked]
        if not waiting:
            return (*(marked[key] for key in held), *extras)
        pause(ports, attempt)
    raise Unavailable("a link's target is written by many clients at once")


def _is_linked(snapshot: Snapshot, noted: Container[str]) -> bool:
    document = Document.from_record(snapshot.data)
    return snapshot.id in noted if document is None else document.linked is not False


def _mark_write(snapshot: Snapshot) -> Write:
    """Build the write that marks a target as linked, or notes that a missing one is wanted."""
    if snapshot.data is None:
        return Put(wanted_path(snapshot.id), {}, Must.NOT_EXIST)
    return Change(snapshot.path, {LINKED: True}, snapshot.guard)


def _is_marked(outcome: Outcome) -> bool:
    """Return whether the mark is in place: a note may have existed before."""
    return isinstance(outcome, WriteResult | AlreadyExists)
