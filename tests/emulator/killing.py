"""Kill a service of a running stack, and wait for what must happen nevertheless."""

import time
from collections.abc import Callable

from infra.local.stack import Stack


def until(over: Callable[[], bool], seconds_max: float) -> None:
    """Poll until it is true."""
    give_up_at = time.monotonic() + seconds_max
    while not over():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.05)


def kill(stack: Stack, part: str, seconds_max: float = 20) -> None:
    """Kill a service, and wait until it is restarted."""
    deaths = stack.deaths(part)
    stack.kill(part)
    until(lambda: stack.deaths(part) > deaths and stack.is_up(part), seconds_max)
