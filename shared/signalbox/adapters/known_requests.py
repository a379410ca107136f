"""Whether the code that calls the kit has the context of the request for which it runs.

The request's task, author, cost and trace, and whether its code may have effects, are context variables. A new thread
and a new context begin without them. Their calls would not be idempotent, their writes would have no author, and
effects could not be refused where code may have none. So these calls are refused.

    the calling thread                                     while this process handles     otherwise
    -----------------------------------------------------  -----------------------------  ---------
    handles a request, or has a copy of its context        permitted                      -
    handles a request, in a new context                    UnknownRequest                 -
    the main thread, or older than the first request       permitted                      permitted
    another one                                            UnknownRequest                 permitted

A thread that is older than the first request, for instance one that a module starts, never works for a request.

A script or a test starts runs and asks queries outside of a request. Then the code of a flow runs in its process,
perhaps in several threads of a pool. While no request is handled, a thread is refused only if it is newer than such a
start whose code runs at this moment: it may be a thread of that code.
"""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakSet

_RUNNING_CODE = {("signalbox.flows.machine.tree", "_resume"), ("signalbox.core.user_code", "_run_in")}
"""The modules and names of the functions below which a user's code runs."""

_is_known: ContextVar[bool] = ContextVar("signalbox.is_request_known", default=False)

ADVICE = (
    "Copy the context for each call: `pool.submit(contextvars.copy_context().run, work, item)`, or "
    "`threading.Thread(target=contextvars.copy_context().run, args=(work, item))`; `asyncio.to_thread` copies it"
)


class UnknownRequest(Exception):
    """A thread or a new context called the kit without the context of a request, while this process handled one."""


class Requests:
    """The requests that this process handles now. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handling: Counter[int] = Counter()
        self._requests = 0
        self._older: WeakSet[threading.Thread] | None = None
        self._outside: dict[int, WeakSet[threading.Thread]] = {}

    @contextmanager
    def handled(self, *, is_request: bool = False) -> Iterator[None]:
        """Handle a request in this thread, or run a user's code outside of one. The code has that context."""
        thread = threading.get_ident()
        with self._lock:
            if not is_request and thread not in self._handling:
                self._outside[thread] = WeakSet(threading.enumerate())
            if is_request and self._older is None:
                self._older = WeakSet(threading.enumerate())
            self._requests += is_request
            self._handling[thread] += 1
        token = _is_known.set(True)
        try:
            yield
        finally:
            _is_known.reset(token)
            with self._lock:
                self._requests -= is_request
                self._handling[thread] -= 1
                if not self._handling[thread]:
                    del self._handling[thread]
                    self._outside.pop(thread, None)

    def check(self) -> None:
        """Raise `UnknownRequest` if the calling code may work for a request, and does not have its context."""
        if _is_known.get():
            return
        with self._lock:
            if not self._handling:
                return
            handles, thread = threading.get_ident() in self._handling, threading.current_thread()
            if self._requests:
                is_free = thread is threading.main_thread() or (self._older is not None and thread in self._older)
            else:
                is_free = thread is threading.main_thread() or not any(
                    thread not in older and _runs_code(begun) for begun, older in self._outside.items()
                )
        if handles or not is_free:
            where = "A new context" if handles else f"The thread {thread.name}"
            raise UnknownRequest(
                f"{where} called the kit without the context of its task or request, so the call would not be "
                f"idempotent and would have no author. {ADVICE}."
            )


def _runs_code(thread: int) -> bool:
    """Return whether a thread runs a user's code at this moment."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _RUNNING_CODE:
            return True
        frame = frame.f_back
    return False


REQUESTS = Requests()
"""The requests of this process."""
