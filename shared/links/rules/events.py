"""What one event of a document calls for, told from the document before and after it.

Every write arrives as an event, the kit's own and other clients'; most call for nothing. The stamp tells them apart: a
user's write may have read targets that moved while it was on its way, a refresh has looked again by itself, and what is
not as the stamp says was written by another client.
"""

from dataclasses import dataclass, replace

from shared.core.rules import keys
from shared.core.rules.values import same
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Document


@dataclass(frozen=True, slots=True)
class Reaction:
    """What one event of a document calls for. The event that calls for nothing costs nothing.

    ``reshape``: another client wrote it, bring it into shape. ``verify``: these targets may have moved while it was
    put. ``look``: somebody may have been waiting for it. ``pages``: those who embed it must follow.
    """

    reshape: bool = False
    verify: tuple[str, ...] = ()
    look: bool = False
    pages: bool = False


def react(before: Document | None, after: Document | None) -> Reaction:
    """Say what a change from `before` to `after` calls for (None: there was, or is, no document)."""
    changed = links.moved(before, after)
    if after is None:
        return Reaction(pages=changed and documents.counts_as_linked(before))
    foreign = _written_by_another(before, after)
    return Reaction(
        reshape=foreign,
        verify=_moved_copies(before, after) if not foreign and _users_write(before, after) else (),
        look=before is None and not foreign and not documents.counts_as_linked(after),
        pages=changed and (foreign or documents.counts_as_linked(after)),
    )


def react_to_unknown(after: Document | None) -> Reaction:
    """Say what an event without its values calls for, given what lies there now: as if all had changed."""
    return replace(react(None, after), pages=True)


def _written_by_another(before: Document | None, after: Document) -> bool:
    """Tell another client's write: the content is not what the stamp says, or the stamp or `linked` went back."""
    if after.stamp is None or not after.in_shape:
        return True
    if before is None:
        return False
    forgets = documents.counts_as_linked(before) and not documents.counts_as_linked(after)
    return forgets or (before.stamp is not None and after.stamp.version < before.stamp.version)


def _users_write(before: Document | None, after: Document) -> bool:
    """Tell a put from a refresh, and from a write that only touched `linked`. A new document is always put."""
    if before is None or after.stamp is None:
        return before is None
    return after.stamp.author == "put" and after.stamp != before.stamp


def _moved_copies(before: Document | None, after: Document) -> tuple[str, ...]:
    """List the targets whose copies this write changed or brought in; another client's write vouches for none."""
    old = dict(links.links(before.content)) if before is not None and before.in_shape else {}
    moved = (link["key"] for at, link in links.links(after.content) if at not in old or not same(old[at], link))
    return tuple(sorted({key for key in moved if keys.valid_key(key)}))
