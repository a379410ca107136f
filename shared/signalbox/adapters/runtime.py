"""The ports of this process: built from the settings at the first request, or bound by a test.

They are not built at import: gunicorn loads a function before it forks, and gRPC connections must be opened after the
fork. The modules that they need, and no others, are imported while the instance starts (`load`): imports are most of a
cold start.
"""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from signalbox.adapters.known_requests import REQUESTS
from signalbox.adapters.logs import JsonLog, log_forgotten_awaits
from signalbox.adapters.settings import SQLITE, Settings, settings
from signalbox.core.ports import Log, PayloadStore, Ports, Store
from signalbox.core.problems import Problem

if TYPE_CHECKING:
    from signalbox.adapters.cloud_tasks import Creator

BUCKETS = "gs://"
"""The beginning of the setting `payloads` that names a bucket."""

_building = threading.Lock()

_ports: Ports | None = None

_refusal: ContextVar[Problem | None] = ContextVar("signalbox.ports_refused", default=None)

_refusals: list[Callable[[], Exception | None]] = []


@contextmanager
def ports_refused(problem: Problem) -> Iterator[None]:
    """Refuse the ports while the context is entered: every read or write raises `problem`."""
    token = _refusal.set(problem)
    try:
        with REQUESTS.handled():
            yield
    finally:
        _refusal.reset(token)


def refuse_where(check: Callable[[], Exception | None]) -> None:
    """Refuse the ports from now on whenever `check` returns an exception, which is then raised."""
    _refusals.append(check)


def check_permitted() -> None:
    """Raise if code must have no effects now: the problem of `ports_refused`, or an exception of `refuse_where`.

    For example, the code of a flow must have no effects while a process drops it. Raises `UnknownRequest` for code
    that does not know the request for which it runs, since that may have to be refused.
    """
    if refusal := _refusal.get():
        raise refusal
    for check in _refusals:
        if refused := check():
            raise refused
    REQUESTS.check()


def ports() -> Ports:
    """Return this process's store, queue, clock and log, with store and queue metered. They are built once.

    Raises as `check_permitted` does.
    """
    check_permitted()
    global _ports  # noqa: PLW0603 - one set of connections a process is the point
    if _ports is None:
        with _building:
            if _ports is None:
                _ports = connect(settings())
    return _ports


@cache
def load() -> None:
    """Import the modules that the ports need, without connecting, so that the first request does not wait for that.

    The garbage collector is off meanwhile. Afterwards it leaves out all objects so far: they stay as long as the
    process, and otherwise each full collection would visit them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        if _ports is None and settings().firestore_emulator != SQLITE:
            from signalbox.adapters import cloud_tasks_types  # noqa: F401  imported for its time, not for its names
            from signalbox.adapters.firestore import store  # noqa: F401  likewise
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def bind(chosen: Ports | None) -> Ports | None:
    """Use these ports from now on, metered; None: build them from the settings again. For tests.

    Return the ports that were bound before, or None.
    """
    from signalbox.adapters.cost_meter import metered

    global _ports
    before, _ports = _ports, metered(chosen) if chosen is not None else None
    return before


def log() -> Log:
    """Return the log without connecting: a refusal must not wait for a store."""
    return _ports.log if _ports is not None else JsonLog(settings().project, settings().database)


def connect(chosen: Settings, store: Store | None = None, creator: "Creator | None" = None) -> Ports:
    """Return metered ports for these settings.

    A `store` given here takes the place of Firestore, and a `creator` that of Google's client of Cloud Tasks.
    """
    from signalbox.adapters.cloud_tasks import CloudTasksQueue
    from signalbox.adapters.cost_meter import metered
    from signalbox.adapters.system_clock import SystemClock

    lines = JsonLog(chosen.project, chosen.database)
    log_forgotten_awaits(lines)
    queue = CloudTasksQueue(chosen, lines, creator)
    return metered(Ports(store or firestore(chosen), queue, SystemClock(), lines, payload_store(chosen)))


def payload_store(chosen: Settings) -> PayloadStore | None:
    """Return the store of payloads that the settings name: a bucket, or a folder of this machine."""
    if not chosen.payloads:
        return None
    bucket = chosen.payloads.removeprefix(BUCKETS)
    if chosen.payloads.startswith(BUCKETS):
        from signalbox.adapters.payload_bucket import BucketPayloads

        return BucketPayloads(bucket, chosen.storage_emulator)
    from signalbox.adapters.payload_files import FilePayloads

    return FilePayloads(Path(chosen.payloads))


def firestore(chosen: Settings) -> Store:
    """Return Firestore, or its emulator, as the settings name it."""
    from signalbox.adapters.firestore.store import FirestoreStore

    return FirestoreStore(chosen.project, chosen.database, chosen.firestore_emulator)
