"""Gunicorn's settings for the functions of the local stack: report whether they were loaded, and connect each worker.

The report is a file, at ``SIGNALBOX_LOADED``, since an older version may be serving the same port: only the process id
in it shows which version has loaded. `load_error` reads it.
"""

import gc
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from signalbox_tools.local import function_channel
from signalbox_tools.local.ends_with_its_parent import end_with

VARIABLE = "SIGNALBOX_LOADED"
EXIT_CODE = 3


def load_error(file: Path, pid: int) -> str | None:
    """Return an empty text if process `pid` has loaded its functions, or the reason why it cannot.

    Return None without a report.
    """
    try:
        report = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return str(report["error"]) if report["pid"] == pid else None


def on_starting(server: Any) -> None:
    """Load the functions before the workers are forked; report an error and exit."""
    try:
        server.app.wsgi()
        gc.freeze()  # the workers share these objects, and no collection visits them
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any error is reported where the user looks
        _report(os.getpid(), "".join(traceback.format_exception(error)))
        raise SystemExit(EXIT_CODE) from None


def post_fork(_: Any, worker: Any) -> None:
    """Connect a worker, and report that the functions are served.

    On Linux, it ends with the process that forked it: it would finish its requests first, and occupy the port.
    """
    if sys.platform == "linux":
        end_with(worker.ppid)
    from signalbox_tools.local.functions import server as functions_server
    from signalbox_tools.local.functions.request_labels import mark_output

    functions_server.connect()
    mark_output()
    _report(worker.ppid, "")


def post_worker_init(worker: Any) -> None:
    """Open the connections over which this process receives tasks and events, until its worker is told to stop."""
    channels = (function_channel.TASKS, function_channel.EVENTS)
    addresses = [os.environ[name] for name in channels if name in os.environ]
    if not addresses:
        return
    from signalbox_tools.local.functions.channel_threads import DeliveryThreads

    worker.delivery_threads = DeliveryThreads(addresses, worker.wsgi, worker.cfg.threads)

    def leave(number: int, frame: Any) -> None:
        _leave(worker.delivery_threads)
        worker.handle_exit(number, frame)

    signal.signal(signal.SIGTERM, leave)
    signal.siginterrupt(signal.SIGTERM, False)
    worker.delivery_threads.start()


def worker_exit(_: Any, worker: Any) -> None:
    """Finish the tasks and events that run, as gunicorn finishes the requests."""
    if threads := getattr(worker, "delivery_threads", None):
        _leave(threads)
        threads.join(worker.cfg.graceful_timeout)


def _leave(threads: Any) -> None:
    """Let threads leave, and ignore a later SIGTERM: the process group and gunicorn each send one.

    A second one would interrupt the main thread while it holds a lock of the threads, and its handler would
    wait for it.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)  # an ignored signal would stay ignored in programs that are started
    threads.leave()


def _report(pid: int, error: str) -> None:
    if name := os.environ.get(VARIABLE):
        file = Path(f"{name}.{os.getpid()}.{threading.get_ident()}")
        file.write_text(json.dumps({"pid": pid, "error": error}), "utf-8")
        file.replace(name)
