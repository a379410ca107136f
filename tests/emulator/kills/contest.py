"""A function for the tests that kill processes: workers at a door with a few permits, which write a record on entering
and on leaving.

It also has tasks that kill their own process at every delivery.
"""

import os
import signal
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Literal

from signalbox import (
    Function,
    Lease,
    Problem,
    Request,
    Response,
    TaskContext,
    Unit,
    batch,
    documents,
    semaphore,
)

Priority = Literal["high", "normal", "low"]

LEASE_SECONDS = 5
INSIDE_SECONDS = 0.2
SLOW_LEASE_SECONDS = 120
SLOW_INSIDE_SECONDS = 2.0
LANES: tuple[tuple[str, Priority], ...] = (
    ("", "normal"),
    ("a", "normal"),
    ("b", "low"),
    ("a", "high"),
    ("c", "normal"),
)

app = Function("contest")


@app.http("POST", "/deadly/{name}")
def begin_deadly(_: Request, name: str) -> Response:
    """A batch one of whose units is deadly; then a deadly continuation, and one that waits behind it."""
    batch(name).populate(work.call(deadly=number == 1) for number in range(3))
    semaphore(name).ensure(permits=1, lease_seconds=600)
    semaphore(name).wait(die.call(), id="deadly")
    semaphore(name).wait(enter.call(door=name, worker=1), id="patient", release_on_return=True)
    return Response(202)


@app.task(attempts_max=2)
def work(deadly: bool) -> str:
    if deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


@app.task(attempts_max=2)
def die(lease: Lease) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.http("POST", "/mended/{name}/{units}")
def begin_mending(_: Request, name: str, units: str) -> Response:
    """Populate a batch that runs in chains; each unit fails twice, then succeeds."""
    batch(name).populate((mend.call(door=name) for _ in range(int(units))), concurrency=3)
    return Response(202)


@app.task
def mend(unit: Unit, context: TaskContext, door: str) -> int:
    documents.put(context.operation, {"door": door, "kind": "mend", "unit": unit.index, "attempt": unit.attempt})
    if unit.attempt < 2:
        raise Problem("not yet")
    return unit.index


@app.http("POST", "/{door}/{permits}/{workers}")
def begin(_: Request, door: str, permits: str, workers: str) -> Response:
    _open(door, int(permits), int(workers), LEASE_SECONDS, INSIDE_SECONDS)
    return Response(202)


@app.http("POST", "/slow/{door}/{permits}/{workers}")
def begin_slow(_: Request, door: str, permits: str, workers: str) -> Response:
    """Start workers that stay inside for 2 s, under leases that do not expire even on a slow machine."""
    _open(door, int(permits), int(workers), SLOW_LEASE_SECONDS, SLOW_INSIDE_SECONDS)
    return Response(202)


@app.http("POST", "/lanes/{door}/{permits}/{workers}")
def begin_in_lanes(_: Request, door: str, permits: str, workers: str) -> Response:
    """Start workers of several keys and priorities."""
    _open(door, int(permits), int(workers), LEASE_SECONDS, INSIDE_SECONDS, LANES)
    return Response(202)


def _open(
    door: str,
    permits: int,
    workers: int,
    lease_seconds: float,
    inside_seconds: float,
    lanes: Sequence[tuple[str, Priority]] = (("", "normal"),),
) -> None:
    semaphore(door).ensure(permits=permits, lease_seconds=lease_seconds)
    for worker, (key, priority) in zip(range(workers), cycle(lanes), strict=False):
        call = enter.call(door=door, worker=worker, inside_seconds=inside_seconds)
        semaphore(door).wait(call, id=f"{worker}", release_on_return=True, key=key, priority=priority)


@app.task
def enter(lease: Lease, door: str, worker: int, inside_seconds: float = INSIDE_SECONDS) -> None:
    said = {"door": door, "worker": worker, "token": lease.token}
    documents.put(f"{door}-{worker}-{lease.token}-in", said | {"kind": "in"})
    time.sleep(inside_seconds)
    documents.put(f"{door}-{worker}-{lease.token}-out", said | {"kind": "out"})


contest = app.entry_point()
