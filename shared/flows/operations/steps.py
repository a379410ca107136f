"""Run a step of a flow: a task whose end is told to the flow, whatever it is.

What the task returns, and a `Problem` that it raises, is its outcome; any other error is retried, and its giving up is
an outcome too. Then the task brings the flow forward itself, with its outcome in hand: that is the next step's
beginning. Where others would collide with it, or the flow's code is elsewhere, it leaves its outcome in the mailbox.

A task that was delivered before looks first whether its outcome is known, and only leaves it: the flow's code may have
ended its process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from shared.core.operations.mailbox import read_mailbox
from shared.core.operations.ports import Conflict, Ports
from shared.core.rules.effects import Json
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path, message_path
from shared.core.rules.problems import Problem, Unavailable
from shared.core.rules.wake_ups import completed
from shared.flows.operations.records import header_of
from shared.flows.operations.results import leave
from shared.flows.operations.turns import FlowMailbox, advance
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import Flows
from shared.flows.rules.messages import Place, Result
from shared.flows.rules.results import step_outcome
from shared.flows.rules.tasks import wake_flow
from shared.objects.rules.outcomes import CallOutcome
from shared.tasks.operations import attempts
from shared.tasks.rules.attempts import Attempt, RetryLimits, Start

Code = Callable[[None, Start], Json]
"""The task's code, as `task_runner` runs it: a step has no subject."""


@dataclass(frozen=True, slots=True)
class StepOfFlow:
    """The step that a task is, as its context says: of which flow, at which place, beside how many others."""

    address: FlowAddress
    function: str
    place: Place
    together: int

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Self:
        """Read the step in a task's context."""
        step = context["step"]
        return cls(FlowAddress.of_base(step["flow"]), step["function"], Place.from_json(step), step["together"])


def is_step(context: Mapping[str, Any]) -> bool:
    """Return whether a task's context says that it is a step of a flow."""
    return "step" in context


def run(ports: Ports, flows: Flows, attempt: Attempt, retry_limits: RetryLimits, code: Code) -> None:
    """Run a step's code and tell its flow. Raises what is to be retried, and no `Problem`: that is an outcome."""
    step = StepOfFlow.from_context(attempt.context)
    if attempt.is_repeated and _is_known(ports, step):
        return
    result = Result(step.place, _outcome(ports, attempt, retry_limits, code))
    if attempt.is_repeated or not _told_at_once(ports, flows, step, result):
        leave(ports, step.address.base, step.function, result)


def _outcome(ports: Ports, attempt: Attempt, retry_limits: RetryLimits, code: Code) -> CallOutcome:
    try:
        returned = attempts.start(ports, attempt, retry_limits, lambda start: code(None, start))
    except Problem as problem:
        ports.log.info("step failed", flow=attempt.context["step"]["flow"], detail=problem.detail)
        return CallOutcome.from_problem(problem)
    return step_outcome(returned, LIMITS.result_bytes_max)


def _is_known(ports: Ports, step: StepOfFlow) -> bool:
    """Return whether nothing is to be done for a step any more; a flow whose mailbox has its outcome is woken."""
    base = step.address.base
    message = message_path(base, Result(step.place, CallOutcome()).id_for(step.address))
    left, header = ports.store.read(message, header_path(base))
    if left.data is not None:
        ports.queue.create(completed([wake_flow(base, step.function)], left.read_time))
        return True
    flow = header_of(header, step.address)
    return flow is None or flow.life != step.place.life or step.place.path not in flow.pending


def _told_at_once(ports: Ports, flows: Flows, step: StepOfFlow, result: Result) -> bool:
    """Run a turn that records the outcome in hand; return whether it is recorded, or nobody waits for it."""
    if step.address.flow not in flows.definitions or step.together > LIMITS.flow_siblings_max:
        return False
    for _ in range(LIMITS.fast_rounds_max):
        mailbox = read_mailbox(ports.store, step.address.base, LIMITS.mailbox_page)
        if mailbox.more:
            return False
        try:
            return advance(ports, flows, FlowMailbox(step.address, mailbox, result))
        except Conflict:
            continue
        except Unavailable:
            return False
    return False
