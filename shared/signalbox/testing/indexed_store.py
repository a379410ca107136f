"""A store that knows the composite indexes of the cloud.

Google's emulator and the in-memory store do not use indexes, so a query without its index would fail in the cloud only:
`IndexedStore` refuses it. The problem contains the entry to add to the catalogue. The cloud's error is translated into
the same problem.
"""

from collections.abc import Collection, Sequence

from signalbox.adapters.firestore.messages import needs_index
from signalbox.core.ports import Committed, Outcome, Query, Snapshot, Store, Write
from signalbox.core.query_checks import check_query, full_order
from signalbox.core.records.composite_indexes import Index, lacking
from signalbox.core.records.queries import Field


class IndexedStore:
    """A store with only these composite indexes, on top of another store."""

    def __init__(self, store: Store, declared: Collection[Index]) -> None:
        self._store, self._declared = store, declared

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        return self._store.read(*paths, fields=fields)

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        return self._store.read_some(needed, others, bytes_max)

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        self._check(query)
        return self._store.query(query)

    def count(self, query: Query) -> int:
        self._check(query)
        return self._store.count(query)

    def commit(self, writes: Sequence[Write]) -> Committed:
        return self._store.commit(writes)

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        return self._store.write_each(writes)

    def new_id(self) -> str:
        return self._store.new_id()

    def _check(self, query: Query) -> None:
        check_query(query)
        if index := lacking(query.collection, query.where, full_order(query), self._declared):
            raise needs_index(index)
