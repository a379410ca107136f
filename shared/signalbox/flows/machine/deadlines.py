"""A run's deadline: the end of its time-out, counted from its start by the server's time. At it the run is cancelled.

    run = order.with_(timeout_seconds=3_600).start("1")     started at 12:00; its deadline is 13:00

The commit that creates the run writes the deadline into the header, and a cancel into the mailbox, which is due at the
deadline. Its wake-up is enqueued then, and again with the commands of each turn that repeats them, since its task may
be lost. `continue_as_new` keeps the deadline.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from signalbox.core.effects import Effect, name_of
from signalbox.core.lazy_dataclasses import replace
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.model.headers import TIME_OUT, FlowHeader
from signalbox.flows.model.messages import Cancel
from signalbox.flows.problems import BadFlow


def checked_timeout(seconds: Any) -> float | None:
    """Return the time-out of a start, or None if the start has no time-out. Raises `BadFlow`."""
    most = LIMITS.flow_timeout_seconds_max
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= most:
        raise BadFlow(f"`timeout_seconds` must be a number above 0 and at most {most:,.0f}.", field="timeout_seconds")
    return seconds


def with_deadline(header: FlowHeader, timeout_seconds: float | None, now: datetime) -> FlowHeader:
    """Return the header of a run that starts now. A run with a time-out has a deadline."""
    return replace(header, deadline_at=now + timedelta(seconds=timeout_seconds)) if timeout_seconds else header


def deadline_message(header: FlowHeader, timeout_seconds: float) -> tuple[str, Cancel]:
    """Return the message that cancels a run at its deadline, with the message's id. Each deadline of a run has one."""
    reason = f"{TIME_OUT} {timeout_seconds:,g} seconds is over."
    return deadline_id(header), Cancel(reason)


def deadline_id(header: FlowHeader) -> str:
    """Return the id of the message of a run's last deadline, which its start or a retry has set."""
    set_by = [header.deadline_rewind] if header.deadline_rewind else []
    return name_of("deadline", header.address.base, header.incarnation, *set_by)


def wake_at_deadline(header: FlowHeader) -> Iterator[Effect]:
    """Iterate over the wake-up at the deadline of a run. There is none if the run has no deadline."""
    if header.deadline_at:
        yield wake_flow(header.address.base, header.function, header.deadline_at)
