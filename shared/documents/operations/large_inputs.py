"""Embed the links of a document whose targets are too large to be held together.

The inputs are read twice, in groups that end with `LIMITS.read_bytes_max`. First each copy is made, and only its sizes
are kept: from them follows how deep each copy is shown, as in `fitting.py`. Then the copies that are shown are made
again, cut to that depth, so that together they fit into one document. When a target or transform has been written
between the two, both begin again.

The groups are read at several instants, each no earlier than the document itself. A copy that is stale when the
document is written is found by the event of that write, as after any put.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.operations.ports import Snapshot, Store
from shared.core.rules import keys
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.core.rules.values import Path
from shared.documents.operations import link_inputs
from shared.documents.rules import documents, links
from shared.documents.rules.copies import Embedding, copy_at, field_of
from shared.documents.rules.documents import Content
from shared.documents.rules.fitting import MARK, fitting_levels, nested_to, sizes_by_depth
from shared.transforms.rules import transforms

Links = Sequence[tuple[Path, Any]]
Version = tuple[datetime | None, ...]
"""The update times of a copy's inputs."""


@dataclass(frozen=True, slots=True)
class GroupedEmbedding:
    """How to embed: see `links.embed_links`."""

    store: Store
    key: str
    hops: int
    refuse: bool

    def embed(self, content: Content) -> Content:
        """Return the content with a copy at every link. Raises a `Problem`, or `Unavailable`."""
        room = links.room_for_copies(content)
        for _ in range(LIMITS.rounds_max):
            copies = self._copies(links.links(content), room)
            if copies is not None:
                return links.with_copies(content, copies)
        raise Unavailable(f"what {self.key} links to is written by many clients at once")

    def _copies(self, found: Links, room: int) -> Mapping[Path, Content] | None:
        """Return the copies that fit, or None if an input changed meanwhile."""
        sizes: dict[Path, Sequence[int]] = {}
        versions: dict[Path, Version] = {}
        for at, copy, version in self._made(found):
            sizes[at], versions[at] = sizes_by_depth(at, copy, self.key), version
        depths = fitting_levels({at: sizes[at] for at, _ in found}, room)
        chosen = {at: {"key": link["key"], MARK: True} for at, link in found}
        for at, copy, version in self._made([one for one in found if depths[one[0]]]):
            if version != versions[at]:
                return None
            chosen[at] = nested_to(depths[at], at, copy, self.key)
        return chosen

    def _made(self, found: Links) -> Iterator[tuple[Path, Content, Version]]:
        """Iterate over copies, each made from a read of its own group; those of a transform's field by themselves."""
        fields = {field_of(at) for at, _ in found}
        plain = fields - set(self._transformed(fields))
        yield from self._read([one for one in found if field_of(one[0]) in plain], plain, ())
        for field in sorted(fields - plain):
            yield from self._read([one for one in found if field_of(one[0]) == field], (), (transforms.path_of(field),))

    def _transformed(self, fields: Collection[str]) -> Iterator[str]:
        """Iterate over those fields that have a transform."""
        waiting = [transforms.path_of(field) for field in sorted(fields) if transforms.valid_name(field)]
        for group in read_in_groups(self.store, waiting):
            yield from (one.id for one in group if one.data is not None)

    def _read(
        self, found: Links, plain: Collection[str], transform: Sequence[str]
    ) -> Iterator[tuple[Path, Content, Version]]:
        targets = {link["key"] for _, link in found if keys.valid_key(link["key"])}
        for group in read_in_groups(self.store, [documents.path_of(key) for key in sorted(targets)], transform):
            embedding = link_inputs.embedding_from(group)
            embedding = Embedding(embedding.sources, {**dict.fromkeys(plain), **embedding.transforms})
            times = {one.id: one.update_time for one in group[len(transform) :]}
            common = tuple(one.update_time for one in group[: len(transform)])
            for at, link in found:
                if isinstance(link["key"], str) and link["key"] in times:
                    copy = copy_at(at, link, self.key, embedding, hops=self.hops, refuse=self.refuse)
                    yield at, copy, (times[link["key"]], *common)
        for at, link in found:
            if not keys.valid_key(link["key"]):
                yield at, copy_at(at, link, self.key, Embedding({})), ()


def read_in_groups(store: Store, paths: Sequence[str], needed: Sequence[str] = ()) -> Iterator[Sequence[Snapshot]]:
    """Iterate over groups of records that can be held together, each with the `needed` ones before them."""
    waiting = list(paths)
    while waiting:
        group = store.read_some(needed, waiting, LIMITS.read_bytes_max)
        read = {one.path for one in group}
        waiting = [path for path in waiting if path not in read]
        yield group
