"""Refresh copies under the guards of the documents they stand in, until what they are made from has held still.

After it has written, and also when it had nothing to write, a refresh looks again at all it made copies from, sources
and transforms. If any moved, it starts anew before its task is done: so no old copy it may have written stays.
"""

from collections.abc import Sequence
from datetime import datetime

from shared.core.operations.perform import pause
from shared.core.operations.ports import Conflict, Outcome, Ports, Snapshot, Write, WriteResult
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations import embedding
from shared.documents.operations.documents import embed
from shared.documents.rules import documents, links
from shared.documents.rules.copies import Embedding
from shared.documents.rules.documents import COLLECTION
from shared.links.operations import normalization as link_shapes


def transforms_of(found: Sequence[Snapshot], keys: Sequence[str]) -> list[str]:
    """List the paths of the transforms that copies of these keys go through in these records."""
    contents = documents.contents_of(snapshot.data for snapshot in found)
    return embedding.transforms_for(contents, keys)


def refresh(ports: Ports, key: str, linking: Sequence[Snapshot], around: Sequence[Snapshot]) -> None:
    """Bring copies up to date with what they are made from: `around`, read no earlier than the documents.

    ``key`` names the source that moved; it is empty if a transform did. Then the documents may embed each other, and
    what was written here of one is no reason to start anew: it has its own event. Raises `Unavailable` when what was
    read did not hold still.
    """
    everyone = [snapshot.path for snapshot in linking]
    beside = [snapshot.path for snapshot in around]
    hops = 1 + (_hops(around[:1]) if key else 0)
    for attempt in range(LIMITS.rounds_max):
        losers, own = write_copies(ports, key, linking, around, hops)
        linking, again = _read_both(ports, losers, beside)
        if moved := [one for one in embedding.moved(around, again) if (one.path, one.update_time) not in own]:
            linking, again = _read_both(ports, everyone, beside)
            hops = 1 + _hops(again[:1] if key else moved)
        elif not losers:
            return
        around = again
        pause(ports, attempt)
    raise Unavailable("a document and those who embed it are written by many at once")


def _read_both(ports: Ports, ones: Sequence[str], others: Sequence[str]) -> tuple[Sequence[Snapshot], ...]:
    read = ports.store.read(*ones, *others)
    return read[: len(ones)], read[len(ones) :]


def write_copies(
    ports: Ports, key: str, linking: Sequence[Snapshot], around: Sequence[Snapshot], hops: int
) -> tuple[list[str], set[tuple[str, datetime | None]]]:
    """Write the copies that differ, each under its own guard; give those that lost theirs, and when the others landed.

    What can never be written is reported and left: retrying would not help, and the others must not wait for it.
    """
    now = embedding.given(around)
    refreshed = [(snapshot, _refreshed(ports, snapshot, now, hops)) for snapshot in linking]
    writing = [(snapshot, write) for snapshot, write in refreshed if write]
    outcomes = ports.store.write_each([write for _, write in writing]) if writing else ()
    for (snapshot, _), outcome in zip(writing, outcomes, strict=True):
        if isinstance(outcome, Problem):
            ports.log.error("a copy cannot be refreshed", document=snapshot.id, source=key, reason=outcome.detail)
    paths = [snapshot.path for snapshot, _ in writing]
    landed = {
        (path, one.update_time) for path, one in zip(paths, outcomes, strict=True) if isinstance(one, WriteResult)
    }
    return _unsettled(paths, outcomes), landed


def _unsettled(paths: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """List those whose write lost its guard, or is not known to have landed."""
    pairs = zip(paths, outcomes, strict=True)
    return [path for path, outcome in pairs if isinstance(outcome, Conflict | Unavailable)]


def _hops(moved: Sequence[Snapshot]) -> int:
    """Say over how many links the farthest of some changes has come; that of a transform has come over none."""
    read = (documents.decode(one.data) for one in moved if one.path.startswith(f"{COLLECTION}/"))
    return max(map(documents.hops_of, read), default=0)


def _refreshed(ports: Ports, snapshot: Snapshot, now: Embedding, hops: int) -> Write | None:
    """Give the write that refreshes one document, or None if there is nothing (left) to write."""
    document = documents.decode(snapshot.data)
    if document is None:
        return None
    content = links.refresh(snapshot.id, document, now, hops)
    if content is links.Refresh.RESHAPE:
        link_shapes.reshape_or_report(ports, snapshot.id, hops)
    if isinstance(content, links.Refresh):
        return None
    link_shapes.report_failures(ports, snapshot.id, content)
    return embed(snapshot, content, "refresh", linked=documents.counts_as_linked(document), hops=hops)
