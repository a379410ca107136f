"""Properties of documents that embed each other: at every write, and once everything is idle."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent, greenlet

from signalbox.core import json_values
from signalbox.core.ports import Query, Snapshot, Store
from signalbox.core.problems import Problem
from signalbox.documents.machine import copies, links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents as model
from signalbox.documents.model.contents import Content, Surveyed, links_of, with_copies
from signalbox.transforms import model as transforms_model
from tests.simulation.world import Violation
from tests.simulation.worlds.links.kinds import FIELDS, HOPS_MAX, LINK_LEVELS_MAX, TRANSFORMS, Kind


@dataclass(frozen=True, slots=True)
class Act:
    """The action of a process: a check of each of its writes, and the keys it has written."""

    check: Callable[[Snapshot, Content], None]
    written: set[str] = field(default_factory=set)
    together: set[str] = field(default_factory=set)
    """Keys that this action writes all or none of, if it says so."""


class Checks:
    """Watches the documents of one world."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._keys = kind.names
        self._versions: dict[str, set[int]] = defaultdict(set)
        self._history: dict[str, list[str]] = {key: [_shown(None)] for key in self._keys}
        self._shown: dict[tuple[str, str], int] = {}
        self._acts: dict[greenlet, Act] = {}
        self._all_acts: list[Act] = []

    def expect(self, act: Act) -> Act:
        """Check the writes of the calling process against an action."""
        self._acts[getcurrent()] = act
        self._all_acts.append(act)
        return act

    def states(self) -> dict[str, Content | None]:
        """Return the content of each key before the write that is being checked."""
        return {key: json.loads(states[-1]) for key, states in self._history.items()}

    # --- what must hold at every write ---

    def check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Check one write of a document."""
        key = after.id
        if path != model.path_of(key):
            return
        old, new = model.Document.from_record(before.data), model.Document.from_record(after.data)
        self._check_version(key, old, new)
        if new is not None:
            self._check_author(key, before, old, new)
        self._history[key].append(_shown(new))
        if new is None:
            self._shown = {pair: state for pair, state in self._shown.items() if pair[0] != key}
        elif new.stamp_matches:
            self._check_copies(key, new)

    def _check_author(self, key: str, before: Snapshot, old: model.Document | None, new: model.Document) -> None:
        """A user writes the content of the act; all other processes leave users' content unchanged."""
        act = self._acts.get(getcurrent())
        if act is not None:
            act.written.add(key)
            act.check(before, new.content)
        elif old is not None and bare(old.content) != bare(new.content):
            raise Violation(f"the kit changed what a user wrote in {key}: {old.content} became {new.content}")

    def _check_version(self, key: str, old: model.Document | None, new: model.Document | None) -> None:
        if new is None or new.stamp is None or (old is not None and old.stamp == new.stamp):
            return
        if new.stamp.version in self._versions[key]:
            raise Violation(f"version {new.stamp.version} of {key} was there before")
        self._versions[key].add(new.stamp.version)

    def _check_copies(self, key: str, document: model.Document) -> None:
        """Each copy shows a state of its source that is not older than the one it showed before, until its document is
        deleted.
        """
        for _, copy in links_of(document.content):
            target = copy["key"]
            if target == key or "link_too_large" in copy or (self._kind.transformed and "link_cycle" in copy):
                continue
            states = self._history[target]
            since = self._shown.get((key, target), 0)
            fitting = [i for i in range(since, len(states)) if self._may_show(copy, states[i], key)]
            if not fitting:
                raise Violation(f"{key}'s copy of {target} went back to {copy}")
            self._shown[key, target] = fitting[0]

    def _may_show(self, copy: dict[str, Any], state: str, above: str) -> bool:
        """Return whether a copy is what some transform, or none, makes of a state of its source."""
        of_transforms = TRANSFORMS if self._kind.transformed else ()
        sources = {copy["key"]: json.loads(state)}
        made = (Embedding(sources, {"x": transform}) for transform in (None, *of_transforms))
        return any(_shows(copy, copies.copy_at(("x",), copy, above, one), above) for one in made)

    # --- what must hold once idle ---

    def check_rest(self, store: Store) -> None:
        """Check all documents against what a put now would embed, and against what users wrote alone."""
        for act in self._all_acts:
            if act.together and act.written != act.together:
                raise Violation(f"of {sorted(act.together)}, {sorted(act.written)} were written")
        found = store.query(Query(model.COLLECTION))
        held = {snapshot.id: document for snapshot in found if (document := model.Document.from_record(snapshot.data))}
        contents = {key: held[key].content if key in held else None for key in self._keys}
        stored = store.read(*map(transforms_model.transform_path, FIELDS))
        around = Embedding(contents, {one.id: transforms_model.transform_from_record(one.data) for one in stored})
        written = {} if self._kind.transformed else _from_users_alone(contents)
        for key, document in held.items():
            if links_deep(document.content) > LINK_LEVELS_MAX:
                raise Violation(f"{key} shows copies over more than {LINK_LEVELS_MAX} links: {document.content}")
            try:
                expected = self._expected(key, document, held, around)
            except Problem:
                continue  # another client wrote what no put would accept: it is left as it is, and embeds nothing
            self._check_document(key, document, expected)
            self._check_document(key, document, written.get(key) or expected)
            for target in document.surveyed.link_keys:
                if target in held and held[target].linked is False:
                    raise Violation(
                        f"{target} is embedded by {key} but not marked as linked: its next change would be lost"
                    )

    def _expected(
        self,
        key: str,
        document: model.Document,
        held: dict[str, model.Document],
        around: Embedding,
    ) -> Content:
        """Return the copy that a put would embed now; at the last hop, a transform may have left a mark."""
        far = {
            at: link
            for at, link in links_of(document.content)
            if self._kind.transformed and "link_cycle" in link and model.hops_of(held.get(link["key"])) >= HOPS_MAX
        }
        return links.embed_links(key, document.surveyed, around, refuse=False).with_copies(far).content

    @staticmethod
    def _check_document(key: str, document: model.Document, expected: Content) -> None:
        if not document.stamp_matches:
            raise Violation(f"{key} was not normalized: {document.content}")
        if json_values.canonical(expected) != json_values.canonical(document.content):
            raise Violation(f"{key} shows {document.content}, a put now would embed {expected}")


def _shows(copy: Content, made: Content, above: str) -> bool:
    """Return whether a copy equals the expected one, or is less deep because that one does not fit."""
    if json_values.same(made, copy):
        return True
    less_deep = range(1, LINK_LEVELS_MAX) if copies.any_too_large(copy) else ()
    return any(json_values.same(copies.cut(made, above, levels, "link_too_large"), copy) for levels in less_deep)


def links_deep(value: Any) -> int:
    """Return over how many links copies are nested in a value."""
    items = value.values() if isinstance(value, dict) else value
    nested = [item for item in items if isinstance(item, dict | list)]
    return max((links_deep(item) + _is_copy(item) for item in nested), default=0)


def _is_copy(item: Any) -> bool:
    return isinstance(item, dict) and "key" in item and not any(name.startswith("link_") for name in item)


def _from_users_alone(contents: dict[str, Content | None]) -> dict[str, Content]:
    """Return what documents would show if all were put at one instant, repeated until nothing changes: independent of
    any order.
    """
    shown = {key: content and json.loads(bare(content)) for key, content in contents.items()}
    for _ in range(len(shown) * LINK_LEVELS_MAX):
        before, shown = shown, {key: content and _embedded(key, content, shown) for key, content in shown.items()}
        if before == shown:
            return {key: content for key, content in shown.items() if content}
    raise Violation(f"no end to what {contents} show")


def _embedded(key: str, content: Content, shown: dict[str, Content | None]) -> Content:
    try:
        return links.embed_links(key, Surveyed(content), Embedding(shown), refuse=False).content
    except Problem:
        return content


def bare(content: Content) -> str:
    """Return the content that a user wrote: without copies, links have only their keys."""
    links_alone = {at: {"key": link["key"]} for at, link in links_of(content)}
    return json_values.canonical(with_copies(content, links_alone))


def _shown(document: model.Document | None) -> str:
    return json_values.canonical(None if document is None else document.content)
