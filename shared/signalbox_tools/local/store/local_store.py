"""The store of a local stack's functions: the emulator or an embedded one, with the catalogue's indexes only."""

from signalbox.adapters import runtime
from signalbox.adapters.settings import EMBEDDED, Settings
from signalbox.core.ports import Store
from signalbox.flows.storage.listings import INDEXES
from signalbox.testing.indexed_store import IndexedStore
from signalbox_tools.local.store.embedded_store import embedded_store
from signalbox_tools.local.store.embedded_store_process import RemoteStore, address


def local_store(settings: Settings) -> Store:
    """Return the store that the settings name. Queries without a declared index are refused, as in the cloud."""
    if settings.firestore_emulator != EMBEDDED:
        store = runtime.firestore(settings)
    else:
        store = RemoteStore(place) if (place := address()) else embedded_store(settings)
    return store if settings.indexes is None else IndexedStore(store, (*settings.indexes, *INDEXES))
