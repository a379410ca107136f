"""The attempts of a user's task: a delivery starts its code, which is retried or given up.

A delivery does not show that the code was started: it may be refused before, because the store is unavailable or no
instance is free. So the kit counts starts of the code, and the queue's headers only show whether a delivery is the
first one. `attempts_max` is 2 in this table.

    delivery  counted before  the code              written              then
    --------  --------------  --------------------  -------------------  ------------
    first     0               returns               -                    acknowledged
    first     0               raises a problem      a failure            refused
    first     0               raises another error  1 start, the error   retried
    repeated  0               returns               1 start              acknowledged
    repeated  0               raises a problem      1 start, a failure   refused
    repeated  0               raises another error  1 start, the error   retried
    repeated  1               returns               2 starts             acknowledged
    repeated  1               raises another error  2 starts, the error  retried
    repeated  2               is not started        3 starts, a failure  refused
    repeated  store is away   is not started        -                    retried

"refused": answered with 204, so the queue does not deliver the task again. A first delivery that returns counts
nothing. If its code raises, its start is counted afterwards. If it were counted before, a task whose first delivery
ended before the code would lose one of its starts; if it were never counted, the code would be started once too often.
A unit that is given up is recorded as failed in its batch, and a step in its flow, so neither is kept as a failure.
"""

from signalbox.core.deliveries import Delivered
from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Context, Plain

EVENT_HANDLER = "document_written"
"""The name under which the failure of an event is listed."""


def delivered_event(function: str, event_id: str, path: str, trace: str) -> Delivered[Context]:
    """Return the event of a record's write as a delivery. Its operation is the same in every delivery."""
    operation, payload = name_of("event", function, event_id), {"event": event_id, "path": path}
    context = Plain({"event": event_id}, is_event=True)
    return Delivered(operation, context, function=function, task=EVENT_HANDLER, payload=payload, trace=trace)


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """The number of times the code of a task may be started.

    The code is started once more if a first delivery ended its process, since nothing could count that start.
    """

    attempts_max: int

    def allow(self, start: Start) -> bool:
        """Return whether the start that was just counted may happen."""
        return start.number <= self.attempts_max
