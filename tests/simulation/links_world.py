"""Documents that embed each other, written by many at once; once quiet, every copy is what a put now would embed.

Held at every write: versions are unique in all lives of a key; nobody but a user changes what a user wrote; no copy
goes back to an older state of its source; a merge changes what it names in what is there at that moment, and no more; a
put under a condition finds it true. Held once quiet: every copy, every `linked` mark, every record's shape.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest import mock

from greenlet import getcurrent, greenlet

from shared.operations import document_bulk, document_patches
from shared.operations import documents as operations
from shared.operations import links as fan_out
from shared.operations.ports import Put, Query, Snapshot
from shared.rules import documents, links, patches, values
from shared.rules.patches import Null
from shared.rules.preconditions import Precondition, Tags
from shared.rules.problems import Problem
from tests.simulation.world import Chances, Violation, World

PAGE_COPIES = 2
"""A page's size here, so that three documents make a chain of pages."""

SMALL_DOCUMENT_BYTES = 60
"""A record's bound in the worlds where copies do not fit."""

OPERATIONS_MAX = 7

UNLUCKY = Chances(lose_answer=0.1, kill=0.1, left=8)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a world is about; each makes other races likely.

    ``keys`` are put in this order, each linking to those before it, or to any of them in a `cyclic` world. `foreign`
    worlds have another client that writes past the kit; in `crowded` ones records are so small that copies do not fit.
    `narrow` ones have one source that goes to and fro, and one document that embeds it; in `unlucky` ones much goes
    wrong. In `versatile` ones users also merge, put under a condition, and put several documents in one call.
    """

    keys: str
    cyclic: bool = False
    foreign: bool = False
    crowded: bool = False
    narrow: bool = False
    unlucky: bool = False
    versatile: bool = False


KINDS = (
    Kind("tp", narrow=True),
    Kind("tp", narrow=True, foreign=True),
    Kind("tp", narrow=True, unlucky=True),
    Kind("tpqr"),
    Kind("tpq", foreign=True),
    Kind("tpqr", cyclic=True),
    Kind("tpqr", cyclic=True, crowded=True),
    Kind("tpq", cyclic=True, crowded=True, foreign=True),
    Kind("tp", versatile=True),
    Kind("tpq", versatile=True, cyclic=True),
    Kind("tpq", versatile=True, foreign=True),
)


Kinds = tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Act:
    """What a process is about to write: what must be true of each of its writes, and the keys it has written."""

    check: Callable[[Snapshot, documents.Content], None]
    written: set[str] = field(default_factory=set)


def run(seed: int, trace: Callable[[str], None] | None = None, kinds: Kinds = KINDS) -> None:
    """Let one seed's world come to rest. Raises `Violation` when a property does not hold."""
    LinksWorld(seed, trace, kinds).run()


class LinksWorld:
    """A few keys, a few contents (so that what was comes again), users who put, delete and write past the kit."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None, kinds: Kinds) -> None:
        self.kind = Random(seed).choice(kinds)
        self.world = World(seed, replace(UNLUCKY) if self.kind.unlucky else Chances(), trace)
        self.keys = list(self.kind.keys)
        self.document_bytes = SMALL_DOCUMENT_BYTES if self.kind.crowded else 1_000_000
        self.world.on_event = fan_out.fan_out
        self.world.handlers["link_refresh"] = fan_out.follow
        self.world.observers.append(self._check_write)
        self.versions: dict[str, set[int]] = defaultdict(set)
        self.history: dict[str, list[str]] = {key: [_shown(None)] for key in self.keys}
        self.shown: dict[tuple[str, str], int] = {}
        self.puts = 0
        self.acts: dict[greenlet, Act] = {}

    def run(self) -> None:
        with (
            mock.patch.object(fan_out, "PAGE_COPIES_MAX", PAGE_COPIES),
            mock.patch.object(links, "DOCUMENT_BYTES_MAX", self.document_bytes),
            mock.patch.object(documents, "DOCUMENT_BYTES_MAX", self.document_bytes),
        ):
            random = self.world.random
            if self.kind.narrow or random.random() < 0.5:
                self._settle_first()
            self.world.run([self._user for _ in range(random.randint(2, OPERATIONS_MAX))])
            self._check_rest()

    def _settle_first(self) -> None:
        """Begin with everything put and linked, and no misfortune so far."""
        left, self.world.chances.left = self.world.chances.left, 0
        for key in self.keys:
            self._start_put(f"first put {key}", key)
        self.world.run()
        self.world.chances.left = left

    # --- what users do ---

    def _user(self) -> None:
        random = self.world.random
        key = "t" if random.random() < 0.6 else random.choice(self.keys)
        usual = ("put",) * 6 + ("delete",) * 2 + ("write past",) * (3 if self.kind.foreign else 0)
        act = random.choice(usual + ("merge", "put if", "put many") * (4 if self.kind.versatile else 0))
        if act == "put":
            self._start_put(f"user puts {key}", key)
        elif act == "merge":
            patch = self._patch(key)
            self.world.start(f"user merges {patch} into {key}", lambda: self._merge(key, patch))
        elif act == "put if":
            content = self._content(key)
            self.world.start(f"user puts {key} under a condition", lambda: self._put_if(key, content))
        elif act == "put many":
            contents = {each: self._content(each) for each in self.keys if each == key or random.random() < 0.7}
            self.world.start(f"user puts {' '.join(contents)}", lambda: self._put_many(contents))
        elif act == "delete":
            self.world.start(f"user deletes {key}", lambda: operations.delete(self.world.ports, key))
        else:
            content = self._content(key)
            self.world.start(f"another client on {key}", lambda: self._write_past(key, content))

    def _start_put(self, name: str, key: str) -> None:
        content = self._content(key)
        self.world.start(f"{name} {content['n']}", lambda: self._put(key, content))

    def _content(self, key: str) -> dict[str, Any]:
        random = self.world.random
        self.puts += 1
        letter = "ab"[self.puts % 2] if self.kind.narrow and key == "t" else random.choice("ab")
        content: dict[str, Any] = {"n": letter * random.choice((1, 1, 30 if self.kind.crowded else 1))}
        if key != "t" or self.kind.cyclic:
            targets = self.keys if self.kind.cyclic else self.keys[: self.keys.index(key)]
            for field in random.sample(("x", "y"), 1 if self.kind.narrow else random.choice((0, 1, 1, 2))):
                link = {"key": random.choice(targets)}
                content[field] = link if self.kind.narrow or random.random() < 0.7 else [link, random.choice("ab")]
        return content

    def _put(self, key: str, content: dict[str, Any]) -> None:
        self.world.say(f"puts {content}")
        operations.put(self.world.ports, key, content)

    def _patch(self, key: str) -> documents.Content:
        """Name some fields only, so that what others write beside them must stay."""
        random = self.world.random
        content = self._content(key) | {"m": f"{self.puts}"}
        return {name: content[name] for name in random.sample(sorted(content), random.randint(1, len(content)))}

    def _merge(self, key: str, patch: documents.Content) -> None:
        def check(before: Snapshot, written: documents.Content) -> None:
            held = documents.content_of(before.data) or {}
            if _bare(patches.patched(held, patch, Null.IS_A_VALUE)) != _bare(written):
                raise Violation(f"a merge of {patch} into {held} wrote {written}")

        self.acts[getcurrent()] = Act(check)
        document_patches.patch(self.world.ports, key, patch)

    def _put_if(self, key: str, content: documents.Content) -> None:
        """Read, then put if nobody has written since: held at the write itself."""
        [found] = self.world.ports.store.read(documents.path_of(key))
        seen = operations.etag_of(found)

        def check(before: Snapshot, _: documents.Content) -> None:
            if operations.etag_of(before) != seen:
                raise Violation(f"{key} was put over {operations.etag_of(before)}, on condition of {seen}")

        self.acts[getcurrent()] = Act(check)
        tags = Tags(frozenset([seen])) if seen else Tags(every=True)
        condition = Precondition(if_match=tags) if seen else Precondition(if_none_match=tags)
        operations.put(self.world.ports, key, content, condition)

    def _put_many(self, contents: dict[str, documents.Content]) -> None:
        def check(before: Snapshot, written: documents.Content) -> None:
            if _bare(written) != _bare(contents[before.id]):
                raise Violation(f"{before.id} was put as {contents[before.id]} and stored as {written}")

        act = self.acts[getcurrent()] = Act(check)
        bodies = [{"key": key, **content} for key, content in contents.items()]
        for loaded in document_bulk.put_each(self.world.ports, bodies):
            if isinstance(loaded.ending, operations.Stored) and loaded.key not in act.written:
                raise Violation(f"{loaded.key} was answered as stored and is not")

    def _delete(self, key: str) -> None:
        operations.delete(self.world.ports, key)

    def _write_past(self, key: str, content: dict[str, Any]) -> None:
        """Another client's write: all of the record, or one field of what it holds."""
        random, store = self.world.random, self.world.store
        self.world.stop_here(f"another client writes {key}: {content}")
        [held] = store.read(documents.path_of(key))
        data = {**held.data, "n": content["n"]} if held.data is not None and random.random() < 0.5 else content
        store.commit([Put(documents.path_of(key), data)])

    # --- what must hold at every write ---

    def _check_write(self, _: str, before: Snapshot, after: Snapshot) -> None:
        key = after.id
        old, new = documents.decode(before.data), documents.decode(after.data)
        self._check_version(key, old, new)
        act = self.acts.get(getcurrent())
        if act is not None and new is not None:
            act.written.add(key)
            act.check(before, new.content)
        if new is not None and new.in_shape and old is not None and _by_the_kit(old, new) and _own(old) != _own(new):
            raise Violation(f"a refresh changed what a user wrote in {key}: {old.content} became {new.content}")
        self.history[key].append(_shown(new))
        if new is None:
            self.shown = {pair: state for pair, state in self.shown.items() if pair[0] != key}
        elif new.in_shape:
            self._check_copies(key, new)

    def _check_version(self, key: str, old: documents.Document | None, new: documents.Document | None) -> None:
        if new is None or new.stamp is None or (old is not None and old.stamp == new.stamp):
            return
        if new.stamp.version in self.versions[key]:
            raise Violation(f"version {new.stamp.version} of {key} was there before")
        self.versions[key].add(new.stamp.version)

    def _check_copies(self, key: str, document: documents.Document) -> None:
        """Each copy shows a state of its source no older than what it showed before, in one life of its document."""
        for _, copy in links.links(document.content):
            target = copy["key"]
            if target == key or "link_too_large" in copy:
                continue
            states = self.history[target]
            since = self.shown.get((key, target), 0)
            fitting = [
                i for i in range(since, len(states)) if _copy_of(target, states[i], key) == values.canonical(copy)
            ]
            if not fitting:
                raise Violation(f"{key}'s copy of {target} went back to {copy}")
            self.shown[key, target] = fitting[0]

    # --- what must hold once quiet ---

    def _check_rest(self) -> None:
        found = self.world.store.query(Query(documents.COLLECTION))
        held = {snapshot.id: document for snapshot in found if (document := documents.decode(snapshot.data))}
        contents = {key: held[key].content if key in held else None for key in self.keys}
        for key, document in held.items():
            try:
                expected = links.shape(key, document.content, contents, _hops_of_a_refresh(document, held))
            except Problem:
                continue  # another client wrote what no put would take: it stays as it is, and embeds nobody
            self._check_document(key, document, expected)
            for target in links.link_keys(document.content):
                if target in held and held[target].linked is False:
                    raise Violation(f"{target} does not know that {key} embeds it: its next change would be lost")

    @staticmethod
    def _check_document(key: str, document: documents.Document, expected: documents.Content) -> None:
        if not document.in_shape:
            raise Violation(f"{key} was never brought into shape: {document.content}")
        if values.canonical(expected) != values.canonical(document.content):
            raise Violation(f"{key} shows {document.content}, a put now would embed {expected}")


def _hops_of_a_refresh(document: documents.Document, held: dict[str, documents.Document]) -> int:
    """Say how far the last change of any target has come here: where it came too far, marks stay."""
    return 1 + max((documents.hops_of(held.get(key)) for key in links.link_keys(document.content)), default=0)


def _by_the_kit(old: documents.Document, new: documents.Document) -> bool:
    return new.stamp is not None and new.stamp != old.stamp and new.stamp.author == "refresh"


def _own(document: documents.Document) -> str:
    """What the user wrote: the content with its links bare."""
    return _bare(document.content)


def _bare(content: documents.Content) -> str:
    bare = {at: {"key": link["key"]} for at, link in links.links(content)}
    return values.canonical(links.placed(content, bare))


def _shown(document: documents.Document | None) -> str:
    return values.canonical(None if document is None else document.content)


def _copy_of(target: str, state: str, above: str) -> str:
    return values.canonical(links.copy_of(target, json.loads(state), above))
