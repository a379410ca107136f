"""The copies that a document embeds, made from the inputs of its links, all at once or in groups.

The inputs of a link are its target and the transform of the field that has it. An operation that embeds links reads all
inputs at one instant, under `input_paths`, and builds an `Embedding` from them.

For an ordinary document the record and the inputs are read in one round trip. If they take more than
`LIMITS.read_bytes_max`, the links are embedded in groups (`GroupedEmbedding`). The inputs are then read twice, in
groups of at most that size. First each copy is made and only its sizes are kept: they determine how deep each copy is
shown, as in `machine/copies.py`. Then the copies that are shown are made again, cut to that depth, so that together
they fit into one document. If a target or a transform was written between the two, both steps are repeated. The groups
are read at several instants, each no earlier than the document itself. A copy that is stale when the document is
written is found by the event of that write, as after any put.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from signalbox.core.json_values import same
from signalbox.core.keys import valid_key
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Snapshot, Store
from signalbox.core.problems import Unavailable
from signalbox.core.records.record_values import Path
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import (
    TOO_LARGE,
    Embedding,
    copy_at,
    fitting_levels,
    nested_to,
    sizes_by_depth,
)
from signalbox.documents.model.contents import Content, Link, Surveyed, field_of
from signalbox.documents.model.sizes import Size
from signalbox.documents.model.stamped_contents import Document, content_of, path_of
from signalbox.documents.storage.records import Found, log_header, noted
from signalbox.history.model import HISTORY
from signalbox.transforms.model import TRANSFORMS, transform_from_record, transform_path
from signalbox.transforms.requests import valid_transform_name

# --- inputs of links ---


def input_paths(content: Surveyed) -> list[str]:
    """Return the paths of the inputs of a content's links: one for each target and each field that has links.

    Raises `TooLarge` if there are more links than a document may have, so that nothing is read for them.
    """
    links.check_count(content)
    keys = content.link_keys
    return [*map(path_of, keys), *transform_paths([content], keys)]


def transform_paths(contents: Iterable[Surveyed], keys: Sequence[str]) -> list[str]:
    """Return the paths of the transforms that apply to copies of these keys in these contents."""
    names = {name for content in contents for name in links.transformed_fields(content, keys)}
    return [transform_path(name) for name in sorted(names)]


def embedding_from(read: Iterable[Snapshot]) -> Embedding:
    """Return the targets and transforms among some snapshots."""
    snapshots = tuple(read)
    return Embedding(
        {snapshot.id: content_of(snapshot.data) for snapshot in snapshots if not is_transform(snapshot)},
        {snapshot.id: transform_from_record(snapshot.data) for snapshot in snapshots if is_transform(snapshot)},
    )


def changed_inputs(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the inputs that have changed between two reads of the same paths, as they were in the second read."""

    def differs(then: Snapshot, now: Snapshot) -> bool:
        if is_transform(then):
            return not same(transform_from_record(then.data), transform_from_record(now.data))
        return links.copy_changed(Document.from_record(then.data), Document.from_record(now.data))

    return [now for then, now in zip(before, after, strict=True) if differs(then, now)]


def is_transform(snapshot: Snapshot) -> bool:
    """Return whether a record is a transform, and not a document."""
    return snapshot.path.startswith(f"{TRANSFORMS}/")


# --- a document with the inputs of its links ---


@dataclass(frozen=True, slots=True)
class Loaded:
    """A document and its links' inputs. If the inputs were too large, `embedded` is the content with its copies.

    `header` is the header of the document's log, if the write needs it.
    """

    own: Found
    embedding: Embedding
    embedded: Surveyed | None = None
    header: Snapshot | None = None

    def embed(self, content: Surveyed, hops: int = 0, *, refuse: bool = True) -> Surveyed:
        """Return the content with a copy at every link (see `links.embed_links`)."""
        if self.embedded is not None:
            return self.embedded
        return links.embed_links(self.own.key, content, self.embedding, hops, refuse=refuse)


@dataclass(frozen=True, slots=True)
class DocumentRead:
    """The read of a document and of inputs of links."""

    key: str
    input_paths: Sequence[str]
    content: Surveyed | Callable[[Found], Surveyed]
    """The content to embed, or a function that makes it from the document as read."""
    hops: int = 0
    refuse: bool = True
    note: bool = False
    """Whether even the first attempt reads the wanted note of a new document."""

    @property
    def path(self) -> str:
        return path_of(self.key)

    def content_of(self, own: Found) -> Surveyed:
        """Return the content to embed."""
        return self.content if isinstance(self.content, Surveyed) else self.content(own)

    def load(self, store: Store, attempt: int) -> Loaded:
        """Return the document and the inputs. Raises a `Problem` if the content cannot be embedded."""
        others = [path for path in self.input_paths if path != self.path]
        record, *inputs = store.read_some([self.path], others, LIMITS.read_bytes_max)
        own = noted(store, Found.of(record), again=self.note or attempt > 0)
        header = log_header(store, own, self.content_of(own)) if HISTORY.rules else None
        if len(inputs) == len(others):
            if len(others) < len(self.input_paths):  # it links to itself
                inputs.append(record)
            return Loaded(own, embedding_from(inputs), header=header)
        content = self.content_of(own)
        del inputs  # they are read again, in groups
        embedded = GroupedEmbedding(store, self.key, self.hops, self.refuse).embed(content)
        return Loaded(own, Embedding({}), embedded, header)


# --- inputs that are too large to be kept in memory together ---

Version = tuple[datetime | None, ...]
"""The update times of a copy's inputs."""


@dataclass(frozen=True, slots=True)
class GroupedEmbedding:
    """The embedding of a document's links, in groups. For `hops` and `refuse` see `links.embed_links`."""

    store: Store
    key: str
    hops: int
    refuse: bool

    def embed(self, content: Surveyed) -> Surveyed:
        """Return the content with a copy at every link. Raises a `Problem`, or `Unavailable`."""
        room = links.room_for_copies(content)
        for _ in range(LIMITS.rounds_max):
            copies = self._copies(content.links, room)
            if copies is not None:
                return content.with_copies(copies)
        raise Unavailable(f"the targets of links in {self.key} are written by many clients at once")

    def _copies(self, found: Sequence[Link], room: Size) -> Mapping[Path, Content] | None:
        """Return the copies that fit, or None if an input has changed between the two reads."""
        sizes: dict[Path, Sequence[Size]] = {}
        versions: dict[Path, Version] = {}
        for at, copy, version in self._made(found):
            sizes[at], versions[at] = sizes_by_depth(at, copy, self.key), version
        depths = fitting_levels({at: sizes[at] for at, _ in found}, room)
        chosen = {at: {"key": link["key"], TOO_LARGE: True} for at, link in found}
        for at, copy, version in self._made([(at, link) for at, link in found if depths[at]]):
            if version != versions[at]:
                return None
            chosen[at] = nested_to(depths[at], at, copy, self.key)
        return chosen

    def _made(self, found: Sequence[Link]) -> Iterator[tuple[Path, Content, Version]]:
        """Iterate over the place, the content and the version of the copy of each link.

        Targets are read in groups that fit in memory, and each copy is made from one group. Fields with a transform are
        read in separate groups, each together with the transform.
        """
        fields = {field_of(at) for at, _ in found}
        plain = fields - set(self._transformed(fields))
        yield from self._read([(at, link) for at, link in found if field_of(at) in plain], plain, ())
        for field in sorted(fields - plain):
            of_field = [(at, link) for at, link in found if field_of(at) == field]
            yield from self._read(of_field, (), (transform_path(field),))

    def _transformed(self, fields: Collection[str]) -> Iterator[str]:
        """Iterate over the fields that have a transform."""
        waiting = [transform_path(field) for field in sorted(fields) if valid_transform_name(field)]
        for group in read_in_groups(self.store, waiting):
            yield from (transform.id for transform in group if transform.data is not None)

    def _read(
        self, found: Sequence[Link], plain: Collection[str], transform: Sequence[str]
    ) -> Iterator[tuple[Path, Content, Version]]:
        targets = {link["key"] for _, link in found if valid_key(link["key"])}
        for group in read_in_groups(self.store, [path_of(key) for key in sorted(targets)], transform):
            embedding = embedding_from(group)
            embedding = Embedding(embedding.sources, {**dict.fromkeys(plain), **embedding.transforms})
            times = {target.id: target.update_time for target in group[len(transform) :]}
            common = tuple(record.update_time for record in group[: len(transform)])
            for at, link in found:
                if isinstance(link["key"], str) and link["key"] in times:
                    copy = copy_at(at, link, self.key, embedding, hops=self.hops, refuse=self.refuse)
                    yield at, copy, (times[link["key"]], *common)
        for at, link in found:
            if not valid_key(link["key"]):
                yield at, copy_at(at, link, self.key, Embedding({})), ()


def read_in_groups(store: Store, paths: Sequence[str], needed: Sequence[str] = ()) -> Iterator[Sequence[Snapshot]]:
    """Iterate over groups of records that can be kept in memory together.

    Each group begins with the `needed` records.
    """
    waiting = list(paths)
    while waiting:
        group = store.read_some(needed, waiting, LIMITS.read_bytes_max)
        read = {record.path for record in group}
        waiting = [path for path in waiting if path not in read]
        yield group
