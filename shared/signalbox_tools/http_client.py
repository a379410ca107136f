"""The HTTP client of this package, for calls that wait for their response.

The local queues and the event bridge use `aiohttp` instead: they deliver many requests at once.
"""

import json
from collections.abc import Mapping
from functools import cache

import httpx


class HttpError(OSError):
    """There was no response, or one outside 200 to 299."""


def client(timeout_seconds: float, transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """Return a client for addresses anywhere; the environment's proxies count."""
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

    No connection is kept: a service that was restarted would close it under the next request. An HTTPS address raises
    `ValueError`: this client verifies no certificate.
    """
    if not url.startswith("http://"):
        raise ValueError(f"{url} is not an address of this machine: use `client`")
    try:
        response = _local().request(method, url, content=content, headers=headers, timeout=timeout_seconds)
    except httpx.HTTPError as error:
        raise HttpError(f"{method} {url}: {error}") from error
    if not response.is_success:
        raise HttpError(f"{method} {url}: {response.status_code} {_reason(response)}")
    return response.content


def _reason(response: httpx.Response) -> str:
    """Return the detail of a problem, or else the whole body."""
    try:
        problem = response.json()
    except ValueError:
        return response.text
    detail = problem.get("detail") if isinstance(problem, dict) else ""
    return str(detail or response.text)


def send_json(method: str, url: str, body: object, *, timeout_seconds: float) -> bytes:
    """Send a JSON body as `send` does."""
    headers = {"Content-Type": "application/json"}
    return send(method, url, content=json.dumps(body).encode(), headers=headers, timeout_seconds=timeout_seconds)


@cache
def _local() -> httpx.Client:
    """Return the client of this process, without proxies: it never leaves this machine.

    It speaks plain HTTP only, so no certificates are loaded, which would take longer than most of its calls.
    """
    return httpx.Client(trust_env=False, verify=False, limits=httpx.Limits(max_keepalive_connections=0))  # noqa: S501 (see above)
