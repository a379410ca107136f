"""The same job by bare calls of the same store, or of Google's client: a list of holders in one record.

There is no wait queue: a client without a permit polls. There is no lease, fencing token or task: a holder that dies
keeps its permit.
"""

import os
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest import mock

from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore

from signalbox.core.ports import Conflict, Put, Store
from signalbox.core.problems import Unavailable
from tests.bench.semaphores.visits import Visit, poll_pause, visit

RECORD = "bare/turnstile"
HOLDERS = "holders"


class Guarded:
    """Read, decide, write under the update time of what was read; retry until it lands."""

    def __init__(self, store: Store, permits: int) -> None:
        self._store, self._permits = store, permits
        self._store.commit([Put(RECORD, {HOLDERS: []})])
        self._ids = count()

    def pair(self, _: int, stop_at: float) -> Visit:
        """Acquire, hold, release. Raises `Refused`."""
        id_ = next(self._ids)
        return visit(
            lambda: self._change(lambda held: _added(held, id_, self._permits)), lambda: self._leave(id_), stop_at
        )

    def _leave(self, id_: int) -> None:
        self._change(lambda held: [one for one in held if one != id_])

    def _change(self, decide: Callable[[list[int]], list[int] | None]) -> bool:
        while True:
            [read] = self._store.read(RECORD)
            held = decide((read.data or {})[HOLDERS])
            if held is None:
                return False
            try:
                self._store.commit([Put(RECORD, {HOLDERS: held}, read.guard)])
            except (Conflict, Unavailable):
                poll_pause()
            else:
                return True


class Transactions:
    """Read and write in a transaction of the client library, which retries it five times."""

    def __init__(self, host: str, project: str, permits: int) -> None:
        with mock.patch.dict(os.environ, {"FIRESTORE_EMULATOR_HOST": host}):
            self._client = firestore.Client(project=project, credentials=AnonymousCredentials())
        self._record = self._client.document(RECORD)
        self._record.set({HOLDERS: []})
        self._permits = permits
        self._ids = count()
        self.given_up = 0

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def pair(self, _: int, stop_at: float) -> Visit:
        """Acquire, hold, release. Raises `Refused`."""
        id_ = next(self._ids)
        return visit(lambda: self._acquire(id_), lambda: self._leave(id_), stop_at)

    def _acquire(self, id_: int) -> bool:
        return self._change(lambda held: _added(held, id_, self._permits))

    def _leave(self, id_: int) -> None:
        while not self._change(lambda held: [one for one in held if one != id_]):
            poll_pause()

    def _change(self, decide: Callable[[list[int]], list[int] | None]) -> bool:
        @firestore.transactional
        def change(transaction: Any) -> bool:
            read = self._record.get(transaction=transaction)
            held = decide((read.to_dict() or {})[HOLDERS])
            if held is not None:
                transaction.set(self._record, {HOLDERS: held})
            return held is not None

        try:
            return bool(change(self._client.transaction()))
        except Exception as error:
            if type(error).__name__ not in ("ValueError", "Aborted"):  # the library's word for "retried in vain"
                raise
            self.given_up += 1
            return False


def _added(held: list[int], id_: int, permits: int) -> list[int] | None:
    return [*held, id_] if len(held) < permits else None
