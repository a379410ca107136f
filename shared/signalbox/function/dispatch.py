"""The choice of a request's entry point: by its path, and by the part of the function that is served."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import flask

from signalbox.adapters.http import cloud_run
from signalbox.adapters.http.request_log import logged_request
from signalbox.adapters.http.responses import EntryPoint, Response, problem_response
from signalbox.adapters.http.task_deliveries import QUEUE_HEADER
from signalbox.core import effects
from signalbox.core.kit_names import DOCUMENT_EVENTS_PATH
from signalbox.core.problems import NotFound

TASKS = "/tasks/"
TURNS = f"{effects.WAKE_UP_PATH}/"
EVENTS = f"{DOCUMENT_EVENTS_PATH}/"
RESERVED = (TASKS, "/objects/", "/flows/", TURNS, EVENTS)
"""Paths that the kit itself serves below each function's address."""


def dispatch(
    routes: EntryPoint, own: Mapping[str, EntryPoint], forwarding: EntryPoint, nothing: EntryPoint
) -> EntryPoint:
    """Return an entry point that passes requests under the kit's paths to entry points of `own`, others to `routes`.

    If only one part of the function is served, requests for the other part get a 404. The part for people passes tasks
    from a queue to `forwarding`.
    """

    def entry(request: flask.Request) -> flask.Response:
        part, path = cloud_run.part_served(request), f"{request.path}/"
        if path.startswith((TASKS, TURNS)) and part == cloud_run.PEOPLE and QUEUE_HEADER in request.headers:
            return forwarding(request)
        if part != cloud_run.PEOPLE:
            for beginning, entry_of_path in own.items():
                if path.startswith(beginning):
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


def response_of(returned: Any) -> Response:
    if isinstance(returned, Response):
        return returned
    if type(returned) is tuple:
        shown = ", ".join(type(part).__name__ for part in returned)
        detail = "write `return Response(404, {…})` for another status than 200, or return a list"
        raise TypeError(f"A route returned a tuple ({shown}), which JSON does not have: {detail}.")
    return Response(204) if returned is None else Response(200, returned)
