"""Run the `async def` code of tasks and handlers, in the thread that handles the request or the task.

Calls of the kit block their thread. If all coroutines of a process shared one loop, such a call of one request would
stop all other requests. So each thread has its own loop, which it keeps: what belongs to a loop, such as an open
connection of a client, can be used again by later requests of the same thread.

The code runs in a copy of the context of its request, as plain code does. At the deadline of the request its coroutine
is cancelled, so that it can clean up before the platform ends the request. Tasks of `asyncio` that it has left are
cancelled with its end, and generators that it has dropped are closed, as `asyncio.run` does: no later request runs
them. A task that does not end although it was cancelled is left behind with its loop: the thread gets another one.
"""

import inspect
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from signalbox.core.flow_hooks import check_ran

if TYPE_CHECKING:
    import asyncio

MARGIN_SECONDS_MAX = 5.0
"""The time before the deadline that is left to the code for its clean-up; a tenth of the time, if that is less."""


LEFT_SECONDS_MAX = 1.0
"""The time in which what the code has left must end once it is cancelled."""


CLOSES_GENERATOR = "async_generator_athrow"
"""Python's type of what the `aclose` of an asynchronous generator returns."""


class _Loops(threading.local):
    """The loop of each thread, from its first coroutine on."""

    runner: "asyncio.Runner | None" = None


_loops = _Loops()


def result_of(returned: Any, what: str, name: str, seconds_left: Callable[[], float] | None = None) -> Any:
    """Return the result of user code: what it has returned, or the result of its coroutine, which is run now.

    A coroutine is cancelled at its deadline, if `seconds_left` is given: then raises `TimeoutError`. Raises `TypeError`
    as `check_ran` does for any other object whose code has not run.
    """
    if not inspect.iscoroutine(returned):
        return check_ran(returned, what, name)
    seconds = None if seconds_left is None else seconds_left()
    return _run_in_a_thread(returned, seconds) if _is_in_a_loop() else _run(returned, seconds)


def _is_in_a_loop() -> bool:
    import asyncio  # only for functions with such code: it takes a part of a cold start

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(coroutine: Any, seconds: float | None) -> Any:
    import asyncio

    runner = _loops.runner = _loops.runner or asyncio.Runner()
    try:
        return runner.run(_limited(coroutine, seconds), context=copy_context())
    finally:
        loop = runner.get_loop()
        runner.run(_end(asyncio.all_tasks(loop)))
        if asyncio.all_tasks(loop):
            loop.close()
            _loops.runner = None


async def _limited(coroutine: Any, seconds: float | None) -> Any:
    import asyncio

    limit = asyncio.timeout(None if seconds is None else seconds - min(MARGIN_SECONDS_MAX, seconds / 10))
    try:
        async with limit:
            return await coroutine
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError("cancelled at the end of the time of its request") from error
        raise


async def _end(left: "set[asyncio.Task[Any]]") -> None:
    """Cancel the tasks that the code has left, and wait for their ends.

    The loop makes a task for each generator that the code has dropped: it closes the generator, and is not cancelled.
    """
    import asyncio

    for task in left:
        if type(task.get_coro()).__name__ != CLOSES_GENERATOR:
            task.cancel()
    until = time.monotonic() + LEFT_SECONDS_MAX
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        seconds = until - time.monotonic()
        if seconds <= 0:
            return
        ended, _ = await asyncio.wait(others, timeout=seconds)
        for task in ended:
            task.cancelled() or task.exception()  # as read: nobody else awaits it
        await asyncio.sleep(0)  # a generator that these have dropped now gets its task


def _run_in_a_thread(coroutine: Any, seconds: float | None) -> Any:
    """Run a coroutine while a loop runs in this thread, as in an `async def` test."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, partial(_run, coroutine, seconds)).result()
