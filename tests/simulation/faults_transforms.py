"""Clauses of the protocol of transformed links to leave out, one at a time; `faults.py` says what that is for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from shared.core.operations.ports import Ports, Snapshot
from shared.documents.operations import embedding
from shared.documents.rules import copies, documents, links
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import Content, Document
from shared.links.operations import fan_out as operations
from shared.links.operations import marks as link_marks
from shared.links.operations import tasks as link_tasks
from shared.transforms.operations import transforms
from tests.simulation.faults import in_links
from tests.simulation.faults_links import differs
from tests.simulation.links_kinds import FIELDS, LOOSE, ROUND, TO_AND_FRO, TRANSFORMED, TRANSFORMS


def _verify_by_sources_alone(ports: Ports, event_id: str, key: str, document: Document, targets: Sequence[str]) -> None:
    """Whatever some transform makes of a source passes for what the present one makes."""
    sources = embedding.given(link_marks.make_known(ports, targets)).sources
    for target in targets:
        of_all = (Embedding({target: sources[target]}, one) for one in ANY_TRANSFORMS)
        if all(differs(key, document, one) for one in of_all):
            link_tasks.hand_on(ports, event_id, {"key": target, "document": key})


PLAIN_TRANSFORMS = (None, *(one for one in TRANSFORMS if isinstance(one, dict)))
"""Without the selector that makes a mark of a target's mark: it would pass for what no transform has made."""

ANY_TRANSFORMS = [{"x": x, "y": y} for x, y in product(PLAIN_TRANSFORMS, repeat=2)]


def _moved_sources_alone(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[Snapshot]:
    return [one for one in moved(before, after) if one.path.startswith(f"{documents.COLLECTION}/")]


moved = embedding.moved


def _change_however_far(*where: Any, hops: int = 0, refuse: bool = False) -> Content:
    return copy_at(*where, refuse=refuse)


copy_at = copies.copy_at


def _copies_without_transforms(read: Sequence[Snapshot]) -> Embedding:
    return Embedding(given(read).sources, dict.fromkeys(FIELDS))


given = embedding.given


FAULTS = (
    in_links("link-7", "verifying transforms", operations, "verify", _verify_by_sources_alone, LOOSE),
    in_links("link-7", "looking at transforms again", embedding, "moved", _moved_sources_alone, TO_AND_FRO),
    in_links("D10", "transforms where copies follow", embedding, "given", _copies_without_transforms, TRANSFORMED),
    in_links("D11", "the walk of a transform", transforms, "walk_from", lambda _: (), TRANSFORMED),
    in_links("hops", "an end to growth round a cycle", links, "copy_at", _change_however_far, ROUND),
)
