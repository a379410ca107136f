"""Patch a document: read it, merge, embed what it then links to, and commit under the guard of that read.

Whom the merged document links to is known only after it was read. So the first read takes the document with what the
patch itself links to, and only where the document has other links a second read takes those too, again at one instant
with the document. Every merge embeds all of its links, so none is forgotten and none is older than the merge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.operations.documents import Stored, embed, etag, etag_of, sources
from shared.operations.perform import Writes, perform
from shared.operations.ports import Ports, Snapshot
from shared.rules import documents, links, patches
from shared.rules.bounds import ROUNDS_MAX
from shared.rules.documents import Content
from shared.rules.effects import Decision
from shared.rules.patches import Null
from shared.rules.preconditions import UNCONDITIONAL, Precondition
from shared.rules.problems import Unavailable


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
    wanted = Patch(key, documents.check_body(documents.check_key(key), body), null, precondition)
    targets = links.link_keys(wanted.content)
    for _ in range(ROUNDS_MAX):
        stored, targets = _patch(ports, wanted, targets)
        if stored is not None:
            return stored
    raise Unavailable(f"the links of {key} are changed by many at once")


def _patch(ports: Ports, wanted: Patch, targets: Sequence[str]) -> tuple[Stored | None, list[str]]:
    """Merge if the document, once merged, links to none but `targets`; give whom it does link to."""
    key = wanted.key

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Content, bool, list[str]]]:
        wanted.precondition.check_write(etag_of(read[0]))
        before = documents.decode(read[0].data)
        content = patches.patched(before.content if before else {}, wanted.content, wanted.null)
        linked = links.link_keys(content)
        if not set(linked) <= set(targets):
            return Decision((), (content, False, linked))
        embedded = links.shape(key, content, sources(targets, read[1:]))
        write = embed(read[0], embedded, "put", linked=documents.linked_after_put(before))
        return Decision((write,), (embedded, before is None, linked))

    paths = [documents.path_of(one) for one in (key, *targets)]
    (content, created, linked), committed = perform(ports, paths, decide)
    if committed is None:
        return None, linked
    return Stored(documents.shown(key, content), etag(committed.results[0].update_time), created), linked
