"""The records that links are filled from: their targets, and the transforms of the fields that hold them.

An operation that embeds reads both at one instant, under `input_paths`, and turns what was read into an `Embedding`.
"""

from collections.abc import Iterable, Sequence

from shared.core.operations.ports import Snapshot
from shared.core.rules.values import same
from shared.documents.rules import documents, links
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content, Document
from shared.transforms.rules import transforms


def input_paths(content: Content) -> list[str]:
    """Return the paths that a content's links are filled from: one a target, one a field that holds links.

    Raises `TooLarge` for more links than a document may have, so that nothing is read for them.
    """
    keys = links.link_keys(links.check_count(content))
    return [*map(documents.path_of, keys), *transform_paths([content], keys)]


def transform_paths(contents: Iterable[Content], keys: Sequence[str]) -> list[str]:
    """Return the paths of the transforms that copies of these keys go through in these contents."""
    names = {name for content in contents for name in links.transformed_fields(content, keys)}
    return [transforms.path_of(name) for name in sorted(names)]


def embedding_from(read: Iterable[Snapshot]) -> Embedding:
    """Return the targets and transforms among some snapshots."""
    snapshots = tuple(read)
    return Embedding(
        {one.id: documents.content_of(one.data) for one in snapshots if not _is_transform(one)},
        {one.id: transforms.from_record(one.data) for one in snapshots if _is_transform(one)},
    )


def changed_inputs(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
    """Return those inputs, as they are now, that have changed between two reads of the same paths."""
    return [now for then, now in zip(before, after, strict=True) if _changed(then, now)]


def _changed(before: Snapshot, after: Snapshot) -> bool:
    if _is_transform(before):
        return not same(transforms.from_record(before.data), transforms.from_record(after.data))
    return links.copy_changed(Document.from_record(before.data), Document.from_record(after.data))


def _is_transform(snapshot: Snapshot) -> bool:
    return snapshot.path.startswith(f"{transforms.COLLECTION}/")
