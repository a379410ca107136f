"""A store that knows the indexes of the cloud.

Google's emulator and the in-memory store do not use indexes, and the SQLite store makes those that it needs. So a query
without its index would fail in the cloud only: `IndexedStore` refuses it. If a composite index is missing, the problem
contains the entry to add to the catalogue. The cloud's error is translated into the same problem.
"""

from collections.abc import Collection, Sequence

from signalbox.catalogue.kit_indexes import kit_indexes
from signalbox.core.ports import Committed, Outcome, Query, Snapshot, Store, Write
from signalbox.core.problems import BadQuery
from signalbox.core.query_checks import check_query, full_order, needs_index
from signalbox.core.records.composite_indexes import Index, lacking
from signalbox.core.records.queries import Field
from signalbox.core.records.record_values import field_name


class IndexedStore:
    """A store with only these composite indexes and the kit's indexes of single fields, on top of another store."""

    def __init__(self, store: Store, declared: Collection[Index]) -> None:
        self._store, self._declared, self._of_fields = store, declared, kit_indexes()

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
        asked = (query.collection, query.where, full_order(query))
        if index := lacking(*asked, self._declared):
            raise needs_index(index)
        is_composite = lacking(*asked) is not None
        if not is_composite and (field := self._of_fields.lacking(*asked, group=query.group)):
            raise BadQuery("Firestore keeps no index of this field.", field=field_name(field))
