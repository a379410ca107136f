"""Kill a part of a running stack, and wait for what must come all the same."""

import time
from collections.abc import Callable

from infra.local.stack import Stack


def until(over: Callable[[], bool], seconds_max: float) -> None:
    """Poll until it is over."""
    give_up_at = time.monotonic() + seconds_max
    while not over():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.05)


def kill(stack: Stack, part: str, seconds_max: float = 20) -> None:
    """Kill a part, and wait until another is there in its place."""
    deaths = stack.deaths(part)
    stack.kill(part)
    until(lambda: stack.deaths(part) > deaths and stack.is_up(part), seconds_max)
