"""The API's protobuf messages, and their conversion to and from the values of the rules.

The bare protobuf classes are used, not the client library's wrappers: they are several times as fast.
They have no static types, hence `Message`.
"""

from typing import Any

from google.rpc import code_pb2

from signalbox.adapters.cloud_tasks_types import queue as queue_types
from signalbox.adapters.cloud_tasks_types import task as task_types
from signalbox_tools.local.cloud_tasks.queue_rules import RateLimits, RetryPolicy
from signalbox_tools.local.cloud_tasks.task_attempts import Progress

Message = Any

Task: Message = task_types.Task.pb()
Queue: Message = queue_types.Queue.pb()
RetryConfig: Message = queue_types.RetryConfig.pb()

RUNNING = int(queue_types.Queue.State.RUNNING)
PAUSED = int(queue_types.Queue.State.PAUSED)
BASIC = int(task_types.Task.View.BASIC)
FULL = int(task_types.Task.View.FULL)

RPC_CODES = {
    400: code_pb2.INVALID_ARGUMENT,
    401: code_pb2.UNAUTHENTICATED,
    403: code_pb2.PERMISSION_DENIED,
    404: code_pb2.NOT_FOUND,
    409: code_pb2.ABORTED,
    429: code_pb2.RESOURCE_EXHAUSTED,
    499: code_pb2.CANCELLED,
    500: code_pb2.INTERNAL,
    501: code_pb2.UNIMPLEMENTED,
    503: code_pb2.UNAVAILABLE,
    504: code_pb2.DEADLINE_EXCEEDED,
}
"""How `google.rpc.Code` maps HTTP statuses."""


def seconds_of(message: Message) -> float:
    """Read a `Duration` or a `Timestamp`."""
    return float(message.seconds + message.nanos / 1e9)


def set_seconds(message: Message, seconds: float) -> None:
    """Fill a `Duration` or a `Timestamp`, to the microsecond."""
    micros = round(seconds * 1_000_000)
    message.seconds, message.nanos = micros // 1_000_000, micros % 1_000_000 * 1000


def rates_of(queue: Message) -> RateLimits:
    limits = queue.rate_limits
    return RateLimits(limits.max_dispatches_per_second, limits.max_burst_size, limits.max_concurrent_dispatches)


def retries_of(config: Message) -> RetryPolicy:
    return RetryPolicy(
        attempts_max=config.max_attempts,
        retry_seconds_max=seconds_of(config.max_retry_duration),
        backoff_min_seconds=seconds_of(config.min_backoff),
        backoff_max_seconds=seconds_of(config.max_backoff),
        doublings_max=config.max_doublings,
    )


def new_progress(spec: Message) -> Progress:
    """Return the progress of a new task."""
    return Progress(due_at=seconds_of(spec.schedule_time))


def task_view(spec: Message, progress: Progress, view: int) -> Message:
    """Return a task as callers see it: without its body, except in the full view."""
    task = Task()
    task.CopyFrom(spec)
    task.view = FULL if view == FULL else BASIC
    if task.view == BASIC:
        task.http_request.ClearField("body")
    set_seconds(task.schedule_time, progress.due_at)
    if progress.dispatches:
        _show_attempts(task, progress)
    return task


def _show_attempts(task: Message, progress: Progress) -> None:
    task.dispatch_count, task.response_count = progress.dispatches, progress.responses
    _show_time(task.first_attempt, "dispatch_time", progress.first_dispatched_at)
    _show_time(task.last_attempt, "schedule_time", progress.last_due_at)
    _show_time(task.last_attempt, "dispatch_time", progress.last_dispatched_at)
    _show_time(task.last_attempt, "response_time", progress.last_responded_at)
    if progress.last_reason:
        _show_status(task.last_attempt.response_status, progress)


def _show_time(attempt: Message, name: str, at: float | None) -> None:
    if at is not None:
        set_seconds(getattr(attempt, name), at)


def _show_status(status: Message, progress: Progress) -> None:
    if progress.last_status is None:
        status.code = code_pb2.Code.Value(progress.last_reason)
        status.message = f"{progress.last_reason}({status.code}): the worker did not answer"
    else:
        status.code = RPC_CODES.get(progress.last_status, code_pb2.UNKNOWN)
        status.message = f"{code_pb2.Code.Name(status.code)}({status.code}): {progress.last_reason}"
