"""A client of one semaphore in a separate process whose clock may be wrong: a line of JSON in, a line out.

python -m tests.emulator.store.skewed_client HOST:PORT PROJECT

It calls the kit's operations on the emulator as a user's function does.
"""

import json
import select
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.adapters.system_clock import SystemClock
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import AlreadyExists, Delete, Must, Ports, Put
from signalbox.core.problems import Unavailable
from signalbox.semaphores import sweep
from signalbox.semaphores.requests import RenewRequest, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, waits
from signalbox.testing.recorded_log import RecordedLog

INSIDE = "inside/x"


class SelectingClock(SystemClock):
    """A clock that sleeps without `time.sleep`, which fails under libfaketime (0.9.10, EINVAL)."""

    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        select.select([], [], [], seconds)


class NoQueue:
    """A queue whose tasks are all lost."""

    def create(self, effects: Sequence[Effect]) -> Collection[str]:  # noqa: ARG002  as the port names it
        """Drop them."""
        return ()


class Client:
    """The commands that the test sends, by name."""

    def __init__(self, host: str, project: str) -> None:
        store = FirestoreStore(project, "(default)", host)
        self._name = ""
        self._ports = Ports(store, NoQueue(), SelectingClock(), RecordedLog())

    def use(self, name: str) -> None:
        """Call this semaphore from now on."""
        self._name = name

    def now(self) -> float:
        return time.time()

    def acquire(self, id_: str) -> str | None:
        answer = waits.wait(self._ports, self._name, WaitRequest(id_))
        return answer.lease.id if answer.lease else None

    def wait(self, id_: str) -> bool:
        return waits.wait(self._ports, self._name, WaitRequest(id_, Call("user", "work", {}))).acquired

    def renew(self, lease: str) -> str:
        ends_at = leases.renew(self._ports, self._name, RenewRequest(lease))
        return ends_at.isoformat() if ends_at else ""

    def signal(self, lease: str) -> bool:
        return leases.signal(self._ports, self._name, SignalRequest(lease))

    def sweep(self) -> None:
        sweep.sweep(self._ports)

    def visits(self, name: str, count: int) -> int:
        """Enter `count` times, each time creating a record that only one client can create. Return how often another
        was inside.
        """
        met = 0
        for number in range(count):
            lease = self._patiently(f"{name} {number}")
            try:
                self._ports.store.commit([Put(INSIDE, {"who": name}, Must.NOT_EXIST)])
            except AlreadyExists:
                met += 1
            self._ports.store.commit([Delete(INSIDE)])
            self.signal(lease)
        return met

    def _patiently(self, id_: str) -> str:
        while True:
            try:
                if lease := self.acquire(id_):
                    return lease
            except Unavailable:
                pass
            self._ports.clock.sleep(0.02)


def main() -> None:
    client = Client(*sys.argv[1:])
    for line in sys.stdin:
        verb, *given = json.loads(line)
        answer: Any = getattr(client, verb)(*given)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
