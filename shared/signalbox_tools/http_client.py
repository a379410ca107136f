"""The HTTP client of this package, for calls that wait for their response.

The local queues and the event bridge use `aiohttp` instead: they deliver many requests at once.
"""

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx


class HttpError(OSError):
    """There was no response, or one outside 200 to 299."""


def client(timeout_seconds: float, transport: "httpx.BaseTransport | None" = None) -> "httpx.Client":
    """Return a client for addresses anywhere; the environment's proxies count."""
    import httpx  # 0.2 s, which the processes of a local stack do not need

    return httpx.Client(timeout=timeout_seconds, transport=transport)


def send(
    method: str,
    url: str,
    *,
    content: bytes = b"",
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float,
) -> bytes:
    """Send a request to a service on this machine and return the body of its response. Raises `HttpError`.

    No proxy is used, and no connection is kept: a service that was restarted would close it under the next request. An
    HTTPS address raises `ValueError`.
    """
    if not url.startswith("http://"):
        raise ValueError(f"{url} is not an address of this machine: use `client`")
    place = urlsplit(url)
    connection = HTTPConnection(place.netloc, timeout=timeout_seconds)
    try:
        connection.request(method, url.partition(place.netloc)[2] or "/", content, dict(headers or {}))
        response = connection.getresponse()
        body = response.read()
    except (OSError, HTTPException) as error:
        raise HttpError(f"{method} {url}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if not 200 <= response.status < 300:
        raise HttpError(f"{method} {url}: {response.status} {_reason(body)}")
    return body


def _reason(body: bytes) -> str:
    """Return the detail of a problem, or else the whole body."""
    text = body.decode("utf-8", "replace")
    try:
        problem = json.loads(text)
    except ValueError:
        return text
    detail = problem.get("detail") if isinstance(problem, dict) else ""
    return str(detail or text)


def send_json(method: str, url: str, body: object, *, timeout_seconds: float) -> bytes:
    """Send a JSON body as `send` does."""
    headers = {"Content-Type": "application/json"}
    return send(method, url, content=json.dumps(body).encode(), headers=headers, timeout_seconds=timeout_seconds)
