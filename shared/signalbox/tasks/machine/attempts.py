"""The attempts of a user's task: a delivery starts its code, which is retried or given up.

A delivery does not show that the code was started: it may be refused before, because the store is unavailable or no
instance is free. So the kit counts starts of the code, and the queue's headers only say whether a delivery is the first
one. `attempts_max` is 2 in this table.

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

import json
from collections.abc import Mapping
from typing import Any

from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.tasks.model import Attempt, Start


def resumed(operation: str, context: Mapping[str, Any]) -> tuple[str, int]:
    """Return the operation whose attempts a delivery continues, and the number of its earlier grants."""
    lease = context.get("lease")
    known = lease if isinstance(lease, dict) else {}
    return str(known.get("resumes") or operation), int(known.get("resumed", 0))


def with_unit(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the context of a task, with the unit for which it has waited for its lease."""
    lease = context.get("lease")
    unit = lease.get("unit") if isinstance(lease, dict) else None
    return {**context, "unit": json.loads(unit)} if unit else context


EVENT_HANDLER = "document_written"
"""The name under which the failure of an event is listed."""


def event_attempt(function: str, event_id: str, path: str, trace: str) -> Attempt:
    """Return the attempt that handles the event of a record's write. All deliveries of the event have one operation."""
    operation, payload = name_of("event", function, event_id), {"event": event_id, "path": path}
    return Attempt(operation, {"event": event_id}, function=function, task=EVENT_HANDLER, payload=payload, trace=trace)


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """The number of times the code of a task may be started.

    It is started once more if a first delivery ended its process: nothing could count that start.
    """

    attempts_max: int

    def allow(self, start: Start) -> bool:
        """Return whether the start that was just counted may happen."""
        return start.number <= self.attempts_max
