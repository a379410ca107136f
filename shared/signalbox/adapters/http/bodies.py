"""Request bodies: read whole up to a limit, then parsed; or read line by line, without a limit on the whole body."""

import io
from collections.abc import Iterator

import flask

from signalbox.adapters.http.json_text import parse
from signalbox.core.effects import Json
from signalbox.core.problems import IncompleteBody, Problem, TooLarge, UnsupportedMediaType

BODY_BYTES_MAX = 1024 * 1024
"""Bytes of a body, unless a route allows more: one Firestore record holds no more."""


CHUNK_BYTES = 64 * 1024
"""Bytes read at a time from a body that is parsed line by line."""


LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
"""Media types of newline-delimited JSON: none is registered, and these are in use."""


JSON = "application/json"


def json_body(request: flask.Request, bytes_max: int, *, empty: Json = None) -> Json:
    """Parse a request's body as JSON. Raises `TooLarge` as soon as the limit is passed, `IncompleteBody`, `NotJson` or
    `TooDeep`, and what `check_json_type` raises.

    ``empty`` is the value of a body without bytes; None: such a body is not JSON.
    """
    raw = _read(request, bytes_max)
    if not raw and empty is not None:
        return empty
    if raw:
        check_json_type(request)
    return parse(raw)


def task_body(request: flask.Request, bytes_max: int) -> Json:
    """Parse a task's body, which a queue sends with a token, whatever its media type. Raises as `json_body` does."""
    return parse(_read(request, bytes_max))


def check_json_type(request: flask.Request) -> None:
    """Raise `UnsupportedMediaType` unless the media type is of JSON.

    A web page may send a body of another type to any site without asking it, and then the browser would send the
    request with the rights of the person in front of it.
    """
    given = request.mimetype
    if given != JSON and not given.endswith("+json") and given not in LINES:
        sent = f"not {given[:80]!r}" if given else "and this request has none"
        raise UnsupportedMediaType(f"A body has the header `Content-Type: {JSON}`, {sent}.")


def json_lines(request: flask.Request, bytes_max: int) -> list[Json | Problem]:
    """Parse a body of one JSON value a line, without blank lines. A line that is not JSON becomes its problem."""
    check_json_type(request)
    lines = enumerate(_read(request, bytes_max).split(b"\n"), 1)
    return [_line(line, number) for number, line in lines if line.strip()]


def json_line_stream(request: flask.Request, line_bytes_max: int = BODY_BYTES_MAX) -> Iterator[Json]:
    """Iterate over a body of one JSON value a line; only one line and one chunk are held in memory.

    Raises `NotJson` or `TooDeep` naming the line, `TooLarge` for a line that is too long, or `IncompleteBody`.
    """
    check_json_type(request)
    try:
        for number, line in enumerate(_lines(request, line_bytes_max), 1):
            if line.strip():
                value = _line(line, number)
                if isinstance(value, Problem):
                    raise value
                yield value
    finally:
        _read_no_more(request)


def _lines(request: flask.Request, line_bytes_max: int) -> Iterator[bytes]:
    begun, received = b"", 0
    while chunk := _chunk(request):
        received += len(chunk)
        *whole, begun = (begun + chunk).split(b"\n")
        yield from whole
        if len(begun) > line_bytes_max:
            raise TooLarge(f"A line has at most {line_bytes_max:,} bytes.")
    if received < (request.content_length or 0):
        raise IncompleteBody(f"The body ended after {received} bytes; its Content-Length is larger.")
    yield begun


def _chunk(request: flask.Request) -> bytes:
    try:
        return request.stream.read(CHUNK_BYTES)
    except Exception as error:  # each server has errors of its own for a body that breaks off or is malformed
        raise IncompleteBody("The body ended early, or its chunks are malformed.") from error


def _line(line: bytes, number: int) -> Json | Problem:
    try:
        return parse(line)
    except Problem as problem:
        return type(problem)(f"In line {number} alone: {problem.detail}", field=problem.field)


def _read(request: flask.Request, bytes_max: int) -> bytes:
    if (request.content_length or 0) > bytes_max:
        raise _too_large(request, bytes_max)
    raw = _received(request, bytes_max + 1)
    if len(raw) > bytes_max:
        raise _too_large(request, bytes_max)
    return raw


def _received(request: flask.Request, bytes_max: int) -> bytes:
    try:
        raw = request.stream.read(bytes_max)
    except Exception as error:  # each server has errors of its own for a body that breaks off or is malformed
        raise _incomplete(request, "The body ended early, or its chunks are malformed.") from error
    if len(raw) < min(request.content_length or 0, bytes_max):
        raise _incomplete(request, f"The body ended after {len(raw)} bytes; its Content-Length is larger.")
    return raw


def _incomplete(request: flask.Request, detail: str) -> IncompleteBody:
    _read_no_more(request)
    return IncompleteBody(detail)


def _too_large(request: flask.Request, bytes_max: int) -> TooLarge:
    _read_no_more(request)
    return TooLarge(f"A body has at most {bytes_max} bytes.")


def _read_no_more(request: flask.Request) -> None:
    """Replace the stream: the framework would read the rest of the body into memory before it responds."""
    request.stream = io.BytesIO()
