"""Pauses, threads and background calls, by which leases are renewed, for code that blocks.

`aio.lease_renewal` has the same names.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Returned = TypeVar("Returned")

sleep = time.sleep


def in_thread(run: Callable[[str], Returned], argument: str) -> Returned:
    """Call a function: code that blocks needs no other thread for it."""
    return run(argument)


class Repeated:
    """Calls a function again and again in a thread, until it returns False or `stop` is called."""

    def __init__(self, run: Callable[[], bool], pause_seconds: Callable[[], float]) -> None:
        self._run = run
        self._pause_seconds = pause_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stopped.wait(self._pause_seconds()):
            if not self._run():
                return

    def stop(self) -> None:
        """End the calls; a call under way ends first."""
        self._stopped.set()
        self._thread.join()
