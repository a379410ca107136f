"""Put many documents in one call, each with its own outcome.

Of the records to replace only the metadata is read; then, at one instant, the inputs of their links, so that no copy is
older than the document it stands in. Then the documents are written wave by wave (`shared/documents/rules/bulk.py`),
each under its own guard; a wave takes one round trip. A wave embeds what the waves before it have stored, never what
they were meant to store: a copy shows nothing that was not there.

A document that loses its guard is read again with the inputs of its links and retried, a bounded number of times.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import pause
from shared.core.operations.ports import Conflict, Field, Outcome, Ports, Snapshot, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, TooLarge, Unavailable
from shared.documents.operations import link_inputs
from shared.documents.operations.document_writes import DocumentWrite, put_write
from shared.documents.operations.stored_documents import StoredDocument
from shared.documents.rules import bulk, documents, links
from shared.documents.rules.bulk import BulkPutRequest
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content

PutOutcome = StoredDocument | Problem | Unavailable
"""Of one document: how it is stored, or why not. After `Unavailable` that is not known."""


@dataclass(frozen=True, slots=True)
class BulkPutResult:
    """The outcome of one document of a call; the key is None if it had no valid one."""

    key: str | None
    outcome: PutOutcome


def put_each(ports: Ports, request: BulkPutRequest) -> list[BulkPutResult]:
    """Put documents; return their results in the order of the request. Raises `TooLarge` for too many targets."""
    outcomes = _BulkPut(ports, request.contents()).run()
    return [
        BulkPutResult(entry.key, entry.request if isinstance(entry.request, Problem) else outcomes[entry.request.key])
        for entry in request.entries
    ]


class _BulkPut:
    """The state of one call."""

    def __init__(self, ports: Ports, contents: Mapping[str, Content]) -> None:
        self._ports = ports
        self._contents = contents
        self._targets = {key: links.link_keys(content) for key, content in contents.items()}
        self._found: dict[str, Snapshot] = {}
        self._sources: dict[str, Content | None] = {}
        self._transforms: dict[str, Any] = {}
        self._outcomes: dict[str, PutOutcome] = {}

    def run(self) -> Mapping[str, PutOutcome]:
        """Write all documents; return their outcomes by key."""
        targets = {target for linked in self._targets.values() for target in linked}
        if len(targets) > LIMITS.bulk_targets_max:
            raise TooLarge(f"The documents of one call link to at most {LIMITS.bulk_targets_max:,} others.")
        self._read(self._contents)
        for wave in bulk.waves(self._targets):
            self._write_wave(wave)
        return self._outcomes

    def _read(self, keys: Iterable[str]) -> None:
        """Read documents and then, at one instant, the inputs of their links.

        Only the documents themselves are guarded by it: one that is merely linked to was read with its own targets.
        """
        own = {documents.path_of(key): key for key in keys}
        inputs = dict.fromkeys(path for key in own.values() for path in link_inputs.input_paths(self._contents[key]))
        replaced = self._snapshots([path for path in own if path not in inputs], documents.METADATA_FIELDS)
        read = self._snapshots(inputs)
        embedding = link_inputs.embedding_from(read)
        self._found |= {own[one.path]: one for one in (*replaced, *read) if one.path in own}
        self._sources |= embedding.sources
        self._transforms |= embedding.transforms

    def _snapshots(self, paths: Collection[str], fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._ports.store.read(*paths, fields=fields) if paths else ()

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
        """Write documents, each on its own; return those that lost their guard."""
        writes = {key: made for key in keys if (made := self._prepared(key)) is not None}
        results = self._ports.store.write_each([made.write for made in writes.values()]) if writes else ()
        pairs = zip(writes.items(), results, strict=True)
        return [key for (key, made), result in pairs if not self._settled(key, made, result)]

    def _prepared(self, key: str) -> DocumentWrite | None:
        """Return a document's write, or None after noting why it cannot be stored."""
        try:
            return put_write(self._found[key], self._contents[key], Embedding(self._sources, self._transforms))
        except Problem as problem:
            self._outcomes[key] = problem
            return None

    def _settled(self, key: str, made: DocumentWrite, result: Outcome) -> bool:
        """Note the outcome of a write; return False for one that lost its guard, which has none yet."""
        if isinstance(result, Conflict):
            return False
        if isinstance(result, WriteResult):
            self._sources[key] = made.content
            self._outcomes[key] = made.stored
            return True
        assert isinstance(result, Problem | Unavailable), "a write has no other outcome"
        self._outcomes[key] = result
        return True
