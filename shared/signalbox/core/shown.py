"""Parts of answers that several subjects show. A field that has its default is left out of the answer."""

from enum import Enum
from typing import Annotated

from signalbox.core.field_rules import Range
from signalbox.core.lazy_dataclasses import dataclass


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
