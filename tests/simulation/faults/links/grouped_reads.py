"""Planted faults of what is read in groups: a clause of `docs/protocols/links.md` left out. See `fault.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from signalbox.core.ports import Ports, Snapshot, Store
from signalbox.documents.storage.embedded_copies import DocumentRead, Loaded
from signalbox.documents.storage.records import Found
from tests.simulation.faults.links.planting import in_links
from tests.simulation.faults.points import original
from tests.simulation.worlds.links.kinds import DIVIDED


def _first_group_alone(
    ports: Ports, keys: Sequence[str], extra_paths: Sequence[str] = ()
) -> Iterator[tuple[Snapshot, ...]]:
    return islice(marked_in_groups(ports, keys, extra_paths), 1)


marked_in_groups = original("links.marked_in_groups")


def _read_the_document_last(plan: DocumentRead, store: Store, attempt: int) -> Loaded:
    """The inputs are read before the document that their copies replace."""
    loaded = load(plan, store, attempt)
    return (
        loaded
        if loaded.embedded is None
        else Loaded(Found.of(store.read(plan.path)[0]), loaded.embedding, loaded.embedded)
    )


load = original("documents.DocumentRead.load")


FAULTS = (
    in_links("link-11", "every group of a put's targets", "links.marked_in_groups", _first_group_alone, DIVIDED),
    in_links("link-11", "reading the document first", "documents.DocumentRead.load", _read_the_document_last, DIVIDED),
)
