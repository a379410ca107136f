"""The requests that calls make. A request can be sent again: it has an idempotency key, or repeating it is harmless."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote, urlencode

from signalbox.client.model import Json, TaskCall
from signalbox.core.lazy_dataclasses import dataclass

MISSING: Any = object()
"""The body of a request that has none."""

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `function` is the first segment of its path, which has the token's audience."""

    method: str
    path: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def function(self) -> str:
        """The function that the request calls."""
        return self.path.partition("?")[0].partition("/")[0]


def request(
    method: str,
    *segments: object,
    body: Json = MISSING,
    parameters: Mapping[str, object] | None = None,
    headers: Mapping[str, str | None] | None = None,
    media_type: str = JSON,
) -> Request:
    """Return a request for a path of these segments. Parameters and headers that are None are left out.

    Raises `ValueError` for a segment that would make it another path: an empty one, ``.`` or ``..``.

    A parameter that is a list comes once for each of its items.
    """
    for segment in segments:
        if str(segment) in ("", ".", ".."):
            raise ValueError(f"{segment!r} cannot be a key, a name or an id")
    path = "/".join(quote(str(segment), safe=":") for segment in segments)
    if query := [(name, _text(item)) for name, value in (parameters or {}).items() for item in _items(value)]:
        path += f"?{urlencode(query)}"
    named = {name: value for name, value in (headers or {}).items() if value is not None}
    if body is MISSING:
        return Request(method, path, None, named)
    content = body if isinstance(body, bytes) else json_bytes(body)
    return Request(method, path, content, {"Content-Type": media_type, **named})


def call(
    function: str,
    task: str,
    payload: Mapping[str, Json] | None = None,
    *,
    queue: str | None = None,
    delay_seconds: float | None = None,
) -> TaskCall:
    """Return a call of a function's task, for continuations and the like. Its queue is the task's own unless given."""
    found: TaskCall = {"function": function, "task": task, "payload": dict(payload or {})}
    if queue is not None:
        found["queue"] = queue
    if delay_seconds is not None:
        found["delay_seconds"] = delay_seconds
    return found


def conditions(if_match: str | None, if_none_match: str | None = None) -> dict[str, str | None]:
    """Return the headers of a conditional request."""
    return {"If-Match": if_match, "If-None-Match": if_none_match}


def keyed(key: str) -> dict[str, str | None]:
    """Return the header with which a repeated request is recognised."""
    return {"Idempotency-Key": key}


def lines(items: list[Json]) -> bytes:
    """Return newline-delimited JSON."""
    return b"".join(json_bytes(item) + b"\n" for item in items)


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in UTF-8. A lone surrogate, which UTF-8 lacks, is its escape: the server decides."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def _items(value: object) -> list[object]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
