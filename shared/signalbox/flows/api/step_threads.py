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
    """Runs the code of inline steps in threads, from the receipt of a delivery on."""

    def __init__(self, function: str) -> None:
        self.running: set[str] = set()
        self._function = function
        self._received_at = time.monotonic()
        self._ended: SimpleQueue[tuple[str, CallOutcome]] = SimpleQueue()

    def begin(self, path: str, code: turns.Code) -> None:
        """Run code in a thread of its own, in the context of the caller."""
        self.running.add(path)
        Thread(target=self._run, args=(path, copy_context(), code), daemon=True).start()

    def _run(self, path: str, context: Context, code: turns.Code) -> None:
        """Run code and hand over its outcome. In a thread, `SystemExit` ends no process: the start has failed."""
        try:
            outcome = context.run(code)
        except BaseException as error:  # noqa: BLE001  without an outcome, the delivery would wait for the time-out
            runtime.log().error("inline step raised", step=path, exception=error)
            outcome = CallOutcome(raised=error)
        self._ended.put((path, outcome))

    def wait(self, seconds: float) -> dict[str, CallOutcome]:
        """Return the outcomes of code that has ended, as soon as there is one, or none after `seconds`."""
        ended = {}
        with suppress(Empty):
            path, outcome = self._ended.get(timeout=seconds)
            while True:
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
