"""Where a function's ports are put together: the one place that chooses between cloud, emulator and this process.

They are made at the first call and not at import: gunicorn loads a function before it forks, and gRPC connections are
made after. What they need is imported before, while the instance starts (`load`), and only what was chosen: imports are
most of a cold start.
"""

import threading
from collections.abc import Callable

from shared.adapters.logs import JsonLog
from shared.adapters.settings import EMBEDDED, Settings, settings
from shared.operations.ports import Log, Ports, Store

_making = threading.Lock()
_ports: Ports | None = None


def ports() -> Ports:
    """Give this process's store, queue, clock and log, all metered. Made once, whichever thread comes first."""
    global _ports  # noqa: PLW0603 - one set of connections a process is the point
    if _ports is None:
        with _making:
            if _ports is None:
                _ports = _make(settings())
    return _ports


def load() -> None:
    """Import what the ports will need, and connect to nothing: the first caller should not wait for it."""
    _store(settings())


def bind(chosen: Ports | None) -> None:
    """Use these ports from now on, metered; None: make them from the settings again. For tests."""
    from shared.adapters.meter import metered

    global _ports  # noqa: PLW0603
    _ports = metered(chosen) if chosen is not None else None


def log() -> Log:
    """Give the log without connecting to anything: a refusal must not wait for a store."""
    return _ports.log if _ports is not None else JsonLog(settings().project)


def _make(chosen: Settings) -> Ports:
    from shared.adapters.clock import SystemClock
    from shared.adapters.cloud_tasks import CloudTasksQueue
    from shared.adapters.meter import metered

    lines, connect_store = JsonLog(chosen.project), _store(chosen)
    return metered(Ports(_indexed(connect_store(), chosen), CloudTasksQueue(chosen, lines), SystemClock(), lines))


def _indexed(store: Store, chosen: Settings) -> Store:
    if chosen.indexes is None:
        return store
    from shared.adapters.stores.indexed import IndexedStore

    return IndexedStore(store, chosen.indexes)


def _store(chosen: Settings) -> Callable[[], Store]:
    """Import the store that was chosen; calling the result connects to it."""
    if chosen.firestore_emulator == EMBEDDED:
        from shared.adapters.stores.embedded import embedded_store

        return lambda: embedded_store(chosen)
    from shared.adapters.stores.firestore import FirestoreStore

    return lambda: FirestoreStore(chosen.project, chosen.database, chosen.firestore_emulator)
