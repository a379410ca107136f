"""A function for the tests that kill: flows of thirty steps with an event, a sleep, a lock and a list each.

No two executions of a step return the same, and each step receives the result of the one before: so a flow that took
the outcomes of two executions of one step would show it.
"""

from typing import Any
from uuid import uuid4

from signalbox import Function, Request, Response, flow, objects, read_only, semaphore

PERMITS = 3
ALONE, LOCKED, BESIDE = 12, 6, 5
STEPS = ALONE + LOCKED + ALONE
"""Of each flow; the last `BESIDE` run at once."""

Lap = dict[str, Any]

app = Function("marathon")


@app.object
class Finish:
    """Which clients arrived, and how often."""

    arrivals: dict[str, int] = {}  # noqa: RUF012  each object starts with a copy

    def arrive(self, runner: str) -> None:
        self.arrivals[runner] = self.arrivals.get(runner, 0) + 1

    @read_only
    def show(self) -> dict[str, int]:
        return self.arrivals


@app.task
def step(number: int, before: str) -> Lap:
    """Return a mark that no other execution returns."""
    return {"number": number, "before": before, "mark": uuid4().hex}


@app.flow
async def run(start: str) -> dict[str, Any]:
    """Run all steps, each with the mark of the one before; the first with an event's value."""
    laps = await chain(0, ALONE - 1, start)
    went = await flow.event("go")
    async with flow.lock("track", lease_seconds=600) as lease:
        laps += await chain(len(laps), LOCKED, went)
        token = lease.token
    await flow.sleep(1)
    laps += await chain(len(laps), STEPS - BESIDE - len(laps), laps[-1]["mark"])
    laps += await flow.all(
        *[step.call(number=number, before=laps[-1]["mark"]) for number in range(STEPS - BESIDE, STEPS)]
    )
    return {"laps": laps, "token": token}


async def chain(first: int, count: int, before: str) -> list[Lap]:
    """Run steps one after another."""
    laps: list[Lap] = []
    for number in range(first, first + count):
        lap = await step.call(number=number, before=laps[-1]["mark"] if laps else before)
        laps.append(lap)
    return laps


@app.http("POST", "/track")
def open_track(_: Request) -> Response:
    semaphore("track").ensure(permits=PERMITS, lease_seconds=600)
    return Response(202)


@app.http("POST", "/runners/{runner}")
def send_off(_: Request, runner: str) -> Response:
    """Start a flow whose end is counted."""
    arrival = objects("Finish", "all").arrive.call(runner=runner)
    run.with_(on_complete=arrival).start(runner, start=runner)
    return Response(202)


marathon = app.entry_point()
