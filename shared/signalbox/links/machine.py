"""Every decision about links: what an event of a document calls for, the progress of a verification, and their tasks.

Every write of a document, by the kit or by another client, causes an event. Most events call for nothing. The stamp
tells the writers apart: a user's write may have embedded targets that changed before its commit, a refresh has read its
inputs again after its commit, and content that does not fit its stamp was written by another client.

A document, before or after a write, is in one of four states:

    absent    there is no document under the key
    unlinked  written by the kit, and no document embeds it: `linked` is stored as false
    linked    written by the kit, and some document may embed it
    foreign   written by another client, without the kit's metadata; some document may embed it

If another client keeps the kit's metadata, its write is recognised by the content or by the version, which went back.
The document is then foreign after this write, and before the next one it is linked or unlinked as the metadata says.

An event calls for some of these:

    normalize  store what a put of the document's present content would store
    verify     compare the copies that the write changed with their targets, or all copies if it replaced `foreign`
    check      read the wanted note: a document may have embedded this key before the document was created
    start      start the fan-out: refresh the copies in the documents that embed this one

    before                     after     write               content  calls for
    -------------------------  --------  ------------------  -------  --------------------
    absent                     absent    delete              same     nothing
    unlinked                   absent    delete              changed  nothing
    linked, foreign            absent    delete              changed  start

    absent                     unlinked  put                 changed  verify, check
    absent                     linked    put                 changed  verify, start
    unlinked                   unlinked  put                 changed  verify
    unlinked, linked, foreign  linked    put                 changed  verify, start
    unlinked                   unlinked  put                 same     nothing
    unlinked, linked           linked    put                 same     nothing
    foreign                    linked    put                 same     verify

    unlinked                   unlinked  refresh             changed  nothing
    unlinked, linked, foreign  linked    refresh             changed  start
    unlinked                   unlinked  refresh, mark       same     nothing
    unlinked, linked, foreign  linked    refresh, mark       same     nothing

    any                        foreign   other               changed  normalize, start
    unlinked, linked, foreign  foreign   other               same     normalize
    linked, foreign            unlinked  put, refresh        changed  normalize, start
    linked, foreign            unlinked  put, refresh, mark  same     normalize

    unknown                    absent    unknown             unknown  start
    unknown                    unlinked  unknown             unknown  verify, check, start
    unknown                    linked    unknown             unknown  verify, start
    unknown                    foreign   unknown             unknown  normalize, start

Content also counts as changed if only one of the two has reached the last hop, since their copies may then differ. The
kit never makes a linked document unlinked, so another client must have stored that.

An event that arrived without its data counts as a change of everything. It always starts the fan-out, because it may be
the event of a linked document that was deleted and has been created again since.

A verification is running, abandoned (no progress for `LIMITS.verify_abandoned_seconds`) or ended. `begin` depends on
the last verification and on that of its own operation, `count` on the verification of its page.

    command  last                    own                        if                     answer   task
    -------  ----------------------  -------------------------  ---------------------  -------  ----
    begin    any                     running, abandoned, ended  -                      own      -
    begin    running                 none                       -                      last     -
    begin    none, abandoned, ended  none                       -                      begun    page
    count    -                       none, ended                -                      ignored  -
    count    -                       running, abandoned         the page was counted   ignored  -
    count    -                       running, abandoned         more documents follow  running  page
    count    -                       running, abandoned         it was the last page   ended    -
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.keys import valid_key
from signalbox.core.names import LINK_REFRESH, LINK_VERIFY, LINKS_QUEUE
from signalbox.core.values import same
from signalbox.documents import model as documents
from signalbox.documents.machine import links
from signalbox.documents.model import Document
from signalbox.links.model import VERIFICATIONS, Finding, Verification

# --- events ---


@dataclass(frozen=True, slots=True)
class Reaction:
    """What an event calls for (see the table). `verify_targets` are the targets of the copies to compare."""

    normalize: bool = False
    verify_targets: tuple[str, ...] = ()
    check_wanted_note: bool = False
    start_fan_out: bool = False


def react(before: Document | None, after: Document | None) -> Reaction:
    """Return the reaction to a change from `before` to `after` (None: there was, or is, no document)."""
    changed = links.copy_changed(before, after)
    if after is None:
        return Reaction(start_fan_out=changed and documents.counts_as_linked(before))
    foreign = _is_foreign(before, after)
    return Reaction(
        normalize=foreign,
        verify_targets=_changed_copies(before, after) if not foreign and _is_users_write(before, after) else (),
        check_wanted_note=before is None and not foreign and not documents.counts_as_linked(after),
        start_fan_out=changed and (foreign or documents.counts_as_linked(after)),
    )


def react_to_unknown(after: Document | None) -> Reaction:
    """Return the reaction to an event without its data, given the document now."""
    return replace(react(None, after), start_fan_out=True)


def _is_foreign(before: Document | None, after: Document) -> bool:
    """Return whether another client wrote: the content does not fit the stamp, or the stamp or `linked` went back."""
    if after.stamp is None or not after.stamp_matches:
        return True
    if before is None:
        return False
    unmarked = documents.counts_as_linked(before) and not documents.counts_as_linked(after)
    return unmarked or (before.stamp is not None and after.stamp.version < before.stamp.version)


def _is_users_write(before: Document | None, after: Document) -> bool:
    """Return whether a write is a put: not a refresh, and not a mark, which leaves the stamp. A new document is put."""
    if before is None or after.stamp is None:
        return before is None
    return after.stamp.author == "put" and after.stamp != before.stamp


def _changed_copies(before: Document | None, after: Document) -> tuple[str, ...]:
    """Return the targets whose copies this write changed or added; all targets, if it replaced foreign content."""
    old = dict(links.links_of(before.content)) if before is not None and before.stamp_matches else {}
    changed = (link["key"] for at, link in links.links_of(after.content) if at not in old or not same(old[at], link))
    return tuple(sorted({key for key in changed if valid_key(key)}))


# --- verifications ---


def begin(
    run: str, last: Verification | None, own: Verification | None, now: datetime
) -> Decision[Verification | None, Verification]:
    """Begin the verification `run`, unless it exists or the last one is still running. Then the state is None."""
    running = own or (last if last and last.is_running(now) else None)
    if running:
        return Decision(None, running)
    begun = Verification(run, now, now)
    return Decision(begun, begun, (verification_task(begun),))


def count_page(
    walk: Verification | None, cursor: str, found: Finding, last_key: str, now: datetime, *, more: bool
) -> Decision[Verification | None, bool]:
    """Count the page after `cursor`, and continue with the next one if there are `more` documents.

    The answer is False, and the state None, if the page was counted before or the verification does not exist.
    """
    if walk is None or not walk.awaits(cursor):
        return Decision(None, False)
    counted = walk.with_page(found, last_key, now, more=more)
    return Decision(counted, True, () if counted.ended_at else (verification_task(counted),))


# --- tasks ---


def page_task(event_id: str, key: str, cursor: str = "", copies: int | None = None) -> Effect:
    """Return the task for the page after `cursor` of the documents that embed a key, of at most `copies` documents."""
    return _link_task("page", event_id, {"key": key, "cursor": cursor}, {} if copies is None else {"copies": copies})


def copy_task(event_id: str, key: str, document: str) -> Effect:
    """Return the task that refreshes one document's copy of a key."""
    return _link_task("copy", event_id, {"key": key, "document": document})


def next_walk_task(event_id: str, transform: str, cursor: str) -> Effect:
    """Return the task for the page after `cursor` of a transform's walk, which is not the first page."""
    return _link_task("walk", event_id, {"transform": transform, "cursor": cursor})


def _link_task(task: str, event_id: str, work: Mapping[str, str], more: Mapping[str, int] | None = None) -> Effect:
    payload = {"event": event_id, "work": dict(work), **(more or {})}
    return Effect(link_task_name(event_id, work), LINKS_QUEUE, LINK_REFRESH, task, payload)


def link_task_name(event_id: str, work: Mapping[str, str]) -> str:
    """Return the name of a task: so an event enqueues each piece of work once, however often it is delivered."""
    return name_of("links", event_id, *sorted(work.items()))


def verification_task(walk: Verification) -> Effect:
    """Return the task for the next page of a verification, named once a page."""
    payload = {"run": walk.run, "cursor": walk.cursor}
    return Effect(name_of(VERIFICATIONS, walk.run, walk.cursor), LINKS_QUEUE, LINK_VERIFY, "page", payload)
