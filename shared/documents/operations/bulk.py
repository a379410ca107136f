"""Put many documents in one call, each with its own outcome.

Of the records to replace only the metadata is read; then, at one instant, the inputs of their links, so that no copy is
older than the document it stands in. Then the documents are written wave by wave (`shared/documents/rules/bulk.py`),
each under its own guard; a wave takes one round trip. A wave embeds what the waves before it have stored, never what
they were meant to store: a copy shows nothing that was not there.

What is held of inputs and of what was stored is bounded by `LIMITS.read_bytes_max`; a document with further inputs is
put by itself, as by a call of its own; so is one whose versions are kept.

A document that loses its guard is read again with the inputs of its links and retried, a bounded number of times.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.core.operations.perform import pause
from shared.core.operations.ports import Conflict, Outcome, Ports, Snapshot, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, TooLarge, Unavailable
from shared.core.rules.record_values import map_bytes
from shared.documents.operations import link_inputs
from shared.documents.operations.document_writes import DocumentWrite, put_write, write_each
from shared.documents.operations.documents import put
from shared.documents.operations.stored_documents import StoredDocument
from shared.documents.rules import bulk, documents, links
from shared.documents.rules.bulk import BulkPutRequest
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content, Document
from shared.documents.rules.requests import PutRequest
from shared.history.rules.selection import HISTORY

PutOutcome = StoredDocument | Problem | Unavailable
"""Of one document: how it is stored, or why not. After `Unavailable` that is not known."""


@dataclass(frozen=True, slots=True)
class BulkPutResult:
    """The outcome of one document of a call; the key is None if it had no valid one."""

    key: str | None
    outcome: PutOutcome


def put_each(ports: Ports, request: BulkPutRequest, *, documents_wanted: bool = True) -> list[BulkPutResult]:
    """Put documents; return their results in the order of the request. Raises `TooLarge` for too many targets.

    Unless `documents_wanted`, the stored documents in the results are empty: together they may be large.
    """
    outcomes = _BulkPut(ports, request.contents(), documents_wanted).run()
    return [
        BulkPutResult(entry.key, entry.request if isinstance(entry.request, Problem) else outcomes[entry.request.key])
        for entry in request.entries
    ]


class _BulkPut:
    """The state of one call."""

    def __init__(self, ports: Ports, contents: Mapping[str, Content], documents_wanted: bool) -> None:
        self._ports = ports
        self._contents = contents
        self._documents_wanted = documents_wanted
        self._targets = {key: links.link_keys(content) for key, content in contents.items()}
        self._everyones_targets = frozenset(target for linked in self._targets.values() for target in linked)
        self._found: dict[str, Snapshot] = {}
        self._sources: dict[str, Content | None] = {}
        self._transforms: dict[str, Any] = {}
        self._outcomes: dict[str, PutOutcome] = {}
        self._stored_bytes = 0

    def run(self) -> Mapping[str, PutOutcome]:
        """Write all documents; return their outcomes by key."""
        if len(self._everyones_targets) > LIMITS.bulk_targets_max:
            raise TooLarge(f"The documents of one call link to at most {LIMITS.bulk_targets_max:,} others.")
        self._read(self._contents)
        for wave in bulk.waves(self._targets):
            self._write_wave(wave)
        return self._outcomes

    def _read(self, keys: Iterable[str]) -> None:
        """Read documents and then, at one instant, the inputs of their links, as many as can be held together.

        Only the documents themselves are guarded by it: one that is merely linked to was read with its own targets.
        """
        own = {documents.path_of(key): key for key in keys}
        inputs = dict.fromkeys(path for key in own.values() for path in link_inputs.input_paths(self._contents[key]))
        replaced = self._metadata([path for path in own if path not in inputs])
        read = self._ports.store.read_some((), list(inputs), LIMITS.read_bytes_max) if inputs else ()
        embedding = link_inputs.embedding_from(read)
        self._found |= {one.path.partition("/")[2]: _metadata_of(one) for one in (*replaced, *read) if one.path in own}
        self._sources |= embedding.sources
        self._transforms |= embedding.transforms

    def _metadata(self, paths: Collection[str]) -> tuple[Snapshot, ...]:
        return self._ports.store.read(*paths, fields=documents.METADATA_FIELDS) if paths else ()

    def _write_wave(self, wave: Sequence[str]) -> None:
        """Write a wave, and again those documents that lose their guard."""
        losers = self._write(wave)
        for attempt in range(LIMITS.rounds_max - 1):
            if not losers:
                return
            pause(self._ports, attempt)
            self._read(losers)
            losers = self._write(losers)
        self._outcomes |= {key: Unavailable(f"{key} is written by many clients at once") for key in losers}

    def _write(self, keys: Iterable[str]) -> list[str]:
        """Write documents, each on its own, in groups; return those that lost their guard."""
        losers: list[str] = []
        group: dict[str, DocumentWrite] = {}
        held_bytes = 0
        for key in keys:
            if not self._is_held(key) or self._has_history(key):
                self._put_alone(key)
            elif (made := self._prepared(key)) is not None:
                group[key] = made
                held_bytes += map_bytes(made.write.data)
            if held_bytes >= LIMITS.read_bytes_max:
                losers += self._write_group(group)
                group, held_bytes = {}, 0
        return losers + self._write_group(group)

    def _write_group(self, group: Mapping[str, DocumentWrite]) -> list[str]:
        results = write_each(self._ports, list(group.values()))
        pairs = zip(group.items(), results, strict=True)
        return [key for (key, made), result in pairs if not self._settled(key, made, result)]

    def _is_held(self, key: str) -> bool:
        """Return whether a document's record was read, and all inputs of its links are held."""
        paths = link_inputs.input_paths(self._contents[key])
        return key in self._found and all(path.partition("/")[2] in self._held(path) for path in paths)

    def _has_history(self, key: str) -> bool:
        """Return whether a document's versions are kept: then what it replaces must be read whole."""
        before = Document.from_record(self._found[key].data)
        return HISTORY.rule_of(key, self._contents[key]) is not None or bool(before and before.history)

    def _held(self, path: str) -> Collection[str]:
        return self._sources if path.startswith(f"{documents.COLLECTION}/") else self._transforms

    def _put_alone(self, key: str) -> None:
        """Put a document by an operation of its own, which reads what it needs in groups."""
        try:
            self._outcomes[key] = self._result(put(self._ports, PutRequest(key, self._contents[key])))
        except (Problem, Unavailable) as error:
            self._outcomes[key] = error
        self._sources.pop(key, None)

    def _prepared(self, key: str) -> DocumentWrite | None:
        """Return a document's write, or None after noting why it cannot be stored."""
        try:
            embedded = links.embed_links(key, self._contents[key], Embedding(self._sources, self._transforms))
            return put_write(self._found[key], embedded)
        except Problem as problem:
            self._outcomes[key] = problem
            return None

    def _settled(self, key: str, made: DocumentWrite, result: Outcome) -> bool:
        """Note the outcome of a write; return False for one that lost its guard, which has none yet."""
        if isinstance(result, Conflict):
            return False
        if isinstance(result, WriteResult):
            self._hold(key, made)
            self._outcomes[key] = self._result(made.stored)
            return True
        assert isinstance(result, Problem | Unavailable), "a write has no other outcome"
        self._outcomes[key] = result
        return True

    def _hold(self, key: str, made: DocumentWrite) -> None:
        """Hold what was stored for those that embed it, if there is room; they are put alone otherwise."""
        self._sources.pop(key, None)
        if key in self._everyones_targets and self._stored_bytes < LIMITS.read_bytes_max:
            self._stored_bytes += map_bytes(made.write.data)
            self._sources[key] = made.content

    def _result(self, stored: StoredDocument) -> StoredDocument:
        return stored if self._documents_wanted else replace(stored, document={})


def _metadata_of(snapshot: Snapshot) -> Snapshot:
    """Return a record without its content."""
    if snapshot.data is None:
        return snapshot
    reserved = snapshot.data.get(documents.RESERVED)
    if documents.is_large(snapshot.data):
        reserved = {**(reserved if isinstance(reserved, dict) else {}), "large": True}
    return replace(snapshot, data={documents.RESERVED: reserved})
