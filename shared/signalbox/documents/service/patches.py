"""Patch documents: read, merge, embed the links of the result, and commit under the guard of that read.

The links of the merged document are known only after the read. So the first read takes the document and the inputs of
the patch's own links. Only if the merged document has other links, a second read takes their inputs as well, again at
one instant with the document. Every merge embeds all links, so no link is left without its copy and no copy is older
than the merge.

With write-back, edits of copies are written to their sources, in the same commit:

    read      the document, its sources, the inputs of all their links, at one instant
    decide    the new content of each document: sources first, then the documents that show them, which embed the new
              contents
    commit    all documents, each under its own guard: all or none

The documents at the next level are known only after those above them are read, so each level that an edit reaches takes
one more read. Each document is written as by a separate put, so everything that holds for puts holds for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Ports, Snapshot, Store
from signalbox.core.problems import TooLarge, Unavailable
from signalbox.core.records.record_values import Path
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine import links, patches
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import StoredDocument, path_of
from signalbox.documents.requests import PatchRequest
from signalbox.documents.service.single_documents import check_precondition
from signalbox.documents.storage import embedded_copies
from signalbox.documents.storage.embedded_copies import DocumentRead, Loaded, is_transform
from signalbox.documents.storage.records import Found, needs_header, noted, read_whole
from signalbox.documents.storage.writes import DocumentWrite, put_write
from signalbox.history import model

Outcome = tuple[StoredDocument | None, list[str]]
"""The stored document, or None if the attempt lacked inputs, and the paths that the next attempt must read."""


def patch(ports: Ports, request: PatchRequest) -> StoredDocument:
    """Merge JSON into a document, or create it. Raises a `Problem` if the patch cannot be merged or stored."""
    if request.write_back:
        return write_back(ports, request)
    needed = embedded_copies.input_paths(Surveyed(request.patch))
    for _ in range(CORE_LIMITS.rounds_max):
        stored, needed = _merge(ports, request, needed)
        if stored is not None:
            return stored
    raise _links_changed(request)


def _merge(ports: Ports, request: PatchRequest, paths: Sequence[str]) -> Outcome:
    """Merge if all inputs of the merged document's links are among `paths`.

    Return the stored document, or None if an input was missing, and the paths of the inputs that the links need.
    """

    def merged(own: Found) -> Surveyed:
        return Surveyed(patches.patched(own.content or {}, request.patch, request.null))

    def decide(read: Loaded) -> Decision[Writes, Outcome]:
        check_precondition(request.precondition, read.own)
        content = merged(read.own)
        needed = embedded_copies.input_paths(content)
        if read.embedded is None and not set(needed) <= set(paths):
            return Decision((), (None, needed))
        made = put_write(read.own, read.embed(content), header=read.header)
        return Decision(made.writes, (made.stored, needed), made.effects)

    return perform(ports, DocumentRead(request.key, paths, merged), decide)[0]


def write_back(ports: Ports, request: PatchRequest) -> StoredDocument:
    """Merge JSON into a document, and its edits of copies into their sources.

    Raises a `Problem` if that is impossible.
    """
    paths = _unique([path_of(request.key), *embedded_copies.input_paths(Surveyed(request.patch))])
    for _ in range(LIMITS.link_levels_max + CORE_LIMITS.rounds_max):
        stored, paths = _write_back(ports, request, paths)
        if stored is not None:
            return stored
    raise _links_changed(request)


def _write_back(ports: Ports, request: PatchRequest, paths: list[str]) -> Outcome:
    def decide(loaded: tuple[Found, Sequence[Snapshot]]) -> Decision[Writes, Outcome]:
        plan = WriteBack(request, *loaded)
        check_precondition(request.precondition, plan.found(request.key))
        plan.add(request.key, request.patch)
        if plan.missing:
            return Decision((), (None, _unique([*paths, *plan.missing])))
        made = plan.writes()
        effects = tuple(effect for write in made for effect in write.effects)
        writes = tuple(record for write in made for record in write.writes)
        return Decision(writes, (made[-1].stored, paths), effects)

    return perform(ports, _WholeRead(paths), decide)[0]


@dataclass(frozen=True, slots=True)
class _WholeRead:
    """A read of records at one instant, the document first. Raises `TooLarge` if the records exceed a request's memory.

    The document is also returned with its wanted note, if its write needs that.
    """

    paths: Sequence[str]

    @property
    def path(self) -> str:
        return self.paths[0]

    def load(self, store: Store, attempt: int) -> tuple[Found, Sequence[Snapshot]]:
        read = read_whole(store, self.paths)
        return noted(store, Found.of(read[0]), again=attempt > 0), read


class WriteBack:
    """The new contents of a request's documents, made from one read. `missing` are paths that the read lacks."""

    def __init__(self, request: PatchRequest, own: Found, read: Iterable[Snapshot]) -> None:
        self.missing: list[str] = []
        self._request = request
        self._read = {record.path: record for record in read}
        records = [record for record in self._read.values() if not record.path.startswith(model.COLLECTION)]
        others = [record for record in records if record.path != own.record.path and not is_transform(record)]
        self._found = {own.key: own, **{record.id: Found.of(record) for record in others}}
        sources = {key: found.content for key, found in self._found.items()}
        self._inputs = Embedding(sources, embedded_copies.embedding_from(filter(is_transform, records)).transforms)
        self._patches: dict[str, list[Content]] = {}
        self._sources: dict[str, list[str]] = {}

    def found(self, key: str) -> Found:
        """Return a document that was read."""
        return self._found[key]

    def add(self, key: str, patch: Content, place: Path = ()) -> None:
        """Add a patch of a document, and the patches of sources that follow from it. Raises a `Problem`."""
        self._patches.setdefault(key, []).append(patch)
        if len(self._patches) > LIMITS.transaction_documents_max:
            raise TooLarge(f"A write-back changes at most {LIMITS.transaction_documents_max} documents.")
        content = self._content(key)
        made, edits = patches.merged_with_edits(content.content, patch, self._request.null, place)
        merged = Surveyed(made)
        if self._lacks_inputs(content, merged) or self._lacks_header(key, merged):
            return
        for edit in edits:
            patches.check_edit(key, content, edit, self._inputs)
            self._sources.setdefault(key, []).append(edit.key)
            self.add(edit.key, edit.patch, edit.place)

    def writes(self) -> list[DocumentWrite]:
        """Return the writes, each source before the documents that show it, and the request's own document last."""
        merged = {
            key: Surveyed(patches.all_merged(self._content(key).content, several, self._request.null, key))
            for key, several in self._patches.items()
        }
        shown = {key: [*merged[key].link_keys, *self._sources.get(key, ())] for key in merged}
        made: dict[str, DocumentWrite] = {}
        for key in sources_first(self._request.key, shown, {}):
            written = {source: write.content.content for source, write in made.items()}
            embedding = Embedding({**self._inputs.sources, **written}, self._inputs.transforms)
            embedded = links.embed_links(key, merged[key], embedding)
            made[key] = put_write(self.found(key), embedded, header=self._read.get(model.header_path(key)))
        return list(made.values())

    def _content(self, key: str) -> Surveyed:
        document = self._found[key].document
        return document.surveyed if document else Surveyed({})

    def _lacks_inputs(self, *contents: Surveyed) -> bool:
        """Note the inputs of contents that have not been read; return whether there are any."""
        lacking = [
            path for content in contents for path in embedded_copies.input_paths(content) if path not in self._read
        ]
        self.missing += lacking
        return bool(lacking)

    def _lacks_header(self, key: str, merged: Surveyed) -> bool:
        """Return whether the header of a document's log is needed and has not been read. If so, note the header."""
        path = model.header_path(key)
        lacks = path not in self._read and needs_header(self.found(key), merged)
        self.missing += [path] if lacks else []
        return lacks


def sources_first(key: str, shown: Mapping[str, Iterable[str]], reached: dict[str, None]) -> Iterator[str]:
    """Iterate over a document and the documents among `shown` that it shows.

    Each comes once, after all the documents that it shows.
    """
    reached[key] = None
    for source in shown[key]:
        if source in shown and source not in reached:
            yield from sources_first(source, shown, reached)
    yield key


def _unique(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))


def _links_changed(request: PatchRequest) -> Unavailable:
    return Unavailable(f"the links of {request.key} are changed by many clients at once")
