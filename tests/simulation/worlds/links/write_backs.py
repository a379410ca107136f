"""Users who edit copies in the worlds of links, and checks of each write that follows.

A write-back writes a document and the sources of the copies that it edits, in one commit. Each of them has its content
of that instant, plus the edit. The copy that was edited showed its source as it was at that instant, and now shows the
edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from signalbox.core.ports import Snapshot
from signalbox.documents.machine import copies, patches
from signalbox.documents.machine.patches import CopyEdit, Null
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content
from signalbox.documents.requests import PatchRequest
from signalbox.documents.service import patches as documents_patches
from tests.simulation.reached_counts import REACHED, WRITTEN_BACK, WRITTEN_BACK_DEEP
from tests.simulation.world import Violation, World
from tests.simulation.worlds.links.kinds import FIELDS, Kind
from tests.simulation.worlds.links.properties import Act, Checks, bare

States = dict[str, Content | None]


class WriteBacks:
    """Edits of copies, one or two at once, in a copy or in a copy within it."""

    def __init__(self, world: World, kind: Kind, checks: Checks) -> None:
        self._world = world
        self._kind = kind
        self._checks = checks

    def through(self, key: str) -> None:
        """Read a document, and edit some of its copies by a patch of it."""
        ports, random = self._world.ports, self._world.random
        [found] = ports.store.read(model.path_of(key))
        shown = list(_copies_in(model.content_of(found.data) or {}, ())) or [("x",)]
        patch: Content = {"m": random.choice("cd")} if random.random() < 0.4 else {}
        for at in random.sample(shown, random.randint(1, min(2, len(shown)))):
            patch = patches.merged_json(patch, _edit_at(at, random.choice("ab")), Null.IS_A_VALUE)
        self._world.log(f"writes back {patch}")
        self._expect(key, patch)
        documents_patches.patch(ports, PatchRequest.from_request(key, patch, write_back=True))

    def _expect(self, root: str, patch: Content) -> None:
        """Check this process's writes from now on; the first one has the state before all of them."""
        before: States = {}
        expected: dict[str, Content] = {}

        def check(snapshot: Snapshot, written: Content) -> None:
            if not act.written - {snapshot.id}:
                before.update(self._checks.states())
                expected.update(self._expected(root, patch, before))
                act.together.update(expected)
                REACHED[WRITTEN_BACK] += len(expected) > 1
                REACHED[WRITTEN_BACK_DEEP] += len(expected) > 2
            if snapshot.id not in expected:
                raise Violation(f"a write-back of {patch} through {root} wrote {snapshot.id}")
            if bare(written) != bare(expected[snapshot.id]):
                raise Violation(f"a write-back of {patch} through {root} made {before[snapshot.id]} {written}")
            if snapshot.id == root:
                self._check_shown(patch, before[root] or {}, written)

        act = self._checks.expect(Act(check))

    def _expected(self, root: str, patch: Content, before: States) -> dict[str, Content]:
        """Return the expected content of each document. Raises `Violation` for an edit of a copy that differed from its
        source.
        """
        made: dict[str, Content] = {}
        waiting = [(root, patch)]
        for key, change in waiting:
            edits: list[CopyEdit] = []
            held = before[key] or {}
            patches.patched(held, change, Null.IS_A_VALUE, edits.append)
            made[key] = patches.patched(made.get(key, held), change, Null.IS_A_VALUE, lambda _: None)
            for edit in edits:
                self._check_not_stale(key, edit, before)
                waiting.append((edit.copy["key"], {name: edit.patch[name] for name in edit.patch if name != "key"}))
        return made

    @staticmethod
    def _check_not_stale(key: str, edit: CopyEdit, before: States) -> None:
        source = edit.copy["key"]
        now = copies.copy_of(source, before[source], key)
        if now != edit.copy or before[source] is None:
            raise Violation(f"{key} showed {edit.copy} of {source}, which was {now}, and an edit of it went through")

    @staticmethod
    def _check_shown(patch: Content, before: Content, written: Content) -> None:
        """Check that the written document shows the edits of its copies: what changed what the document showed."""
        edits: list[CopyEdit] = []
        patches.patched(before, patch, Null.IS_A_VALUE, edits.append)
        for edit in edits:
            now = written
            for step in edit.at:
                now = now[step]  # type: ignore[index]  # the path leads through maps and lists
            if patches.would_change(now, _changing(edit.copy, edit.patch), Null.IS_A_VALUE):
                raise Violation(f"an edit {edit.patch} of a copy was answered by {written}")


def _copies_in(shown: Content, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Iterate over the places of copies that show something to edit, down to the second level."""
    for name in FIELDS:
        copy: Any = shown.get(name)
        if isinstance(copy, dict) and "n" in copy and "key" in copy:
            yield (*at, name)
            if not at:
                yield from _copies_in(copy, (name,))


def _changing(shown: Any, patch: Content) -> Content:
    """Return the part of a patch that changes what was shown."""
    held = shown if isinstance(shown, dict) else {}
    parts = {
        name: _changing(held.get(name), edit) if isinstance(edit, dict) else edit
        for name, edit in patch.items()
        if held.get(name) != edit
    }
    return {name: part for name, part in parts.items() if part != {}}


def _edit_at(at: tuple[str, ...], letter: str) -> Content:
    edit: Content = {"n": letter}
    for name in reversed(at):
        edit = {name: edit}
    return edit
