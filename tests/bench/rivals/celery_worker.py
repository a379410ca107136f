"""A Redis and a worker of Celery for the tasks of a script, in its folder."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from celery import Celery

VARIABLE = "RIVAL_REDIS"
"""The URL of Redis, in the environment of the worker."""


def application(name: str) -> Celery:
    """Return the application of a script: in the worker, with its Redis."""
    url = os.environ.get(VARIABLE, "redis://127.0.0.1:1/0")
    app = Celery(name, broker=url, backend=url)
    app.conf.update(task_acks_late=True, worker_prefetch_multiplier=4, broker_connection_retry_on_startup=True)
    return app


@contextmanager
def working(app: Celery, workers: int) -> Iterator[None]:
    """Start Redis, which writes each command to a file, and a worker; end both."""
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        options = ["--port", str(port), "--dir", folder, "--appendonly", "yes", "--save", ""]
        redis = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        environment = os.environ | {VARIABLE: f"redis://127.0.0.1:{port}/0"}
        here = Path(__file__).resolve().parent
        run = ["-m", "celery", "-A", app.main, "worker", "-c", str(workers), "-l", "ERROR", "--without-mingle"]
        nowhere = subprocess.DEVNULL
        worker = subprocess.Popen([sys.executable, *run], cwd=here, env=environment, stdout=nowhere, stderr=nowhere)
        try:
            app.conf.update(broker_url=environment[VARIABLE], result_backend=environment[VARIABLE])
            yield
        finally:
            for process in (worker, redis):
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
