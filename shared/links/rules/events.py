"""The reaction to one event of a document, derived from the document before and after it.

Every write arrives as an event, the kit's own and other clients'; most need nothing. The stamp tells them apart: a
user's write may have read targets that changed before it landed, a refresh has read its inputs again by itself, and
content that differs from the stamp was written by another client.
"""

from dataclasses import dataclass, replace

from shared.core.rules import keys
from shared.core.rules.values import same
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Document


@dataclass(frozen=True, slots=True)
class Reaction:
    """What to do after an event.

    ``normalize``: another client wrote the document. ``verify_targets``: these may have changed during the put.
    ``check_wanted_note``: a document may have embedded this key before its creation. ``start_fan_out``: the documents
    that embed this one must follow.
    """

    normalize: bool = False
    verify_targets: tuple[str, ...] = ()
    check_wanted_note: bool = False
    start_fan_out: bool = False


def react(before: Document | None, after: Document | None) -> Reaction:
    """Return the reaction to a change from `before` to `after` (None: there was, or is, no document)."""
    changed = links.copy_changed(before, after)
    if after is None:
        return Reaction(start_fan_out=changed and documents.counts_as_linked(before))
    foreign = _written_by_another(before, after)
    return Reaction(
        normalize=foreign,
        verify_targets=_changed_copies(before, after) if not foreign and _is_users_write(before, after) else (),
        check_wanted_note=before is None and not foreign and not documents.counts_as_linked(after),
        start_fan_out=changed and (foreign or documents.counts_as_linked(after)),
    )


def react_to_unknown(after: Document | None) -> Reaction:
    """Return the reaction to an event without its values, given the document now: as if everything had changed."""
    return replace(react(None, after), start_fan_out=True)


def _written_by_another(before: Document | None, after: Document) -> bool:
    """Return whether another client wrote: the content differs from the stamp, or the stamp or `linked` went back."""
    if after.stamp is None or not after.stamp_matches:
        return True
    if before is None:
        return False
    unmarked = documents.counts_as_linked(before) and not documents.counts_as_linked(after)
    return unmarked or (before.stamp is not None and after.stamp.version < before.stamp.version)


def _is_users_write(before: Document | None, after: Document) -> bool:
    """Return whether a write is a put, not a refresh, nor one that only set `linked`. A new document is always put."""
    if before is None or after.stamp is None:
        return before is None
    return after.stamp.author == "put" and after.stamp != before.stamp


def _changed_copies(before: Document | None, after: Document) -> tuple[str, ...]:
    """Return the targets whose copies this write changed or brought in; all, if another client wrote before it."""
    old = dict(links.links(before.content)) if before is not None and before.stamp_matches else {}
    changed = (link["key"] for at, link in links.links(after.content) if at not in old or not same(old[at], link))
    return tuple(sorted({key for key in changed if keys.valid_key(key)}))
