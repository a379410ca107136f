"""Pauses, threads and background calls, by which leases are renewed, for code that blocks.

`aio.lease_renewal` has the same names.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Returned = TypeVar("Returned")

sleep = time.sleep


def in_thread(run: Callable[[str], Returned], argument: str) -> Returned:
    """Call a function: code that blocks needs no other thread for it."""
    return run(argument)


def finished(run: Callable[[], Returned]) -> Returned:
    """Call a function to its end, although the caller may get Ctrl-C meanwhile; a second Ctrl-C does not wait.

    It runs in a thread, as Python runs the handlers of signals in the main one.
    """
    ended: Future[Returned] = Future()
    begun = threading.Lock()

    def settle() -> None:
        if begun.acquire(blocking=False):
            try:
                ended.set_result(run())
            except BaseException as error:  # noqa: BLE001 (the caller raises it)
                ended.set_exception(error)

    try:
        threading.Thread(target=settle, daemon=True).start()
        return ended.result()
    except BaseException:
        settle()  # the thread may not have started
        wait([ended])
        raise


class Repeated:
    """Calls a function again and again in a thread, until it returns False or `stop` is called."""

    def __init__(self, run: Callable[[], bool], pause_seconds: Callable[[], float]) -> None:
        self._run = run
        self._pause_seconds = pause_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def start(self) -> None:
        """Begin the calls, after the first pause."""
        self._thread.start()

    def _loop(self) -> None:
        while not self._stopped.wait(self._pause_seconds()):
            try:
                if not self._run():
                    return
            except Exception:
                if not self._stopped.is_set():  # a signal may have cut `stop` short, and the client is closed
                    raise

    def stop(self) -> None:
        """End the calls; a call under way ends first."""
        self._stopped.set()
        if self._thread.ident is not None:  # it was started, unless a signal cut that short: then it ends by itself
            self._thread.join()
