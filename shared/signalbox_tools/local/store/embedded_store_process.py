"""The in-memory store in a separate process, so that its data is kept when functions are reloaded or killed.

    python -m signalbox_tools.local.store.embedded_store_process --port P [--file documents.pickle]

The functions call it over a socket, one connection a thread, with pickled arguments and results; both ends are started
by the same stack, which gives them a random key. With a `file` it reads its records and unsent events when it starts,
and writes them when it receives the signal to end.
"""

import argparse
import os
import pickle
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from signalbox.adapters.settings import settings
from signalbox.core.ports import Committed, Outcome, Query, Snapshot, Write
from signalbox.core.problems import Unavailable
from signalbox.core.records.queries import Field
from signalbox_tools.local.kept_threads import kept_thread
from signalbox_tools.local.store.embedded_store import EventSender, KeptStore, now

ADDRESS = "SIGNALBOX_STORE_ADDRESS"
KEY = "SIGNALBOX_STORE_KEY"
METHODS = frozenset({"read", "read_some", "query", "count", "commit", "write_each", "new_id"})


def address() -> tuple[str, int] | None:
    """Return the address of the stack's store, or None if this process embeds a store."""
    host, _, port = os.environ.get(ADDRESS, "").rpartition(":")
    return (host, int(port)) if host else None


class RemoteStore:
    """A `Store` in another process. Raises `Unavailable` while that is down."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._address = place
        self._thread = threading.local()

    def read(self, *paths: str, fields: Sequence[Field] | None = None) -> tuple[Snapshot, ...]:
        found: tuple[Snapshot, ...] = self._call("read", *paths, fields=fields)
        return found

    def read_some(self, needed: Sequence[str], others: Sequence[str], bytes_max: int) -> tuple[Snapshot, ...]:
        found: tuple[Snapshot, ...] = self._call("read_some", tuple(needed), tuple(others), bytes_max)
        return found

    def query(self, query: Query) -> tuple[Snapshot, ...]:
        found: tuple[Snapshot, ...] = self._call("query", query)
        return found

    def count(self, query: Query) -> int:
        counted: int = self._call("count", query)
        return counted

    def commit(self, writes: Sequence[Write]) -> Committed:
        committed: Committed = self._call("commit", tuple(writes))
        return committed

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        outcomes: tuple[Outcome, ...] = self._call("write_each", tuple(writes))
        return outcomes

    def new_id(self) -> str:
        made: str = self._call("new_id")
        return made

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        try:
            connection = self._connection()
            connection.send((method, args, kwargs))
            raised, result = connection.recv()
        except (OSError, EOFError) as error:
            self._thread.connection = None
            raise Unavailable("the embedded store does not respond") from error
        if raised:
            raise result
        return result

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._thread, "connection", None)
        if connection is None:
            connection = self._thread.connection = Client(self._address, authkey=bytes.fromhex(os.environ[KEY]))
        return connection


def serve(store: KeptStore, port: int) -> None:
    """Serve a store forever to all clients that have the key."""
    with Listener(("127.0.0.1", port), backlog=128, authkey=bytes.fromhex(os.environ[KEY])) as listener:
        while True:
            with suppress(OSError, EOFError, AuthenticationError):  # a client that checks only whether the port is open
                connection = listener.accept()
                threading.Thread(target=_answer, args=(store, connection), daemon=True).start()


def _answer(store: KeptStore, connection: Connection) -> None:
    with connection, suppress(OSError, EOFError):
        while True:
            method, args, kwargs = connection.recv()
            connection.send(_result(store, method, args, kwargs))


def _result(store: KeptStore, method: str, args: Any, kwargs: Any) -> tuple[bool, Any]:
    if method not in METHODS:
        return True, AttributeError(method)
    try:
        return False, getattr(store, method)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - it is raised again in the caller's process
        return True, error


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m signalbox_tools.local.store.embedded_store_process", description=__doc__
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--file", type=Path, required=True, help="where the records are kept between two runs")
    given = parser.parse_args()
    sender = EventSender(settings())
    store = KeptStore(now, sender.observe)
    if given.file.exists():
        store.records, sender.unsent = pickle.loads(given.file.read_bytes())  # noqa: S301 - our own file
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    kept_thread("events", sender.run).start()
    kept_thread("connections", partial(serve, store, given.port)).start()
    stop.wait()
    newer = given.file.with_suffix(".new")
    newer.write_bytes(pickle.dumps((store.records, sender.unsent)))
    newer.replace(given.file)


if __name__ == "__main__":
    main()
