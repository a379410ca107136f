"""The log of an execution in the store: it is read before a replay, and extended by each turn.

The last entries of the log are in the header, the earlier ones in chunks of up to 900 KB, which only grow. A chunk may
be newer than the header that was read with it. The header has the number of valid entries, and each generation has its
own chunks, so the entries of a later turn are left out. A chunk names its execution: a run that was deleted and started
again has chunks at the same paths.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.ports import Delete, Put, Store, Write
from signalbox.core.problems import Unavailable
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.log import StoredLog, entries_from_text, entries_to_text, joined, texts_joined
from signalbox.flows.model.messages import Message

ENTRIES, EXECUTION = "entries", "execution"


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The whole log of a generation, and the text of its last chunk.

    Until a rewound run is opened, `entries` are those that it keeps; `whole` has all.
    """

    entries: tuple[Message, ...] = ()
    last_chunk: str = "[]"
    whole: tuple[Message, ...] = ()
    texts: tuple[str, ...] = ()


def read_log(store: Store, header: FlowHeader) -> LoadedLog:
    """Read the log of a header. Raises `Unavailable` if it was removed since the header was read."""
    if not header.log.chunks:
        return _loaded(header, header.log.tail, ())
    texts = []
    for chunk in store.read(*chunk_paths(header)):
        if chunk.data is None or not is_chunk_of(header, chunk.data.get(EXECUTION, header.execution_id)):
            raise Unavailable("the log was replaced while it was read")
        texts.append(str(chunk.data[ENTRIES]))
    held = islice((entry for text in texts for entry in entries_from_text(text)), header.log.held)
    return _loaded(header, (*held, *header.log.tail), texts)


def _loaded(header: FlowHeader, whole: tuple[Message, ...], texts: Sequence[str]) -> LoadedLog:
    kept = header.rewound.kept(whole) if header.rewound else whole
    return LoadedLog(kept, texts[-1] if texts else "[]", whole, tuple(texts))


def is_chunk_of(header: FlowHeader, execution_id: str) -> bool:
    """Return whether a chunk that an execution wrote is of a header's log: the generation is the same.

    A chunk that a later rewind has written is not of the log of this header.
    """
    generation, _, rewinds = execution_id.partition(".")
    return generation == f"{header.incarnation}-{header.generation}" and int(rewinds or 0) <= header.rewinds


def cut(header: FlowHeader, log: LoadedLog) -> tuple[StoredLog, LoadedLog, tuple[Message, ...]]:
    """Return what a rewound header keeps of its log: the parts that do not change, and the entries behind them.

    The chunk in which the first change lies is not kept as it is: its kept entries are behind the others, to be written
    again.
    """
    assert header.rewound is not None, "only a rewound run cuts its log"
    unchanged = min([header.rewound.keep, *(number - 1 for number in header.rewound.blanks)])
    chunks = held = size = 0
    for text in log.texts:
        count = len(entries_from_text(text))
        if held + count > min(unchanged, header.log.held):
            break
        chunks, held, size = chunks + 1, held + count, size + len(text)
    last = log.texts[chunks - 1] if chunks else "[]"
    return StoredLog((), chunks, held, size), LoadedLog(last_chunk=last), log.entries[held:]


def stale_chunks(before: FlowHeader, after: FlowHeader) -> Iterator[Write]:
    """Iterate over the deletions of chunks that a cut log does not have any more."""
    paths = chunk_paths(before)
    return (Delete(path) for path in paths[after.log.chunks :])


def chunk_paths(header: FlowHeader) -> list[str]:
    """Return the paths of a header's chunks."""
    return [header.address.chunk_path(header.generation, number) for number in range(header.log.chunks)]


def extended(header: FlowHeader, log: LoadedLog, new: Sequence[Message], *, live: bool) -> tuple[FlowHeader, list[Put]]:
    """Return the header with new entries in its log, and the writes of the chunks if its tail has become too long.

    A `live` turn reads no log, so it may move its tail into the chunks earlier. Each move rewrites the whole last
    chunk.
    """
    tail, text = (*header.log.tail, *new), joined(header.log.tail_text, new)
    last = log.last_chunk if header.log.chunks else "[]"
    if len(text) <= LIMITS.flow_tail_bytes_max and not (live and _is_worth_a_move(tail, text, last)):
        return replace(header, log=replace(header.log, tail=tail, text=text)), []
    fits = len(last) + len(text) <= LIMITS.flow_chunk_bytes_max
    chunks = [texts_joined(last, text)] if fits else _packed(last, tail)
    first = max(0, header.log.chunks - 1)
    stored = StoredLog((), first + len(chunks), header.log.held + len(tail), header.log.held_bytes + len(text))
    path, execution = partial(header.address.chunk_path, header.generation), header.execution_id
    puts = [Put(path(number), {ENTRIES: chunk, EXECUTION: execution}) for number, chunk in enumerate(chunks, first)]
    return replace(header, log=stored), puts


def _is_worth_a_move(tail: Sequence[Message], text: str, last_chunk: str) -> bool:
    """Return whether a move of the tail into the last chunk is worth a rewrite of the chunk.

    It is if the turns since the last move have written about as many bytes of tails as the chunk has. The estimate
    assumes that each turn added the same number of bytes. All entries that one turn adds have the same time.
    """
    if len(text) <= LIMITS.flow_live_tail_bytes_max:
        return False
    turns = len({entry.at for entry in tail})
    return turns * len(text) // 2 >= len(last_chunk)


def _packed(last: str, entries: Sequence[Message]) -> list[str]:
    """Return the texts of the last chunk and of the new chunks after it, which contain the added entries."""
    texts, added, size = [last], list[Message](), len(last)
    for entry in entries:
        bytes_ = len(entries_to_text([entry]))
        if size > len("[]") and size + bytes_ > LIMITS.flow_chunk_bytes_max:
            texts[-1] = joined(texts[-1], added)
            texts, added, size = [*texts, "[]"], [], len("[]")
        added.append(entry)
        size += bytes_
    return [*texts[:-1], joined(texts[-1], added)]


def chunk_deletes(header: FlowHeader) -> Iterator[Write]:
    """Iterate over the deletions of the log of an execution that has ended."""
    return (Delete(path) for path in chunk_paths(header))
