"""The store of a local stack's functions: a SQLite file or Google's emulator, with the catalogue's indexes only."""

import os
from collections.abc import Mapping
from pathlib import Path

from signalbox.adapters import runtime
from signalbox.adapters.settings import SQLITE, Settings
from signalbox.adapters.sqlite.file import SYNCHRONOUS_LEVELS
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Store
from signalbox.flows.storage.listings import INDEXES
from signalbox.testing.indexed_store import IndexedStore
from signalbox_tools.local.folder.running_stack import FILE_OF_THE_STORE, SYNCHRONOUS


def local_store(settings: Settings, environment: Mapping[str, str] = os.environ) -> Store:
    """Return the store that the settings name. Queries without a declared index are refused, as in the cloud.

    Raises `StoreFileError` if the file of the store cannot be used.
    """
    store = _in_file(settings, environment) if settings.firestore_emulator == SQLITE else runtime.firestore(settings)
    return store if settings.indexes is None else IndexedStore(store, (*settings.indexes, *INDEXES))


def _in_file(settings: Settings, environment: Mapping[str, str]) -> Store:
    if FILE_OF_THE_STORE not in environment:
        raise ValueError(f"FIRESTORE_EMULATOR_HOST is {SQLITE}: {FILE_OF_THE_STORE} must name the file of the store.")
    [synchronous] = [level for level in SYNCHRONOUS_LEVELS if level == environment.get(SYNCHRONOUS, "NORMAL")]
    return SqliteStore(Path(environment[FILE_OF_THE_STORE]), settings.triggers, synchronous)
