"""The composition root: builds the ports of a function.

They are built at the first request and not at import: gunicorn loads a function before it forks, and gRPC connections
must be opened after. What they need is imported before, while the instance starts (`load`), and nothing else: imports
are most of a cold start.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shared.adapters.logs import JsonLog
from shared.adapters.settings import Settings, settings
from shared.core.operations.ports import Log, Ports, Store
from shared.core.rules.problems import Problem

_building = threading.Lock()
_ports: Ports | None = None
_refusal: ContextVar[Problem | None] = ContextVar("ports_refused", default=None)
_refusals: list[Callable[[], Exception | None]] = []


@contextmanager
def ports_refused(problem: Problem) -> Iterator[None]:
    """Refuse the ports while the context is entered: whatever reads or writes raises `problem`."""
    token = _refusal.set(problem)
    try:
        yield
    finally:
        _refusal.reset(token)


def refuse_where(check: Callable[[], Exception | None]) -> None:
    """Refuse the ports from now on wherever `check` returns an exception, which is raised."""
    _refusals.append(check)


def ports() -> Ports:
    """Return this process's store, queue, clock and log, all metered. Built once a process.

    Raises the problem of `ports_refused`, where that is entered, and what a check of `refuse_where` returns.
    """
    if refusal := _refusal.get():
        raise refusal
    for check in _refusals:
        if refused := check():
            raise refused
    global _ports  # noqa: PLW0603 - one set of connections a process is the point
    if _ports is None:
        with _building:
            if _ports is None:
                _ports = connect(settings())
    return _ports


def load() -> None:
    """Import what the ports will need, without connecting: the first request should not wait for it."""
    if _ports is None:
        from shared.adapters.firestore import store  # noqa: F401


def bind(chosen: Ports | None) -> Ports | None:
    """Use these ports from now on, metered; None: make them from the settings again. For tests.

    Returns the ports that were bound before, or None.
    """
    from shared.adapters.meter import metered

    global _ports
    before, _ports = _ports, metered(chosen) if chosen is not None else None
    return before


def log() -> Log:
    """Return the log without connecting to anything: a refusal must not wait for a store."""
    return _ports.log if _ports is not None else JsonLog(settings().project)


def connect(chosen: Settings, store: Store | None = None) -> Ports:
    """Return metered ports for these settings. A `store` given here takes the place of Firestore."""
    from shared.adapters.clock import SystemClock
    from shared.adapters.cloud_tasks import CloudTasksQueue
    from shared.adapters.meter import metered

    lines = JsonLog(chosen.project)
    return metered(Ports(store or firestore(chosen), CloudTasksQueue(chosen, lines), SystemClock(), lines))


def firestore(chosen: Settings) -> Store:
    """Return Firestore, or its emulator, as the settings name it."""
    from shared.adapters.firestore.store import FirestoreStore

    return FirestoreStore(chosen.project, chosen.database, chosen.firestore_emulator)
