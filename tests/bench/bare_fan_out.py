"""The same fan-out by bare calls of the store: what no kit on top of it can beat.

Pages of embedding documents by one query each, every write under the guard of what was read, a page's writes in one
call. No queue, no handling of events, no second read of the source: it is incorrect under concurrency, only fast.
"""

from signalbox.core.ports import Change, Query, Snapshot, Store
from signalbox.core.records.queries import Condition
from signalbox.links.model import LINK_KEYS
from tests.bench.bench_stack import TARGET

COLLECTION = "bare"
PAGE_COPIES = 400
EMBEDDING = (Condition(LINK_KEYS, "array_contains", TARGET),)


def fan_out(store: Store) -> int:
    """Copy the target into the documents that embed it, in one collection; return how many."""
    [source] = store.read(f"{COLLECTION}/{TARGET}")
    refreshed, after = 0, tuple[str, ...]()
    while page := store.query(Query(COLLECTION, EMBEDDING, limit=PAGE_COPIES, after=after)):
        outcomes = store.write_each([_write(record, source) for record in page])
        assert not any(isinstance(outcome, Exception) for outcome in outcomes), "a write did not land"
        refreshed, after = refreshed + len(page), (page[-1].id,)
    return refreshed


def _write(record: Snapshot, source: Snapshot) -> Change:
    return Change(record.path, {(TARGET, name): value for name, value in (source.data or {}).items()}, record.guard)
