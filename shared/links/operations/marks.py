"""Let documents know that somebody embeds them, so that their changes do not go unnoticed.

One that exists is marked `linked`; for one that does not, a note lies under `wanted`, where its creation looks.
"""

from collections.abc import Container, Sequence

from shared.core.operations.perform import pause
from shared.core.operations.ports import AlreadyExists, Change, Must, Outcome, Ports, Put, Snapshot, Write, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.documents.rules import documents
from shared.documents.rules.documents import RESERVED, path_of

LINKED = (RESERVED, "linked")
WANTED = "wanted"


def wanted(ports: Ports, key: str) -> bool:
    """Tell whether anybody may embed a new document: whoever did so before it was there has left a note."""
    [note] = ports.store.read(wanted_path(key))
    return note.data is not None


def wanted_path(key: str) -> str:
    """Give the place of the note that somebody embeds a key under which nothing lies."""
    return f"{WANTED}/{key}"


def make_known(ports: Ports, keys: Sequence[str], beside: Sequence[str] = ()) -> tuple[Snapshot, ...]:
    """Let documents know that somebody embeds them; give them as they were read, none of them read before it knew.

    What lies under the paths `beside` is read with them, and comes after them.

    One that exists is marked `linked`, in a commit of its own that is guarded by the read it follows, so that what was
    read is known to have stood under the mark. For one that does not exist a note is left where its creation will look,
    and then it is read again. Most documents know already, and cost one read.
    """
    known: dict[str, Snapshot] = {}
    noted: set[str] = set()
    waiting = list(keys)
    (*read,) = ports.store.read(*map(path_of, waiting), *beside)
    others = read[len(keys) :]
    for attempt in range(LIMITS.rounds_max):
        read = list(ports.store.read(*map(path_of, waiting))) if attempt else read[: len(keys)]
        known |= {each.id: each for each in read if _knows(each, noted)}
        told = [each for each in read if each.id not in known]
        outcomes = ports.store.write_each([_word(each) for each in told]) if told else ()
        landed = [each for each, outcome in zip(told, outcomes, strict=True) if _heard(outcome)]
        known |= {each.id: each for each in landed if each.data is not None}
        noted |= {each.id for each in landed if each.data is None}
        waiting = [key for key in waiting if key not in known]
        if not waiting:
            return (*(known[key] for key in keys), *others)
        pause(ports, attempt)
    raise Unavailable("a link's target is written by many at once")


def _knows(snapshot: Snapshot, noted: Container[str]) -> bool:
    document = documents.decode(snapshot.data)
    return snapshot.id in noted if document is None else document.linked is not False


def _word(snapshot: Snapshot) -> Write:
    """Make the write that lets a document, or its creation, know."""
    if snapshot.data is None:
        return Put(wanted_path(snapshot.id), {}, Must.NOT_EXIST)
    return Change(snapshot.path, {LINKED: True}, snapshot.guard)


def _heard(outcome: Outcome) -> bool:
    """Tell whether the word stands: a note may have stood before."""
    return isinstance(outcome, WriteResult | AlreadyExists)
