"""The flows that are measured. A step returns when its task was due and when its code began, both of this machine."""

import time

import flask

from signalbox import Function, flow

app = Function("stepper")

Times = list[float]
"""When a step's task was due, and when its code began."""


@app.task
def step(number: int) -> Times:
    """Return the two times; the number only distinguishes steps."""
    return [float(flask.request.headers["X-CloudTasks-TaskETA"]), time.time()]


def inline_step() -> Times:
    """Return the time twice: an inline step has no task."""
    now = time.time()
    return [now, now]


@app.flow
async def chain(steps: int) -> list[Times]:
    """Run steps one after another."""
    return [await step.call(number=number) for number in range(steps)]


@app.flow
async def inline(steps: int) -> list[Times]:
    """Run inline steps one after another."""
    return [await flow.run(inline_step) for _ in range(steps)]


@app.flow
async def listed(width: int) -> list[Times]:
    """Run a step, then `width` steps at once, then another one."""
    first = await step.call(number=-1)
    await flow.all(*[step.call(number=number) for number in range(width)])
    return [first, await step.call(number=width)]


@app.flow
async def listed_inline(width: int) -> list[Times]:
    """Do as `listed`, with inline steps."""
    first = await flow.run(inline_step)
    await flow.all(*[flow.run(inline_step) for _ in range(width)])
    return [first, await flow.run(inline_step)]


@app.flow
async def batched(width: int) -> list[Times]:
    """Do as `listed`, with a batch."""
    first = await step.call(number=-1)
    ended = await flow.batch(step.call(number=number) for number in range(width))
    assert ended["succeeded"] == width
    return [first, await step.call(number=width)]


stepper = app.entry_point()
