"""The threads in which a delivery runs the code of inline steps."""

import time
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from threading import Thread

from signalbox.adapters import runtime
from signalbox.adapters.cloud_tasks import DISPATCH_SECONDS_MAX
from signalbox.adapters.settings import settings
from signalbox.flows.tasks import turns
from signalbox.mailboxes.model.outcomes import CallOutcome

Begun = tuple[str, Context, turns.Code]


class Threads:
    """The threads that run the code of inline steps, from the receipt of a delivery on.

    An idle thread is reused for the next step, since starting a thread takes a tenth of the time of a short step.
    """

    def __init__(self, function: str) -> None:
        self.running: dict[str, Begun] = {}
        self._function = function
        self._received_at = time.monotonic()
        self._codes: SimpleQueue[Begun | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[Begun, CallOutcome]] = SimpleQueue()
        self._threads = self._busy = 0

    def begin(self, path: str, code: turns.Code) -> None:
        """Run code in a copy of the caller's context, in a thread that runs nothing else at the same time."""
        if self._busy == self._threads:
            Thread(target=self._run, daemon=True).start()
            self._threads += 1
        self._busy += 1
        begun = self.running[path] = path, copy_context(), code
        self._codes.put(begun)

    def close(self) -> None:
        """End each thread when its code has ended."""
        for _ in range(self._threads):
            self._codes.put(None)

    def _run(self) -> None:
        while begun := self._codes.get():
            self._ended.put((begun, self._outcome(*begun)))
            del begun  # an idle thread keeps no reference to its last step

    def _outcome(self, path: str, context: Context, code: turns.Code) -> CallOutcome:
        """Run code and return its outcome.

        If the code raises `SystemExit`, the process does not end: the start has failed.
        """
        try:
            return context.run(code)
        except BaseException as error:  # noqa: BLE001  without an outcome, the delivery would wait for the time-out
            runtime.log().error("inline step raised", step=path, exception=error)
            return CallOutcome(raised=error)

    def wait(self, seconds: float) -> dict[str, CallOutcome]:
        """Wait until code has ended, and return the outcomes by path. After `seconds`, return an empty dictionary.

        The outcome of abandoned code is ignored, even if other code has begun under the same path since.
        """
        ended = {}
        with suppress(Empty):
            begun, outcome = self._ended.get(timeout=seconds)
            while True:
                self._busy -= 1
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
