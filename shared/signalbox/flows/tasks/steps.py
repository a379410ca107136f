"""Tasks of flows: steps, and the kit's own tasks.

    flow_command   waits for a lock, cancels such a wait, renews or releases a lease, populates a batch or cancels one,
                   writes an archive (`archives`)
    flow_result    posts a result: a lease was granted, a call of an object has its outcome, a batch is complete

A step is a user's task with the step in its context. The value that it returns is its outcome; so is a `Problem` that
it raises, and its last failed attempt. Any other error is retried. Then the task runs a turn itself, with the outcome
as one more message, which schedules the next step. If its turn would often conflict with those of its siblings, or if
the flow's code is in another function, it posts the outcome instead.

A step's task that was delayed, is late, or was delivered before checks first whether the flow still waits for it. One
that was delivered before then only posts its outcome: the flow's code may have ended the process.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Self

from signalbox.batches.model.tree import BATCH_IDS
from signalbox.batches.requests import BatchSpec
from signalbox.batches.service import lifecycle
from signalbox.batches.service.population import populate_whole
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Json, name_of
from signalbox.core.keys import IdSpace
from signalbox.core.kit_names import FLOW_COMMAND_TASK, FLOW_RESULT_TASK
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.ports import AlreadyExists, Conflict, Ports
from signalbox.core.problems import LeaseEnded, NotFound, Problem, Unavailable, UnknownTask
from signalbox.core.times import rfc3339
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.effects import wake_flow
from signalbox.flows.machine.stuck import step_outcome
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.messages import Result, child_id, message_to_record
from signalbox.flows.model.payloads import place_of_execution
from signalbox.flows.model.waits import Wait
from signalbox.flows.service.turns import FlowMailbox, advance
from signalbox.flows.storage.commits import header_of
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.messages import header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import message_put, read_mailbox
from signalbox.payloads.model import Outgoing, opened
from signalbox.payloads.service import opening_those_of
from signalbox.payloads.service import store as store_payloads
from signalbox.rates import service as rates
from signalbox.rates.requests import WAIT_IDS as RATE_WAIT_IDS
from signalbox.rates.requests import RateWaitRequest
from signalbox.semaphores.limits import LIMITS as SEMAPHORE_LIMITS
from signalbox.semaphores.model.leases import Granted
from signalbox.semaphores.problems import BadSemaphore, NoSemaphore
from signalbox.semaphores.requests import WAIT_IDS, WaitRequest
from signalbox.semaphores.service import leases, views, waits
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import Context, OfCompletion, OfLease, OfOutcome, OfStep
from signalbox.tasks.service import starts

Code = Callable[[None, Start], Json]
"""A task's code, as `tasks` runs it. A step has no subject."""


# --- steps ---


@dataclass(frozen=True, slots=True)
class StepOfFlow:
    """The step that a task runs. `together` is the number of commands that its flow waits for.

    `delayed` is whether its task was due only some time after the turn that scheduled it.
    """

    address: FlowAddress
    function: str
    wait: Wait
    together: int
    delayed: bool = False

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse the step in the context of its task."""
        return cls(
            FlowAddress.of_base(value["flow"]),
            value["function"],
            Wait.from_json(value),
            value["together"],
            "delayed" in value,
        )

    @property
    def is_later(self) -> bool:
        """Whether the flow may have stopped waiting before the first delivery of the task."""
        return self.delayed or self.wait.attempt > 1


def run_step(ports: Ports, flows: Flows, delivered: Delivered[OfStep], retry_limits: RetryLimits, code: Code) -> None:
    """Run a step's code and give its outcome to the flow. Raises errors that are retried; a `Problem` is an outcome."""
    step = StepOfFlow.from_json(delivered.context.step)
    if (delivered.is_repeated or delivered.is_late or step.is_later) and is_over(ports, step, delivered):
        return
    outgoing = Outgoing()
    with opening_those_of(ports):
        result = Result(step.wait, _outcome_of_step(ports, step, delivered, retry_limits, code, outgoing))
    store_payloads(ports, outgoing)
    if delivered.is_repeated or not apply_at_once(ports, flows, step, result):
        post_result(ports, step.address.base, step.function, result)


def _outcome_of_step(
    ports: Ports,
    step: StepOfFlow,
    delivered: Delivered[OfStep],
    retry_limits: RetryLimits,
    code: Code,
    outgoing: Outgoing,
) -> CallOutcome:
    try:
        returned = starts.start(ports, delivered, retry_limits, lambda start: code(None, start))
    except Problem as problem:
        ports.log.info("step failed", flow=step.address.base, detail=problem.detail)
        return CallOutcome.from_problem(problem)
    return step_outcome(returned, outgoing, place_of_execution(step.address, step.wait.execution_id))


def is_over(ports: Ports, step: StepOfFlow, delivered: Delivered[OfStep]) -> bool:
    """Return whether a flow no longer waits for this attempt of a step: the step is done, or was cancelled.

    If the outcome of an earlier delivery is in the mailbox, wake the flow.
    """
    base = step.address.base
    message = message_path(base, Result(step.wait, CallOutcome()).id_for(step.address))
    header, *posted = ports.store.read(header_path(base), *([message] if delivered.is_repeated else []))
    if any(snapshot.data is not None for snapshot in posted):
        ports.queue.create(complete_wake_ups([wake_flow(base, step.function)], header.read_time))
        return True
    flow = header_of(header, step.address)
    awaited = flow.awaited(step.wait) if flow else None
    if awaited is not None and awaited.attempt <= step.wait.attempt:
        return False
    ports.log.info("step not started, since its flow does not wait for it", flow=base, path=step.wait.path)
    return True


def apply_at_once(ports: Ports, flows: Flows, step: StepOfFlow, result: Result) -> bool:
    """Run a turn that applies the result.

    Return whether the result was applied, or dropped because the flow does not wait for it.
    """
    if step.address.name not in flows.definitions or step.together > LIMITS.flow_siblings_max:
        return False
    for _ in range(MAILBOXES_LIMITS.fast_rounds_max):
        mailbox = read_mailbox(ports.store, step.address.base, MAILBOXES_LIMITS.mailbox_page)
        if mailbox.more:
            return False
        try:
            return advance(ports, flows, FlowMailbox(step.address, mailbox, result)).complete
        except Conflict:
            continue
        except (Unavailable, Problem):  # a `Problem` would acknowledge the task
            return False
    return False


# --- results ---


def post_result(ports: Ports, base: str, function: str, result: Result) -> None:
    """Post a result to a flow, and wake it; `function` has its code. Raises `Unavailable`.

    The commit has no outbox: the task that posts the result is retried until the wake-up is enqueued.
    """
    message = message_put(base, result.id_for(FlowAddress.of_base(base)), message_to_record(result))
    try:
        commit_time = ports.store.commit([message]).commit_time
    except AlreadyExists:
        wake_again(ports, base, function)
    else:
        ports.queue.create(complete_wake_ups([wake_flow(base, function)], commit_time))


def wake_again(ports: Ports, base: str, function: str) -> None:
    """Wake a flow for a result that an earlier delivery may have posted. Raises `Unavailable`."""
    [header] = ports.store.read(header_path(base), fields=())
    ports.queue.create(complete_wake_ups([wake_flow(base, function)], header.read_time))


def _flow_result(ports: Ports, payload: Mapping[str, Any], context: Context) -> None:
    """Post the result in the context of a task.

    If the lease in the result has ended, an earlier delivery may have posted the result before it died, so the flow is
    woken. If no delivery has posted the result, an operator may have ended the lease, so the wait is repeated. If the
    flow no longer waits, an earlier delivery may have repeated the wait and died, so the wait is removed from the wait
    queue. A lease that was granted to that wait in the meantime is kept: the flow may hold it.
    """
    outcome = _outcome_of_context(ports, context)
    if outcome is not None:
        outgoing, wait = Outgoing(), Wait.from_json(payload)
        place = place_of_execution(FlowAddress.of_base(payload["flow"]), wait.execution_id)
        outcome = replace(outcome, result=outgoing.copied(outcome.result, place))
        store_payloads(ports, outgoing)
        post_result(ports, payload["flow"], payload["function"], Result(Wait.from_json(payload), outcome))
        return
    assert isinstance(context, OfLease), "only a lease ends before its outcome is posted"
    if is_awaited(ports, payload):
        repeated = {"permits": 1, "lease_seconds": None, **context.granted.record}
        _wait_for_lock(ports, {**repeated, **payload, "act": "wait"})
    else:
        waits.withdraw(ports, context.granted.semaphore, _child_id(WAIT_IDS, payload), by_flow=True)
    wake_again(ports, payload["flow"], payload["function"])


def _outcome_of_context(ports: Ports, context: Context) -> CallOutcome | None:
    """Return the outcome of a lease, a call of an object or a batch, or None for a lease that has ended.

    The result of granted permits of a rate has no context.
    """
    match context:
        case OfLease(granted=granted):
            claimed = leases.claim(ports, granted)
            if claimed is None:
                return None
            lease = {"semaphore": claimed.semaphore, "id": claimed.id, "token": claimed.token}
            return CallOutcome({**lease, "ends_at": rfc3339(claimed.ends_at), "granted": dict(granted.record)})
        case OfOutcome(outcome=outcome):
            return CallOutcome.from_json(outcome)
        case OfCompletion(completion=completion):
            return CallOutcome(dict(completion))
    return CallOutcome()


# --- commands ---


def _wait_for_lock(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Wait for a lock. If the wait is refused, or a repeat finds that it has ended, the error is the lock's outcome.

    If an earlier delivery has posted the lock, the flow applies the lock first, and drops the error.
    """
    name, lease_seconds, permits = payload["semaphore"], payload["lease_seconds"], payload["permits"]
    again = Call(payload["function"], FLOW_COMMAND_TASK, payload)
    lane = {name: payload[name] for name in ("key", "priority") if name in payload}
    options = {"lease_seconds": lease_seconds, "permits": permits, "on_timeout": again, **lane}
    options["holder"] = holder_of(FlowAddress.of_base(payload["flow"]))
    try:
        if waits.wait(ports, name, WaitRequest(_child_id(WAIT_IDS, payload), _result_call(payload), **options)).ended:
            raise _ended(name, permits, views.get(ports, name).semaphore.settings.permits)
    except Problem as problem:
        _post_error(ports, payload, problem)


def holder_of(address: FlowAddress) -> str:
    """Return a run as the holder of its locks, among which deadlocks are found: its flow and its id.

    The middle of a long id is left out, and a digest keeps the holders of different runs apart.
    """
    holder, most = f"{address.name}/{address.key}", SEMAPHORE_LIMITS.wait_id_bytes_max
    if len(holder.encode()) <= most:
        return holder
    digest = name_of("holder", address.base)[:8]
    begin, end = holder.encode()[: most // 2], holder.encode()[-(most // 2 - len(digest) - 4) :]
    return f"{begin.decode(errors='ignore')}~{digest}~{end.decode(errors='ignore')}"


def _ended(name: str, needed: int, permits: int) -> Problem:
    """Return the error of a wait that has ended, although its flow waits for it.

    If the semaphore now has too few permits, the error is a refusal: the flow is stuck until there are more.
    """
    if needed > permits:
        return BadSemaphore(f"`permits` must be at most {permits:,}: the semaphore's.", field="permits")
    return LeaseEnded(f"The lease of {name} was ended by an operator before the flow received it.")


def _cancel_wait(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Cancel the wait for a lock. If the wait is not known yet, it may still be granted, and its lease is released."""
    with suppress(NotFound):
        waits.cancel(ports, payload["semaphore"], _child_id(WAIT_IDS, payload), by_flow=True)


def _wait_for_rate(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Wait for permits of a rate. If the wait is refused, the error is the outcome.

    If a repeat finds that the permits were granted, the task that posts the result may be lost, so it is posted here.
    """
    try:
        request = RateWaitRequest(_child_id(RATE_WAIT_IDS, payload), _result_call(payload), payload["weight"])
        waiting = rates.wait(ports, payload["rate"], request)
    except Problem as problem:
        _post_error(ports, payload, problem)
    else:
        if waiting.due:
            _post_outcome(ports, payload, CallOutcome())


def _cancel_rate(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Cancel the wait for permits of a rate. If the permits were granted, the result of the wait is dropped."""
    with suppress(NotFound):
        rates.cancel(ports, payload["rate"], _child_id(RATE_WAIT_IDS, payload), by_flow=True)


def _renew_lease(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Renew a lease, even if an earlier delivery has claimed it. If the lease has ended, the error is the outcome."""
    try:
        ends_at = _renewed(ports, Granted.from_context(payload["lease"]), payload["lease_seconds"])
    except Problem as problem:
        _post_error(ports, payload, problem)
    else:
        _post_outcome(ports, payload, CallOutcome(rfc3339(ends_at)))


def _renewed(ports: Ports, granted: Granted, lease_seconds: float | None) -> datetime:
    """Return the new end of a lease. Raises `LeaseEnded` if it has ended, also if its semaphore was deleted."""
    with suppress(NoSemaphore):
        ends_at = leases.renew_granted(ports, granted, lease_seconds)
        if ends_at is not None:
            return ends_at
    raise LeaseEnded(f"The lease of {granted.semaphore} had ended before it was renewed.")


def _release_lease(ports: Ports, payload: Mapping[str, Any]) -> None:
    with suppress(NotFound):
        leases.release(ports, Granted.from_context(payload["lease"]))


def _populate_batch(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Populate a batch. The batch's completion is the result of the command. Its refusal is the error.

    A batch that its flow has abandoned is not populated. If the flow abandons it in the meantime, the task that cancels
    the batch may have found no batch, so the batch is cancelled here, or in the next delivery if this one dies.
    """
    if is_awaited(ports, payload):
        task = Call.from_record(payload["task"]) if payload["task"] else None
        try:
            permits = {name: payload[name] for name in ("semaphore", "rate", "weight") if name in payload}
            follow, failures_max = _result_call(payload), payload["failures_max"]
            spec = BatchSpec(task=task, on_complete=follow, failures_max=failures_max, **permits)
            with opening_those_of(ports):
                units = opened(payload["units"])
            populate_whole(ports, _child_id(BATCH_IDS, payload), spec, units)
        except Problem as problem:
            _post_error(ports, payload, problem)
    if not is_awaited(ports, payload):
        _cancel_batch(ports, payload)


def is_awaited(ports: Ports, payload: Mapping[str, Any]) -> bool:
    """Return whether the flow waits for the outcome of a command."""
    address, wait = FlowAddress.of_base(payload["flow"]), Wait.from_json(payload)
    [read] = ports.store.read(header_path(address.base))
    flow = header_of(read, address)
    return flow is not None and flow.awaited(wait) is not None


def _cancel_batch(ports: Ports, payload: Mapping[str, Any]) -> None:
    with suppress(NotFound):
        lifecycle.cancel(ports, _child_id(BATCH_IDS, payload))


def _post_error(ports: Ports, payload: Mapping[str, Any], problem: Problem) -> None:
    _post_outcome(ports, payload, CallOutcome.from_problem(problem))


def _post_outcome(ports: Ports, payload: Mapping[str, Any], outcome: CallOutcome) -> None:
    post_result(ports, payload["flow"], payload["function"], Result(Wait.from_json(payload), outcome))


def _child_id(ids: IdSpace, payload: Mapping[str, Any]) -> str:
    """Return the id that the command's waiter or batch has, among `ids`."""
    return child_id(ids, FlowAddress.of_base(payload["flow"]), Wait.from_json(payload))


def _result_call(payload: Mapping[str, Any]) -> Call:
    """Return the call of the task that posts the command's result."""
    members = ("flow", "function", "life", "path", "attempt")
    return Call(payload["function"], FLOW_RESULT_TASK, {name: payload[name] for name in members})


COMMANDS: Mapping[str, Callable[[Ports, Mapping[str, Any]], None]] = {
    "wait": _wait_for_lock,
    "leave": _cancel_wait,
    "wait_rate": _wait_for_rate,
    "leave_rate": _cancel_rate,
    "renew": _renew_lease,
    "release": _release_lease,
    "populate": _populate_batch,
    "end_batch": _cancel_batch,
}
"""The commands of `flow_command`, by the member `act` of its payload."""


def _flow_command(ports: Ports, payload: Mapping[str, Any]) -> None:
    command = COMMANDS.get(str(payload.get("act")))
    if command is None:
        raise UnknownTask(f"`flow_command` has no command {payload.get('act')!r}. Its commands: {', '.join(COMMANDS)}.")
    command(ports, payload)


OWN_TASKS = (FLOW_COMMAND_TASK, FLOW_RESULT_TASK)


def run_own_task(ports: Ports, delivered: Delivered[Context]) -> None:
    """Run one of `OWN_TASKS`, however often it is delivered. Raises errors that are retried."""
    if delivered.task == FLOW_RESULT_TASK:
        _flow_result(ports, delivered.payload, delivered.context)
    else:
        _flow_command(ports, delivered.payload)
