"""JSON bodies: strict parsing, exact rendering, and reading of requests.

Python's parser accepts more than JSON (NaN, duplicate names, UTF-16) and raises various errors for some texts (deep
nesting, numbers of thousands of digits). This parser returns a JSON value or raises a `Problem`.

A request's body is read whole up to a limit, then parsed; or it is read line by line, without a limit on the whole.
"""

import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any

import flask

from signalbox.core.effects import Json
from signalbox.core.problems import IncompleteBody, NotJson, Problem, TooDeep, TooLarge, UnsupportedMediaType
from signalbox.core.times import rfc3339

DEPTH_MAX = 100
"""Nested lists and objects in a body: the kit walks values by recursion. A record has far fewer levels."""


def parse(raw: bytes) -> Json:
    """Parse a JSON text in UTF-8. Raises `NotJson` with the position, or `TooDeep`."""
    try:
        value: Json = _decoder.decode(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotJson(f"Byte {error.start} of the body is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"Line {error.lineno}, column {error.colno} of the body: {error.msg}") from error
    except RecursionError as error:
        raise TooDeep(_TOO_DEEP) from error
    _check_depth(value)
    return value


def render(value: object, *, exact: bool = False) -> bytes:
    """Render a value as JSON in UTF-8. Times are RFC 3339 in UTC; NaN and infinities, which JSON lacks, become null.

    If it must be `exact`, raise `TypeError` for NaN and infinities instead.

    A dataclass is an object of its fields. An answer of the kit, a class of a room `shown`, leaves out the fields that
    have their default; the readers of a user's class may need each field.
    """
    try:
        text = _encode(value)
    except ValueError as error:
        if exact:
            detail = "JSON has neither NaN nor infinities, nor values that contain themselves: return None for NaN"
            raise TypeError(f"{detail} ({error}).") from error
        text = _encode(_without_non_numbers(value))
    # A lone surrogate is not UTF-8; its escape, which this error handler writes, is valid in a JSON string.
    return text.encode("utf-8", "backslashreplace")


def json_of(shown: object) -> Any:
    """Return an answer as the JSON value that a caller receives."""
    return json.loads(render(shown))


_TOO_DEEP = f"Objects and lists nest at most {DEPTH_MAX} deep."


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # `add` returns None, so the name is added and not taken
    raise NotJson("An object has this name twice.", field=twice)


def _no_constant(name: str) -> None:
    raise NotJson(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotJson(f"{digits[:40]} does not fit into a 64-bit number.")
    return number


def _integer(digits: str) -> int:
    # Every store refuses longer integers; Python refuses to parse the longest, with an error that is not about JSON.
    if len(digits) > 100:
        raise NotJson(f"An integer of {len(digits)} digits does not fit into 64 bits.")
    return int(digits)


_decoder = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
)


def _check_depth(value: Json) -> None:
    level = _nested([value])
    for _ in range(DEPTH_MAX):
        level = _nested(inner for outer in level for inner in _children(outer))
        if not level:
            return
    raise TooDeep(_TOO_DEEP)


def _nested(values: Iterable[Json]) -> list[dict[str, Any] | list[Any]]:
    return [value for value in values if isinstance(value, dict | list)]


def _children(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _encode(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> str | dict[str, Any]:
    if isinstance(value, datetime):
        return rfc3339(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _members_of(value)
    raise TypeError(f"a {type(value).__name__} cannot be rendered as JSON")


def _members_of(value: Any) -> dict[str, Any]:
    module = value.__class__.__module__
    if module.startswith("signalbox.") and "shown" in module.split("."):
        return shown_members(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def shown_members(shown: Any) -> dict[str, Any]:
    """Return the members of an answer that is a dataclass, in their order. A field that has its default is left out."""
    members = _members(shown.__class__)
    return {name: value for field, name, default in members if (value := getattr(shown, field)) != default}


@cache
def _members(kind: Any) -> tuple[tuple[str, str, object], ...]:
    """Return the name, the member and the default of each field. `MISSING`, which equals no value, means no default."""
    return tuple((field.name, member_name(field.name), _default(field)) for field in fields(kind))


def _default(field: "Field[Any]") -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def member_name(field: str) -> str:
    """Return the name of a field's member: `class` for `class_`, because `class` is a keyword of Python."""
    return field.rstrip("_")


def _without_non_numbers(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _without_non_numbers(_members_of(value))
    if isinstance(value, dict):
        return {key: _without_non_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_non_numbers(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


BODY_BYTES_MAX = 1024 * 1024
"""Bytes of a body, unless a route allows more: one Firestore record holds no more."""


CHUNK_BYTES = 64 * 1024
"""Bytes read at a time from a body that is parsed line by line."""


LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
"""Media types of newline-delimited JSON: none is registered, and these are in use."""


JSON = "application/json"


def json_body(request: flask.Request, bytes_max: int, *, empty: Json = None) -> Json:
    """Parse a request's body as JSON. Raises `TooLarge` as soon as the limit is passed, `IncompleteBody`, `NotJson` or
    `TooDeep`, and as `check_json_type` does.

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


def event_body(request: flask.Request, bytes_max: int) -> bytes:
    """Return an event's body, which is not JSON. Raises `TooLarge` or `IncompleteBody`."""
    return _read(request, bytes_max)


def check_json_type(request: flask.Request) -> None:
    """Raise `UnsupportedMediaType` unless the media type is of JSON.

    The reason: a browser lets any page send a body of another type to any site, without asking the site first. The
    request would have the rights of the browser's user.
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


def json_line_stream(request: flask.Request) -> Iterator[Json]:
    """Iterate over a body of one JSON value a line; only one line and one chunk are held in memory.

    Raises `NotJson` or `TooDeep` naming the line, `TooLarge` for a line that is too long, or `IncompleteBody`.
    """
    check_json_type(request)
    try:
        for number, line in enumerate(_lines(request), 1):
            if line.strip():
                value = _line(line, number)
                if isinstance(value, Problem):
                    raise value
                yield value
    finally:
        _read_no_more(request)


def _lines(request: flask.Request) -> Iterator[bytes]:
    begun, received = b"", 0
    while chunk := _chunk(request):
        received += len(chunk)
        *whole, begun = (begun + chunk).split(b"\n")
        yield from whole
        if len(begun) > BODY_BYTES_MAX:
            raise TooLarge(f"A line has at most {BODY_BYTES_MAX:,} bytes.")
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
    return TooLarge(f"A body has at most {bytes_max:,} bytes.")


def _read_no_more(request: flask.Request) -> None:
    """Replace the stream: the framework would read the rest of the body into memory before it responds."""
    request.stream = io.BytesIO()
