"""The progress and the findings of a verification, and the tasks of links.

A verification is running, abandoned (no progress for `LIMITS.verify_abandoned_seconds`) or ended. `begin` depends on
the last verification and on the one of its operation; `count` depends on the verification of its page.

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

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.effects import Decision, Effect, name_of
from signalbox.core.kit_names import LINK_VERIFY, LINKS_QUEUE
from signalbox.core.problems import Problem
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.machine.links import embed_links, link_index_matches
from signalbox.documents.machine.reactions import link_task
from signalbox.documents.model.stamped_contents import Document
from signalbox.links.limits import LIMITS
from signalbox.links.model import VERIFICATIONS, Finding, Verification

# --- verifications ---


def begin(
    run: str, last: Verification | None, own: Verification | None, now: datetime, begun: Verification | None = None
) -> Decision[Verification | None, Verification]:
    """Begin the verification `run`, unless it exists or the last one is still running.

    The state is None in those cases. `begun` is a part of a cycle; by default the verification is of all documents.
    """
    running = own or (last if last and last.is_running(now) else None)
    if running:
        return Decision(None, running)
    begun = begun or Verification(run, now, now)
    return Decision(begun, begun, (verification_task(begun),))


def next_part(run: str, before: Verification | None, now: datetime) -> Verification:
    """Return the nightly verification that follows the nightly one `before`."""
    if before is None or before.reached_end:
        stored = before.looked_before + before.found.looked if before else 0
        return Verification(run, now, now, part=1, stored=stored, documents_max=_part_documents(stored, 1))
    part = before.part + 1
    return Verification(
        run,
        now,
        now,
        cursor=before.cursor,
        part=part,
        looked_before=before.looked_before + before.found.looked,
        stored=before.stored,
        documents_max=_part_documents(before.stored, part),
    )


def _part_documents(stored: int, part: int) -> int:
    """Return the documents after which a part ends, or 0 for the last part, and for a cycle that has to count first."""
    if stored <= LIMITS.verify_part_documents_min or part >= LIMITS.verify_parts:
        return 0
    return max(-(-stored // LIMITS.verify_parts), LIMITS.verify_part_documents_min)


def count_page(
    walk: Verification | None, cursor: str, found: Finding, last_key: str, now: datetime, *, more: bool
) -> Decision[Verification | None, bool]:
    """Count the page after `cursor`, and continue with the next one if there are `more` documents.

    The answer is False and the state is None if the page was counted before or the verification does not exist.
    """
    if walk is None or not walk.awaits(cursor):
        return Decision(None, False)
    counted = walk.with_page(found, last_key, now, more=more)
    return Decision(counted, True, () if counted.ended_at else (verification_task(counted),))


def differs(data: Mapping[str, Any], document: Document, key: str, embedding: Embedding, hops: int) -> bool:
    """Return whether a document, stored as `data`, differs from the result of a put of its content now."""
    if not document.stamp_matches or not link_index_matches(data, document.surveyed):
        return True
    try:
        expected = embed_links(key, document.surveyed, embedding, hops, refuse=False)
    except Problem:
        return True
    return expected.digest != document.surveyed.digest


def is_moving(written: Iterable[datetime], now: datetime) -> bool:
    """Return whether a difference may disappear by itself.

    A record was written so recently that its event may not have arrived.
    """
    recent = now - timedelta(seconds=LIMITS.verify_moving_seconds)
    return any(time > recent for time in written)


# --- tasks ---


def copy_task(event_id: str, key: str, document: str) -> Effect:
    """Return the task that refreshes one document's copy of a key."""
    return link_task("copy", event_id, {"key": key, "document": document})


def next_walk_task(event_id: str, transform: str, cursor: str) -> Effect:
    """Return the task for the page after `cursor` of a transform's walk, which is not the first page."""
    return link_task("walk", event_id, {"transform": transform, "cursor": cursor})


def verification_task(walk: Verification) -> Effect:
    """Return the task for the next page of a verification. It is named after the page, so it is enqueued once."""
    payload = {"run": walk.run, "cursor": walk.cursor}
    return Effect(name_of(VERIFICATIONS, walk.run, walk.cursor), LINKS_QUEUE, LINK_VERIFY, "page", payload)
