"""The time from the start of ``signalbox dev`` until its functions answer, and that of a bare interpreter."""

import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from signalbox_tools import http_client
from signalbox_tools.local.child_processes import free_port

SECONDS_MAX = 60.0
POLL_SECONDS = 0.01


def median_seconds(runs: int) -> tuple[float, float]:
    """Return the median of several starts, and that of as many interpreters that do nothing."""
    answers, bare = zip(*((_answered(), _interpreted()) for _ in range(runs)), strict=True)
    return statistics.median(answers), statistics.median(bare)


def _answered() -> float:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "signalbox_tools",
            "dev",
            "--port",
            str(port),
            "--data",
            str(Path(folder, "d")),
        ]
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                while not _answers(port):
                    if process.poll() is not None or time.monotonic() > began + SECONDS_MAX:
                        raise TimeoutError("signalbox dev does not answer")
                    time.sleep(POLL_SECONDS)
                return time.monotonic() - began
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(SECONDS_MAX)


def _answers(port: int) -> bool:
    try:
        http_client.send("GET", f"http://127.0.0.1:{port}/", timeout_seconds=SECONDS_MAX)
    except OSError:
        return False
    return True


def _interpreted() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.monotonic() - began
