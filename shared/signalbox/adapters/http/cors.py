"""Cross-origin requests (CORS): responses to preflights, and the headers with which a page may read a response.

A browser sends the origin of the page. Before a request that a form could not send (another method than GET or POST,
JSON, a token) it sends a preflight, an OPTIONS request without a token, and it sends the request only if the response
permits it. The catalogue's `cors` lists the origins whose pages may call a function; a function without any responds as
if CORS did not exist.
"""

import flask

from signalbox.adapters import runtime
from signalbox.adapters.settings import settings

ANY_ORIGIN = "*"

ALLOWED_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"

EXPOSED_HEADERS = "ETag, Link, Location, Retry-After, WWW-Authenticate, X-Total-Count"
"""Response headers that a page may read, in addition to those that every page may."""

PREFLIGHT_SECONDS = 7_200
"""How long a browser may cache the response to a preflight. No browser keeps it longer."""


def preflight_response(function: str, request: flask.Request) -> flask.Response | None:
    """Return the response to a preflight from a permitted origin; None for every other request."""
    origins = settings().origins.get(function)
    if not origins or request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
        return None
    if _permitted_origin(origins, request) is None:
        runtime.log().info("origin refused", function=function, origin=request.headers.get("Origin", "")[:200])
        return None
    headers = {"Access-Control-Allow-Methods": ALLOWED_METHODS, "Access-Control-Max-Age": str(PREFLIGHT_SECONDS)}
    if requested := request.headers.get("Access-Control-Request-Headers"):
        headers["Access-Control-Allow-Headers"] = requested
    return flask.Response(status=204, headers=headers)


def permit_origin(function: str, request: flask.Request, response: flask.Response) -> None:
    """Add the headers with which a browser shows the response to a page, if the page's origin is permitted."""
    origins = settings().origins.get(function)
    if not origins:
        return
    response.headers.add("Vary", "Origin")
    if (origin := _permitted_origin(origins, request)) is not None:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS


def _permitted_origin(origins: frozenset[str], request: flask.Request) -> str | None:
    if ANY_ORIGIN in origins:
        return ANY_ORIGIN
    origin = request.headers.get("Origin")
    return origin if origin in origins else None
