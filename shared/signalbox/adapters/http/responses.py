"""Responses: a JSON body, or a problem as RFC 9457 (``application/problem+json``).

Slug and title of a problem come from its class, so that a caller can rely on them. Internal errors carry no detail.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

import flask

from signalbox.adapters.http.json_bodies import render
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import InvalidFields, Problem, Unavailable

EntryPoint = Callable[[flask.Request], flask.Response]
"""What functions-framework calls."""


Body = dict[str, Any]
"""The members of a problem document, including `status`."""


BYTES = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True, slots=True)
class Response:
    """A status, a body and headers.

    The body is rendered as JSON; None means no body. `bytes` are sent unchanged, and so are the `bytes` of an iterator,
    each as soon as it is produced; their type is in the header `Content-Type`.
    """

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


def response_of(response: Response) -> flask.Response:
    """Render a handler's response for the framework."""
    if isinstance(response.body, bytes | Iterator):
        return flask.Response(response.body, response.status, {**BYTES, **response.headers})
    body = b"" if response.body is None else _line(response.body)
    rendered = flask.Response(body, response.status, response.headers, content_type="application/json; charset=utf-8")
    if response.body is None:
        del rendered.headers["Content-Type"]
    return rendered


def _line(body: object) -> bytes:
    """Render a body as JSON with a newline at its end, so that a shell's prompt begins on a new line."""
    return render(body) + b"\n"


def problem_response(problem: Problem) -> flask.Response:
    """Render a problem as RFC 9457."""
    return _response(problem_body(problem), problem.headers)


def problem_body(problem: Problem) -> Body:
    """Return the members of a problem document."""
    members: Body = {} if problem.field is None else {"field": problem.field}
    if isinstance(problem, InvalidFields):
        members["errors"] = [{"field": error.field, "detail": error.detail} for error in problem.errors]
    return _body(problem.status, problem.slug(), problem.title, detail=problem.detail, **members)


def unavailable_response(error: Unavailable) -> flask.Response:
    """Render 503: it is not known whether the request took effect. `Retry-After` says when to retry."""
    return _response(unavailable_body(error), {"Retry-After": str(error.retry_after_seconds)})


def unavailable_body(error: Unavailable) -> Body:
    """Return the members of the problem document of a 503."""
    return _body(503, "unavailable", "Service unavailable", detail=error.detail)


def internal_error_response() -> flask.Response:
    """Render 500, without detail."""
    return _response(_body(500, "internal", "Internal error"), {})


def _body(status: int, slug: str, title: str, **more: Any) -> Body:
    return {"type": f"urn:signalbox:problem:{slug}", "title": title, "status": status} | more


def _response(body: Body, headers: Mapping[str, str]) -> flask.Response:
    return flask.Response(_line(body), body["status"], dict(headers), content_type="application/problem+json")
