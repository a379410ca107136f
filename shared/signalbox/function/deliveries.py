"""A function's deliveries of tasks: whether the code of one is known, and the time that it has."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from signalbox.adapters import wall_clock
from signalbox.adapters.cloud_tasks import DISPATCH_SECONDS_MAX
from signalbox.adapters.deployed_catalogue import is_declared
from signalbox.adapters.http.task_deliveries import FORWARDED, TURNS
from signalbox.adapters.settings import settings
from signalbox.adapters.system_clock import time_budget
from signalbox.batches.api import is_live
from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.batches.model.units import Unit
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.failure_notices import FailureNotice
from signalbox.core.kit_names import TASKS_QUEUE
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem, Unavailable
from signalbox.mailboxes.model.outcomes import Outcome
from signalbox.payloads.model import opened, payloads_in
from signalbox.tasks.api import Task
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start, TaskContext
from signalbox.tasks.model.contexts import Context, OfGroup, OfUnit, Plain, TaskSubject, is_named
from signalbox.tasks.service.group_runs import GroupTime


def is_known(task: Task[Any, Any] | None, delivered: Delivered[Context]) -> bool:
    """Return whether this code has a task that takes the arguments of a delivery (of a group: of the first unit)."""
    context = delivered.context
    first = context.payloads[0] if isinstance(context, OfGroup) and context.payloads else {}
    payload = {**delivered.payload, **first}
    if task is not None and is_named(context) and payloads_in(*payload.values()):
        return payload.keys() <= {name.removesuffix("?") for name in task.parameters}  # the values are not read here
    return task is not None and task.accepts(payload)


def is_coming(task: Task[Any, Any] | None, delivered: Delivered[Context]) -> bool:
    """Return whether the deployment's catalogue has the task, or the task's arguments, that this code lacks."""
    lacking = delivered.payload.keys() - {name.removesuffix("?") for name in (task.parameters if task else ())}
    return (task is None or bool(lacking)) and is_declared(delivered.function, delivered.task, lacking)


def to_be_retried(
    ports: Ports, run: Callable[[], None], notice: Callable[[Problem], Sequence[Effect]] = lambda _: ()
) -> None:
    """Run an internal task. No error is permanent: if the task were acknowledged, its messages would not be read.

    `notice` returns the tasks to enqueue for a problem, each time it is raised.
    """
    try:
        run()
    except Problem as problem:
        ports.log.error("turn refused", problem=problem.slug(), detail=problem.detail, exception=problem)
        if tasks := notice(problem):
            ports.queue.create(tasks)
        raise Unavailable(problem.detail) from problem


def refused_turn_notice(delivered: Delivered[Any], problem: Problem) -> Sequence[Effect]:
    """Return the task that notifies the function of a mailbox whose messages cannot be applied."""
    mailbox = str(delivered.payload.get("mailbox", ""))
    collection, _, address = mailbox.partition("/")
    name, _, key = address.partition("~")
    what = name, key, problem.slug(), problem.detail
    notice = FailureNotice("flow" if collection == "flows" else "object", "stuck", *what)
    return notice.tasks(delivered.function, mailbox, problem.slug(), problem.detail)


def group_time(function: str) -> GroupTime:
    """Return the time of a delivery that begins now: its second half is left to the unit that runs then."""
    half = min(settings().timeout_of(function), DISPATCH_SECONDS_MAX) / 2
    is_over = time_budget(min(BATCHES_LIMITS.group_seconds, half))()
    return GroupTime(is_over, time_budget(BATCHES_LIMITS.group_hold_seconds))


def task_context(delivered: Delivered[Context], start: Start, limits: RetryLimits, received_at: float) -> TaskContext:
    """Return the context of an attempt. `received_at` is a time of this process's monotonic clock."""
    context = delivered.context

    def seconds_left() -> float:
        return received_at + min(settings().timeout_of(delivered.function), DISPATCH_SECONDS_MAX) - time.monotonic()

    def cancelled() -> bool:
        return isinstance(context, OfUnit) and not is_live(context.unit)

    what = delivered.operation, start.number, limits.attempts_max, delivered.trace
    plain = context if isinstance(context, Plain) else Plain()
    known = {"reason": plain.reason, "scheduled_at": plain.scheduled_at}
    return TaskContext(*what, seconds_left, cancelled, **known, _now=wall_clock.now)  # type: ignore[arg-type]  # of a dict


def enqueued_again(delivered: Delivered[Context]) -> Effect:
    """Return the effect that enqueues a delivered task again when its turn comes, with the count of its deliveries.

    Its operation is that of the task, and its name is chosen when it is enqueued.
    """
    deliveries = {FORWARDED: [delivered.executions, delivered.retries + 1], TURNS: delivered.turns + 1}
    context = {**delivered.context.members, **deliveries}
    effect = delivered.call.effect(delivered.operation, None, **context)
    return replace(effect, queue=TASKS_QUEUE, trace=delivered.trace)  # the queue of schedules; others may be refused


def opened_subject(subject: TaskSubject | list[Unit] | None) -> TaskSubject | list[Unit] | None:
    """Return what a task runs for. An outcome has the value of its payload. Raises `PayloadUnread`."""
    if isinstance(subject, Outcome):
        return replace(subject, result=opened(subject.result))
    return subject
