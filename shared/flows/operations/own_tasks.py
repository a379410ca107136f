"""The kit's own tasks of a function with flows: they act for a flow, and tell it how something else ended.

flow_act     wait for a lock, end such a wait, renew a lease, give one back; populate a batch, end one
flow_told    a lease was granted, an object's call has its outcome, a batch is complete
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from shared.batches.operations import batches
from shared.batches.operations.whole_batches import populate_whole
from shared.batches.rules.batch_spec import BatchSpec
from shared.core.operations.ports import Ports
from shared.core.rules.calls import Call
from shared.core.rules.problems import LeaseEnded, NotFound, Problem, UnknownTask
from shared.core.rules.times import rfc3339
from shared.flows.operations.results import leave, wake
from shared.flows.rules.messages import Place, Result
from shared.flows.rules.tasks import FLOW_ACT, FLOW_TOLD, own_name
from shared.objects.rules.outcomes import CallOutcome
from shared.semaphores.operations import semaphores
from shared.semaphores.rules.requests import WaitRequest
from shared.tasks.rules.attempts import Attempt

NAMES = (FLOW_ACT, FLOW_TOLD)


def run(ports: Ports, attempt: Attempt) -> None:
    """Run one of `NAMES`, however often it is delivered. Raises what is to be retried."""
    if attempt.task == FLOW_TOLD:
        _tell(ports, attempt.payload, attempt.context)
        return
    act = ACTS.get(str(attempt.payload.get("act")))
    if act is None:
        raise UnknownTask(f"No flow acts so: {attempt.payload.get('act')!r}.")
    act(ports, attempt.payload)


def _tell(ports: Ports, payload: Mapping[str, Any], context: Mapping[str, Any]) -> None:
    """Leave in a flow's mailbox how something ended.

    A lease that is lost now may have been told by a delivery that then died: the flow is only woken.
    """
    outcome = _outcome(ports, context)
    if outcome is None:
        wake(ports, payload["flow"], payload["function"])
    else:
        leave(ports, payload["flow"], payload["function"], Result(Place.from_json(payload), outcome))


def _outcome(ports: Ports, context: Mapping[str, Any]) -> CallOutcome | None:
    """Return how something ended, or None: it was a lease, and is lost."""
    if "lease" in context:
        granted = context["lease"]
        claimed = semaphores.claim(ports, granted)
        if claimed is None:
            return None
        lease = {"semaphore": claimed.semaphore, "id": claimed.id, "token": claimed.token}
        return CallOutcome({**lease, "ends_at": rfc3339(claimed.ends_at), "granted": dict(granted)})
    if "outcome" in context:
        return CallOutcome.from_json(context["outcome"])
    return CallOutcome(dict(context["batch"]))


def _wait(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Wait for a lock; a wait that is refused is the lock's outcome."""
    call = Call(payload["function"], FLOW_TOLD, _told(payload))
    lease_seconds, permits = payload["lease_seconds"], payload["permits"]
    try:
        request = WaitRequest(own_name(payload), call, lease_seconds=lease_seconds, permits=permits)
        semaphores.wait(ports, payload["semaphore"], request)
    except Problem as problem:
        _refused(ports, payload, problem)


def _leave(ports: Ports, payload: Mapping[str, Any]) -> None:
    """End a wait. One that is not known yet may still be granted: its lease is given back then."""
    with suppress(NotFound):
        semaphores.cancel(ports, payload["semaphore"], own_name(payload))


def _renew(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Renew a lease, of whichever delivery has claimed it; that it has ended before is the renewal's outcome."""
    try:
        ends_at = semaphores.renew_granted(ports, payload["lease"], payload["lease_seconds"])
        if ends_at is None:
            raise LeaseEnded(f"The lease of {payload['lease']['semaphore']} had ended before it was renewed.")
    except Problem as problem:
        _refused(ports, payload, problem)
    else:
        result = Result(Place.from_json(payload), CallOutcome(rfc3339(ends_at)))
        leave(ports, payload["flow"], payload["function"], result)


def _release(ports: Ports, payload: Mapping[str, Any]) -> None:
    with suppress(NotFound):
        semaphores.release(ports, payload["lease"])


def _populate(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Populate a batch, whose completion tells the flow; one that is refused is the batch's outcome."""
    told = Call(payload["function"], FLOW_TOLD, _told(payload))
    task = Call.from_record(payload["task"]) if payload["task"] else None
    try:
        spec = BatchSpec(task=task, on_complete=told, failures_max=payload["failures_max"])
        populate_whole(ports, own_name(payload), spec, payload["units"])
    except Problem as problem:
        _refused(ports, payload, problem)


def _end_batch(ports: Ports, payload: Mapping[str, Any]) -> None:
    with suppress(NotFound):
        batches.cancel(ports, own_name(payload))


def _refused(ports: Ports, payload: Mapping[str, Any], problem: Problem) -> None:
    result = Result(Place.from_json(payload), CallOutcome.from_problem(problem))
    leave(ports, payload["flow"], payload["function"], result)


def _told(payload: Mapping[str, Any]) -> dict[str, Any]:
    known = ("flow", "function", "life", "path", "attempt")
    return {name: payload[name] for name in known}


ACTS = {
    "wait": _wait,
    "leave": _leave,
    "renew": _renew,
    "release": _release,
    "populate": _populate,
    "end_batch": _end_batch,
}
