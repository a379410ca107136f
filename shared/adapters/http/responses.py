"""What goes back to a caller: a JSON body, or a problem as RFC 9457 (``application/problem+json``).

Slug and title of a problem come from its class, so that a caller can rely on them. What went wrong inside stays inside.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import flask

from shared.adapters.http.json_text import render
from shared.core.rules.problems import Problem, Unavailable

EntryPoint = Callable[[flask.Request], flask.Response]
"""What functions-framework calls."""

Body = dict[str, Any]
"""The members of a problem, `status` among them."""


@dataclass(frozen=True, slots=True)
class Response:
    """A status, a JSON body (None: no body) and headers."""

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


def response_of(answer: Response) -> flask.Response:
    """Write an answer as HTTP."""
    body = b"" if answer.body is None else render(answer.body)
    response = flask.Response(body, answer.status, answer.headers, content_type="application/json; charset=utf-8")
    if answer.body is None:
        del response.headers["Content-Type"]
    return response


def problem_response(problem: Problem) -> flask.Response:
    """Write a refusal as RFC 9457."""
    return _response(problem_body(problem), problem.headers)


def problem_body(problem: Problem) -> Body:
    """Give a refusal's members."""
    field_of = {} if problem.field is None else {"field": problem.field}
    return _body(problem.status, problem.slug(), problem.title, detail=problem.detail, **field_of)


def unavailable_response(error: Unavailable) -> flask.Response:
    """Write that the outcome is not known and when to ask again."""
    return _response(unavailable_body(), {"Retry-After": str(error.retry_after_seconds)})


def unavailable_body() -> Body:
    """Give the members that say that the outcome is not known."""
    return _body(503, "unavailable", "Ask again", detail="The call may or may not have taken effect")


def bug_response() -> flask.Response:
    """Write that the fault is here, without saying what it is."""
    return _response(_body(500, "internal", "The function failed"), {})


def _body(status: int, slug: str, title: str, **more: str) -> Body:
    return {"type": f"urn:signalbox:problem:{slug}", "title": title, "status": status} | more


def _response(body: Body, headers: Mapping[str, str]) -> flask.Response:
    return flask.Response(render(body), body["status"], dict(headers), content_type="application/problem+json")
