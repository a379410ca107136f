"""The flows that are measured. A step returns when its task was due and when its code began, both of this machine."""

import time
from collections.abc import Generator
from typing import Any

import flask

from signalbox import Function, flow

app = Function("stepper")

Times = tuple[float, float]
"""When a step's task was due, and when its code began."""


@app.task
def step(number: int) -> list[float]:
    """Return the two times; the number only distinguishes steps."""
    return [float(flask.request.headers["X-CloudTasks-TaskETA"]), time.time()]


@app.flow
def chain(steps: int) -> Generator[Any, Any, list[Times]]:
    """Run steps one after another."""
    times = []
    for number in range(steps):
        known = yield step.call(number=number)
        times.append(known)
    return times


@app.flow
def listed(width: int) -> Generator[Any, Any, list[Times]]:
    """Run a step, so many at once, and another one."""
    first = yield step.call(number=-1)
    yield [step.call(number=number) for number in range(width)]
    return [first, (yield step.call(number=width))]


@app.flow
def batched(width: int) -> Generator[Any, Any, list[Times]]:
    """Do as `listed`, with a batch."""
    first = yield step.call(number=-1)
    ended = yield flow.batch(step.call(number=number) for number in range(width))
    assert ended["succeeded"] == width
    return [first, (yield step.call(number=width))]


stepper = app.entry_point()
