"""The log of a flow: its end is in the header, what came before in chunks of up to 900 KB, which only grow.

A chunk may be newer than the header that was read. The header says how many entries of the chunks hold, and the chunks
of one generation have names of their own, so what a later turn has added is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from shared.core.operations.ports import Delete, Put, Store, Write
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.flows.rules.entries import Entry, from_text, to_text
from shared.flows.rules.headers import FlowHeader, LogPlace

ENTRIES = "entries"


@dataclass(frozen=True, slots=True)
class Log:
    """The whole log of a generation, and the text of its last chunk."""

    entries: tuple[Entry, ...] = ()
    last_chunk: str = "[]"


def read_log(store: Store, header: FlowHeader) -> Log:
    """Read the log that a header tells of. Raises `Unavailable` if it is being removed."""
    if not header.log.chunks:
        return Log(header.log.tail)
    texts = []
    for chunk in store.read(*chunk_paths(header)):
        if chunk.data is None:
            raise Unavailable("the log of a flow was replaced while it was read")
        texts.append(str(chunk.data[ENTRIES]))
    held = islice((entry for text in texts for entry in from_text(text)), header.log.held)
    return Log((*held, *header.log.tail), texts[-1])


def chunk_paths(header: FlowHeader) -> list[str]:
    """Return the paths of a header's chunks."""
    return [header.address.chunk_path(header.generation, number) for number in range(header.log.chunks)]


def extended(header: FlowHeader, log: Log, new: Sequence[Entry]) -> tuple[FlowHeader, list[Write]]:
    """Return the header with a longer log, and the writes of the chunks that this fills."""
    tail = (*header.log.tail, *new)
    if len(to_text(tail)) <= LIMITS.flow_tail_bytes_max:
        return replace(header, log=replace(header.log, tail=tail)), []
    chunks = _packed(log.last_chunk if header.log.chunks else "[]", tail)
    first = max(0, header.log.chunks - 1)
    place = LogPlace((), first + len(chunks), header.log.held + len(tail), header.log.held_bytes + len(to_text(tail)))
    paths = [header.address.chunk_path(header.generation, first + number) for number in range(len(chunks))]
    return replace(header, log=place), [Put(path, {ENTRIES: text}) for path, text in zip(paths, chunks, strict=True)]


def _packed(last: str, entries: Sequence[Entry]) -> list[str]:
    """Return the texts of the last chunk and of those behind it, with these entries added."""
    texts = [last]
    for entry in entries:
        added = to_text([entry])
        if texts[-1] != "[]" and len(texts[-1]) + len(added) > LIMITS.flow_chunk_bytes_max:
            texts.append("[]")
        texts[-1] = added if texts[-1] == "[]" else f"{texts[-1][:-1]},{added[1:]}"
    return texts


def left_behind(header: FlowHeader) -> list[Write]:
    """Return the deletions of the log of a generation that is over."""
    return [Delete(path) for path in chunk_paths(header)]
