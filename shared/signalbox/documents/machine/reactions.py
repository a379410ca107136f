"""The tasks that a write of a document causes.

They are decided from its event or, if only the kit writes documents, with the write. The catalogue declares who writes
documents (`WRITERS`). If other clients may, every write has an event, and `react` decides which tasks the event causes.
If only the kit does, there are no events. The process that writes has read the record that it replaces:
`react_to_own_write` decides the same, and the tasks that carry it out are in the commit of the write.

Most writes call for nothing. The stamp distinguishes the writers: a user's write may have embedded targets that changed
before its commit, a refresh has read its inputs again after its commit, and content that does not fit its stamp was
written by another client.

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

`react_to_own_write` differs from the table in two ways. It starts the fan-out of a linked document whose content before
was foreign, since that foreign write had no event. And it compares with the digest in the stamp, if only the metadata
of the record was read: then the content may have been written by another client without being noticed.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from signalbox.core.effects import Effect, name_of
from signalbox.core.json_values import same
from signalbox.core.keys import valid_key
from signalbox.core.kit_names import ANYONE, KIT, LINK_REFRESH, LINKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import DECLARED
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine import links
from signalbox.documents.model import stamped_contents as documents
from signalbox.documents.model.stamped_contents import Document

# --- who writes documents ---


class Writers:
    """The clients that write documents, by the catalogue: `ANYONE`, so that every write has an event, or only the
    `KIT`.
    """

    def __init__(self) -> None:
        self._replaced: str | None = None

    @property
    def only_the_kit(self) -> bool:
        """Whether no other client writes documents, so that there are no events."""
        return (self._replaced or DECLARED.get("document_writers", ANYONE)) == KIT

    @contextmanager
    def replaced(self, writers: str) -> Iterator[None]:
        """Use another setting while the context is entered."""
        before, self._replaced = self._replaced, writers
        try:
            yield
        finally:
            self._replaced = before


WRITERS = Writers()

# --- reactions ---


@dataclass(frozen=True, slots=True)
class Reaction:
    """The work that an event calls for (see the table). `verify_targets` are the targets of the copies to compare."""

    normalize: bool = False
    verify_targets: tuple[str, ...] = ()
    check_wanted_note: bool = False
    start_fan_out: bool = False


def react(before: Document | None, after: Document | None) -> Reaction:
    """Return the reaction to a change from `before` to `after`.

    `before` is None if there was no document, and `after` is None if there is no document now.
    """
    changed = links.copy_changed(before, after)
    if after is None:
        return Reaction(start_fan_out=changed and documents.counts_as_linked(before))
    foreign = _is_foreign(before, after)
    return Reaction(
        normalize=foreign,
        verify_targets=changed_copies(before, after) if not foreign and _is_users_write(before, after) else (),
        check_wanted_note=before is None and not foreign and not documents.counts_as_linked(after),
        start_fan_out=changed and (foreign or documents.counts_as_linked(after)),
    )


def react_to_unknown(after: Document | None) -> Reaction:
    """Return the reaction to an event without data. `after` is the document as it is now."""
    return replace(react(None, after), start_fan_out=True)


def _is_foreign(before: Document | None, after: Document) -> bool:
    """Return whether another client wrote.

    The content does not fit the stamp then, or the stamp or `linked` went back to an earlier value.
    """
    if after.stamp is None or not after.stamp_matches:
        return True
    if before is None:
        return False
    unmarked = documents.counts_as_linked(before) and not documents.counts_as_linked(after)
    return unmarked or (before.stamp is not None and after.stamp.version < before.stamp.version)


def _is_users_write(before: Document | None, after: Document) -> bool:
    """Return whether a write is a put, and not a refresh or a mark. A mark does not change the stamp.

    A new document is always put.
    """
    if before is None or after.stamp is None:
        return before is None
    return after.stamp.author == "put" and after.stamp != before.stamp


def changed_copies(before: Document | None, after: Document) -> tuple[str, ...]:
    """Return the targets of the copies that this write changed or added.

    If the write replaced foreign content, return all targets.
    """
    old = dict(before.surveyed.links) if before is not None and before.stamp_matches else {}
    changed = (link["key"] for at, link in after.surveyed.links if at not in old or not same(old[at], link))
    return tuple(sorted({key for key in changed if valid_key(key)}))


def react_to_own_write(before: Document | None, after: Document | None, *, whole: bool) -> Reaction:
    """Return the tasks that a write by the kit causes. Call this for writes that trigger no event.

    `whole` states that the content of `before` was read, and not only its metadata.
    """
    if before is None or after is None or (whole and before.stamp_matches):
        return react(before, after)
    assert after.stamp is not None, "the kit writes no document without a stamp"
    if not whole and before.stamp is not None and before.stamp.digest == after.stamp.digest:
        return react(replace(before, surveyed=after.surveyed), after)
    copied = changed_copies(None, after) if after.stamp.author == "put" else ()
    return Reaction(verify_targets=copied, start_fan_out=documents.counts_as_linked(after))


# --- tasks ---


def reaction_tasks(event_id: str, key: str, reaction: Reaction) -> tuple[Effect, ...]:
    """Return the tasks that follow from a write. The tasks are named after `event_id`, an id of the write."""
    can_be_linked = valid_key(key)  # another client may have used a key that no link can have
    tasks = [page_task(event_id, key)] if reaction.start_fan_out and can_be_linked else []
    if reaction.verify_targets:
        short = sum(len(target.encode()) for target in reaction.verify_targets) <= LIMITS.compared_keys_bytes_max
        named = {"targets": list(reaction.verify_targets)} if short else {}
        tasks.append(link_task("written", event_id, {"written": key}, named))
    return tuple(tasks)


def page_task(event_id: str, key: str, cursor: str = "", copies: int | None = None) -> Effect:
    """Return the task for the page after `cursor` of the documents that embed a key, of at most `copies` documents."""
    return link_task("page", event_id, {"key": key, "cursor": cursor}, {} if copies is None else {"copies": copies})


def link_task(task: str, event_id: str, work: Mapping[str, str], more: Mapping[str, Any] | None = None) -> Effect:
    """Return a task of `link_refresh`, named by the event or write that causes it, and by its work."""
    payload = {"event": event_id, "work": dict(work), **(more or {})}
    return Effect(link_task_name(event_id, work), LINKS_QUEUE, LINK_REFRESH, task, payload)


def link_task_name(event_id: str, work: Mapping[str, str]) -> str:
    """Return the name of a task.

    Because of this name, an event enqueues each piece of work once, however often it is delivered.
    """
    return name_of("links", event_id, *sorted(work.items()))
