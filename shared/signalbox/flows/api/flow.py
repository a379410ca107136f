"""The commands and functions for a flow's code: `from signalbox import flow`, then `yield flow.sleep(60)`."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from signalbox.core.calls import Call
from signalbox.flows.machine.commands import (
    CONTINUE_AS_NEW,
    AnyOf,
    Batch,
    ContinueAsNew,
    HeldLock,
    Lock,
    NextEvent,
    Settled,
    SettledOf,
    Sleep,
    Step,
    batch_of,
    check_any,
    created,
    running_flow,
)
from signalbox.flows.machine.failures import Cancelled

# --- commands ---


def step(call: Call, *, attempts_max: int = 1, pause_seconds: float = 0) -> Step:
    """Return a command that runs a task. After a `Problem` it runs again, `attempts_max` times in all."""
    return created(Step(call, attempts_max, pause_seconds), "flow.step()")


def sleep(seconds: float) -> Sleep:
    """Return a command that waits for `seconds`, a year at most. Waiting costs nothing."""
    return created(Sleep(seconds), "flow.sleep()")


def event(name: str) -> NextEvent:
    """Return a command that waits for the next event of a name; its result is the value. Earlier events are kept."""
    return created(NextEvent(name), "flow.event()")


def lock(semaphore: str, *, permits: int = 1, lease_seconds: float | None = None) -> Lock:
    """Return a command that waits for permits of a semaphore. Its result is a `HeldLock`, to be used in ``with``."""
    return created(Lock(semaphore, permits, lease_seconds), "flow.lock()")


def batch(calls: Iterable[Call], *, failures_max: int | None = None) -> Batch:
    """Return a command that runs many calls of one task. Its result has `size`, `succeeded` and `failed`."""
    return created(batch_of(calls, failures_max), "flow.batch()")


def any(*items: Any) -> AnyOf:  # noqa: A001  the word of the field
    """Return a command that waits for the first of several. Its result is `(which, result)`, counted from 0."""
    return created(AnyOf(check_any(items)), "flow.any()")


def settled(items: Iterable[Any]) -> SettledOf:
    """Return a command that waits for all of several. Its results are `Settled`, each with its result or its error."""
    return created(SettledOf(tuple(items)), "flow.settled()")


def continue_as_new(**arguments: Any) -> ContinueAsNew:
    """Return a value that the flow returns to start again with other arguments and an empty log.

    Events that it has not waited for are kept.
    """
    return created(ContinueAsNew(arguments), CONTINUE_AS_NEW)


# --- functions without a wait ---


def send(call: Call) -> None:
    """Send a task without waiting for it. It is enqueued by the commit of this turn."""
    running_flow("flow.send").send(call)


def progress(value: Any) -> None:
    """Set the JSON value that the status of the run shows as its progress."""
    running_flow("flow.progress").show(value)


def now() -> datetime:
    """Return the server's time of the last applied entry: the same in every replay."""
    time: datetime = running_flow("flow.now").position.time()
    return time


def random() -> float:
    """Return a random number from 0 to 1: the same in every replay."""
    number: float = running_flow("flow.random").position.random()
    return number


def uuid() -> str:
    """Return a random UUID: the same in every replay."""
    digits: str = running_flow("flow.uuid").position.draw()[:32]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def patched(name: str) -> bool:
    """Return whether the new code runs here: false where this run passed before its code had the patch."""
    holds: bool = running_flow("flow.patched").position.patched(name)
    return holds


__all__ = [
    "Cancelled",
    "HeldLock",
    "Settled",
    "any",
    "batch",
    "continue_as_new",
    "event",
    "lock",
    "now",
    "patched",
    "progress",
    "random",
    "send",
    "settled",
    "sleep",
    "step",
    "uuid",
]
