"""Put many documents in one call, each with its own outcome.

The call reads only the metadata of the records that it replaces, then the inputs of all links at one instant, so no
copy is older than its document. Then it writes the documents in waves, each document under its own guard; a wave takes
one round trip. A document that links to another one of its call is written in a later wave (`waves`) and embeds the
content that was stored, never the content that was only meant to be stored: a copy shows nothing that its target never
had. If documents link in a cycle, or in a chain longer than the number of waves, some are written before their targets;
the targets' events refresh their copies, as whenever a target changes after a put.

The inputs and stored contents kept in memory are bounded by `LIMITS.read_bytes_max`. A document with further inputs is
put alone, as by a separate call. So is a document whose versions are kept.

A document that loses its guard is read again with the inputs of its links and retried, a bounded number of times.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import Conflict, Outcome, Ports, Snapshot, WriteResult
from signalbox.core.problems import Problem, TooLarge, Unavailable
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model import stamped_contents
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import COLLECTION, METADATA_FIELDS, RESERVED, StoredDocument, path_of
from signalbox.documents.requests import BulkPutRequest, PutRequest
from signalbox.documents.service.single_documents import put
from signalbox.documents.storage import embedded_copies
from signalbox.documents.storage.records import Found, noted
from signalbox.documents.storage.writes import DocumentWrite, put_write, write_each
from signalbox.history.model import HISTORY

PutOutcome = StoredDocument | Problem | Unavailable
"""The outcome of one document: the document as stored, or the problem that prevented it. `Unavailable` means that the
outcome is unknown.
"""


@dataclass(frozen=True, slots=True)
class BulkPutResult:
    """The outcome of one document of a call. Its key is None if it had no valid one."""

    key: str | None
    outcome: PutOutcome


def put_each(ports: Ports, request: BulkPutRequest, *, documents_wanted: bool = True) -> list[BulkPutResult]:
    """Put documents; return their results in the order of the request. Raises `TooLarge` if there are too many targets.

    Unless `documents_wanted`, the stored documents in the results are empty, since together they may be large.
    """
    outcomes = BulkPut(ports, request.contents(), documents_wanted).run()
    return [
        BulkPutResult(entry.key, entry.request if isinstance(entry.request, Problem) else outcomes[entry.request.key])
        for entry in request.entries
    ]


def waves(targets: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """Iterate over waves of documents, given the targets of each document.

    If possible, the documents of a wave link only to documents of earlier waves.
    """
    waiting = dict(targets)
    for _ in range(LIMITS.bulk_waves_max - 1):
        ready = [key for key, linked in waiting.items() if not any(one in waiting for one in linked if one != key)]
        if not ready:
            break
        yield ready
        for key in ready:
            del waiting[key]
    if waiting:
        yield list(waiting)


class BulkPut:
    """The state of one call."""

    def __init__(self, ports: Ports, contents: Mapping[str, Surveyed], documents_wanted: bool) -> None:
        self._ports = ports
        self._contents = contents
        self._documents_wanted = documents_wanted
        self._targets = {key: content.link_keys for key, content in contents.items()}
        self._all_targets = frozenset(target for linked in self._targets.values() for target in linked)
        self._found: dict[str, Found] = {}
        self._sources: dict[str, Content | None] = {}
        self._transforms: dict[str, Any] = {}
        self._outcomes: dict[str, PutOutcome] = {}
        self._stored_bytes = 0

    def run(self) -> Mapping[str, PutOutcome]:
        """Write all documents; return their outcomes by key."""
        if len(self._all_targets) > LIMITS.bulk_targets_max:
            raise TooLarge(f"The documents of one call link to at most {LIMITS.bulk_targets_max:,} others.")
        self.read(self._contents)
        for wave in waves(self._targets):
            self._write_wave(wave)
        return self._outcomes

    def read(self, keys: Iterable[str]) -> None:
        """Read documents and then, at one instant, as many of their links' inputs as can be kept in memory together.

        Only the documents in `keys` are guarded by this read. A target was read together with the documents that link
        to it.
        """
        own = {path_of(key): key for key in keys}
        inputs = dict.fromkeys(
            path for key in own.values() for path in embedded_copies.input_paths(self._contents[key])
        )
        replaced = self._metadata([path for path in own if path not in inputs])
        read = self._ports.store.read_some((), list(inputs), CORE_LIMITS.read_bytes_max) if inputs else ()
        embedding = embedded_copies.embedding_from(read)
        records = [record for record in (*replaced, *read) if record.path in own]
        self._found |= {own[record.path]: Found.of(_metadata_of(record), whole=False) for record in records}
        self._sources |= embedding.sources
        self._transforms |= embedding.transforms

    def _metadata(self, paths: Collection[str]) -> tuple[Snapshot, ...]:
        return self._ports.store.read(*paths, fields=METADATA_FIELDS) if paths else ()

    def _write_wave(self, wave: Sequence[str]) -> None:
        """Write a wave. Documents that lose their guard are written again."""
        losers = self._write(wave)
        for attempt in range(CORE_LIMITS.rounds_max - 1):
            if not losers:
                return
            pause(self._ports, attempt)
            self.read(losers)
            self._found |= {key: noted(self._ports.store, self._found[key], again=True) for key in losers}
            losers = self._write(losers)
        self._outcomes |= {key: Unavailable(f"{key} is written by many clients at once") for key in losers}

    def _write(self, keys: Iterable[str]) -> list[str]:
        """Write documents in groups, each document under a separate guard.

        Return the documents that lost their guard.
        """
        losers: list[str] = []
        group: dict[str, DocumentWrite] = {}
        group_bytes = 0
        for key in keys:
            if not self._is_read(key) or self._has_history(key):
                self._put_alone(key)
            elif (made := self._prepared(key)) is not None:
                group[key] = made
                group_bytes += made.size_bytes
            if group_bytes >= CORE_LIMITS.read_bytes_max:
                losers += self._write_group(group)
                group, group_bytes = {}, 0
        return losers + self._write_group(group)

    def _write_group(self, group: Mapping[str, DocumentWrite]) -> list[str]:
        results = write_each(self._ports, list(group.values()))
        pairs = zip(group.items(), results, strict=True)
        return [key for (key, made), result in pairs if not self._settled(key, made, result)]

    def _is_read(self, key: str) -> bool:
        """Return whether a document's record and all inputs of its links are in memory."""
        paths = embedded_copies.input_paths(self._contents[key])
        return key in self._found and all(path.partition("/")[2] in self._kind_of(path) for path in paths)

    def _kind_of(self, path: str) -> Collection[str]:
        return self._sources if path.startswith(f"{COLLECTION}/") else self._transforms

    def _has_history(self, key: str) -> bool:
        """Return whether a document's versions are kept.

        If so, the document that is replaced must be read whole.
        """
        before = self._found[key].document
        return HISTORY.rule_of(key, self._contents[key].content) is not None or bool(before and before.history)

    def _put_alone(self, key: str) -> None:
        """Put a document by a separate operation, which reads the inputs of its links in groups."""
        try:
            self._outcomes[key] = self._result(put(self._ports, PutRequest(key, self._contents[key])))
        except (Problem, Unavailable) as error:
            self._outcomes[key] = error
        self._sources.pop(key, None)

    def _prepared(self, key: str) -> DocumentWrite | None:
        """Return a document's write. If the document cannot be stored, note the reason and return None."""
        try:
            embedded = links.embed_links(key, self._contents[key], Embedding(self._sources, self._transforms))
            return put_write(self._found[key], embedded)
        except Problem as problem:
            self._outcomes[key] = problem
            return None

    def _settled(self, key: str, made: DocumentWrite, result: Outcome) -> bool:
        """Note the outcome of a write. Return False for a write that lost its guard, which has no outcome yet."""
        if isinstance(result, Conflict):
            return False
        if isinstance(result, WriteResult):
            self._keep(key, made)
            self._outcomes[key] = self._result(made.stored)
            return True
        assert isinstance(result, Problem | Unavailable), "a write has no other outcome"
        self._outcomes[key] = result
        return True

    def _keep(self, key: str, made: DocumentWrite) -> None:
        """Keep a stored content for the documents that embed it, if there is room.

        If there is no room, those documents are put alone.
        """
        self._sources.pop(key, None)
        if key in self._all_targets and self._stored_bytes < CORE_LIMITS.read_bytes_max:
            self._stored_bytes += made.size_bytes
            self._sources[key] = made.content.content

    def _result(self, stored: StoredDocument) -> StoredDocument:
        return stored if self._documents_wanted else replace(stored, document={})


def _metadata_of(snapshot: Snapshot) -> Snapshot:
    """Return a record without its content."""
    if snapshot.data is None:
        return snapshot
    reserved = snapshot.data.get(RESERVED)
    if stamped_contents.is_large(snapshot.data):
        reserved = {**(reserved if isinstance(reserved, dict) else {}), "large": True}
    return replace(snapshot, data={RESERVED: reserved})
