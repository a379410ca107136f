"""Patch a document with write-back: edits inside its copies go to their sources, in the same commit.

    read      the document, its sources, the inputs of all their links, at one instant
    decide    what each document becomes: the source first, then the one that shows it, embedding what is written here
    commit    all of them, each under its own guard: all or none

Which documents are needed is known only after those before them are read: one more read for each level that an edit
goes down. Each document is written as by a put of its own, so all that holds for puts holds for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Ports, Snapshot, Store
from shared.core.rules.effects import Decision
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TooLarge, Unavailable
from shared.core.rules.values import Path
from shared.documents.operations import link_inputs
from shared.documents.operations.document_reads import read_whole
from shared.documents.operations.document_writes import DocumentWrite, goes_on_from_header, put_write
from shared.documents.operations.stored_documents import StoredDocument, check_precondition
from shared.documents.rules import documents, links, write_backs
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content
from shared.documents.rules.requests import PatchRequest
from shared.history.rules import entries

Outcome = tuple[StoredDocument | None, list[str]]
"""The document as stored, or None and the paths that a next attempt must read."""


def write_back(ports: Ports, request: PatchRequest) -> StoredDocument:
    """Merge JSON into a document and, inside its copies, into their sources. Raises a `Problem` for what cannot be."""
    paths = _unique([documents.path_of(request.key), *link_inputs.input_paths(request.patch)])
    for _ in range(LIMITS.link_levels_max + LIMITS.rounds_max):
        stored, paths = _attempt(ports, request, paths)
        if stored is not None:
            return stored
    raise Unavailable(f"the links of {request.key} are changed by many clients at once")


def _attempt(ports: Ports, request: PatchRequest, paths: list[str]) -> Outcome:
    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Outcome]:
        check_precondition(request.precondition, read[0])
        plan = _Plan(request, read)
        plan.add(request.key, request.patch)
        if plan.missing:
            return Decision((), (None, _unique([*paths, *plan.missing])))
        made = plan.writes()
        effects = tuple(effect for each in made for effect in each.effects)
        writes = tuple(write for each in made for write in each.writes)
        return Decision(writes, (made[-1].stored, paths), effects)

    return perform(ports, _WholeRead(paths), decide)[0]


@dataclass(frozen=True, slots=True)
class _WholeRead:
    """Reads records at one instant, the document first. Raises `TooLarge` for more than can be held."""

    paths: Sequence[str]

    @property
    def path(self) -> str:
        return self.paths[0]

    def load(self, store: Store, attempt: int) -> tuple[Snapshot, ...]:  # noqa: ARG002  each attempt reads the same
        return read_whole(store, self.paths)


class _Plan:
    """What becomes of the documents of a request, made from one read; `missing` are paths that it lacks."""

    def __init__(self, request: PatchRequest, read: Iterable[Snapshot]) -> None:
        self.missing: list[str] = []
        self._request = request
        self._read = {one.path: one for one in read}
        logs = entries.COLLECTION
        self._inputs = link_inputs.embedding_from(one for one in self._read.values() if not one.path.startswith(logs))
        self._patches: dict[str, list[Content]] = {}
        self._sources: dict[str, list[str]] = {}

    def add(self, key: str, patch: Content, place: Path = ()) -> None:
        """Add a patch of a document, and the patches of sources that follow from it. Raises a `Problem`."""
        self._patches.setdefault(key, []).append(patch)
        if len(self._patches) > LIMITS.transaction_documents_max:
            raise TooLarge(f"A write-back changes at most {LIMITS.transaction_documents_max} documents.")
        content = self._content(key)
        merged, edits = write_backs.merged(content, patch, self._request.null, place)
        if self._lacks(content, merged) or self._lacks_header(key, merged):
            return
        for edit in edits:
            write_backs.check(key, content, edit, self._inputs)
            self._sources.setdefault(key, []).append(edit.key)
            self.add(edit.key, edit.patch, edit.place)

    def writes(self) -> list[DocumentWrite]:
        """Return the writes, each source before the documents that show it, and the document itself last."""
        merged = {
            key: write_backs.all_merged(self._content(key), several, self._request.null, key)
            for key, several in self._patches.items()
        }
        shown = {key: [*links.link_keys(merged[key]), *self._sources.get(key, ())] for key in merged}
        made: dict[str, DocumentWrite] = {}
        for key in sources_first(self._request.key, shown, {}):
            written = {source: each.content for source, each in made.items()}
            embedding = Embedding({**self._inputs.sources, **written}, self._inputs.transforms)
            embedded = links.embed_links(key, merged[key], embedding)
            header = self._read.get(entries.header_path(key))
            made[key] = put_write(self._read[documents.path_of(key)], embedded, header=header)
        return list(made.values())

    def _lacks_header(self, key: str, merged: Content) -> bool:
        """Note that the header of a document's log has not been read, if it must be."""
        path = entries.header_path(key)
        lacks = path not in self._read and goes_on_from_header(self._read[documents.path_of(key)], merged)
        self.missing += [path] if lacks else []
        return lacks

    def _content(self, key: str) -> Content:
        return self._inputs.sources[key] or {}

    def _lacks(self, *contents: Content) -> bool:
        """Note which inputs of contents have not been read; return whether there are any."""
        lacking = [path for one in contents for path in link_inputs.input_paths(one) if path not in self._read]
        self.missing += lacking
        return bool(lacking)


def sources_first(key: str, shown: Mapping[str, Iterable[str]], reached: dict[str, None]) -> Iterator[str]:
    """Iterate over a document after those among `shown` that it shows, each once."""
    reached[key] = None
    for source in shown[key]:
        if source in shown and source not in reached:
            yield from sources_first(source, shown, reached)
    yield key


def _unique(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))
