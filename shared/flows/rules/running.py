"""The flow whose code runs now: commands and `flow.now()` need it.

A command that is made and neither yielded, sent nor kept does nothing; most often a `yield` was forgotten. It is known
by its being gone at the next yield: whoever keeps it, for a clean-up perhaps, may still yield it.
"""

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from shared.core.rules.problems import BadFlow

Made = TypeVar("Made")


class Running(Protocol):
    """What a flow that runs knows of its commands."""

    made: list[tuple["weakref.ref[Any]", str]]


_current: ContextVar[Running | None] = ContextVar("running_flow", default=None)


@contextmanager
def running(flow: Running) -> Iterator[None]:
    """Make a flow the one whose code runs."""
    token = _current.set(flow)
    try:
        yield
    finally:
        _current.reset(token)


def is_running() -> bool:
    """Return whether the code of a flow runs."""
    return _current.get() is not None


def running_flow(what: str) -> Any:
    """Return the driver of the flow whose code runs. Raises `BadFlow` outside of one; `what` names what needs it."""
    if (flow := _current.get()) is None:
        raise BadFlow(f"`{what}` belongs inside a flow.")
    return flow


def made(command: Made, what: str, frames: int = 2) -> Made:
    """Note that a flow's code made a command, so many frames up; anywhere else this does nothing."""
    if (flow := _current.get()) is not None:
        caller = sys._getframe(frames)
        place = f"{caller.f_code.co_filename.rpartition('/')[2]}:{caller.f_lineno} in {caller.f_code.co_name}"
        flow.made.append((weakref.ref(command), f"{what} at {place}"))
    return command
