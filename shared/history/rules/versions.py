"""The history of a document: a log of what users made of it, one entry a version.

A version is what a document held of its users' own: its content with links as bare keys. So a refreshed copy is no
version, nor is a put that changes nothing. An entry holds a JSON Patch (RFC 6902) against the version before, or the
whole version: the first entry, at the latest every `LIMITS.history_segment_versions`-th, and wherever the patch would
be no shorter. A segment is as many entries, the first of them whole. It is read without anything else, so the log rests
on nothing that another client may write, and is shortened by whole segments.

What the log knows of its document is in the document's reserved map, as a mark: the last version and its digest, and
the segments. A write reads the document anyway, so it knows without a further read whether the log has what it
replaces. It has not when another client wrote it, or when history was switched on since: then that state becomes a
version of its own first, *found*, and a whole one.

Versions are microseconds of server time, and grow with each for a key, across delete and recreate: the read time of the
write that made it, or the update time of what was found, but more than the last one. A deletion keeps the mark in the
log's header, `histories/{key}`. Whatever finds no mark beside the document, a creation above all, goes on from there,
and writes the header under the guard of its read: a document that is missing at two instants may have been there in
between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.rules import values
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.times import instant, microseconds
from shared.history.rules import json_patch
from shared.history.rules.entries import COLLECTION, Action, Content, Entry, Mark, Segment, digest, mark_after
from shared.history.rules.json_patch import Patch
from shared.history.rules.selection import HistoryRule


@dataclass(frozen=True, slots=True)
class State:
    """What a write replaces: a content (None: there was no document), its update time and its mark.

    The mark is that of the document, or where it has none, of the log's header.
    """

    content: Content | None
    mark: Mark | None
    update_time: datetime | None
    read_time: datetime


@dataclass(frozen=True, slots=True)
class Recorded:
    """The entries to commit with a write, the mark to store, and the version before which all may go."""

    entries: tuple[Entry, ...] = ()
    mark: Mark | None = None
    obsolete_before: int = 0


def record(state: State, after: Content | None, action: Action, author: str, rule: HistoryRule) -> Recorded:
    """Return what to record with a write that leaves `after` (None: it deletes). Contents have links as bare keys."""
    log = _Log(state, rule)
    before = state.content
    if before is not None and (state.mark is None or state.mark.digest != digest(before)):
        assert state.update_time is not None, "what is found exists"
        log.add(microseconds(state.update_time), "found", "", before)
    if (before is None) != (after is None) or not values.same(before, after):
        log.add(microseconds(state.read_time), action, author, after)
    return log.recorded()


class _Log:
    """The end of a log that grows by the entries of one write."""

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
        """Add an entry; it is whole if the log does not know the version before, or a segment is full or old."""
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
    """Return the segments that hold the last `versions_max` versions, and of those what was valid `days_max` ago.

    A segment goes as a whole, so that each entry that stays can be read.
    """
    cutoff = microseconds(now - rule.age_max)
    kept = [segments[-1]]
    for segment in reversed(segments[:-1]):
        if sum(each.count for each in kept) >= rule.versions_max or kept[0].first <= cutoff:
            break
        kept.insert(0, segment)
    return tuple(kept)


def _patch(before: Content | None, after: Content | None) -> tuple[Patch, bool]:
    """Return the patch of an entry, and whether it needs no version before."""
    if after is None:
        return json_patch.to_nothing(), True
    whole = json_patch.from_nothing(after)
    patch = whole if before is None else json_patch.diff(before, after)
    shorter = len(values.canonical(patch)) < len(values.canonical(whole))
    return (patch, False) if shorter else (whole, True)


def content_of(entries: Sequence[Entry]) -> Content | None:
    """Return the content of the first of some entries, latest first, of which the last one is whole."""
    content: Any = None
    for entry in reversed(entries):
        content = json_patch.applied(content, entry.patch)
    found: Content | None = content
    return found


def valid_from(entry: Entry, create_time: datetime) -> datetime:
    """Return since when a document held this version: since the entry's commit, or since another client wrote it."""
    return instant(entry.version) if entry.action == "found" else create_time


def compaction_task(key: str, recorded: Recorded) -> tuple[Effect, ...]:
    """Return the task that deletes what a log no longer needs: none, unless a segment has gone."""
    if not recorded.obsolete_before:
        return ()
    event_id = name_of(COLLECTION, key, recorded.entries[-1].version)
    work = {"compact": key, "before": recorded.obsolete_before}
    return (Effect(event_id, "links", "link_refresh", "refresh", {"event": event_id, "work": work}),)
