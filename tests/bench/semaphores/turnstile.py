"""The function of the bench of semaphores: a task that holds its permit for a moment, signals, and reports when."""

import json
import socket
import time

from signalbox import Function, Lease, semaphore

app = Function("turnstile")


@app.task
def enter(lease: Lease, pair: str, port: int, hold_seconds: float) -> None:
    entered = time.monotonic()
    time.sleep(hold_seconds)
    left = time.monotonic()
    semaphore(lease.semaphore).signal(lease)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as report:
        report.sendto(json.dumps([pair, lease.token, entered, left]).encode(), ("127.0.0.1", port))


turnstile = app.entry_point()
