"""The function of the benches of semaphores and rates: tasks that report when they run.

One holds its permit for a moment and signals. The other runs with permits of a rate, which it need not give back.
"""

import json
import socket
import time
from typing import Any

from signalbox import Function, Lease, semaphore

app = Function("turnstile")


@app.task
def enter(lease: Lease, pair: str, port: int, hold_seconds: float) -> None:
    entered = time.monotonic()
    time.sleep(hold_seconds)
    left = time.monotonic()
    semaphore(lease.semaphore).signal(lease)
    report(port, [pair, lease.token, entered, left])


@app.task
def begin(pair: str, port: int) -> None:
    now = time.monotonic()
    report(port, [pair, 0, now, now])


def report(port: int, what: list[Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sent:
        sent.sendto(json.dumps(what).encode(), ("127.0.0.1", port))


turnstile = app.entry_point()
