"""A function's front to Cloud Tasks and Cloud Scheduler, who ask again after every answer but 2xx.

So the answer says whether to: a `Problem` would be refused again and is acknowledged, with an ERROR in the log; what is
`Unavailable` or a bug comes again. A task's body is the envelope ``{"operation", "task", "payload"}``.

Nobody else may call: a caller who is not the queues' or the schedules' account gets 401 or 403, and nothing runs. Where
that hits a queue, the deployment is wrong; its tasks come again until it is mended.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import flask

from shared.adapters import runtime
from shared.adapters.http.bodies import json_body
from shared.adapters.http.caller_auth import refusal
from shared.adapters.http.request_log import entry_point, logged_request
from shared.adapters.http.responses import EntryPoint, internal_error_response, problem_response, unavailable_response
from shared.adapters.logs import Headers, current_trace
from shared.adapters.settings import settings
from shared.core.rules.problems import BadValue, MethodNotAllowed, Problem, Unavailable

ENVELOPE_BYTES_MAX = 1024 * 1024
"""Of a task's body: Cloud Tasks takes no larger one."""


@dataclass(frozen=True, slots=True)
class Task:
    """A delivery of a task. The same `operation` may be delivered again, also at the same time.

    ``name`` says what to do with the payload, ``context`` what it does so for. ``executions`` counts deliveries
    before this one that a process answered, ``retries`` all before this one. ``trace`` is a W3C ``traceparent``.
    """

    operation: str
    name: str
    payload: Mapping[str, Any]
    executions: int
    retries: int
    trace: str
    context: Mapping[str, Any] = field(default_factory=dict)


def task_entry(function: str) -> Callable[[Callable[[Task], None]], EntryPoint]:
    """Make a handler of tasks the entry point of `function`."""

    def decorate(handler: Callable[[Task], None]) -> EntryPoint:
        way = _Way(lambda: settings().tasks_account, lambda request: handler(_task(request)), "task abandoned")
        return _entry_point(function, way)

    return decorate


def schedule_entry(function: str) -> Callable[[Callable[[], None]], EntryPoint]:
    """Make a handler of scheduled calls, which carry nothing, the entry point of `function`."""

    def decorate(handler: Callable[[], None]) -> EntryPoint:
        way = _Way(lambda: settings().scheduler_account, lambda _: handler(), "scheduled call abandoned")
        return _entry_point(function, way)

    return decorate


@dataclass(frozen=True, slots=True)
class _Way:
    """A way in: which account may take it, what a call does, and what the log says when that was in vain."""

    account: Callable[[], str]
    handle: Callable[[flask.Request], None]
    abandoned: str


def _entry_point(function: str, way: _Way) -> EntryPoint:
    def entry(request: flask.Request) -> flask.Response:
        name = request.headers.get("X-CloudTasks-TaskName") or request.headers.get("X-CloudScheduler-JobName") or ""
        with logged_request(function, request.headers, task=name.rpartition("/")[2]) as log_entry:
            response = _response(function, request, way)
            log_entry.status = response.status_code
            return response

    return entry_point(function, entry)


def _response(function: str, request: flask.Request, way: _Way) -> flask.Response:
    if request.method != "POST":
        return problem_response(MethodNotAllowed("Queues and schedules POST", headers={"Allow": "POST"}))
    try:
        if refused := refusal(request, function, way.account()):
            runtime.log().error("caller refused", problem=refused.slug(), detail=refused.detail)
            return problem_response(refused)
        way.handle(request)
    except Problem as problem:
        runtime.log().error(way.abandoned, problem=problem.slug(), detail=problem.detail, exception=problem)
    except Unavailable as error:
        runtime.log().info("unavailable", reason=str(error))
        return unavailable_response(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the queue must ask again and somebody must hear of it
        runtime.log().error("unhandled exception", exception=error)
        return internal_error_response()
    return flask.Response(status=204)


def _task(request: flask.Request) -> Task:
    envelope = json_body(request, ENVELOPE_BYTES_MAX)
    match envelope:
        case {"operation": str(operation), "task": str(name), "payload": dict(payload), **context}:
            return Task(operation, name, payload, *_counts(request.headers), current_trace(), _named(context))
    raise BadValue('A task\'s body is {"operation": …, "task": …, "payload": {…}}')


def _named(context: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in context.items()}


def _counts(headers: Headers) -> tuple[int, int]:
    executions, retries = (headers.get(f"X-CloudTasks-Task{what}Count", "0") for what in ("Execution", "Retry"))
    return _whole(executions), _whole(retries)


def _whole(digits: str) -> int:
    return int(digits) if digits.isdecimal() and len(digits) < 20 else 0
