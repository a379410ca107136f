"""Documents with a history, written by many at once; the oracle is the plain list of what the store held.

Users put, merge, write back, put many, delete, restore under a condition, and read versions; another client writes and
deletes past the kit; processes die and answers are lost. At rest the versions are that list in its order, each with its
content and its time: all that users made, and of what another client did all that a write of the kit came after. The
list may have lost its beginning, but not the last versions that are to be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

from signalbox.core import outbox
from signalbox.core.kit_names import ANYONE
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Delete, Put, Query, Snapshot
from signalbox.core.problems import NotFound
from signalbox.core.records.queries import ID, Condition
from signalbox.core.surface.paging import Listing
from signalbox.documents.limits import LIMITS as DOCUMENTS_LIMITS
from signalbox.documents.machine.patches import Null
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model.stamped_contents import content_of, path_of
from signalbox.documents.requests import BulkPutRequest, PatchRequest, Precondition, PutRequest, Tags
from signalbox.documents.service import bulk, patches, single_documents
from signalbox.documents.storage.records import Found
from signalbox.history import service
from signalbox.history.model import HISTORY, HistoryRule, collection_of, part_paths
from signalbox.history.requests import LATEST, Reference
from signalbox.history.shown import VersionShown
from signalbox.links import tasks
from signalbox.links.service import refreshes
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.reached_counts import REACHED, RESTORED, SHORTENED
from tests.simulation.world import Violation, World
from tests.simulation.world_lengths import operations_max
from tests.simulation.worlds.links.properties import bare
from tests.simulation.worlds.links.world import drawn_writers

KEYS = ("c", "d")
"""Documents with a history; `c` embeds `t`, which has none, and `d` embeds `c`."""

SEGMENT, VERSIONS_MAX = 2, 3
OPERATIONS_MAX = 14
TEXT = "as long as it takes for a patch to be shorter than the whole"
NOTHING = "null"
PARTS_RATE = 0.2
"""Worlds in which versions are stored in parts, are deleted one by one, and are read by their times meanwhile."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of what users wrote in a document: what it holds from then on, and whether another client made it."""

    at: datetime
    content: str
    foreign: bool


def run(seed: int, trace: Callable[[str], None] | None = None, writers: str | None = None) -> None:
    """Run one seed's world until nothing is left to run. Raises `Violation` when a property does not hold.

    `writers` is who writes documents, by the catalogue; by default the seed decides. If only the kit does, no other
    client writes: its deletions would be noticed by nothing.
    """
    HistoryWorld(seed, trace, writers or drawn_writers(seed)).run()


class HistoryWorld:
    """Two documents with a history, which embed each other in a chain, and their users."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None, writers: str) -> None:
        self.writers = writers
        self.world = World(seed, FaultRates(without_data=0, left=6), trace)
        self.world.events.handler = refreshes.fan_out if writers == ANYONE else None
        self.world.task_handlers["link_refresh"] = lambda ports, effect: tasks.run_link_task(
            ports, effect.task, effect.payload
        )
        self.world.sweeper = outbox.sweep
        self.world.observers.append(self._observe)
        self.changes: dict[str, list[Change]] = {key: [] for key in KEYS}
        self.parts: dict[str, set[str]] = {key: set() for key in KEYS}
        self._restoring: dict[greenlet, tuple[str, str]] = {}
        self.foreign = False
        self.has_another_client = self.world.random.random() < 0.5 and writers == ANYONE
        self.puts = 0
        self.own = Random(f"{seed}-parts")
        self.has_parts = self.own.random() < PARTS_RATE

    def run(self) -> None:
        rules = [HistoryRule(keys=frozenset(KEYS), versions_max=VERSIONS_MAX)]
        sizes = {"history_text_letters_max": 20, "history_part_bytes_max": 40, "history_delete_page": 1}
        small = sizes if self.has_parts else {}
        kept = HISTORY.replaced(rules)
        with replaced(history_segment_versions=SEGMENT, **small), kept, WRITERS.replaced(self.writers):
            random = self.world.random
            self.world.run([self._act for _ in range(random.randint(3, operations_max(OPERATIONS_MAX)))])
            self.world.fault_rates.left = 0
            while self.world.store.query(Query(outbox.COLLECTION)):
                self.world.pass_time(CORE_LIMITS.outbox_patience_seconds)
                self.world.start("sweep", lambda: self._ignore(outbox.sweep(self.world.ports)))
                self.world.run()
            for key in KEYS:
                self._check_rest(key)

    @staticmethod
    def _ignore(_: object) -> None:
        return

    # --- the oracle ---

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        for key in KEYS:
            if path.startswith(f"{collection_of(key)}/") and path.count("/") > collection_of(key).count("/") + 1:
                self.parts[key].add(path)
            elif path.startswith(f"{collection_of(key)}/") and before.data and not after.data:
                self._check_oldest(key, before.id)
        changes = self.changes.get(path.removeprefix("documents/"))
        if changes is None:
            return
        old, new = (_bare(snapshot) for snapshot in (before, after))
        if getcurrent() in self._restoring:
            seen, wanted = self._restoring[getcurrent()]
            if Found.of(before).etag != seen or new != wanted:
                raise Violation(
                    f"{path} was to be {wanted} again if it was {seen}; {Found.of(before).etag} became {new}"
                )
        if old != new:
            at = after.update_time or self.world.now()
            changes.append(Change(at, new, self.foreign))

    def _check_oldest(self, key: str, version: str) -> None:
        """Raise `Violation` if a version is deleted before an older one, where each commit deletes one."""
        older = self.world.store.query(Query(collection_of(key), (Condition(ID, ">", version),), limit=1))
        if older and self.has_parts:
            raise Violation(f"the version {version} of {key} was deleted before {older[0].id}")

    # --- users ---

    def _act(self) -> None:
        random = self.world.random
        key = random.choice(KEYS)
        acts: list[Callable[[str], None]] = [self._put, self._put, self._merge, self._write_back, self._put_many]
        acts += [self._delete, self._restore, self._restore, self._look, self._change_source]
        if self.has_another_client:
            acts += [self._write_past, self._write_past, self._delete_past]
        act = random.choice(acts)
        self.world.start(f"{act.__name__} {key}", lambda: act(key))

    def _content(self, key: str) -> dict[str, Any]:
        self.puts += 1
        content: dict[str, Any] = {"n": self.world.random.choice("ab"), "text": TEXT, "m": self.puts}
        if self.world.random.random() < 0.8:
            content["x"] = {"key": "t" if key == "c" else "c"}
        return content

    def _put(self, key: str) -> None:
        single_documents.put(self.world.ports, PutRequest.from_request(key, self._content(key)))

    def _merge(self, key: str) -> None:
        self.puts += 1
        patches.patch(self.world.ports, PatchRequest.from_request(key, {"m": self.puts}, Null.REMOVES))

    def _write_back(self, key: str) -> None:
        edit = {"x": {"n": self.world.random.choice("ab")}}
        patches.patch(self.world.ports, PatchRequest.from_request(key, edit, write_back=True))

    def _put_many(self, _: str) -> None:
        bodies = [{"key": key, **self._content(key)} for key in KEYS]
        bulk.put_each(self.world.ports, BulkPutRequest.from_request(bodies))

    def _change_source(self, _: str) -> None:
        single_documents.put(self.world.ports, PutRequest.from_request("t", {"n": self.world.random.choice("ab")}))

    def _delete(self, key: str) -> None:
        single_documents.delete(self.world.ports, key)

    def _look(self, key: str) -> None:
        """Read the latest version; it holds what the document held at some time. Or read one by its time."""
        if self.has_parts and self.own.random() < 0.5:
            self._look_back(key)
            return
        found = service.read_version(self.world.ports, key, LATEST).content
        if _text(found) not in {change.content for change in self.changes[key]}:
            raise Violation(f"{key} never held {found}")

    def _look_back(self, key: str) -> None:
        """Read the version of a time at which a user had made it; it may have been deleted since."""
        known = [change for change in self.changes[key] if not change.foreign]
        if self.has_another_client or not known:
            return
        change = self.own.choice(known)
        try:
            read = service.read_version(self.world.ports, key, Reference(moment=change.at))
        except NotFound:
            return
        if _text(read.content) != change.content:
            raise Violation(f"{key} at {change.at} was {change.content}, and was read as {read.content}")

    def _restore(self, key: str) -> None:
        """Restore some version on condition that the document is what it was; checked at the write itself."""
        ports, random = self.world.ports, self.world.random
        page = service.find_versions(ports, key, Listing("", DOCUMENTS_LIMITS.versions_listed_max))
        if not page.versions:
            return
        chosen = Reference(random.choice(page.versions).version)
        wanted = service.read_version(ports, key, chosen).content
        [found] = ports.store.read(path_of(key))
        seen = Found.of(found).etag
        if wanted is None or seen is None:
            return
        self._restoring[getcurrent()] = (seen, _text(wanted))
        single_documents.restore(ports, key, chosen, Precondition(if_match=Tags(frozenset([seen]))))
        REACHED[RESTORED] += 1

    # --- another client ---

    def _write_past(self, key: str) -> None:
        content, store = self._content(key), self.world.store
        self.world.step(f"another client writes {key}: {content}")
        [held] = store.read(path_of(key))
        keeps_map = held.data is not None and self.world.random.random() < 0.5
        self._past(Put(path_of(key), {**(held.data or {}), "m": content["m"]} if keeps_map else content))

    def _delete_past(self, key: str) -> None:
        self.world.step(f"another client deletes {key}")
        self._past(Delete(path_of(key)))

    def _past(self, write: Put | Delete) -> None:
        self.foreign = True
        try:
            self.world.store.commit([write])
        finally:
            self.foreign = False

    # --- what must hold ---

    def _check_rest(self, key: str) -> None:
        ports, changes = self.world.reliable_ports(), self.changes[key]
        page = service.find_versions(ports, key, Listing("", 100))
        kept = list(reversed(page.versions))
        try:
            held = [_text(service.read_version(ports, key, Reference(one.version)).content) for one in kept]
        except (NotFound, LookupError, TypeError) as error:
            raise Violation(f"a version of {key} is listed and cannot be read: {error!r}") from error
        matched = _matched(changes, held)
        if matched is None:
            raise Violation(f"{key} was {[_short(one) for one in changes]}, its versions are {held}")
        lost = [change for index, change in enumerate(changes) if index < matched.first and _is_kept(changes, index)]
        if lost and len(kept) < VERSIONS_MAX:
            raise Violation(f"{key} has lost {lost}, and has {len(kept)} versions")
        if not self.has_another_client and len(kept) > VERSIONS_MAX + SEGMENT:
            raise Violation(f"{key} has {len(kept)} versions")
        REACHED[SHORTENED] += bool(lost)
        self._check_parts(key)
        self._check_times(key, [(changes[index], one) for index, one in zip(matched.indexes, kept, strict=True)])

    def _check_parts(self, key: str) -> None:
        """Every part is one of a version that was not deleted."""
        entries = {record.path: record for record in self.world.store.query(Query(collection_of(key)))}
        known = {path for record in entries.values() for path in part_paths(record.path, record.data or {})}
        stray = {path for path in self.parts[key] if self.world.store.read(path)[0].data is not None} - known
        if stray:
            raise Violation(f"parts of deleted versions of {key} are left: {sorted(stray)}")

    def _check_times(self, key: str, pairs: list[tuple[Change, VersionShown]]) -> None:
        ports = self.world.reliable_ports()
        for change, version in pairs:
            if change.foreign:
                continue
            if version.at != change.at:
                raise Violation(f"{key} was {change.content} at {change.at}, by its versions at {version.at}")
            read = service.read_version(ports, key, Reference(moment=change.at))
            if _text(read.content) != change.content:
                raise Violation(f"{key} at {change.at} was {change.content}, by its versions {read.content}")


@dataclass(frozen=True, slots=True)
class Match:
    """Which change each version is, and the first change that they leave no gap after."""

    first: int
    indexes: tuple[int, ...]


def _matched(changes: list[Change], held: list[str]) -> Match | None:
    """Return how versions are the last of some changes, in which only those may miss that the kit did not see."""

    @cache
    def match(change: int, version: int) -> tuple[int, ...] | None:
        if change == len(changes):
            return () if version == len(held) else None
        if version < len(held) and changes[change].content == held[version]:
            rest = match(change + 1, version + 1)
            if rest is not None:
                return (change, *rest)
        repeats = version > 0 and changes[change].content == held[version - 1]
        may_miss = not _is_kept(changes, change) or (repeats and changes[change].foreign)
        return match(change + 1, version) if may_miss else None

    found = ((first, match(first, 0)) for first in range(len(changes) + 1))
    return next((Match(first, indexes) for first, indexes in found if indexes is not None), None)


def _is_kept(changes: list[Change], index: int) -> bool:
    """Return whether a change must be among the versions: a user's, or another client's that the kit came to see."""
    change = changes[index]
    if not change.foreign:
        return True
    following = changes[index + 1] if index + 1 < len(changes) else None
    if change.content == NOTHING:
        by_the_kit = index > 0 and not changes[index - 1].foreign
        return following is None and by_the_kit
    return following is None or not following.foreign


def _bare(snapshot: Snapshot) -> str:
    return _text(content_of(snapshot.data))


def _text(content: dict[str, Any] | None) -> str:
    return NOTHING if content is None else bare(content)


def _short(change: Change) -> str:
    return f"{change.content}{' (another client)' if change.foreign else ''}"
