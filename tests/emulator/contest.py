"""A function for the tests that kill: 20 workers at a door with 2 permits, who leave a record when in and when out."""

import time

from shared.kit import Answer, Function, Lease, Request, documents, semaphore

LEASE_SECONDS = 5
INSIDE_SECONDS = 0.2

app = Function("contest")


@app.http("POST", "/{door}/{workers}")
def begin(_: Request, door: str, workers: str) -> Answer:
    semaphore(door).ensure(permits=2, lease_seconds=LEASE_SECONDS)
    for worker in range(int(workers)):
        semaphore(door).wait(enter.call(door=door, worker=worker), id=f"{worker}", release_on_return=True)
    return Answer(202)


@app.task
def enter(lease: Lease, door: str, worker: int) -> None:
    said = {"door": door, "worker": worker, "token": lease.token}
    documents.put(f"{door}-{worker}-{lease.token}-in", said | {"kind": "in"})
    time.sleep(INSIDE_SECONDS)
    documents.put(f"{door}-{worker}-{lease.token}-out", said | {"kind": "out"})


contest = app.entry_point()
