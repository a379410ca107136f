"""The entry points of functions that Cloud Tasks and Cloud Scheduler call. Both retry after any status but 2xx.

So a `Problem`, which is permanent, is acknowledged with 204 and logged as an ERROR; `Unavailable` and unhandled
exceptions are answered with 503 and 500, and retried.

Only the accounts of the queues and the schedules may call. Any other caller gets 401 or 403, and nothing runs. A queue
that gets these responses is deployed wrongly; it retries its tasks until the deployment is corrected.
"""

import time
from collections.abc import Callable

import flask

from signalbox.adapters import runtime
from signalbox.adapters.http.caller_auth import refusal
from signalbox.adapters.http.json_bodies import task_body
from signalbox.adapters.http.request_log import entry_point, logged_request
from signalbox.adapters.http.responses import (
    EntryPoint,
    internal_error_response,
    problem_response,
    unavailable_response,
)
from signalbox.adapters.logs import Headers, current_trace
from signalbox.adapters.settings import settings
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.effects import NO_BACKOFF, Effect, Json, TaskEnvelope, name_of
from signalbox.core.kit_names import TASKS_QUEUE, queue_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Ports
from signalbox.core.problems import IncompleteBody, MethodNotAllowed, Problem, Unavailable

LATE_SECONDS = 60
"""A task is late after this time, by this machine's clock: its queue was paused or full, or no instance was free."""

QUEUE_HEADER = "X-CloudTasks-QueueName"

FORWARDED = "forwarded"
"""The member of a forwarded task's envelope that counts earlier deliveries: those that were answered, and all."""

TURNS = "turns"
"""The member of the envelope of a task that has waited in a record for its turn: how often."""

ENVELOPE_BYTES_MAX = 1024 * 1024
"""Bytes of a task's body: Cloud Tasks' own limit."""


def task_entry(function: str) -> Callable[[Callable[[Ports, Delivered[Members]], None]], EntryPoint]:
    """Make a handler of tasks, which receives this process's ports, the entry point of `function`."""

    def decorate(handler: Callable[[Ports, Delivered[Members]], None]) -> EntryPoint:
        def handle(request: flask.Request) -> None:
            delivered = _delivered(function, request)
            handler(runtime.ports(), delivered)

        return _entry_point(function, _Invocation(lambda: settings().task_callers(function), handle, "task abandoned"))

    return decorate


def forwarding_entry(function: str) -> EntryPoint:
    """Return the entry point for tasks at the address of a split function's part for people.

    Such tasks were enqueued before the function was open, when this was its only address. Each task is enqueued again
    for the private part, with the same operation and the count of its deliveries. A task is acknowledged only after
    that.
    """

    def handle(request: flask.Request) -> None:
        effect = _forwarded(function, request)
        try:
            runtime.ports().queue.create([effect])
        except Problem as problem:
            raise Unavailable(problem.detail) from problem
        runtime.log().info("task forwarded to its new address")

    return _entry_point(
        function, _Invocation(lambda: settings().task_callers(function), handle, "task abandoned", of_people=True)
    )


def _forwarded(function: str, request: flask.Request) -> Effect:
    """Return the effect that enqueues a delivered task again. Its name is the same in every delivery."""
    delivered = _delivered(function, request)
    return Effect(
        name_of("forwarded", function, request.headers.get("X-CloudTasks-TaskName", ""), delivered.operation),
        delivered.queue,
        function,
        delivered.task,
        delivered.payload,
        request.path,
        context={
            **delivered.context,
            FORWARDED: [delivered.executions, delivered.retries],
            **({TURNS: delivered.turns} if delivered.turns else {}),
        },
        trace=delivered.trace,
        operation=delivered.operation,
    )


def schedule_entry(function: str) -> Callable[[Callable[[Ports], None]], EntryPoint]:
    """Make a handler of scheduled calls, which have no body, the entry point of `function`."""

    def decorate(handler: Callable[[Ports], None]) -> EntryPoint:
        def handle(_: flask.Request) -> None:
            handler(runtime.ports())

        return _entry_point(
            function, _Invocation(lambda: settings().scheduler_accounts, handle, "scheduled call abandoned")
        )

    return decorate


@dataclass(frozen=True, slots=True)
class _Invocation:
    """The rules of one kind of invocation.

    - `accounts` returns the accounts that may call.
    - `handle` handles the request.
    - `abandoned` is the log message after a permanent error.
    - `of_people` is true if the request arrives at the part of a split function that people call.
    """

    accounts: Callable[[], frozenset[str]]
    handle: Callable[[flask.Request], None]
    abandoned: str
    of_people: bool = False

    def audience(self, function: str) -> str:
        """Return the address for which a caller's token must be issued."""
        return settings().people_address_of(function) if self.of_people else settings().address_of(function)


def _entry_point(function: str, invocation: _Invocation) -> EntryPoint:
    def entry(request: flask.Request) -> flask.Response:
        name = request.headers.get("X-CloudTasks-TaskName") or request.headers.get("X-CloudScheduler-JobName") or ""
        with logged_request(function, request.headers, request.path, task=name.rpartition("/")[2]) as log_entry:
            response = _response(function, request, invocation)
            log_entry.status = response.status_code
            return response

    return entry_point(function, entry)


def _response(function: str, request: flask.Request, invocation: _Invocation) -> flask.Response:
    if request.method != "POST":
        return problem_response(MethodNotAllowed("Queues and schedules POST.", headers={"Allow": "POST"}))
    try:
        if refused := refusal(request, invocation.audience(function), invocation.accounts()):
            runtime.log().error("caller refused", problem=refused.slug(), detail=refused.detail)
            return problem_response(refused)
        invocation.handle(request)
    except Problem as problem:
        runtime.log().error(invocation.abandoned, problem=problem.slug(), detail=problem.detail, exception=problem)
    except Unavailable as error:
        runtime.log().info("unavailable", reason=str(error))
        return unavailable_response(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the queue must retry and the alert must fire
        runtime.log().error("unhandled exception", exception=error)
        return internal_error_response()
    return flask.Response(status=204)


def _delivered(function: str, request: flask.Request) -> Delivered[Members]:
    envelope = TaskEnvelope.from_json(_body(request))
    context = dict(envelope.context)
    executions, retries = context.pop(FORWARDED, (0, 0))
    turns = int(context.pop(TURNS, 0))
    queue = queue_of(request.headers.get(QUEUE_HEADER, TASKS_QUEUE).removeprefix(settings().queue_prefix))
    return Delivered(
        envelope.operation,
        context,
        executions=_count(request.headers, "Execution") + executions,
        retries=_count(request.headers, "Retry") + retries,
        function=function,
        task=envelope.name,
        payload=envelope.payload,
        queue=queue,
        trace=current_trace(),
        backoff=settings().queue_backoffs.get(queue, NO_BACKOFF),
        is_late=_is_late(request.headers.get("X-CloudTasks-TaskETA", "")),
        turns=turns,
    )


def _is_late(due: str) -> bool:
    """Return whether a task was due long ago. `due` are seconds since 1970, with a fraction."""
    try:
        return bool(due) and time.time() - float(due) > LATE_SECONDS
    except ValueError:
        return False


def _body(request: flask.Request) -> Json:
    """Return the body. An incomplete body is not an error of the task, so the task is delivered again."""
    try:
        return task_body(request, ENVELOPE_BYTES_MAX)
    except IncompleteBody as error:
        raise Unavailable("the task's body did not arrive whole") from error


def _count(headers: Headers, kind: str) -> int:
    digits = headers.get(f"X-CloudTasks-Task{kind}Count", "0")
    return int(digits) if digits.isdecimal() and len(digits) < 20 else 0
