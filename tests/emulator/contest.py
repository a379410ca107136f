"""A function for the tests that kill: 20 workers at a door with 2 permits, who leave a record when in and when out.

And tasks that kill their own process at every delivery.
"""

import os
import signal
import time

from shared.kit import Function, Lease, Request, Response, batch, documents, semaphore

LEASE_SECONDS = 5
INSIDE_SECONDS = 0.2

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


@app.http("POST", "/{door}/{workers}")
def begin(_: Request, door: str, workers: str) -> Response:
    semaphore(door).ensure(permits=2, lease_seconds=LEASE_SECONDS)
    for worker in range(int(workers)):
        semaphore(door).wait(enter.call(door=door, worker=worker), id=f"{worker}", release_on_return=True)
    return Response(202)


@app.task
def enter(lease: Lease, door: str, worker: int) -> None:
    said = {"door": door, "worker": worker, "token": lease.token}
    documents.put(f"{door}-{worker}-{lease.token}-in", said | {"kind": "in"})
    time.sleep(INSIDE_SECONDS)
    documents.put(f"{door}-{worker}-{lease.token}-out", said | {"kind": "out"})


contest = app.entry_point()
