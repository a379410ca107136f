"""Serve a WSGI application on a free port of this machine, in a thread of the test's process."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


POLL_SECONDS = 0.02  # how soon a server notices that it should end


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 (as the base class names it)
        pass


@contextmanager
def serving(application: "WSGIApplication") -> Iterator[str]:
    """Serve an application while the context is entered; the value is its base URL, which ends in a slash."""
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Silent)
    thread = Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def page_of(html: str) -> "WSGIApplication":
    """Return an application that answers every request with this page."""
    return Response(html, content_type="text/html; charset=utf-8")
