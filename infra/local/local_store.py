"""The store of a local stack's functions: the emulator or one in this process, with the catalogue's indexes only."""

from infra.local.embedded_store import embedded_store
from shared.adapters import runtime
from shared.adapters.settings import EMBEDDED, Settings
from shared.core.operations.ports import Store
from shared.testing.index_check import IndexedStore


def local_store(settings: Settings) -> Store:
    """Return the store that the settings name. Queries without a declared index are refused, as in the cloud."""
    embedded = settings.firestore_emulator == EMBEDDED
    store = embedded_store(settings) if embedded else runtime.firestore(settings)
    return store if settings.indexes is None else IndexedStore(store, settings.indexes)
