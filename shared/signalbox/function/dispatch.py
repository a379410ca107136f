"""The choice of a request's entry point: by its path, and by the part of the function that is served.

Also what a user's handler receives and returns: the body by its type, and the response of a value.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import flask

from signalbox.adapters.http import cloud_run
from signalbox.adapters.http.request_log import logged_request
from signalbox.adapters.http.responses import EntryPoint, Response, problem_response
from signalbox.adapters.http.routes import Request
from signalbox.adapters.http.task_deliveries import QUEUE_HEADER
from signalbox.core import effects
from signalbox.core.codec.annotations import codec_of, hints_of
from signalbox.core.codec.json_forms import Codec, WrongValue, decode
from signalbox.core.kit_names import DOCUMENT_EVENTS_PATH
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.problems import BadBody, NotFound
from signalbox.core.user_code import Produced

TASKS = "/tasks/"
TURNS = f"{effects.WAKE_UP_PATH}/"
EVENTS = f"{DOCUMENT_EVENTS_PATH}/"
RESERVED = (TASKS, "/objects/", "/flows/", TURNS, EVENTS)
"""Paths that the kit itself serves below each function's address."""


def dispatch(
    routes: EntryPoint,
    own: Mapping[str, EntryPoint],
    forwarding: EntryPoint,
    nothing: EntryPoint,
    takes_no_tasks: Callable[[], bool],
) -> EntryPoint:
    """Return an entry point that passes requests under the kit's paths to entry points of `own`, others to `routes`.

    If only one part of the function is served, requests for the other part get a 404. The part for people passes tasks
    from a queue to `forwarding`. If the function `takes_no_tasks`, requests for tasks also go to `routes`, which answer
    as at any unknown address.
    """

    def entry(request: flask.Request) -> flask.Response:
        part, path = cloud_run.part_served(request), f"{request.path}/"
        if path.startswith((TASKS, TURNS)) and part == cloud_run.PEOPLE and QUEUE_HEADER in request.headers:
            return forwarding(request)
        if part != cloud_run.PEOPLE:
            for beginning, entry_of_path in own.items():
                if path.startswith(beginning) and not (beginning in (TASKS, TURNS) and takes_no_tasks()):
                    return entry_of_path(request)
        return nothing(request) if part == cloud_run.TASKS else routes(request)

    return entry


def within(context: Callable[[], AbstractContextManager[None]], entry: EntryPoint) -> EntryPoint:
    """Return an entry point that handles each request inside a context."""

    def served(request: flask.Request) -> flask.Response:
        with context():
            return entry(request)

    return served


def nothing_here(function: str) -> EntryPoint:
    def entry(request: flask.Request) -> flask.Response:
        with logged_request(function, request.headers, request.method, method=request.method) as log_entry:
            response = problem_response(NotFound("Only tasks are called at this address."))
            log_entry.status = response.status_code
            return response

    return entry


BODY = "body"
"""The parameter of a handler that receives the body, as a value of the parameter's type."""

WITH_BODY = frozenset({"PATCH", "POST", "PUT"})


def body_codec(handler: Callable[..., Any], method: str, pattern: str) -> Codec | None:
    """Return the codec of a handler's parameter `body`; None if it has none, or if `body` is a part of the pattern.

    Raises `TypeError` for a parameter without a type, with a default or with a type that has no codec, and for a method
    whose requests have no body.
    """
    parameter = inspect.signature(handler).parameters.get(BODY)
    if parameter is None or f"{{{BODY}}}" in pattern:
        return None
    name = getattr(handler, "__name__", repr(handler))
    what = f"{name}: the parameter 'body'"
    if method not in WITH_BODY:
        raise TypeError(f"{what} receives the body of the request, and a {method} has none")
    if inspect.Parameter.empty is parameter.annotation or parameter.default is not inspect.Parameter.empty:
        raise TypeError(f"{what} receives the body of the request: annotate it with a type, and leave out its default")
    return codec_of(hints_of(handler, name)[BODY], what)


def body_of(request: Request, codec: Codec) -> Any:
    """Return the body of a request as a value of a type.

    Raises `BadBody` with the place of a wrong value, and the problems of `Request.json`.
    """
    try:
        return decode(codec, request.json(), BODY)
    except WrongValue as error:
        raise BadBody(f"{error}.") from error


def response_of(returned: Any) -> Response:
    if isinstance(returned, Response):
        body = returned.body
        return replace(returned, body=Produced(body)) if isinstance(body, Iterator) else returned
    if type(returned) is tuple:
        shown = ", ".join(type(part).__name__ for part in returned)
        detail = "write `return Response(404, {…})` for another status than 200, or return a list"
        raise TypeError(f"A route returned a tuple ({shown}), which JSON does not have: {detail}.")
    return Response(204) if returned is None else Response(200, returned)
