"""The flow whose code runs, as the commands see it that its code creates.

A command that the code creates and neither awaits, sends nor keeps has no effect; most often an `await` was forgotten.
The driver notices it at the next `await`, because no reference to it is left. A command that the code keeps may still
be awaited later, for instance in a clean-up. A query only reads, so its function can create none.
"""

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from signalbox.core.dropped_calls import warn_if_dropped
from signalbox.flows.problems import BadFlow, CannotQuery

Created = TypeVar("Created")


class RunningFlow(Protocol):
    """The driver, as commands see it. `created` are the commands that the code has created since its last wait.

    `answering` is the name of the query whose function runs, empty otherwise: that function must not act.
    """

    created: list[tuple["weakref.ref[Any]", str]]
    answering: str

    @property
    def branch(self) -> str:
        """The path of the branch whose code runs."""
        ...

    @property
    def replayed(self) -> bool:
        """Whether the code runs at a position that an earlier turn has passed, and no call was refused before it."""
        ...

    def refused(self) -> None:
        """Note that the kit has refused a call of the code."""
        ...


_current: ContextVar[RunningFlow | None] = ContextVar("signalbox.running_flow", default=None)


@contextmanager
def running(flow: RunningFlow) -> Iterator[None]:
    """Make `flow` the flow whose code runs."""
    token = _current.set(flow)
    try:
        yield
    finally:
        _current.reset(token)


def enter(flow: RunningFlow) -> None:
    """Make `flow` the flow whose code runs in this context, and in copies of it."""
    _current.set(flow)


def is_running() -> bool:
    """Return whether the code of a flow runs."""
    return _current.get() is not None


def is_replayed() -> bool:
    """Return whether the code of a flow runs at a position that an earlier turn has passed."""
    flow = _current.get()
    return flow is not None and flow.replayed


def note_refused() -> None:
    """Note that the kit has refused a call of the code, if a flow runs."""
    if (flow := _current.get()) is not None:
        flow.refused()


READS = frozenset({"flow.context", "flow.now"})
"""The functions of `flow` that a query may call."""


def running_flow(name: str) -> Any:
    """Return the driver of the flow whose code runs.

    Raises `BadFlow` if no flow's code runs; `name` is the called function. Raises `CannotQuery` in a query, unless the
    function only reads.
    """
    if (flow := _current.get()) is None:
        raise BadFlow(f"`{name}` works only inside the code of a flow.")
    if name not in READS and (refusal := refusal_of_query(f"calls `{name}()`")):
        raise refusal
    return flow


def refusal_of_query(does: str) -> CannotQuery | None:
    """Return the error for a query whose function acts, or None if no query is being answered.

    `does` describes the action.
    """
    flow = _current.get()
    if flow is None or not flow.answering:
        return None
    advice = "A query only reads the variables of the code. Send the run an event, and let its code do that"
    return CannotQuery(f"The query {flow.answering!r} {does}. {advice}.")


def created(command: Created, name: str, frames: int = 2, instead_of: object = None) -> Created:
    """Record that a flow's code has created a command, `frames` frames above.

    If no flow runs, only warn about a command that the code drops.
    `instead_of` is the command that `command` wraps. Raises `CannotQuery` in a query.
    """
    if (flow := _current.get()) is None:
        warn_if_dropped(name.removesuffix("()"), "only the code of a flow awaits it")
        return command
    if flow.answering and (refusal := refusal_of_query(f"creates the command {name}")):
        raise refusal
    if instead_of is not None:
        flow.created[:] = [(other, place) for other, place in flow.created if other() is not instead_of]
    flow.created.append((weakref.ref(command), f"{name} at {called_at(frames + 1)}"))
    return command


def called_at(frames: int) -> str:
    """Return the place in the code `frames` frames above."""
    caller = sys._getframe(frames)
    return f"{caller.f_code.co_filename.rpartition('/')[2]}:{caller.f_lineno} in {caller.f_code.co_name}"


def current_flow() -> RunningFlow | None:
    """Return the flow whose code runs, or None."""
    return _current.get()


def current_branch() -> str:
    """Return the path of the branch whose code runs."""
    flow = _current.get()
    return flow.branch if flow else ""
