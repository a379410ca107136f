"""Every decision about the versions of a document: which entries a write adds to its log, and which may be deleted.

A version is the content of a document with links as bare keys. So refreshing a copy creates no version, and a put that
changes nothing creates none either. An *entry* of the log has a JSON Patch (RFC 6902) against the version before, or is
*whole*: it contains the complete version. A *segment* is up to `history_segment_versions` entries, of which the first
is whole; it is read without any other record, and the log is shortened by whole segments.

The *mark* describes the log: its last version, the digest of that version's content, and its segments. It is stored in
the document's reserved map, so a write that reads the document can check whether the log has the content that it
replaces. If not (another client wrote it, or history was switched on later), that content first becomes a version with
the action *found*.

    document    segment          write            entries
    ----------  ---------------  ---------------  ---------------
    missing     none, full, old  content          whole*
    missing     open             content          whole
    missing     any              deletion         -
    logged      open             other content    patch
    logged      full, old        other content    whole*
    logged      any              same content     -
    logged      open             deletion         removal
    logged      full, old        deletion         removal*
    not logged  none, full, old  other content    found*, patch
    not logged  open             other content    found, patch
    not logged  none, full, old  same content     found*
    not logged  open             same content     found
    not logged  none, full, old  deletion         found*, removal
    not logged  open             deletion         found, removal

An entry with * begins a segment. A patch that is not shorter than the version itself is stored as a whole entry, and so
is a removal. "old" is a segment whose first version is older than `days_max`.

A version's number is the microseconds of the server's time at which its write read the document (for *found*: the
document's update time; for a new document: that of the read of the log's header, which comes later), but at least one
more than the last. It grows for each key, across deletion and creation. A deletion keeps the mark in the log's header,
`histories/{key}`. A write that finds no mark in the document continues from the header, and writes the header under the
guard of its read: a document that is missing at two instants may have existed in between.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from signalbox.core import json_values
from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import LINK_REFRESH, LINKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.times import instant, microseconds
from signalbox.history.limits import LIMITS
from signalbox.history.machine.json_patch import diff, patch_from_nothing, patch_to_nothing, patched
from signalbox.history.model import (
    COLLECTION,
    Action,
    Content,
    Entry,
    HistoryRule,
    Mark,
    Patch,
    Segment,
    digest,
    mark_after,
)

COMMIT_TIME_MAX = timedelta(hours=1)
"""The longest time from the read of a document to the commit of its write: no request takes longer."""


@dataclass(frozen=True, slots=True)
class State:
    """The state that a write replaces. `content` is None if there was no document.

    `mark` is the mark of the document. If the document has no mark, it is the mark of the log's header.
    """

    content: Content | None
    mark: Mark | None
    update_time: datetime | None
    read_time: datetime


@dataclass(frozen=True, slots=True)
class Recorded:
    """The entries to commit with a write, the mark to store, and the oldest version to keep."""

    entries: tuple[Entry, ...] = ()
    mark: Mark | None = None
    obsolete_before: int = 0


def record(state: State, after: Content | None, action: Action, author: str, rule: HistoryRule) -> Recorded:
    """Return the entries and the mark to commit with a write of `after` (None: a deletion).

    Contents have links as bare keys.
    """
    log = _Log(state, rule)
    before = state.content
    if before is not None and (state.mark is None or state.mark.digest != digest(before)):
        assert state.update_time is not None, "a document with content exists"
        log.add(microseconds(state.update_time), "found", "", before)
    if (before is None) != (after is None) or not json_values.same(before, after):
        log.add(microseconds(state.read_time), action, author, after)
    return log.recorded()


class _Log:
    """The end of a log, to which one write adds entries."""

    def __init__(self, state: State, rule: HistoryRule) -> None:
        self._rule = rule
        self._now = state.read_time
        self._content = state.content
        self._mark = state.mark
        self._known = False
        if state.mark is not None and state.content is not None:
            self._known = state.mark.digest == digest(state.content)
        self._entries: list[Entry] = []
        self._obsolete_before = 0

    def add(self, time: int, action: Action, author: str, content: Content | None) -> None:
        """Add an entry. The entry is whole if the log lacks the previous version, or if the entry begins a segment."""
        version = max(time, self._mark.version + 1 if self._mark else 0)
        begins = self._mark is None or self._is_over(self._mark.segments[-1])
        patch, whole = _patch(self._content if self._known and not begins else None, content)
        self._entries.append(Entry(version, action, author, patch, whole))
        self._content, self._known = content, content is not None
        text_digest = "" if content is None else digest(content)
        self._mark = Mark(version, text_digest, self._segments(version, begins=begins))

    def _is_over(self, segment: Segment) -> bool:
        too_old = microseconds(self._now - self._rule.age_max)
        return segment.count >= LIMITS.history_segment_versions or segment.first < too_old

    def _segments(self, version: int, *, begins: bool) -> tuple[Segment, ...]:
        before = self._mark.segments if self._mark else ()
        if not begins:
            assert self._mark, "the first entry begins a segment"
            return mark_after(self._mark, version).segments
        kept = kept_segments((*before, Segment(version, 1)), self._rule, self._now)
        if len(kept) <= len(before):
            self._obsolete_before = kept[0].first
        return kept

    def recorded(self) -> Recorded:
        return Recorded(tuple(self._entries), self._mark, self._obsolete_before)


def kept_segments(segments: Sequence[Segment], rule: HistoryRule, now: datetime) -> tuple[Segment, ...]:
    """Return the segments with the last `versions_max` versions that were valid within `days_max`.

    Segments are deleted as a whole, so that each kept entry can be read.
    """
    cutoff = microseconds(now - rule.age_max)
    kept = [segments[-1]]
    for earlier in reversed(segments[:-1]):
        if sum(segment.count for segment in kept) >= rule.versions_max or kept[0].first <= cutoff:
            break
        kept.insert(0, earlier)
    return tuple(kept)


def _patch(before: Content | None, after: Content | None) -> tuple[Patch, bool]:
    """Return the patch of an entry, and whether the entry is whole."""
    if after is None:
        return patch_to_nothing(), True
    whole = patch_from_nothing(after)
    patch = whole if before is None else diff(before, after)
    shorter = len(json_values.canonical(patch)) < len(json_values.canonical(whole))
    return (patch, False) if shorter else (whole, True)


def content_of(entries: Sequence[Entry]) -> Content | None:
    """Return the content of the first entry. The entries are sorted from the latest to the oldest, which is whole."""
    content: Any = None
    for entry in reversed(entries):
        content = patched(content, entry.patch)
    found: Content | None = content
    return found


def valid_from(entry: Entry, create_time: datetime) -> datetime:
    """Return the time from which a version was valid: its commit, or the write of another client.

    An imported entry has the time of the import as its create time. Its version is then valid from the time at which
    the write read the document, which is the version's number. A deletion by another client is recorded when its event
    arrives, perhaps days later, so deletions keep their create time.
    """
    written_at = instant(entry.version)
    is_imported = entry.action != "delete" and create_time - written_at > COMMIT_TIME_MAX
    return written_at if entry.action == "found" or is_imported else create_time


def ended_elsewhere(mark: Mark) -> Recorded:
    """Return the entry for a deletion if only the mark of the document is known."""
    gone = Entry(mark.version + 1, "delete", "", patch_to_nothing(), whole=True)
    return Recorded((gone,), mark_after(mark, gone.version))


def compaction_task(key: str, recorded: Recorded) -> tuple[Effect, ...]:
    """Return the task that deletes versions that are no longer kept, if there are any."""
    if not recorded.obsolete_before:
        return ()
    event_id = name_of(COLLECTION, key, recorded.entries[-1].version)
    work = {"compact": key, "before": recorded.obsolete_before}
    return (Effect(event_id, LINKS_QUEUE, LINK_REFRESH, "compact", {"event": event_id, "work": work}),)


def difference(before: Content | None, after: Content | None) -> Patch:
    """Return the patch from one version to another; a document that did not exist has no value."""
    if before is None or after is None:
        if before is after:
            return []
        return patch_to_nothing() if after is None else patch_from_nothing(after)
    return diff(before, after)
