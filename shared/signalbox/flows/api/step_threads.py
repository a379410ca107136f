"""The threads in which a delivery runs the code of inline steps."""

import threading
import time
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue

from signalbox.adapters import runtime
from signalbox.adapters.cloud_tasks import DISPATCH_SECONDS_MAX
from signalbox.adapters.settings import settings
from signalbox.flows.tasks import turns
from signalbox.mailboxes.model.outcomes import CallOutcome

IDLE_MAX = 16
"""Idle threads that a process keeps. More end."""

Begun = tuple[str, Context, turns.Code]
Ended = tuple[Begun, CallOutcome]


class Thread:
    """A thread that runs one code after another. It is reused, also by the next deliveries.

    Starting a thread takes a tenth of the time of a short step, and of a flow of one step.
    """

    def __init__(self) -> None:
        self._codes: SimpleQueue[tuple[Begun, SimpleQueue[Ended]]] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def run(self, begun: Begun, ended: "SimpleQueue[Ended]") -> None:
        """Run code, and put its outcome into `ended`."""
        self._codes.put((begun, ended))

    def _run(self) -> None:
        is_kept = True
        while is_kept:
            begun, ended = self._codes.get()
            outcome = _outcome(*begun)
            if is_kept := len(_idle) < IDLE_MAX:
                _idle.append(self)  # before the outcome is known, so that the next step finds this thread
            ended.put((begun, outcome))
            del begun, ended, outcome  # an idle thread keeps no reference to its last step


_idle: list[Thread] = []
"""The threads of this process that run no code."""


def _outcome(path: str, context: Context, code: turns.Code) -> CallOutcome:
    """Run code and return its outcome. If the code raises `SystemExit`, the process does not end: the start failed."""
    try:
        return context.run(code)
    except BaseException as error:  # noqa: BLE001  without an outcome, the delivery would wait for the time-out
        runtime.log().error("inline step raised", step=path, exception=error)
        return CallOutcome(raised=error)


class Threads:
    """The threads that run the code of inline steps, from the receipt of a delivery on."""

    def __init__(self, function: str) -> None:
        self.running: dict[str, Begun] = {}
        self._function = function
        self._received_at = time.monotonic()
        self._ended: SimpleQueue[Ended] = SimpleQueue()

    def begin(self, path: str, code: turns.Code) -> None:
        """Run code in a copy of the caller's context, in a thread that runs nothing else at the same time."""
        try:
            thread = _idle.pop()
        except IndexError:
            thread = Thread()
        begun = self.running[path] = path, copy_context(), code
        thread.run(begun, self._ended)

    def wait(self, seconds: float) -> dict[str, CallOutcome]:
        """Wait until code has ended, and return the outcomes by path. After `seconds`, return an empty dictionary.

        The outcome of abandoned code is ignored, even if other code has begun under the same path since.
        """
        ended = {}
        with suppress(Empty):
            begun, outcome = self._ended.get(timeout=seconds)
            while True:
                path = begun[0]
                if self.running.get(path) is begun:
                    del self.running[path]
                    ended[path] = outcome
                begun, outcome = self._ended.get_nowait()
        return ended

    def abandon(self, path: str) -> None:
        """Ignore the outcome of code that still runs, since a thread cannot be ended."""
        self.running.pop(path, None)

    def seconds(self) -> float:
        return time.monotonic() - self._received_at

    def seconds_left(self) -> float:
        return min(settings().timeout_of(self._function), DISPATCH_SECONDS_MAX) - self.seconds()
