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


class Threads:
    """Runs the code of inline steps in threads, from the receipt of a delivery on.

    A thread whose code has ended runs the next step, since starting one takes as long as a tenth of a short step.
    """

    def __init__(self, function: str) -> None:
        self.running: set[str] = set()
        self._function = function
        self._received_at = time.monotonic()
        self._codes: SimpleQueue[tuple[str, Context, turns.Code] | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[str, CallOutcome]] = SimpleQueue()
        self._threads = self._busy = 0

    def begin(self, path: str, code: turns.Code) -> None:
        """Run code in a thread that runs nothing else meanwhile, in the context of the caller."""
        if self._busy == self._threads:
            Thread(target=self._run, daemon=True).start()
            self._threads += 1
        self._busy += 1
        self.running.add(path)
        self._codes.put((path, copy_context(), code))

    def close(self) -> None:
        """End the threads, each when its code has ended."""
        for _ in range(self._threads):
            self._codes.put(None)

    def _run(self) -> None:
        while begun := self._codes.get():
            self._ended.put(self._outcome(*begun))
            del begun  # while it waits, a thread holds nothing of its last step

    def _outcome(self, path: str, context: Context, code: turns.Code) -> tuple[str, CallOutcome]:
        """Run code and return its outcome. In a thread, `SystemExit` ends no process: the start has failed."""
        try:
            return path, context.run(code)
        except BaseException as error:  # noqa: BLE001  without an outcome, the delivery would wait for the time-out
            runtime.log().error("inline step raised", step=path, exception=error)
            return path, CallOutcome(raised=error)

    def wait(self, seconds: float) -> dict[str, CallOutcome]:
        """Return the outcomes of code that has ended, as soon as there is one, or none after `seconds`."""
        ended = {}
        with suppress(Empty):
            path, outcome = self._ended.get(timeout=seconds)
            while True:
                self._busy -= 1
                if path in self.running:
                    self.running.remove(path)
                    ended[path] = outcome
                path, outcome = self._ended.get_nowait()
        return ended

    def abandon(self, path: str) -> None:
        """Ignore the outcome of code that still runs, since a thread cannot be ended."""
        self.running.discard(path)

    def seconds(self) -> float:
        return time.monotonic() - self._received_at

    def seconds_left(self) -> float:
        return min(settings().timeout_of(self._function), DISPATCH_SECONDS_MAX) - self.seconds()
