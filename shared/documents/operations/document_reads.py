"""What a write of a document is made from: its record, and the inputs of its links, as far as they can be held at once.

In an ordinary document all are read at one instant, in one round trip. Where they take more than
`LIMITS.read_bytes_max`, its links are embedded group by group (`large_inputs.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.core.operations.ports import Snapshot, Store
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import TooLarge
from shared.documents.operations import link_inputs
from shared.documents.operations.document_writes import goes_on_from_header
from shared.documents.operations.large_inputs import GroupedEmbedding
from shared.documents.rules import documents, links
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content
from shared.history.rules.entries import header_path
from shared.history.rules.selection import HISTORY


def read_whole(store: Store, paths: Sequence[str]) -> tuple[Snapshot, ...]:
    """Read records at one instant, in order. Raises `TooLarge` for more than one request may hold at once."""
    read = store.read_some((), paths, LIMITS.read_bytes_max) if paths else ()
    if len(read) < len(paths):
        raise TooLarge(f"The documents that are read at once take more than {LIMITS.read_bytes_max:,} bytes.")
    return read


def log_header(store: Store, own: Snapshot, content: Content | None) -> Snapshot | None:
    """Return the header of a log if a write of `content` needs it. It is read after the document that has no mark."""
    return store.read(header_path(own.id))[0] if goes_on_from_header(own, content) else None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A document's record, and its links' inputs; or the content embedded already, where these were too large.

    ``header`` is that of the document's log, if the write needs it.
    """

    own: Snapshot
    embedding: Embedding
    embedded: Content | None = None
    header: Snapshot | None = None

    def embed(self, content: Content, hops: int = 0, *, refuse: bool = True) -> Content:
        """Return the content with a copy at every link (see `links.embed_links`)."""
        if self.embedded is not None:
            return self.embedded
        return links.embed_links(self.own.id, content, self.embedding, hops, refuse=refuse)


@dataclass(frozen=True, slots=True)
class DocumentRead:
    """Reads a document and inputs of links. `content_of` is the content to embed, given the record."""

    key: str
    input_paths: Sequence[str]
    content_of: Callable[[Snapshot], Content]
    hops: int = 0
    refuse: bool = True

    @property
    def path(self) -> str:
        return documents.path_of(self.key)

    def load(self, store: Store, attempt: int) -> Loaded:  # noqa: ARG002  each attempt reads the same
        """Return the record and the inputs. Raises a `Problem` for a content that cannot be embedded."""
        others = [path for path in self.input_paths if path != self.path]
        own, *inputs = store.read_some([self.path], others, LIMITS.read_bytes_max)
        header = log_header(store, own, self.content_of(own)) if HISTORY.rules else None
        if len(inputs) == len(others):
            if len(others) < len(self.input_paths):  # it links to itself
                inputs.append(own)
            return Loaded(own, link_inputs.embedding_from(inputs), header=header)
        content = self.content_of(own)
        del inputs
        embedded = GroupedEmbedding(store, self.key, self.hops, self.refuse).embed(content)
        return Loaded(own, Embedding({}), embedded, header)
