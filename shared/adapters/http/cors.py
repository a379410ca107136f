"""Cross-origin requests (CORS): the pages of which origins may call a function and read its answers.

A browser sends the origin of the page along. Before a request that a form could not send (another method than GET or
POST, JSON, a token) it asks with a preflight, an OPTIONS request without a token, and sends nothing unless the answer
permits it. The catalogue's `cors` lists a function's origins; a function without any answers as if there were no CORS.
"""

import flask

from shared.adapters import runtime
from shared.adapters.settings import settings

ANY = "*"
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
EXPOSED = "ETag, Link, Location, Retry-After, WWW-Authenticate, X-Total-Count"
"""Headers of answers that a page may read, beside those that every page may."""

PREFLIGHT_SECONDS = 7_200
"""How long a browser may remember the answer: no browser keeps it for longer."""


def preflight_response(function: str, request: flask.Request) -> flask.Response | None:
    """Return the answer to a preflight from a permitted origin; None for every other request."""
    origins = settings().origins.get(function)
    if not origins or request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
        return None
    if _permitted(origins, request) is None:
        runtime.log().info("origin refused", function=function, origin=request.headers.get("Origin", "")[:200])
        return None
    headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": str(PREFLIGHT_SECONDS)}
    if asked := request.headers.get("Access-Control-Request-Headers"):
        headers["Access-Control-Allow-Headers"] = asked
    return flask.Response(status=204, headers=headers)


def permit(function: str, request: flask.Request, response: flask.Response) -> None:
    """Add the headers with which a browser shows the response to a page, if the page's origin is permitted."""
    origins = settings().origins.get(function)
    if not origins:
        return
    response.headers.add("Vary", "Origin")
    if (origin := _permitted(origins, request)) is not None:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Expose-Headers"] = EXPOSED


def _permitted(origins: frozenset[str], request: flask.Request) -> str | None:
    if ANY in origins:
        return ANY
    origin = request.headers.get("Origin")
    return origin if origin in origins else None
