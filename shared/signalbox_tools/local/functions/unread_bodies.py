"""Read what a request has sent and its function has not read, so that the client sees the response.

A server that closes a connection with unread bytes resets it. A client that is still sending then sees "Broken pipe" in
place of the response, such as 413. In the cloud, Google's front end reads the body.
"""

import contextlib
from collections.abc import Iterable
from functools import partial
from typing import IO, TYPE_CHECKING

from werkzeug.wsgi import ClosingIterator

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

DROPPED_BYTES_MAX = 64 * 1024 * 1024
"""Cloud Run refuses requests of half this size. The client of a larger body may see a broken connection."""

CHUNK_BYTES = 64 * 1024


def read_to_their_end(app: "WSGIApplication") -> "WSGIApplication":
    """Read and drop the rest of each request's body once the response is sent, before the connection is closed."""

    def entry(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        rest: IO[bytes] = environ["wsgi.input"]
        return ClosingIterator(app(environ, start_response), [partial(_drop, rest)])

    return entry


def _drop(rest: IO[bytes]) -> None:
    left = DROPPED_BYTES_MAX
    with contextlib.suppress(Exception):  # each server has its errors for a body that breaks off or is malformed
        while left > 0 and (chunk := rest.read(CHUNK_BYTES)):
            left -= len(chunk)
