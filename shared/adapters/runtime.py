"""Where a function's ports are put together: the one place that chooses between cloud, emulator and this process.

They are made at the first call and not at import: gunicorn loads a function before it forks, and gRPC connections are
made after. Adapters are imported where they are chosen, since an import is most of a cold start.
"""

import threading

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

    lines = JsonLog(chosen.project)
    return metered(Ports(_store(chosen), CloudTasksQueue(chosen, lines), SystemClock(), lines))


def _store(chosen: Settings) -> Store:
    if chosen.firestore_emulator == EMBEDDED:
        from shared.adapters.embedded import embedded_store

        return embedded_store(chosen)
    from shared.adapters.firestore import FirestoreStore

    return FirestoreStore(chosen.project, chosen.database, chosen.firestore_emulator)
