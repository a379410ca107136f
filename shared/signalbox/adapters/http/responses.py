"""Responses: a JSON body, or a problem as RFC 9457 (``application/problem+json``).

Slug and title of a problem come from its class, so that a caller can rely on them. Internal errors carry no detail.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from math import ceil, isfinite
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

WHOLE_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of the longest body that Cloud Run accepts with a `Content-Length`. A longer one is sent in chunks."""

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Response:
    """A status, a body and headers.

    The body is rendered as JSON; None means no body. `bytes` are sent unchanged, and so are the `bytes` of an iterator,
    each as soon as it is produced; their type is in the header `Content-Type`.
    """

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


def response_of(response: Response, *, of_user: bool = False) -> flask.Response:
    """Render a handler's response for the framework.

    Raises `TypeError` for a body that cannot be rendered, and for one of a user's handler that contains NaN or an
    infinity, or is an iterator of anything but `bytes`: the first chunk is produced here.
    """
    if isinstance(response.body, bytes | Iterator):
        chunks = _chunks(response.body) if of_user and isinstance(response.body, Iterator) else response.body
        body = chunks if isinstance(chunks, Iterator) else _sent(chunks)
        return flask.Response(body, response.status, {**BYTES, **response.headers})
    body = b"" if response.body is None else _sent(_line(response.body, exact=of_user))
    rendered = flask.Response(body, response.status, response.headers, content_type="application/json; charset=utf-8")
    if response.body is None:
        del rendered.headers["Content-Type"]
    return rendered


def _line(body: object, *, exact: bool = False) -> bytes:
    """Render a body as JSON with a newline at its end, so that a shell's prompt begins on a new line."""
    return render(body, exact=exact) + b"\n"


def _sent(body: bytes) -> bytes | Iterator[bytes]:
    """Return a body, in chunks if Cloud Run refuses it as a whole."""
    if len(body) <= WHOLE_BYTES_MAX:
        return body
    return (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))


def _chunks(chunks: Iterator[Any]) -> Iterator[bytes]:
    first = [_checked(chunk) for chunk in islice(chunks, 1)]

    def rest() -> Iterator[bytes]:
        yield from first
        yield from map(_checked, chunks)

    return rest()


def _checked(chunk: Any) -> bytes:
    if not isinstance(chunk, bytes):
        kind = type(chunk).__name__
        raise TypeError(f"The iterator that a route returned has a {kind}: yield `bytes` (`text.encode()`).")
    return chunk


def sendable(response: flask.Response) -> flask.Response:
    """Return the response. Raises `ValueError` for a header that the server cannot send."""
    for name, value in response.headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(
                f"The header {name!r} has the value {value[:200]!r}, and a server sends Latin-1 without control "
                "characters only: percent-encode the value (`filename*=UTF-8''…` for the name of a file)."
            )
    return response


_NAME, _VALUE = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"), re.compile(r"[ \t\x21-\x7e\x80-\xff]*")


def problem_response(problem: Problem) -> flask.Response:
    """Render a problem as RFC 9457."""
    return _response(problem_body(problem), problem.headers)


def problem_body(problem: Problem) -> Body:
    """Return the members of a problem document."""
    members: Body = {} if problem.field is None else {"field": problem.field}
    if isinstance(problem, InvalidFields):
        members["errors"] = [{"field": error.field, "detail": error.detail} for error in problem.errors]
    members |= {name: value for name in problem.MEMBERS if (value := getattr(problem, name)) not in (None, "", [])}
    return _body(problem.status, problem.slug(), problem.title, detail=problem.detail, **members)


def unavailable_response(error: Unavailable) -> flask.Response:
    """Render 503: it is not known whether the request took effect. `Retry-After` says when to retry."""
    seconds = error.retry_after_seconds
    return _response(unavailable_body(error), {"Retry-After": str(max(0, ceil(seconds)) if isfinite(seconds) else 0)})


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
