"""Run a user's task with its subject (a lease, a unit, the run of a critical section), however often it is delivered.

    subject      before the code          the code returns           it raises a Problem        any other exception
    lease        claim it; if lost, end   release it, if requested   release it, log the error  keep it; retried
    section      claim it; if over, end   end the run                end the run, log it        release it; retried
    unit         if done before, end      record the result          record the failure         retried
    with rate    wait for it once         record the result          record the failure         retried
    with permit  claim it; if lost, wait  record, release it         record, release it         keep it; retried
    grouped      -                        hold the result            hold the failure           retried, with others
    none, other  -                        -                          log the error              retried

Leases are in `lease_runs`, units in `unit_runs`, groups of units in `group_runs`. Each start of the code is counted
right before it (`starts`).
"""

from collections.abc import Callable

from signalbox.batches.requests import BatchSpec
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Json
from signalbox.core.ports import Ports
from signalbox.critical_sections import service as critical_sections
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import (
    Context,
    OfCompletion,
    OfLease,
    OfOutcome,
    OfSection,
    OfUnit,
    TaskSubject,
)
from signalbox.tasks.service import starts
from signalbox.tasks.service.lease_runs import run_with_lease
from signalbox.tasks.service.unit_runs import IsLive, deliver_unit

Code = Callable[[TaskSubject | None, Start], Json | BatchSpec]
"""The user's function, with its arguments bound except for its subject and its start. Its return value is a unit's
result, or a `BatchSpec`: a batch whose completion is the result."""


def run(ports: Ports, delivered: Delivered[Context], retry_limits: RetryLimits, is_live: IsLive, code: Code) -> None:
    """Run the code as the table above shows. Raises `Problem` for a permanent error; anything else is to be retried."""

    def started(subject: TaskSubject | None) -> Json | BatchSpec:
        return starts.start(ports, delivered, retry_limits, lambda begun: code(subject, begun))

    match delivered.context:
        case OfLease() as context:
            run_with_lease(ports, delivered.within(context), started)
        case OfSection() as context:
            critical_sections.run(ports, context.grant, started)
        case OfUnit() as context:
            deliver_unit(ports, delivered.within(context), is_live, lambda: started(context.subject))
        case OfCompletion(subject=subject) | OfOutcome(subject=subject):
            started(subject)
        case _:
            started(None)
