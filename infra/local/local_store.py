"""The store of a local stack's functions: the emulator or an embedded one, with the catalogue's indexes only."""

from infra.local.embedded_store import embedded_store
from infra.local.store_service import RemoteStore, address
from shared.adapters import runtime
from shared.adapters.settings import EMBEDDED, Settings
from shared.core.operations.ports import Store
from shared.testing.index_check import IndexedStore


def local_store(settings: Settings) -> Store:
    """Return the store that the settings name. Queries without a declared index are refused, as in the cloud."""
    store = _embedded(settings) if settings.firestore_emulator == EMBEDDED else runtime.firestore(settings)
    return store if settings.indexes is None else IndexedStore(store, settings.indexes)


def _embedded(settings: Settings) -> Store:
    place = address()
    return RemoteStore(place) if place else embedded_store(settings)
