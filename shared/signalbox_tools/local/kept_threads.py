"""Threads of the local stack that no exception ends: a line reports it, and the thread continues."""

import logging
import threading
import time
from collections.abc import Callable

PAUSE_SECONDS = 1.0
"""The pause after an exception: one that is raised at once, again and again, should cost nothing."""

log = logging.getLogger("signalbox")


def kept_thread(name: str, work: Callable[[], None]) -> threading.Thread:
    """Return a daemon thread that runs `work` until it returns, and again after each exception.

    An exception that equals the previous one is not logged again.
    """
    return threading.Thread(target=_keep, args=(name, work), name=name, daemon=True)


def _keep(name: str, work: Callable[[], None]) -> None:
    reported = ""
    while True:
        try:
            work()
        except Exception as error:
            if reported != (reported := repr(error)):
                log.exception("the thread %s failed and continues", name)
            time.sleep(PAUSE_SECONDS)
        else:
            return
