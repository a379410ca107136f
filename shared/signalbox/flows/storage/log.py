"""The log of an execution in the store: it is read before a replay, and extended by each turn.

The last entries of the log are in the header, the earlier ones in chunks of up to 900 KB, which only grow. A chunk may
be newer than the header that was read with it. The header has the number of valid entries, and each generation has its
own chunks, so the entries of a later turn are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Delete, Put, Store, Write
from signalbox.core.problems import Unavailable
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.log import StoredLog, entries_from_text, entries_to_text, joined, texts_joined
from signalbox.flows.model.messages import Message

ENTRIES = "entries"


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The whole log of a generation, and the text of its last chunk."""

    entries: tuple[Message, ...] = ()
    last_chunk: str = "[]"


def read_log(store: Store, header: FlowHeader) -> LoadedLog:
    """Read the log of a header. Raises `Unavailable` if it was removed since the header was read."""
    if not header.log.chunks:
        return LoadedLog(header.log.tail)
    texts = []
    for chunk in store.read(*chunk_paths(header)):
        if chunk.data is None:
            raise Unavailable("the log was replaced while it was read")
        texts.append(str(chunk.data[ENTRIES]))
    held = islice((entry for text in texts for entry in entries_from_text(text)), header.log.held)
    return LoadedLog((*held, *header.log.tail), texts[-1])


def chunk_paths(header: FlowHeader) -> list[str]:
    """Return the paths of a header's chunks."""
    return [header.address.chunk_path(header.generation, number) for number in range(header.log.chunks)]


def extended(header: FlowHeader, log: LoadedLog, new: Sequence[Message], *, live: bool) -> tuple[FlowHeader, list[Put]]:
    """Return the header with new entries in its log, and the writes of the chunks if its tail has become too long.

    A `live` turn reads no log, so it may move the tail earlier. But it writes the last chunk again, whole.
    """
    tail, text = (*header.log.tail, *new), joined(header.log.tail_text, new)
    last = log.last_chunk if header.log.chunks else "[]"
    if len(text) <= LIMITS.flow_tail_bytes_max and not (live and _is_worth_a_move(tail, text, last)):
        return replace(header, log=replace(header.log, tail=tail, text=text)), []
    fits = len(last) + len(text) <= LIMITS.flow_chunk_bytes_max
    chunks = [texts_joined(last, text)] if fits else _packed(last, tail)
    first = max(0, header.log.chunks - 1)
    stored = StoredLog((), first + len(chunks), header.log.held + len(tail), header.log.held_bytes + len(text))
    paths = [header.address.chunk_path(header.generation, first + number) for number in range(len(chunks))]
    return replace(header, log=stored), [Put(path, {ENTRIES: text}) for path, text in zip(paths, chunks, strict=True)]


def _is_worth_a_move(tail: Sequence[Message], text: str, last_chunk: str) -> bool:
    """Return whether the turns since the last move have written as many bytes of their tails as the chunk has."""
    return len(text) > LIMITS.flow_live_tail_bytes_max and len(tail) * len(text) // 2 >= len(last_chunk)


def _packed(last: str, entries: Sequence[Message]) -> list[str]:
    """Return the texts of the last chunk and of new chunks after it, with these entries added."""
    texts = [last]
    for entry in entries:
        added = entries_to_text([entry])
        if texts[-1] != "[]" and len(texts[-1]) + len(added) > LIMITS.flow_chunk_bytes_max:
            texts.append("[]")
        texts[-1] = joined(texts[-1], [entry])
    return texts


def chunk_deletes(header: FlowHeader) -> Iterator[Write]:
    """Iterate over the deletions of the log of an execution that has ended."""
    return (Delete(path) for path in chunk_paths(header))
