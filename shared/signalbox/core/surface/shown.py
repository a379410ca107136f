"""Parts of answers that several subjects show. A field that has its default is left out of the answer."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, Self

from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Range


class Absence(Enum):
    ABSENT = "The default of a member whose null is a value."


ABSENT = Absence.ABSENT


@dataclass(frozen=True, slots=True)
class TaskShown:
    """A task, without its payload, which may be large."""

    function: str
    task: str

    flow: str = ""
    """The run of a flow that waits, as `checkout/order-7`."""

    step: str | None = None
    """The place in that run's log."""

    batch: str = ""
    """The batch whose unit the task runs, if the unit waits for a permit."""

    unit: Annotated[int | None, Range(0)] = None
    """The index of that unit."""

    @classmethod
    def of(cls, call: Call) -> Self:
        shown: dict[str, Any] = {**call.shown()}
        return cls(**shown)


@dataclass(frozen=True, slots=True)
class RetriedTaskShown:
    """The last error of a task that is being retried."""

    id: str

    state: Literal["retrying"]

    function: str

    task: str

    error: str
    """What its code raised last."""

    traceback: str

    trace: str
    """A W3C traceparent."""

    attempts: Annotated[int, Range(0)]
    """How often its code has been started."""

    failed_at: datetime

    next_at: datetime
    """The earliest time of the next attempt."""
