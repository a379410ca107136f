"""A function's front to people: routes, requests, answers, and what a refusal looks like.

A function parses, calls an operation and renders; all else that HTTP asks for happens here, once: 404 and 405, HEAD,
bodies that are bounded and strictly JSON, problems as RFC 9457 ``application/problem+json``, one log line a call.
"""

from collections.abc import Callable
from urllib.parse import parse_qsl

import flask
from werkzeug.datastructures import MultiDict

from shared.adapters import runtime
from shared.adapters.http.bodies import BODY_BYTES_MAX, json_body, json_lines
from shared.adapters.http.conditions import precondition_of
from shared.adapters.http.paths import match, segments_of, segments_of_pattern
from shared.adapters.http.request_log import entry_point, handling
from shared.adapters.http.responses import (
    EntryPoint,
    Response,
    bug_response,
    problem_response,
    response_of,
    unavailable_response,
)
from shared.core.rules.effects import Json
from shared.core.rules.problems import BadQuery, MethodNotAllowed, NotAnObject, NotFound, Problem, Unavailable
from shared.documents.rules.preconditions import Precondition

__all__ = ["Request", "Response", "Routes"]

QUERY_FIELDS_MAX = 100
"""Of one address: each may become a condition of a query, and Firestore takes no more of those."""


METHODS = frozenset({"GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"})
"""HEAD comes with GET. TRACE is not among them: it would send back what it was sent, credentials too."""


class Request:
    """What a caller sent, checked as it is asked for."""

    __slots__ = ("_raw",)

    def __init__(self, raw: flask.Request) -> None:
        self._raw = raw

    @property
    def method(self) -> str:
        return self._raw.method

    @property
    def query(self) -> MultiDict[str, str]:
        """Give the parameters after the question mark, in order, repeated ones too. Raises `BadQuery`."""
        try:
            pairs = parse_qsl(
                self._raw.query_string.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_FIELDS_MAX,
            )
        except ValueError as error:
            raise BadQuery(f"Percent-encode UTF-8, in at most {QUERY_FIELDS_MAX} parameters") from error
        return MultiDict(pairs)

    def header(self, name: str) -> str | None:
        """Give a header, or None."""
        return self._raw.headers.get(name)

    @property
    def media_type(self) -> str:
        """Give the body's media type in small letters and without its parameters; empty if it is not said."""
        return self._raw.mimetype

    @property
    def precondition(self) -> Precondition:
        """Give what `If-Match` and `If-None-Match` ask for. Raises `BadPrecondition`."""
        return precondition_of(self._raw)

    def json_lines(self, bytes_max: int = BODY_BYTES_MAX) -> list[Json | Problem]:
        """Read newline-delimited JSON: a value a line, or why a line has none. Raises `TooLarge`."""
        return json_lines(self._raw, bytes_max)

    def json(self, bytes_max: int = BODY_BYTES_MAX) -> Json:
        """Read the body. Raises `NotJson`, `TooDeep`, or `TooLarge` without reading on."""
        return json_body(self._raw, bytes_max)

    def json_object(self, bytes_max: int = BODY_BYTES_MAX) -> dict[str, Json]:
        """Read a body that must be an object. Raises `NotAnObject`, and what `json` raises."""
        value = self.json(bytes_max)
        if not isinstance(value, dict):
            raise NotAnObject(f"The body is {_KINDS.get(type(value), 'something else')}")
        return value


_KINDS = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


Handler = Callable[..., Response]


class Routes:
    """The addresses of one function. The first pattern that fits path and method is taken."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._routes: list[tuple[str, tuple[str, ...], Handler]] = []

    def on(self, method: str, pattern: str) -> Callable[[Handler], Handler]:
        """Route a method and a pattern (``/{key}/versions``) to a handler; it gets the request and each ``name=``."""
        if method not in METHODS:
            raise ValueError(f"{method} cannot be routed")

        def register(handler: Handler) -> Handler:
            self._routes.append((method, segments_of_pattern(pattern), handler))
            return handler

        return register

    def entry_point(self) -> EntryPoint:
        """Give the plain function that functions-framework wants."""

        def entry(request: flask.Request) -> flask.Response:
            return _respond(self._function, request, self._dispatch)

        _take_every_path(entry)
        return entry_point(self._function, entry)

    def _dispatch(self, request: flask.Request) -> Response:
        segments = segments_of(request.environ)
        fitting = [
            (method, handler, parameters)
            for method, pattern, handler in self._routes
            if (parameters := match(pattern, segments)) is not None
        ]
        wanted = "GET" if request.method == "HEAD" else request.method
        for method, handler, parameters in fitting:
            if method == wanted:
                return handler(Request(request), **parameters)
        raise _no_route([method for method, _, _ in fitting], request.method)


def _no_route(methods: list[str], asked: str) -> Problem:
    if not methods:
        return NotFound("This function has no such address")
    allowed = sorted({*methods, *(["HEAD"] if "GET" in methods else [])})
    return MethodNotAllowed(f"{asked[:20]} is none of {', '.join(allowed)}", headers={"Allow": ", ".join(allowed)})


def _respond(function: str, request: flask.Request, dispatch: Callable[[flask.Request], Response]) -> flask.Response:
    with handling(function, request.headers, method=request.method) as call:
        response = _answered(request, dispatch)
        call.status = response.status_code
        return response


def _answered(request: flask.Request, dispatch: Callable[[flask.Request], Response]) -> flask.Response:
    try:
        return response_of(dispatch(request))
    except Problem as problem:
        return problem_response(problem)
    except Unavailable as error:
        runtime.log().info("unavailable", reason=str(error))
        return unavailable_response(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets no detail and the log gets all
        runtime.log().error("bug", exception=error)
        return bug_response()


def _take_every_path(entry: EntryPoint) -> None:
    """Response also what the framework would: ``/robots.txt``, ``/favicon.ico``, doubled slashes, no slash at all."""
    if not flask.has_app_context():
        return  # imported by a test, not by the framework
    app = flask.current_app
    app.url_map.merge_slashes = app.url_map.strict_slashes = False

    def unrouted(_: Exception) -> flask.Response:
        return entry(flask.request._get_current_object())  # type: ignore[attr-defined]

    app.register_error_handler(404, unrouted)
