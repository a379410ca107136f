"""What has to be read to fill links: their targets, and the transforms of the fields that hold them.

Whoever embeds reads both at one instant, under the paths that `needs` lists, and takes what was read through `given`.
"""

from collections.abc import Iterable, Sequence

from shared.core.operations.ports import Snapshot
from shared.core.rules.values import same
from shared.documents.rules import documents, links
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content
from shared.transforms.rules import transforms


def needs(content: Content) -> list[str]:
    """List the paths of what a content's links are filled from: one a target, one a field that holds links.

    Raises `TooLarge` for more links than a document may have, so that nothing is read for them.
    """
    keys = links.link_keys(links.check_count(content))
    return [*map(documents.path_of, keys), *transforms_for([content], keys)]


def transforms_for(contents: Iterable[Content], keys: Sequence[str]) -> list[str]:
    """List the paths of the transforms that copies of these keys go through in these contents."""
    names = {name for content in contents for name in links.transformed_fields(content, keys)}
    return [transforms.path_of(name) for name in sorted(names)]


def given(read: Iterable[Snapshot]) -> Embedding:
    """Tell targets from transforms in what was read."""
    snapshots = tuple(read)
    return Embedding(
        {one.id: documents.content_of(one.data) for one in snapshots if not _is_transform(one)},
        {one.id: transforms.decode(one.data) for one in snapshots if _is_transform(one)},
    )


def moved(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
    """List what copies are made from and is another than when it was read, as it is now."""
    return [other for one, other in zip(before, after, strict=True) if _moved(one, other)]


def _moved(before: Snapshot, after: Snapshot) -> bool:
    if _is_transform(before):
        return not same(transforms.decode(before.data), transforms.decode(after.data))
    return links.moved(documents.decode(before.data), documents.decode(after.data))


def _is_transform(snapshot: Snapshot) -> bool:
    return snapshot.path.startswith(f"{transforms.COLLECTION}/")
