"""A store that knows the composite indexes of the cloud.

Google's emulator and the in-memory store do not use indexes, so a query without its index would fail in the cloud only:
`IndexedStore` refuses it. The problem contains the entry to add to the catalogue. The cloud's error is translated into
the same problem.
"""

from collections.abc import Collection

from signalbox.adapters.firestore.messages import needs_index
from signalbox.core.ports import Query, Snapshot, Store
from signalbox.core.query_checks import check_query, full_order
from signalbox.core.records.composite_indexes import Index, lacking


class IndexedStore:
    """A store with only these composite indexes, on top of another store."""

    def __init__(self, store: Store, declared: Collection[Index]) -> None:
        self._store, self._declared = store, declared
        self.read, self.read_some = store.read, store.read_some
        self.commit, self.write_each, self.new_id = store.commit, store.write_each, store.new_id

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        self._check(query)
        return self._store.query(query)

    def count(self, query: Query) -> int:
        self._check(query)
        return self._store.count(query)

    def _check(self, query: Query) -> None:
        check_query(query)
        if index := lacking(query.collection, query.where, full_order(query), self._declared):
            raise needs_index(index)
