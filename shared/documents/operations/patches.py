"""Patch a document: read it, merge, embed what it then links to, and commit under the guard of that read.

What the merged document's links need is known only after it was read. So the first read takes the document with what
the patch's own links need, and only where the document has other links a second read takes that too, again at one
instant with the document. Every merge embeds all of its links, so none is forgotten and none is older than the merge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Ports, Snapshot
from shared.core.rules import keys
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.documents.operations import embedding
from shared.documents.operations.documents import Stored, check, embed, stored_by
from shared.documents.rules import documents, links, patches
from shared.documents.rules.documents import Content
from shared.documents.rules.patches import Null
from shared.documents.rules.preconditions import UNCONDITIONAL, Precondition


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge into the document `key`, as its caller asked for it."""

    key: str
    content: Content
    null: Null
    precondition: Precondition


def patch(
    ports: Ports, key: str, body: Any, null: Null = Null.IS_A_VALUE, precondition: Precondition = UNCONDITIONAL
) -> Stored:
    """Merge JSON into a document, or make one of it. Raises a `Problem` for what cannot be merged or stored."""
    wanted = Patch(key, documents.check_body(keys.check_key(key), body), null, precondition)
    needed = embedding.needs(wanted.content)
    for _ in range(LIMITS.rounds_max):
        stored, needed = _patch(ports, wanted, needed)
        if stored is not None:
            return stored
    raise Unavailable(f"the links of {key} are changed by many at once")


def _patch(ports: Ports, wanted: Patch, read_beside: Sequence[str]) -> tuple[Stored | None, list[str]]:
    """Merge if the links of the document, once merged, need nothing but what is read beside; give what they need."""
    key = wanted.key

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Stored | None, list[str]]]:
        check(wanted.precondition, read[0])
        before = documents.decode(read[0].data)
        content = patches.patched(before.content if before else {}, wanted.content, wanted.null)
        needed = embedding.needs(content)
        if not set(needed) <= set(read_beside):
            return Decision((), (None, needed))
        embedded = links.shape(key, content, embedding.given(read[1:]))
        write = embed(read[0], embedded, "put", linked=documents.linked_after_put(before))
        return Decision((write,), (stored_by(write, embedded, created=before is None), needed))

    return perform(ports, [documents.path_of(key), *read_beside], decide)[0]
