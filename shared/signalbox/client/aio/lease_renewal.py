"""Pauses, threads and background calls, by which leases are renewed, for async code.

`blocking.lease_renewal` has the same names.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Returned = TypeVar("Returned")

sleep = asyncio.sleep


async def in_thread(run: Callable[[str], Returned], argument: str) -> Returned:
    """Call a function that blocks, in a thread."""
    return await asyncio.to_thread(run, argument)


async def finished(run: Callable[[], Awaitable[Returned]]) -> Returned:
    """Call a function to its end, although the caller may be cancelled meanwhile; a second cancel does not wait."""
    task = asyncio.ensure_future(run())
    _running.add(task)
    task.add_done_callback(_running.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # it is read: the cancel is what the caller gets
        raise


_running: set[asyncio.Future[Any]] = set()
"""Calls that must end: the event loop itself keeps no task alive."""


class Repeated:
    """Calls a function again and again in the background, until it returns False or `stop` is called."""

    def __init__(self, run: Callable[[], Awaitable[bool]], pause_seconds: Callable[[], float]) -> None:
        self._run = run
        self._pause_seconds = pause_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the calls, after the first pause."""
        self._task = asyncio.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            await sleep(self._pause_seconds())
            if not await self._run():
                return

    async def stop(self) -> None:
        """End the calls; a call under way is interrupted."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
