"""The routes of a function that people call, and the requests that its handlers receive.

A handler parses, calls a service and renders. The rest of HTTP is implemented here, once: 404 and 405, HEAD, unknown
query parameters, pages of other origins, bodies that are bounded and strict JSON, problems as RFC 9457
``application/problem+json``, one log line a request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import MethodType
from typing import Any
from urllib.parse import parse_qsl

import flask
from werkzeug.datastructures import ETags, MultiDict
from werkzeug.http import parse_etags

from signalbox.adapters import runtime
from signalbox.adapters.http.cloud_run import calling_account
from signalbox.adapters.http.cors import permit_origin, preflight_response
from signalbox.adapters.http.json_bodies import BODY_BYTES_MAX, LINES, json_body, json_line_stream, json_lines
from signalbox.adapters.http.paths import Segments, match, segments_of, segments_of_pattern
from signalbox.adapters.http.request_log import entry_point, logged_request
from signalbox.adapters.http.responses import (
    EntryPoint,
    Response,
    internal_error_response,
    problem_response,
    response_of,
    sendable,
    unavailable_response,
)
from signalbox.adapters.http.route_declarations import Parameter
from signalbox.adapters.settings import settings
from signalbox.core import authors
from signalbox.core.authors import AUTHOR
from signalbox.core.effects import Json, name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import larger_values, value_bytes_max
from signalbox.core.problems import BadQuery, MethodNotAllowed, NotAnObject, NotFound, Problem, TooLarge, Unavailable
from signalbox.core.times import rfc3339
from signalbox.core.token_claims import User

QUERY_PARAMETERS_MAX = 100
"""Query parameters of a request: each may become a condition of a query, and Firestore accepts no more conditions."""


METHODS = frozenset({"GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"})
"""HEAD comes with GET. TRACE is excluded: it would echo the request, credentials included."""


def _in_utc(text: str) -> str:
    """Return a time of the scheduler in one form, or the text if it is not a time."""
    try:
        return rfc3339(datetime.fromisoformat(text))
    except ValueError:
        return text


class Request:
    """A request to `function`, parsed and checked part by part as a handler reads it."""

    __slots__ = ("_function", "_keeps_empty", "_raw", "_user")

    def __init__(
        self, raw: flask.Request, user: User | None = None, *, function: str = "", keeps_empty: bool = True
    ) -> None:
        self._raw = raw
        self._user = user
        self._function = function
        self._keeps_empty = keeps_empty

    @property
    def is_open(self) -> bool:
        """Whether the function is open to the network, so that the platform has not checked the caller."""
        return self._function in settings().open_functions

    @property
    def schedule(self) -> str | None:
        """The name in the catalogue and the time of the schedule that calls, as one text; None if it does not call.

        The scheduler's headers count only with a token of the scheduler's account. From other callers they are ignored.
        Raises `Unavailable` if the token cannot be verified now.
        """
        at = self.header("X-CloudScheduler-ScheduleTime")
        if at is None:
            return None
        from signalbox.adapters.http.caller_auth import refusal  # google-auth is for functions with such callers

        if refused := refusal(self._raw, settings().address_of(self._function), settings().scheduler_accounts):
            runtime.log().info("scheduler's headers ignored", function=self._function, reason=refused.detail)
            return None
        job = (self.header("X-CloudScheduler-JobName") or "").rpartition("/")[2]
        return f"{job.removeprefix(settings().queue_prefix)} {_in_utc(at)}"

    @property
    def operation(self) -> str | None:
        """The identity of a request that may be repeated: the schedule and its time, or the `Idempotency-Key`, or None.

        Raises `Unavailable` as `schedule` does.
        """
        schedule, key = self.schedule, self.caller_key
        return f"schedule {schedule}" if schedule else key and f"key {key}"

    @property
    def caller_key(self) -> str:
        """The `Idempotency-Key`, or an empty text. In an open function it is a hash of the user's id and the key.

        So the keys of two users never meet, and no caller from outside can choose a key that the kit itself derives.
        """
        key = self.header("Idempotency-Key") or ""
        return name_of("key of a caller", self._user.id if self._user else "", key) if key and self.is_open else key

    @property
    def user(self) -> User:
        """The authenticated user. Raises `RuntimeError` in a function that does not authenticate users."""
        if self._user is None:
            raise RuntimeError("this function authenticates no users: add `auth: firebase` to its catalogue entry")
        return self._user

    @property
    def method(self) -> str:
        """The HTTP method in capitals."""
        return self._raw.method

    @property
    def query(self) -> MultiDict[str, str]:
        """The query parameters in order, including repeated ones. Raises `BadQuery`.

        For the kit's own routes, an empty parameter counts as absent.
        """
        return MultiDict((name, value) for name, value in self.query_pairs if value or self._keeps_empty)

    @property
    def query_pairs(self) -> list[tuple[str, str]]:
        """All query parameters, also empty ones. Raises `BadQuery`."""
        try:
            return parse_qsl(
                self._raw.query_string.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_PARAMETERS_MAX,
            )
        except ValueError as error:
            detail = f"A query has at most {QUERY_PARAMETERS_MAX} parameters, in percent-encoded UTF-8."
            raise BadQuery(detail) from error

    def header(self, name: str) -> str | None:
        """Return a header, or None."""
        return self._raw.headers.get(name)

    def entity_tags(self, header: str) -> ETags | None:
        """Return the entity tags of a header such as `If-Match`, or None if it is absent."""
        text = self.header(header)
        return None if text is None else parse_etags(text)

    @property
    def media_type(self) -> str:
        """The body's media type in lower case, without its parameters; empty if there is none."""
        return self._raw.mimetype

    def json_lines(self, bytes_max: int = BODY_BYTES_MAX) -> list[Json | Problem]:
        """Parse newline-delimited JSON: for each line its value or its problem.

        Raises `TooLarge`, `IncompleteBody` or `UnsupportedMediaType`.
        """
        return json_lines(self._raw, bytes_max)

    @property
    def has_lines(self) -> bool:
        """Whether the body is newline-delimited JSON by its media type."""
        return self.media_type in LINES

    def json_line_stream(self) -> Iterator[Json]:
        """Iterate over newline-delimited JSON of any size, a line at a time. Raises a `Problem` for an invalid line."""
        return json_line_stream(self._raw)

    def json(self, bytes_max: int = BODY_BYTES_MAX) -> Json:
        """Parse the body, whose media type must be of JSON.

        Raises `UnsupportedMediaType`, `IncompleteBody`, `NotJson`, `TooDeep`, or `TooLarge` once the limit is passed.
        """
        return json_body(self._raw, bytes_max)

    def json_object(self, bytes_max: int = BODY_BYTES_MAX) -> dict[str, Json]:
        """Parse a body that must be an object. An empty body is ``{}``, so the problem names the missing field.

        Raises `NotAnObject`, and as `json` does.
        """
        value = json_body(self._raw, bytes_max, empty={})
        if not isinstance(value, dict):
            raise NotAnObject(f"The body is {_KINDS.get(type(value), 'something else')}.")
        return value

    def json_object_of_values(self) -> dict[str, Json]:
        """Parse an object as `json_object` does. With `payloads: true` it has at most as many bytes as a payload."""
        with _naming_larger_values():
            return self.json_object(value_bytes_max(BODY_BYTES_MAX))

    def json_value(self) -> Json:
        """Parse a value as `json` does. With `payloads: true` it has at most as many bytes as a payload."""
        with _naming_larger_values():
            return self.json(value_bytes_max(BODY_BYTES_MAX))


@contextmanager
def _naming_larger_values() -> Iterator[None]:
    try:
        yield
    except TooLarge as error:
        raise TooLarge(f"{error.detail}{larger_values()}") from error


_KINDS = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


Handler = Callable[..., Response]
"""A function that is called with the ports of this process, the request, and each ``name=`` of its route's pattern."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method, a pattern and their handler, and the values that describe the route in a description of the API."""

    method: str
    pattern: Segments
    query: frozenset[str] | None
    """The names of the allowed query parameters; None allows all."""
    of_user: bool
    """Whether the handler is a user's, which is called without the ports."""
    handler: Handler
    parameters: tuple[Parameter, ...] = ()
    """The query parameters that are declared with their types."""
    headers: tuple[Parameter, ...] = ()
    body: Any = None
    """The type of the body, or the types by media type; None: no body."""
    answers: Mapping[int, Any] | None = None
    """The types of the answers, or `Answer`s, by status; None: the route is not described."""
    refuses: tuple[type[Problem], ...] = ()
    """The problems of the route, in addition to those of every route."""
    example: object = None
    """An example of the body."""

    @property
    def keeps_empty(self) -> bool:
        """Whether the handler also receives parameters without a value, which may be conditions."""
        return self.of_user or self.query is None

    def handle(self, request: Request, parameters: Mapping[str, str]) -> Response:
        """Call the handler. A user's handler finds the ports through the API, and may use none."""
        if self.of_user:
            return self.handler(request, **parameters)
        return self.handler(runtime.ports(), request, **parameters)

    def check_query(self, request: Request) -> None:
        """Raise `BadQuery` naming a query parameter that this route does not have."""
        unknown = [] if self.query is None else sorted({name for name, _ in request.query_pairs} - self.query)
        if unknown:
            known = f"It has: {', '.join(sorted(self.query or ()))}." if self.query else "It has none."
            raise BadQuery(f"This address has no query parameter `{unknown[0][:100]}`. {known}", field=unknown[0][:100])


EXTENSION = "signalbox.routes"
"""The extension of a function's Flask application that has its routes, for the page that describes them."""


class Routes:
    """The routes of one function. The first route whose pattern and method match is used."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._routes: list[Route] = []

    @property
    def listed(self) -> tuple[Route, ...]:
        """All routes, in the order in which they are tried."""
        return tuple(self._routes)

    def on(
        self,
        method: str,
        pattern: str,
        *,
        query: Iterable[str | Parameter] | None = (),
        of_user: bool = False,
        headers: tuple[Parameter, ...] = (),
        body: Any = None,
        answers: Mapping[int, Any] | None = None,
        refuses: tuple[type[Problem], ...] = (),
        example: object = None,
    ) -> Callable[[Handler], Handler]:
        """Route a method and a pattern (``/{key}/versions``) to a handler.

        ``query`` names the query parameters; a request with any other is answered with 400. None: allow all. A handler
        `of_user` is called without the ports, and receives parameters without a value.

        The other arguments describe the route, as the fields of `Route` do. Raises `ValueError` for a method or a
        pattern that cannot be routed.
        """
        if method not in METHODS:
            raise ValueError(f"{method} cannot be routed")
        segments = segments_of_pattern(pattern)
        declared = () if query is None else tuple(each for each in query if isinstance(each, Parameter))
        names = None if query is None else frozenset(each if isinstance(each, str) else each.name for each in query)

        def register(handler: Handler) -> Handler:
            described = declared, headers, body, answers, refuses, example
            self._routes.append(Route(method, segments, names, of_user, handler, *described))
            return handler

        return register

    def add_methods(self, declared: "Routes", handlers: object) -> None:
        """Add the routes that the methods of a class declare. `handlers` is the instance whose methods are called."""
        self._routes += [replace(route, handler=MethodType(route.handler, handlers)) for route in declared.listed]

    def entry_point(self) -> EntryPoint:
        """Return the plain function that functions-framework calls."""

        def entry(request: flask.Request) -> flask.Response:
            with logged_request(self._function, request.headers, request.method, method=request.method) as log_entry:
                preflight = preflight_response(self._function, request)
                response = preflight or _response(request, self._dispatch)
                permit_origin(self._function, request, response)
                log_entry.status = response.status_code
                return response

        _serve_every_path(entry)
        if flask.has_app_context():
            flask.current_app.extensions[EXTENSION] = self.listed
        if flask.has_app_context() and settings().auth.get(self._function):
            from signalbox.adapters.http import caller_auth  # noqa: F401 - now, and not at the first request
        return entry_point(self._function, entry)

    def _dispatch(self, request: flask.Request) -> flask.Response:
        user = self._authenticated(request)
        segments = segments_of(request.environ)
        matching = [
            (route, parameters) for route in self._routes if (parameters := match(route.pattern, segments)) is not None
        ]
        method = "GET" if request.method == "HEAD" else request.method
        for route, parameters in matching:
            if route.method == method:
                parsed = Request(request, user, function=self._function, keeps_empty=route.keeps_empty)
                route.check_query(parsed)
                with authors.acting(_author(request, user)):
                    return response_of(route.handle(parsed, parameters), of_user=route.of_user)
        raise _no_route([route.method for route, _ in matching], request.method)

    def _authenticated(self, request: flask.Request) -> User | None:
        """Return the user, or None if the function authenticates none. Raises `Unauthenticated`, `Unavailable`."""
        if not settings().auth.get(self._function):
            return None
        from signalbox.adapters.http.caller_auth import authenticated_user  # cryptography is for functions with users

        return authenticated_user(request)


def _author(request: flask.Request, user: User | None) -> str:
    """Return the author of a request's writes: its user, else the account that calls, else this function."""
    if user:
        return authors.author_of_user(user.id)
    account = calling_account(request)
    return authors.author_of_account(account) if account else AUTHOR.get()


def _no_route(methods: list[str], requested: str) -> Problem:
    if not methods:
        return NotFound("This function has no such address.")
    allowed = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
    return MethodNotAllowed(f"{requested[:20]} is not allowed here; allowed: {allowed}.", headers={"Allow": allowed})


def _response(request: flask.Request, dispatch: Callable[[flask.Request], flask.Response]) -> flask.Response:
    try:
        return sendable(_answer(request, dispatch))
    except Exception as error:  # noqa: BLE001 - the caller gets no detail, the log gets the traceback
        runtime.log().error("unhandled exception", exception=error)
        return internal_error_response()


def _answer(request: flask.Request, dispatch: Callable[[flask.Request], flask.Response]) -> flask.Response:
    try:
        return dispatch(request)
    except Problem as problem:
        return problem_response(problem)
    except Unavailable as error:
        runtime.log().info("unavailable", reason=str(error))
        return unavailable_response(error)


def _serve_every_path(entry: EntryPoint) -> None:
    """Serve also the paths that the framework reserves: ``/robots.txt``, ``/favicon.ico``, doubled slashes, none."""
    if not flask.has_app_context():
        return  # imported by a test, not by the framework
    app = flask.current_app
    app.url_map.merge_slashes = app.url_map.strict_slashes = False

    def unrouted(_: Exception) -> flask.Response:
        return entry(flask.request._get_current_object())  # type: ignore[attr-defined]  # a proxy, to the type checker the request itself

    app.register_error_handler(404, unrouted)
