"""A Celery chord on Redis: so many tasks, and one that follows the last of them. Prints the seconds it took.

It runs in a separate environment, which `tests.bench.batches` makes; the project does not depend on Celery.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from celery import Celery, chord

URL = os.environ.get("RIVAL_REDIS", "redis://127.0.0.1:1/0")
app = Celery("celery_chord", broker=URL, backend=URL)
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=4, broker_connection_retry_on_startup=True)


@app.task(name="paint")
def paint(square: int) -> dict[str, int]:
    """Return a unit's result."""
    return {"row": square // 50, "column": square % 50}


@app.task(name="announce")
def announce(results: list[dict[str, int]]) -> int:
    """Return how many units came before."""
    return len(results)


def main() -> None:
    units, workers = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        options = ["--port", str(port), "--dir", folder, "--appendonly", "yes", "--save", ""]
        redis = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        environment = os.environ | {"RIVAL_REDIS": f"redis://127.0.0.1:{port}/0"}
        here = Path(__file__).resolve().parent
        run = ["-m", "celery", "-A", "celery_chord", "worker", "-c", str(workers), "-l", "ERROR", "--without-mingle"]
        nowhere = subprocess.DEVNULL
        worker = subprocess.Popen([sys.executable, *run], cwd=here, env=environment, stdout=nowhere, stderr=nowhere)
        try:
            app.conf.update(broker_url=environment["RIVAL_REDIS"], result_backend=environment["RIVAL_REDIS"])
            announce.apply_async(([],)).get(timeout=120)  # the worker is up
            began = time.monotonic()
            done = chord((paint.s(number) for number in range(units)), announce.s())
            if done.delay().get(timeout=900) != units:
                sys.exit("the chord lost results")
            sys.stdout.write(f"{time.monotonic() - began:.3f}\n")
        finally:
            for process in (worker, redis):
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
