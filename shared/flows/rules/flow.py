"""What a flow's code uses: `from shared.kit import flow`, then `yield flow.sleep(60)` (docs/flows.md)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from shared.core.rules.calls import Call
from shared.flows.rules.combinations import Again, AnyOf, Settled, SettledOf, check_any
from shared.flows.rules.commands import Batch, Event, Lock, Sleep, Step, batch_of
from shared.flows.rules.failures import Cancelled
from shared.flows.rules.locks import HeldLock
from shared.flows.rules.running import made, running_flow


def step(call: Call, *, attempts_max: int = 1, pause_seconds: float = 0) -> Step:
    """Return a command: run a task; one that ends with a `Problem` is run again, `attempts_max` times in all."""
    return made(Step(call, attempts_max, pause_seconds), "flow.step()")


def sleep(seconds: float) -> Sleep:
    """Return a command: wait so long, a year at most. It costs nothing meanwhile."""
    return made(Sleep(seconds), "flow.sleep()")


def event(name: str) -> Event:
    """Return a command: wait for an event; its value is the result. One that came before is not lost."""
    return made(Event(name), "flow.event()")


def lock(semaphore: str, *, permits: int = 1, lease_seconds: float | None = None) -> Lock:
    """Return a command: wait for permits of a semaphore; the result is a `HeldLock`, to be used in `with`."""
    return made(Lock(semaphore, permits, lease_seconds), "flow.lock()")


def batch(calls: Iterable[Call], *, failures_max: int | None = None) -> Batch:
    """Return a command: run many calls of one task; the result has `size`, `succeeded` and `failed`."""
    return made(batch_of(calls, failures_max), "flow.batch()")


def any(*items: Any) -> AnyOf:  # noqa: A001  the word of the field
    """Return a command: wait for the first of several commands; the result is `(which, result)`, counted from 0."""
    return made(AnyOf(check_any(items)), "flow.any()")


def settled(items: Iterable[Any]) -> SettledOf:
    """Return a command: wait for all of several; the results are `Settled`, each with its result or its error."""
    return made(SettledOf(tuple(items)), "flow.settled()")


def again(**arguments: Any) -> Again:
    """Return what a flow returns to begin anew with an empty log; events that it has not waited for stay."""
    return Again(arguments)


def send(call: Call) -> None:
    """Send a task without waiting for it: it runs once the flow has taken this step."""
    running_flow("flow.send").send(call)


def progress(value: Any) -> None:
    """Show people how far the flow is: JSON."""
    running_flow("flow.progress").show(value)


def now() -> datetime:
    """Return the server's time of what the flow was told last: the same in every replay."""
    when: datetime = running_flow("flow.now").position.time()
    return when


def random() -> float:
    """Return a number from 0 to 1, the same in every replay."""
    drawn: float = running_flow("flow.random").position.random()
    return drawn


def uuid() -> str:
    """Return a random UUID, the same in every replay."""
    digits: str = running_flow("flow.uuid").position.draw()[:32]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def patched(name: str) -> bool:
    """Return whether new code may be taken here: false where this run has passed before the code had this patch."""
    holds: bool = running_flow("flow.patched").position.patched(name)
    return holds


__all__ = [
    "Cancelled",
    "HeldLock",
    "Settled",
    "again",
    "any",
    "batch",
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
