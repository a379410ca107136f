"""Code that runs when it is called. An ``async def`` and a function with ``yield`` only return an object, silently."""

import inspect
from collections.abc import Callable
from typing import Any


def check_plain(code: Callable[..., Any], what: str, *, may_yield: bool = False) -> None:
    """Raise `TypeError` for an ``async def``, and for a function with ``yield`` unless it may have one.

    `what` is the kind of code: "task".
    """
    name = getattr(code, "__name__", repr(code))
    if inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code):
        raise TypeError(
            f"The {what} {name} is `async def`, so a call would not run it. Write `def`, and `asyncio.run(…)` inside."
        )
    if inspect.isgeneratorfunction(code) and not may_yield:
        raise TypeError(
            f"The {what} {name} contains `yield`, so a call would not run it. Return a list; only flows yield."
        )


def check_ran(returned: Any, what: str, name: str) -> Any:
    """Return the code's result. Raises `TypeError` for a coroutine or a generator, since the code has not run.

    A decorator can return one although the decorated code does not show it.
    """
    if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        kind = type(returned).__name__
        if inspect.iscoroutine(returned):
            returned.close()
        raise TypeError(f"The {what} {name} returned a {kind}, so its code has not run. Write `def`, without `yield`.")
    return returned
