"""A delivery of a task as an attempt of its code: whether the code is known, and the time that it has."""

import time
from collections.abc import Callable
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.cloud_tasks import DISPATCH_SECONDS_MAX
from signalbox.adapters.deployed_catalogue import is_declared
from signalbox.adapters.http.task_deliveries import TaskDelivery
from signalbox.adapters.settings import settings
from signalbox.adapters.system_clock import time_budget
from signalbox.batches.api import is_live
from signalbox.batches.limits import LIMITS as BATCHES_LIMITS
from signalbox.batches.model.units import PlacedUnit
from signalbox.core.effects import NO_BACKOFF
from signalbox.core.problems import Problem, Unavailable
from signalbox.tasks.api import Task
from signalbox.tasks.machine.attempts import RetryLimits, resumed, with_unit
from signalbox.tasks.model import Attempt, Start, TaskContext
from signalbox.tasks.service import runs

GROUP = "group"
"""The member of a task's context that says which units of a batch it runs."""


def is_known(task: Task[Any, Any] | None, request: TaskDelivery) -> bool:
    """Return whether this code has a task that takes the arguments of a delivery. A group's first unit is looked at."""
    payloads = request.context.get(GROUP, {}).get("payloads") or [{}]
    return task is not None and task.accepts({**request.payload, **payloads[0]})


def is_coming(task: Task[Any, Any] | None, attempt: Attempt) -> bool:
    """Return whether the deployment's catalogue has what this code lacks: the task, or arguments of it."""
    lacking = attempt.payload.keys() - {name.removesuffix("?") for name in (task.parameters if task else ())}
    return (task is None or bool(lacking)) and is_declared(attempt.function, attempt.task, lacking)


def to_be_retried(run: Callable[[], None]) -> None:
    """Run an internal task. No error is permanent: if the task were acknowledged, its messages would not be read."""
    try:
        run()
    except Problem as problem:
        runtime.log().error("turn refused", problem=problem.slug(), detail=problem.detail, exception=problem)
        raise Unavailable(problem.detail) from problem


def attempt_of(delivery: TaskDelivery, function: str) -> Attempt:
    """Return a delivery to a function as an attempt. One that continues another task has its operation and counts."""
    operation, earlier = resumed(delivery.operation, delivery.context)
    executions, retries = delivery.executions + earlier, delivery.retries + earlier
    backoff = settings().queue_backoffs.get(delivery.queue, NO_BACKOFF)
    what = function, delivery.name, delivery.payload, delivery.queue, delivery.trace, backoff.pause_seconds(retries + 1)
    return Attempt(operation, with_unit(delivery.context), executions, retries, *what, is_late=delivery.is_late)


def group_time(function: str) -> runs.GroupTime:
    """Return the time of a delivery that begins now: half of it is left to the rest of the group's last unit."""
    half = min(settings().timeout_of(function), DISPATCH_SECONDS_MAX) / 2
    is_over = time_budget(min(BATCHES_LIMITS.group_seconds, half))()
    return runs.GroupTime(is_over, time_budget(BATCHES_LIMITS.group_hold_seconds))


def task_context(attempt: Attempt, start: Start, limits: RetryLimits, received_at: float) -> TaskContext:
    """Return the context of an attempt that was received at a time of this process's monotonic clock."""

    def seconds_left() -> float:
        return received_at + min(settings().timeout_of(attempt.function), DISPATCH_SECONDS_MAX) - time.monotonic()

    def cancelled() -> bool:
        unit = attempt.context.get("unit")
        return unit is not None and not is_live(PlacedUnit.from_record(unit))

    what = attempt.operation, start.number, limits.attempts_max, attempt.trace
    return TaskContext(*what, seconds_left, cancelled, reason=str(attempt.context.get("reason", "")))
