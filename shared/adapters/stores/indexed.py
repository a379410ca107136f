"""A store that refuses, before it asks, what the cloud would refuse for want of an index.

Google's emulator and the store in memory answer every query, so a query that lacks its index would fail in the cloud
only. The refusal names the entry to add to the catalogue; the cloud's own refusal is translated into the same words.
"""

from collections.abc import Collection

from shared.adapters.stores.queries import check_query, full_order
from shared.operations.ports import Query, Snapshot, Store
from shared.rules.indexes import Index, lacking
from shared.rules.problems import BadQuery, NeedsIndex, Unavailable


class IndexedStore:
    """The store inside, with no other composite indexes than these."""

    def __init__(self, store: Store, declared: Collection[Index]) -> None:
        self._store, self._declared = store, declared
        self.read, self.commit, self.write_each, self.new_id = store.read, store.commit, store.write_each, store.new_id

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        self._check(query)
        return self._store.query(query)

    def count(self, query: Query) -> int:
        self._check(query)
        return self._store.count(query)

    def _check(self, query: Query) -> None:
        check_query(query)
        if index := lacking(query.collection, query.where, full_order(query), self._declared):
            raise needs(index)


def needs(index: Index) -> NeedsIndex:
    """Say which index to declare."""
    return NeedsIndex(f"Add to `indexes` of infra/catalogue.yaml and deploy: {index}", field="where")


def refused(query: Query, message: str) -> Exception:
    """Translate Firestore's own word that it has no index for a query."""
    if "currently building" in message:
        return Unavailable("An index that this query needs is still being built.", retry_after_seconds=30)
    index = lacking(query.collection, query.where, full_order(query))
    return needs(index) if index else BadQuery(f"Firestore has no index for this query: {message}")
