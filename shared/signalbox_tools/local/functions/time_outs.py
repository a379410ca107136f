"""The time-outs of requests: as in functions-framework, an exception is raised in the thread that handles the request.

The framework starts a thread for each request, which takes 7 % of the processor time of a small task. Here one thread
of the process waits for the next time-out of all its requests.
"""

import ctypes
import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from functions_framework.exceptions import RequestTimeoutException

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """A request: its thread, and the monotonic time of its time-out, in seconds."""

    thread: int
    ends_at: float


class TimeOuts:
    """Ends requests at their time-outs. The first request in a process starts the thread that waits for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # requests take it without the condition: the exception could leave that locked
        self._changed = threading.Condition(self._lock)
        self._running: set[_Running] = set()
        self._next_at = math.inf
        self._thread: threading.Thread | None = None

    @contextmanager
    def ended_after(self, seconds: float) -> Iterator[None]:
        """Raise `RequestTimeoutException` in this thread if the block takes longer than `seconds`.

        Code that blocks outside Python is interrupted once it returns.
        """
        request = _Running(threading.get_ident(), time.monotonic() + seconds)
        try:
            self._begin(request)
            yield
        except RequestTimeoutException:
            log.warning("request ended at its time-out of %g seconds", seconds)
            raise
        finally:
            with self._lock:
                self._running.discard(request)

    def _begin(self, request: _Running) -> None:
        with self._lock:
            self._running.add(request)
            if request.ends_at < self._next_at:
                self._next_at = request.ends_at
                self._changed.notify()
            if self._thread is None or not self._thread.is_alive():  # threads are not copied by a fork
                thread = threading.Thread(target=self._run, name="time-outs", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                over = {request for request in self._running if request.ends_at <= now}
                self._running -= over
                for thread in {request.thread for request in over}:  # nested calls in one thread end with one exception
                    _raise_in(thread)
                self._next_at = min((request.ends_at for request in self._running), default=math.inf)
                self._changed.wait(None if self._next_at == math.inf else self._next_at - now)


def _raise_in(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(RequestTimeoutException))
