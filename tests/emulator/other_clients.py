"""A client of a stack's database that knows nothing of the kit."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Store
from signalbox_tools.local.stack import Stack


@contextmanager
def another_client(stack: Stack) -> Iterator[Store]:
    """Open the database of a running stack. Its commits have events."""
    settings = stack.settings
    if stack.store == "emulator":
        with closing(FirestoreStore(settings.project, settings.database, settings.firestore_emulator)) as store:
            yield store
    else:
        with closing(SqliteStore(stack.folder / "store.sqlite", settings.triggers)) as file:
            yield file
