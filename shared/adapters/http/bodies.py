"""Bodies of requests: read up to a bound and no further, then parsed."""

import io

import flask

from shared.adapters.http.json_text import parse
from shared.core.rules.effects import Json
from shared.core.rules.problems import Problem, TooLarge

BODY_BYTES_MAX = 1024 * 1024
"""Of a body, unless a call says otherwise: one Firestore record holds no more."""


def json_body(request: flask.Request, bytes_max: int) -> Json:
    """Read a request's body as JSON. Raises `TooLarge` as soon as the bound is passed, `NotJson` or `TooDeep`."""
    return parse(_read(request, bytes_max))


def json_lines(request: flask.Request, bytes_max: int) -> list[Json | Problem]:
    """Read a body of one JSON value a line, leaving out blank lines; a line that holds none gives the reason."""
    lines = enumerate(_read(request, bytes_max).split(b"\n"), 1)
    return [_line(line, number) for number, line in lines if line.strip()]


def _line(line: bytes, number: int) -> Json | Problem:
    try:
        return parse(line)
    except Problem as problem:
        return type(problem)(f"In line {number} alone: {problem.detail}", field=problem.field)


def _read(request: flask.Request, bytes_max: int) -> bytes:
    if (request.content_length or 0) > bytes_max:
        raise _too_large(request, bytes_max)
    raw = request.stream.read(bytes_max + 1)
    if len(raw) > bytes_max:
        raise _too_large(request, bytes_max)
    return raw


def _too_large(request: flask.Request, bytes_max: int) -> TooLarge:
    # The framework reads what is left of a body before it answers, into memory: leave it nothing.
    request.stream = io.BytesIO()
    return TooLarge(f"A body may have {bytes_max} bytes")
